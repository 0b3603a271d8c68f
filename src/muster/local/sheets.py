"""What the agent writes down of an attempt: enough to go on with it after a crash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from muster.agent.protocol import GRACE_S, Lease, Place, Report, Terms
from muster.local import records

Port = Callable[[], int]
"""Gives a free port whenever it is called."""

SHEET, REPORT, STOPPING, WORLD = "attempt.json", "report.json", "stopping.json", "world.json"


class TaskOf(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task of an attempt. `since`: the revision that brought it, so that one that comes back is another one.

    `port` is where it may listen for its peers; 0: it has none.
    """

    group: str
    index: int
    node: str
    devices: list[int] = []
    since: int = 0
    port: int = 0

    @property
    def name(self) -> str:
        """As people call it."""
        return f"{self.group}/{self.index}"

    @property
    def folder(self) -> str:
        """What its folder is called inside of the attempt's."""
        return records.folder_name(self.group, self.index, *([self.since] if self.since else []))


class Sheet(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt: what it runs, under which terms, and the tasks it has now. Moments are seconds since the epoch."""

    job: str
    attempt: int
    revision: int
    queue: str
    tasks: list[TaskOf]
    launch: dict[str, Any] = {}
    groups: dict[str, Terms] = {}
    grace_s: float = GRACE_S
    until: float | None = None

    @property
    def is_gang(self) -> bool:
        """Whether its tasks have peers, or may have."""
        return any(task.port for task in self.tasks)

    def terms(self, group: str) -> Terms:
        """The terms of a group; a server that says none wants all its tasks."""
        if group in self.groups:
            return self.groups[group]
        many = sum(task.group == group for task in self.tasks)
        return Terms(min=many, max=many)

    def order(self, task: TaskOf) -> tuple[int, str, int]:
        """Where a task stands among its peers: groups as the job has them, then by index."""
        groups = list(self.launch.get("groups", {}))
        return (groups.index(task.group) if task.group in groups else len(groups), task.group, task.index)


def first_sheet(lease: Lease, began: float, port: Port) -> Sheet:
    """The sheet of an attempt that begins."""
    return Sheet(
        job=lease.job,
        attempt=lease.attempt,
        revision=lease.revision,
        queue=lease.queue,
        tasks=[_task(place, 0, port() if is_gang(lease, place.group) else 0) for place in lease.places],
        launch=lease.launch,
        groups=lease.groups,
        grace_s=lease.grace_s,
        until=None if lease.time_limit_s is None else began + lease.time_limit_s,
    )


def next_sheet(sheet: Sheet, lease: Lease, port: Port) -> Sheet:
    """The sheet of an attempt whose width changed: who stays is who was there."""
    here = {(task.group, task.index, task.node, tuple(task.devices)): task for task in sheet.tasks}
    tasks = [
        here.get((place.group, place.index, place.node, tuple(place.devices)))
        or _task(place, lease.revision, port() if is_gang(lease, place.group) else 0)
        for place in lease.places
    ]
    return msgspec.structs.replace(sheet, revision=lease.revision, tasks=tasks)


def is_gang(lease: Lease, group: str) -> bool:
    """Whether a task has peers, or may have."""
    return len(lease.places) > 1 or (group in lease.groups and lease.groups[group].max > 1)


def _task(place: Place, since: int, port: int) -> TaskOf:
    return TaskOf(group=place.group, index=place.index, node=place.node, devices=place.devices, since=since, port=port)


def save(folder: Path, sheet: Sheet) -> None:
    """Write a sheet down."""
    records.write(str(folder), SHEET, msgspec.to_builtins(sheet))


def load(folder: Path) -> Sheet | None:
    """The sheet of a folder; None if it has none."""
    found = records.read(str(folder), SHEET)
    return None if found is None else msgspec.convert(found, Sheet)


def load_report(folder: Path) -> Report | None:
    """What was reported of an attempt that is over."""
    found = records.read(str(folder), REPORT)
    return None if found is None else msgspec.convert(found, Report)
