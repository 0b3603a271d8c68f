"""Jobs that filling started in one go. They stay columns; actions and verdicts are made when someone looks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.devices import devices_of
from muster.engine.columns.fleet_index import Grounds
from muster.engine.columns.profiles import ShapeTable
from muster.engine.columns.queued_jobs import Roll
from muster.engine.kernels.placing import TASK_DEVICES, TASK_GROUP, TASK_NODE
from muster.engine.stays import Started
from muster.model import plan
from muster.model.jobs import Task
from muster.model.made import tuples
from muster.model.plan import Later, Start, Verdict

_AT_ONCE = 256  # starts: few enough to die young, enough to make columns worth it
_NAMES = 8  # of groups whose lone tasks are kept, one for every node


class Filled:
    """Some starts. The roll goes on after the turn, so what is needed of it is read at once.

    `clusters`: what clusters are called, if not as in the grounds.
    """

    def __init__(
        self,
        started: Started,
        roll: Roll,
        shapes: ShapeTable,
        grounds: Grounds,
        attempts: Mapping[str, int],
        clusters: Sequence[str] | None = None,
    ) -> None:
        columns, lanes = roll.columns(), roll.lanes_in(started.rows)
        self.started = started
        self._names = roll.names_in(started.rows)
        self._queue = columns.lane_queue[lanes]
        self._profile = columns.lane_profile[lanes]
        self._lifetime = columns.lifetime[started.rows]
        self._usage = shapes.usage[self._profile]
        self._first_group, self._group_names, self._group_number = shapes.groups()
        self._queues, self._profiles, self._grounds = roll.queues.names, roll.profiles.names, grounds
        self._had = attempts
        self._clusters = grounds.cluster_names if clusters is None else clusters
        self._seen: tuple[int, list[Start]] = (-1, [])

    def __len__(self) -> int:
        return len(self.started.rows)

    def verdicts(self) -> Iterator[tuple[str, Later]]:
        """What to say of each."""
        jobs = self._names.ids
        return zip(jobs, tuples(Later, repeat(self._verdict), range(len(jobs)), repeat(None)), strict=False)

    def _verdict(self, place: int) -> Verdict:
        if self._seen[0] != place // _AT_ONCE:
            self._seen = (place // _AT_ONCE, self._some(place - place % _AT_ONCE))
        start = self._seen[1][place % _AT_ONCE]
        return plan.Started(cluster=start.cluster, tasks=start.tasks)

    def starts(self) -> Iterator[Start]:
        """Each job's start."""
        return chain.from_iterable(map(self._some, range(0, len(self), _AT_ONCE)))

    def _some(self, begin: int) -> list[Start]:
        """The starts from that place on, as many as are made at once."""
        part = slice(begin, begin + _AT_ONCE)
        jobs = self._names.ids[part]
        return list(
            tuples(
                Start,
                jobs,
                map(self._queues.__getitem__, self._queue[part].tolist()),
                [self._had.get(job, 0) + 1 for job in jobs] if self._had else repeat(1),
                map(self._clusters.__getitem__, self.started.clusters[part].tolist()),
                self._tasks(part),
                repeat(()),
                repeat(False),
                self._charges(part),
                repeat(0),
            )
        )

    def _charges(self, part: slice) -> Iterable[int]:
        """Who brings its queue above its nominal share is charged for its lifetime."""
        lifetimes = np.where(self.started.is_above[part] > 0, np.maximum(self._lifetime[part], 0), 0)
        if not lifetimes.any():
            return repeat(0)
        usages = self._usage[part].tolist()  # a product may be more than 64 bits
        return (lifetime * usage for lifetime, usage in zip(lifetimes.tolist(), usages, strict=True))

    # -- tasks -----------------------------------------------------------------------------------------

    @cached_property
    def _many(self) -> Ints:
        """How many tasks each has."""
        return self.started.many_tasks()

    def _tasks(self, part: slice) -> Iterable[tuple[Task, ...]]:
        first, many, tasks = self.started.first_task[part], self._many[part], self.started.tasks
        if len(self._group_names) > _NAMES:
            return self._gangs(first, many, self._profile[part])
        alone = self._grounds.alone(self._group_names)
        group = self._group_number[self._first_group[self._profile[part]] + tasks[first, TASK_GROUP]]
        places = group * len(self._grounds.names) + tasks[first, TASK_NODE]
        others = np.flatnonzero((many != 1) | (tasks[first, TASK_DEVICES] != 0))
        found: list[tuple[Task, ...]] = list(map(alone.__getitem__, places.tolist()))
        if len(others):
            gangs = self._gangs(first[others], many[others], self._profile[part][others])
            for place, gang in zip(others.tolist(), gangs, strict=True):
                found[place] = gang
        return found

    def _gangs(self, first: Ints, many: Ints, profile: Ints) -> Iterator[tuple[Task, ...]]:
        """The tasks of jobs, which have so many each from their first on."""
        ends = np.cumsum(many)
        begins = ends - many
        tasks = self.started.tasks[np.arange(ends[-1]) + np.repeat(first - begins, many)]
        group = self._group_number[np.repeat(self._first_group[profile], many) + tasks[:, TASK_GROUP]]
        made = list(
            tuples(
                Task,
                map(self._group_names.__getitem__, group.tolist()),
                _indexes(tasks[:, TASK_GROUP], begins).tolist(),
                map(self._grounds.names.__getitem__, tasks[:, TASK_NODE].tolist()),
                _devices(tasks[:, TASK_DEVICES]),
            )
        )
        return (tuple(made[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True))


def _devices(devices: Ints) -> Iterable[tuple[int, ...]]:
    return map(devices_of, devices.tolist()) if devices.any() else repeat(())


def _indexes(groups: Ints, first: Ints) -> Ints:
    """The index of each task in its group: tasks of one group stand together."""
    places = np.arange(len(groups))
    begins = np.zeros(len(groups), np.bool_)
    begins[first] = True
    begins[1:] |= groups[1:] != groups[:-1]
    return places - np.maximum.accumulate(np.where(begins, places, 0))
