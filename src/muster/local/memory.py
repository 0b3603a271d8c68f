"""Memory limits by control groups: version 2 or 1, whichever lets us make groups with a memory controller.

A place for groups is found once, by the agent; each supervisor makes one in it for its task. Where there is no such
place the supervisor watches how much its task holds.

Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

_MIB = 1 << 20
_NO_LIMIT = 1 << 60  # version 1 says nearly 2^63 where nobody set one


class Mount(NamedTuple):  # every import makes a fork dearer: no dataclasses in what supervisors are forked from
    """Where a hierarchy of control groups is to be seen, and which group is at its top."""

    version: int
    path: str
    top: str


class Group(NamedTuple):
    """A control group with a memory controller."""

    version: int
    path: str

    def limit(self, limit: int) -> None:
        """Let its processes hold so much, and no swap beside it."""
        if self.version == 2:
            self._write("memory.max", str(limit))
            self._write("memory.oom.group", "1", needed=False)  # all of the task, not one process of it
            self._write("memory.swap.max", "0", needed=False)
        else:
            self._write("memory.limit_in_bytes", str(limit))
            self._write("memory.memsw.limit_in_bytes", str(limit), needed=False)

    def join(self) -> None:
        """Put this process into it."""
        self._write("cgroup.procs", "0")

    def members(self) -> list[int]:
        """Its processes."""
        return [int(line) for line in self._read("cgroup.procs").split()]

    def peak(self) -> int:
        """The most its processes ever held, in bytes; 0 where the kernel does not say."""
        text = self._read("memory.peak" if self.version == 2 else "memory.max_usage_in_bytes")
        return int(text or 0)

    def kills(self) -> int:
        """How many of its processes the kernel killed for want of memory."""
        text = self._read("memory.events" if self.version == 2 else "memory.oom_control")
        fields = dict(line.split() for line in text.splitlines())
        return int(fields.get("oom_kill", 0))

    def remove(self) -> None:
        """Make an end of it, once nobody is in it."""
        with suppress(OSError):
            os.rmdir(self.path)

    def _write(self, name: str, text: str, *, needed: bool = True) -> None:
        try:
            file = os.open(os.path.join(self.path, name), os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            if needed:
                raise
            return
        try:
            os.write(file, text.encode())
        except OSError:
            if needed:
                raise
        finally:
            os.close(file)

    def _read(self, name: str) -> str:
        try:
            with open(os.path.join(self.path, name), encoding="ascii") as file:
                return file.read()
        except OSError:
            return ""


def inside(place: Group, name: str) -> Group:
    """A group in a place for groups, made if it is not there."""
    group = Group(version=place.version, path=os.path.join(place.path, name))
    with suppress(FileExistsError):
        os.mkdir(group.path)
    return group


def find_place(name: str, mounts: list[Mount], own: str) -> Group | None:
    """A group of that name in which groups can be made, each with a memory limit; None where there is none."""
    for mount, path in groups_of(mounts, own):
        above = Group(version=mount.version, path=path)
        try:
            if mount.version == 2:
                _share(above)
            place = inside(above, name)
            if mount.version == 2:
                _share(place)
            trial = inside(place, "trial")
            trial.limit(64 * _MIB)
        except OSError:
            continue
        trial.remove()
        return place
    return None


def _share(group: Group) -> None:
    """Let groups inside of it have memory limits. Those who share must have no processes of their own."""
    if "memory" in group._read("cgroup.subtree_control").split():
        return
    try:
        group._write("cgroup.subtree_control", "+memory")
    except OSError:
        inside(group, "agent").join()
        group._write("cgroup.subtree_control", "+memory")


def mounted() -> list[Mount]:
    """The hierarchies with a memory controller, version 2 first."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return mounts_in(file.read())


def mounts_in(text: str) -> list[Mount]:
    """The hierarchies that a list of mounts names."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        top, path = before.split()[3:5]
        if kind == "cgroup2":
            found.append(Mount(version=2, path=path, top=top))
        elif kind == "cgroup" and "memory" in options.split(","):
            found.append(Mount(version=1, path=path, top=top))
    return sorted(found, key=lambda mount: -mount.version)


def own_groups() -> str:
    """Which groups this process is in, as the kernel writes it."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        return file.read()


def groups_of(mounts: list[Mount], own: str) -> Iterator[tuple[Mount, str]]:
    """Where each hierarchy shows the group that a process is in."""
    groups: dict[int, str] = {}
    for line in own.splitlines():
        number, controllers, group = line.split(":", 2)
        if number == "0":
            groups[2] = group
        elif "memory" in controllers.split(","):
            groups[1] = group
    for mount in mounts:
        if mount.version in groups:
            below = os.path.relpath(groups[mount.version], mount.top)
            path = mount.path if below.startswith("..") else os.path.normpath(os.path.join(mount.path, below))
            yield mount, path


def least_limit(mounts: list[Mount], own: str) -> int | None:
    """The tightest memory limit that this process is under; None if there is none."""
    limits = []
    for mount, path in groups_of(mounts, own):
        name = "memory.max" if mount.version == 2 else "memory.limit_in_bytes"
        while path.startswith(mount.path):
            text = Group(version=mount.version, path=path)._read(name).strip()
            if text.isdigit() and int(text) < _NO_LIMIT:
                limits.append(int(text))
            if path == mount.path:
                break
            path = os.path.dirname(path)
    return min(limits, default=None)
