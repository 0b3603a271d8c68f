"""What the kernel says of processes: whose children they are, how much memory they hold, who belongs to a task.

Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable, Iterator

from muster.local.records import read_bytes

MARK = "MUSTER_TASK_MARK"
"""The variable by which the processes of a task are known, whoever their parent has become."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PAGE = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Be killed when the parent is gone."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Descendants whose parent is gone become children of this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


BOOT = read_bytes("/proc/sys/kernel/random/boot_id").decode().strip()
"""Which run of the machine this is: process numbers begin anew with each."""


def started(pid: int) -> int | None:
    """When a process began, in the kernel's own unit: with its number, that is this process and no other."""
    stat = _stat(pid)
    return None if stat is None or stat[0] == "Z" else int(stat[19])


def parent(pid: int) -> int | None:
    """Whose child a process is."""
    stat = _stat(pid)
    return None if stat is None else int(stat[1])


def _stat(pid: int) -> list[str] | None:
    """The fields of a process after its name, which may contain anything."""
    try:
        return read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].decode().split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def everyone() -> Iterator[int]:
    """All processes that can be seen."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def descendants(pid: int) -> list[int]:
    """The children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for one in everyone():
        children.setdefault(parent(one) or 0, []).append(one)
    found: list[int] = []
    ahead = [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def resident(pids: Iterable[int]) -> int:
    """The memory that processes hold together, in bytes. What they share is counted for each."""
    pages = 0
    for pid in pids:
        try:
            pages += int(read_bytes(f"/proc/{pid}/statm").split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return pages * _PAGE


def marked(mark: str) -> list[int]:
    """The processes of a task, wherever they have gone to."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in everyone():
        try:
            if wanted in read_bytes(f"/proc/{pid}/environ").split(b"\0"):
                found.append(pid)
        except OSError:  # gone meanwhile, or somebody else's
            continue
    return found


def kill_all(pids: Iterable[int]) -> bool:
    """Kill these; whether there was anyone."""
    was_there = False
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            was_there = True
        except ProcessLookupError:
            continue
    return was_there
