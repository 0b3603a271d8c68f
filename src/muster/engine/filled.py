"""Jobs that filling started in one go. They stay columns; actions and verdicts are made when someone looks."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, repeat
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
from muster.model.plan import Action, Admit, Later, Start, Verdict


class Filled:
    """Some starts. The roll goes on after the turn, so what is needed of it is read at once."""

    def __init__(
        self, started: Started, roll: Roll, shapes: ShapeTable, grounds: Grounds, attempts: Mapping[str, int]
    ) -> None:
        columns, lanes = roll.columns(), roll.lanes_in(started.rows)
        self.started = started
        self.jobs = roll.ids_in(started.rows)
        self._queue = columns.lane_queue[lanes]
        self._profile = columns.lane_profile[lanes]
        self._lifetime = columns.lifetime[started.rows]
        self._usage = shapes.usage[self._profile]
        self._queues, self._profiles, self._grounds = roll.queues.names, roll.profiles.names, grounds
        self._had = attempts

    def __len__(self) -> int:
        return len(self.jobs)

    def actions(self) -> Iterator[Action]:
        """Each job is admitted and starts."""
        clusters = map(list(self._grounds.cluster_number).__getitem__, self.started.clusters.tolist())
        admits = _tuples(Admit, self.jobs, self._attempts(), clusters, self._charges(), repeat(None))
        return chain.from_iterable(zip(admits, self.starts, strict=True))

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
        return list(
            _tuples(Start, self.jobs, queues, self._attempts(), clusters, self._tasks(), repeat(()), repeat(False))
        )

    def _attempts(self) -> Iterable[int]:
        return [self._had.get(job, 0) + 1 for job in self.jobs] if self._had else repeat(1)

    def _charges(self) -> list[int]:
        """Who brings its queue above its nominal share is charged for its lifetime."""
        charges = [0] * len(self)
        for place in np.flatnonzero((self.started.is_above > 0) & (self._lifetime > 0)).tolist():
            charges[place] = int(self._lifetime[place]) * int(self._usage[place])  # may be more than 64 bits
        return charges

    def _tasks(self) -> list[tuple[Task, ...]]:
        tasks, first = self.started.tasks, self.started.first_task
        many = np.diff(first, append=len(tasks))
        nodes = map(self._grounds.names.__getitem__, tasks[:, TASK_NODE].tolist())
        indexes = _indexes(tasks[:, TASK_GROUP], first).tolist()
        made = list(_tuples(Task, self._groups(many), indexes, nodes, self._devices()))
        singles = zip(map(made.__getitem__, first[many == 1].tolist()), strict=True)
        is_gang = many != 1
        ends = (first + many)[is_gang].tolist()
        gangs = (tuple(made[begin:end]) for begin, end in zip(first[is_gang].tolist(), ends, strict=True))
        return [next(gangs) if gang else next(singles) for gang in is_gang.tolist()]

    def _groups(self, many: Ints) -> Iterator[str]:
        """The name of each task's group; each job has so many."""
        names = [group.name for profile in self._profiles for group in profile.groups]
        first = np.cumsum([0, *(len(profile.groups) for profile in self._profiles)])
        numbers = np.repeat(first[self._profile], many) + self.started.tasks[:, TASK_GROUP]
        return map(names.__getitem__, numbers.tolist())

    def _devices(self) -> Iterable[tuple[int, ...]]:
        devices = self.started.tasks[:, TASK_DEVICES]
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
