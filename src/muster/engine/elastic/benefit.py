"""Whom a task more makes faster by how much: widths by marginal benefit (docs/adr/0025-width-by-benefit.md).

A job's speeds by width are cut into steps of falling benefit per task (their upper hull, so that a width that only pays
together with the next is one step). Steps are taken in the order of what they are worth until the room is used up. What
a step is worth: how much faster it makes the job, for what its tasks use, and half as much each time what the job was
given has quadrupled: nobody knows how long a job still runs, but who has run for long mostly does for long.

Pure: numbers in, numbers out. Who gives what to whom to get there: dividing.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.model.jobs import Running, TaskGroup
from muster.model.names import NameKey
from muster.model.resources import MICRO
from muster.model.width import NORMAL

FRESH_MS = 20 * 60 * 1000  # task-ms at level Normal: who was given less has its whole claim
_QUADRUPLE = 4
_FINE = 1 << 40  # worths are whole numbers; this is how finely they are told apart
_PAYS_WITHIN = 10  # times its cost, where the freezing window is shorter


@dataclass(frozen=True, slots=True, kw_only=True)
class Stake:
    """What one unit has to do with the room of its cluster: speeds at widths from 0 to its most, what it holds, what a
    task asks for by dimension and uses in all, and how many times its claim was halved."""

    order: tuple[int, NameKey]
    cluster: int
    speeds: tuple[int, ...]
    least: int
    held: int
    asks: Ints
    usage: int
    halvings: int
    window_ms: int

    @property
    def most(self) -> int:
        """The most tasks it has a use for."""
        return len(self.speeds) - 1


class Step(NamedTuple):
    """Some tasks more of one stake, and what they are worth."""

    worth: int
    number: int
    first: int
    last: int


def widths_by_benefit(stakes: Sequence[Stake], room: Ints, percent: int, cost_ms: int) -> list[int]:
    """The width of each stake when the room of each cluster, by dimension, is divided by benefit.

    What a stake holds already counts `percent` of its worth: a task changes hands only if it is worth so much more
    elsewhere. A growth that does not pay for the time it costs is not made, and its room is divided anew.
    """
    most = [max(stake.most, stake.held) for stake in stakes]
    while True:
        widths = _divided(stakes, room, percent, most)
        vain = [
            number
            for number, (stake, width) in enumerate(zip(stakes, widths, strict=True))
            if width > stake.held and not pays(stake, width, cost_ms)
        ]
        if not vain:
            return widths
        for number in vain:
            most[number] = stakes[number].held


def pays(stake: Stake, width: int, cost_ms: int) -> bool:
    """Whether growing to that width does more before it may change again than standing still for it takes away."""
    window_ms = max(stake.window_ms, _PAYS_WITHIN * cost_ms)
    return stake.speeds[width] * (window_ms - cost_ms) >= stake.speeds[stake.held] * window_ms


def _divided(stakes: Sequence[Stake], room: Ints, percent: int, most: Sequence[int]) -> list[int]:
    """Steps taken in the order of their worth, until none fits."""
    left, widths = room.copy(), [stake.least for stake in stakes]
    for stake in stakes:
        left[stake.cluster] += stake.asks * (stake.held - stake.least)
    steps = [step for number in range(len(stakes)) for step in _steps(stakes[number], number, percent, most[number])]
    steps.sort(key=lambda step: (-step.worth, stakes[step.number].order, step.first))
    for step in steps:
        stake = stakes[step.number]
        if widths[step.number] == step.first:
            taken = min(step.last - step.first, _fitting(left[stake.cluster], stake.asks))
            widths[step.number] += taken
            left[stake.cluster] -= stake.asks * taken
    return widths


def _fitting(room: Ints, asks: Ints) -> int:
    """How many such tasks fit into the room, as far as sums can tell."""
    counts = asks > 0
    return max(int((room[counts] // asks[counts]).min(initial=1 << 40)), 0)


def _steps(stake: Stake, number: int, percent: int, most: int) -> Iterator[Step]:
    """The steps from its least width on, in the order of their widths; those it holds apart from those to come."""
    for first, last in _hull(stake.speeds, stake.least, min(most, stake.most)):
        gain, tasks = stake.speeds[last] - stake.speeds[first], last - first
        worth = (gain * _FINE // (tasks * stake.usage)) >> stake.halvings
        between = min(max(stake.held, first), last)
        if between > first:
            yield Step(worth * percent, number, first, between)
        if last > between:
            yield Step(worth * 100, number, between, last)


def _hull(speeds: Sequence[int], first: int, most: int) -> Iterator[tuple[int, int]]:
    """From which width to which there is most to gain per task, then from there; as long as there is anything."""
    while first < most:
        best = first + 1
        for last in range(first + 2, most + 1):
            gain, before = speeds[last] - speeds[first], speeds[best] - speeds[first]
            if gain * (best - first) >= before * (last - first):
                best = last
        if speeds[best] <= speeds[first]:
            return
        yield first, best
        first = best


def speeds_from_nothing(group: TaskGroup) -> tuple[int, ...]:
    """Speeds from no task to as many as the group may have; who stated none is taken to be as fast as it is wide."""
    return (0, *(group.speeds or (MICRO * width for width in range(1, group.max + 1))))


def halvings(run: Running, moment_ms: int) -> int:
    """How many times the claim of a job was halved by then."""
    return sum(given <= _given(run, moment_ms) for given in _marks_of(run))


def next_halving_ms(run: Running, moment_ms: int) -> int | None:
    """When its claim is halved next if its width stays as it is; None: not in a life time."""
    serving, given = run.serving, _given(run, moment_ms)
    if serving is None or not serving.usage:
        return None
    mark = next((mark for mark in _marks_of(run) if mark > given), None)
    return None if mark is None else moment_ms - (given - mark) // serving.usage


def _given(run: Running, moment_ms: int) -> int:
    """What the job was given by then, in micro-units × ms."""
    serving = run.serving
    return 0 if serving is None else serving.served + serving.usage * max(moment_ms - serving.since_ms, 0)


def _marks_of(run: Running) -> Iterator[int]:
    """How much it was given each time its claim is halved."""
    each = 0 if run.serving is None else run.serving.usage // max(len(run.tasks), 1)
    mark = FRESH_MS * max(each, 1) * run.job.level // NORMAL
    for _ in range(20):
        yield mark
        mark *= _QUADRUPLE


def amounts(dims: int, by_dim: dict[int, int]) -> Ints:
    """A row of amounts."""
    row = np.zeros(dims, np.int64)
    for dim, amount in by_dim.items():
        row[dim] = amount
    return row
