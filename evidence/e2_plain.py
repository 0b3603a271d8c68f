"""EASY backfilling by a plain scheduler, apart from the engine: what the published numbers depend on.

Textbooks leave things open. With the choices of the publication a few dozen lines give its numbers to the last digit,
and with Muster's what the engine gives: so what lies between the two is these choices, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from typing import NamedTuple

import numpy as np


class Plain(NamedTuple):
    """A job of a log; times in seconds."""

    submit: int
    run: int
    size: int
    expected: int


Order = Callable[[Plain, int], float]
"""The smallest goes first, at a moment; equals as they came."""


def arrival(_job: Plain, _now: int) -> float:
    """First come, first served."""
    return 0.0


def shortest(job: Plain, _now: int) -> float:
    """By expected run time."""
    return job.expected


def smallest(job: Plain, _now: int) -> float:
    """By area: expected run time × processors."""
    return job.expected * job.size


def wfp3(job: Plain, now: int) -> float:
    """By the cube of the wait in run times, × processors, the largest first; a job that just came has waited 1 ms."""
    return -(((max(now - job.submit, 0) + 0.001) / max(job.expected, 0.001)) ** 3) * job.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What textbooks leave open, as the publication has it."""

    head: Order = arrival
    backfill: Order = arrival

    counts_what_is_needed: bool = True
    """What will be free when the head may start: of jobs expected to end in that very second only as many as it needs,
    in the order they came; else all of them."""

    order_every: int | None = None
    """The order is that of the last full so many seconds, at which more may start; else that of each moment."""


class Easy:
    """One machine: the head has a reservation, and others may start if they do not move it."""

    def __init__(self, jobs: Sequence[Plain], processors: int, choices: Choices) -> None:
        self.jobs = jobs  # as they came
        self.start = [0] * len(jobs)
        self._free, self._choices = processors, choices
        self._waiting: list[int] = []
        self._ends: list[tuple[int, int]] = []
        self._running: set[int] = set()

    def run(self) -> None:
        """From the first submission to the last end: at each, all that may start does."""
        came = now = 0
        every = self._choices.order_every
        while came < len(self.jobs) or self._ends:
            arrives = self.jobs[came].submit if came < len(self.jobs) else None
            ends = self._ends[0][0] if self._ends else None
            ordered = now - now % every + every if every and self._waiting else None
            now = min(moment for moment in (arrives, ends, ordered) if moment is not None)
            while self._ends and self._ends[0][0] == now:
                _, which = heappop(self._ends)
                self._running.remove(which)
                self._free += self.jobs[which].size
            while came < len(self.jobs) and self.jobs[came].submit == now:
                self._waiting.append(came)
                came += 1
            if self._waiting and self._free:
                self._round(now)

    def _round(self, now: int) -> None:
        line = self._sorted(self._choices.head, now)
        many = 0
        while many < len(line) and self.jobs[line[many]].size <= self._free:
            self._begin(line[many], now)
            many += 1
        if many < len(line) and self._free:
            head, *others = line[many:]
            is_same = self._choices.backfill is self._choices.head
            self._backfill(head, others if is_same else self._sorted(self._choices.backfill, now), now)
        self._waiting = [which for which in self._waiting if which not in self._running]

    def _sorted(self, order: Order, now: int) -> list[int]:
        at = now - now % (self._choices.order_every or 1)
        return sorted(self._waiting, key=lambda which: order(self.jobs[which], at))

    def _backfill(self, head: int, line: Sequence[int], now: int) -> None:
        until, spare = self._reserved(self.jobs[head].size)
        for which in line:
            job = self.jobs[which]
            if which == head or which in self._running or job.size > self._free:
                continue
            if now + job.expected > until:
                if job.size > spare:
                    continue
                spare -= job.size
            self._begin(which, now)
            if not self._free:
                return

    def _reserved(self, size: int) -> tuple[int, int]:
        """When so many processors are expected to be free, and how many are then left over."""
        free = self._free
        ends = sorted((self.start[which] + self.jobs[which].expected, which) for which in self._running)
        for moment, together in groupby(ends, key=lambda end: end[0]):
            for _, which in together:
                free += self.jobs[which].size
                if free >= size and self._choices.counts_what_is_needed:
                    break
            if free >= size:
                return moment, free - size
        raise ValueError(f"a job of {size} processors is larger than the machine")

    def _begin(self, which: int, now: int) -> None:
        job = self.jobs[which]
        self.start[which] = now
        self._free -= job.size
        self._running.add(which)
        heappush(self._ends, (now + job.run, which))


def replayed(jobs: Sequence[Plain], processors: int, choices: Choices) -> Mapping[str, float]:
    """Mean bounded slowdown, mean wait and longest wait."""
    replay = Easy(jobs, processors, choices)
    replay.run()
    run = np.array([job.run for job in jobs])
    wait = np.array(replay.start) - np.array([job.submit for job in jobs])
    slowdown = np.maximum((wait + run) / np.maximum(run, 10), 1)
    return {"slowdown": float(slowdown.mean()), "wait": float(wait.mean()), "most": float(wait.max())}


def most_used(jobs: Sequence[Plain], processors: int) -> float:
    """What is used if the last end is as soon as it can be: every job ended no sooner than it came and ran."""
    work = sum(job.run * job.size for job in jobs)
    return work / (processors * (max(job.submit + job.run for job in jobs) - jobs[0].submit))
