"""Jobs that filling started in one go. They stay columns; actions and verdicts are made when someone looks."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np

from muster.engine.grounds import Grounds
from muster.engine.kernels.placing import TASK_DEVICES, TASK_GROUP, TASK_NODE
from muster.engine.roll import Roll
from muster.engine.rooms import devices_of
from muster.engine.shapes import Ints, ShapeTable
from muster.engine.stays import Started
from muster.model import plan
from muster.model.jobs import Task
from muster.model.plan import Later, Start, Verdict


class Filled:
    """Some starts. The roll goes on after the turn, so what is needed of it is read at once."""

    def __init__(
        self, started: Started, roll: Roll, shapes: ShapeTable, grounds: Grounds, attempts: Mapping[str, int]
    ) -> None:
        columns, lanes = roll.columns(), roll.lanes_in(started.rows)
        self.started = started
        self._names = roll.names_in(started.rows)
        self._queue = columns.lane_queue[lanes]
        self._profile = columns.lane_profile[lanes]
        self._lifetime = columns.lifetime[started.rows]
        self._usage = shapes.usage[self._profile]
        self._queues, self._profiles, self._grounds = roll.queues.names, roll.profiles.names, grounds
        self._had = attempts

    def __len__(self) -> int:
        return len(self.started.rows)

    @property
    def jobs(self) -> list[str]:
        """Their ids."""
        return self._names.ids

    def verdicts(self) -> Iterator[tuple[str, Later]]:
        """What to say of each."""
        return ((job, Later(self._verdict, place)) for place, job in enumerate(self.jobs))

    def _verdict(self, place: int) -> Verdict:
        start = self.starts[place]
        return plan.Started(cluster=start.cluster, tasks=start.tasks)

    @cached_property
    def starts(self) -> list[Start]:
        """Each job's start."""
        clusters = map(list(self._grounds.cluster_number).__getitem__, self.started.clusters.tolist())
        queues = map(self._queues.__getitem__, self._queue.tolist())
        attempts, charges = self._attempts(), self._charges()
        columns = (self.jobs, queues, attempts, clusters, self._tasks(), repeat(()), repeat(False), charges)
        return list(_tuples(Start, *columns))

    def _attempts(self) -> Iterable[int]:
        return [self._had.get(job, 0) + 1 for job in self.jobs] if self._had else repeat(1)

    def _charges(self) -> Iterable[int]:
        """Who brings its queue above its nominal share is charged for its lifetime."""
        charged = np.flatnonzero((self.started.is_above > 0) & (self._lifetime > 0)).tolist()
        if not charged:
            return repeat(0)
        charges = [0] * len(self)
        for place in charged:
            charges[place] = int(self._lifetime[place]) * int(self._usage[place])  # may be more than 64 bits
        return charges

    def _tasks(self) -> Iterable[tuple[Task, ...]]:
        tasks, first = self.started.tasks, self.started.first_task
        many = np.diff(first, append=len(tasks))
        is_lone = (many == 1) & (tasks[first, TASK_DEVICES] == 0)
        lone = self._alone(np.flatnonzero(is_lone))
        if is_lone.all():
            return lone
        gangs = self._gangs(np.flatnonzero(~is_lone), many[~is_lone])
        return [next(lone) if alone else next(gangs) for alone in is_lone.tolist()]

    def _alone(self, places: Ints) -> Iterator[tuple[Task, ...]]:
        """Of jobs with one task and no devices. On one node all of one group's name are equal: they share it."""
        task = self.started.tasks[self.started.first_task[places]]
        group = self._group_of(self._profile[places], task[:, TASK_GROUP])
        names, nodes = self._group_names, task[:, TASK_NODE]
        return map(self._grounds.alone_on, map(names.__getitem__, group.tolist()), nodes.tolist())

    def _gangs(self, places: Ints, many: Ints) -> Iterator[tuple[Task, ...]]:
        """Of all others, which have so many tasks each."""
        ends = np.cumsum(many)
        begins = ends - many
        which = np.arange(ends[-1]) + np.repeat(self.started.first_task[places] - begins, many)
        tasks = self.started.tasks[which]
        group = self._group_of(np.repeat(self._profile[places], many), tasks[:, TASK_GROUP])
        made = list(
            _tuples(
                Task,
                map(self._group_names.__getitem__, group.tolist()),
                _indexes(tasks[:, TASK_GROUP], begins).tolist(),
                map(self._grounds.names.__getitem__, tasks[:, TASK_NODE].tolist()),
                _devices(tasks[:, TASK_DEVICES]),
            )
        )
        return (tuple(made[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True))

    @cached_property
    def _group_names(self) -> list[str]:
        """The names of all groups of all profiles, one after the other."""
        return [group.name for profile in self._profiles for group in profile.groups]

    def _group_of(self, profile: Ints, place: Ints) -> Ints:
        """Which of all groups is in that place of its profile."""
        first = np.cumsum([0, *(len(profile.groups) for profile in self._profiles)])
        numbers: Ints = first[profile] + place
        return numbers


def _devices(devices: Ints) -> Iterable[tuple[int, ...]]:
    return map(devices_of, devices.tolist()) if devices.any() else repeat(())


@contextmanager
def in_one_go() -> Iterator[None]:
    """For making a million small things: the collector of garbage would walk through them over and over."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _indexes(groups: Ints, first: Ints) -> Ints:
    """The index of each task in its group: tasks of one group stand together."""
    places = np.arange(len(groups))
    begins = np.zeros(len(groups), np.bool_)
    begins[first] = True
    begins[1:] |= groups[1:] != groups[:-1]
    return places - np.maximum.accumulate(np.where(begins, places, 0))


def _tuples(kind: Any, *columns: Iterable[object]) -> Iterator[Any]:
    """Named tuples from columns. A million of them, so `kind(...)` for each would take most of the turn."""
    return map(tuple.__new__, repeat(kind), zip(*columns, strict=False))
