"""What a simulation was like: the values that `Gauge` gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from muster.sim.measures.division import Floats
from muster.sim.measures.fairness import Fairness
from muster.sim.measures.fragments import Look
from muster.sim.measures.jobs import Distribution, Ints, JobTable, WaitedFor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Course:
    """Means over steps of `step_ms` from time 0 to `end_ms`; a row for each step, a column for each name.

    Shares are parts of the fleet. `used` has a column for each resource of `resources`: the part of it that was held.
    `good` has the same without attempts that came to nothing (muster.sim.goodput).
    `asked` is the part of the main resource that was idle although jobs that waited needed as much of it.
    """

    step_ms: int
    end_ms: int
    queues: tuple[str, ...]
    resources: tuple[str, ...]
    held: Floats
    entitled: Floats
    short: Floats
    used: Floats
    good: Floats
    waiting: Floats
    running: Floats
    asked: Floats

    @property
    def times_ms(self) -> list[int]:
        """When each step begins."""
        return [step * self.step_ms for step in range(len(self.waiting))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How long some jobs waited and how much that slowed them down; None where none of them started, or succeeded."""

    name: str
    jobs: int
    wait_s: Distribution | None
    slowdown: Distribution | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A job that waited long: the row of the job table, and what it was last told while it waited."""

    row: int
    waited_ms: int
    reason: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """All that was measured. `main` is the resource people look at first; `unit` base units make one of it.

    `used`: the mean part of each resource that was held. `good`: the same without attempts that came to nothing.
    `asked`: the mean part of the main one that was idle although jobs that waited needed as much. `capacity`: how much
    of the main one there was, on average.
    """

    end_ms: int
    main: str
    unit: int
    capacity: float
    fairness: Fairness
    course: Course
    jobs: JobTable
    all_jobs: Spread
    by_queue: tuple[Spread, ...]
    by_width: tuple[Spread, ...]
    used: Mapping[str, float]
    good: Mapping[str, float]
    asked: float
    looks: tuple[Look, ...]
    reasons: tuple[WaitedFor, ...]
    longest: tuple[Stay, ...]
    requeues: Mapping[str, int]  # by cause

    @property
    def unusable(self) -> float:
        """The mean part of the main resource that was idle where no waiting task fitted."""
        total = sum((end_ms - look.at_ms) * look.unusable for look, end_ms in self.looked())
        there = self.end_ms * self.capacity
        return total / there if there else 0.0

    def looked(self) -> Iterator[tuple[Look, int]]:
        """Each look, and until when it counts."""
        for number, look in enumerate(self.looks, 1):
            yield look, self.looks[number].at_ms if number < len(self.looks) else self.end_ms


def spreads(names: Sequence[str], group: Ints, jobs: JobTable) -> tuple[Spread, ...]:
    """How jobs of each group fared; `group` has a place among the names for each job."""
    waits, slowdowns = jobs.wait_s, jobs.slowdown
    order = np.argsort(group, kind="stable")
    edges = np.searchsorted(group[order], np.arange(len(names) + 1))
    return tuple(
        Spread(
            name=name,
            jobs=int(edges[place + 1] - edges[place]),
            wait_s=Distribution.of(_known(waits[order[edges[place] : edges[place + 1]]])),
            slowdown=Distribution.of(_known(slowdowns[order[edges[place] : edges[place + 1]]])),
        )
        for place, name in enumerate(names)
    )


def _known(values: Floats) -> Floats:
    known: Floats = values[~np.isnan(values)]
    return known
