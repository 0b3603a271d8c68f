"""What was held by attempts that came to nothing, over time: what goodput lacks of use (muster.sim.goodput).

How an attempt ends is known only then, so what came to nothing is set against what there was when all is over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from muster.model import events as ev
from muster.model.resources import Resources
from muster.sim.goodput import Attempts, Stretch
from muster.sim.measures.division import Floats
from muster.sim.measures.levels import Block, Ints
from muster.sim.measures.steps import Series

_FLEET = "fleet"


class Thrown:
    """Feed it every attempt, and every block of moments for what there was."""

    def __init__(self, resources: Sequence[str], keeping: Collection[str]) -> None:
        self._resources = resources
        self._attempts = Attempts(keeping)
        self._stretches: list[Stretch] = []
        self._since: list[Ints] = []  # when there began to be another capacity
        self._capacities: list[Ints] = []

    def hold(self, job: str, held: Resources, now_ms: int) -> None:
        """A running job holds this from now on."""
        self._attempts.hold(job, {_FLEET: held}, now_ms)

    def end(self, event: ev.Event, now_ms: int) -> None:
        """An attempt, or its job, is over."""
        self._stretches += self._attempts.note(event, now_ms)

    def add(self, block: Block) -> None:
        """What there was for another while."""
        changed = np.any(np.diff(block.capacity, axis=0) != 0, axis=1)
        kept = np.concatenate([[True], changed])
        self._since.append(block.moments[:-1][kept])
        self._capacities.append(block.capacity[kept])

    def total(self) -> Floats:
        """Of each resource, amount × milliseconds."""
        sums = np.zeros(len(self._resources))
        for stretch in self._stretches:
            sums += (stretch.until_ms - stretch.from_ms) * np.array(self._amounts(stretch), float)
        return sums

    def means(self, until_ms: int) -> Floats:
        """The part of each resource that came to nothing, in steps as those of a series that ends then."""
        series = Series(len(self._resources))
        if until_ms:
            moments, levels = self._levels(until_ms)
            series.add(levels, moments, np.arange(len(self._resources)))
        return series.means()

    def _levels(self, until_ms: int) -> tuple[Ints, Floats]:
        """Moments from the beginning to the end, and the part that came to nothing between each two."""
        since, capacities = np.concatenate(self._since), np.concatenate(self._capacities)
        many, wide = len(self._stretches), len(self._resources)
        times = np.array([(it.from_ms, it.until_ms) for it in self._stretches], np.int64).reshape(many, 2)
        amounts = np.array([self._amounts(it) for it in self._stretches], np.int64).reshape(many, wide)
        moments = np.unique(np.concatenate([times.ravel(), since, [0, until_ms]]))
        held = np.zeros((len(moments), wide), np.int64)
        np.add.at(held, np.searchsorted(moments, times[:, 0]), amounts)
        np.add.at(held, np.searchsorted(moments, times[:, 1]), -amounts)
        thrown = np.cumsum(held, axis=0)[:-1].astype(float)
        there = capacities[np.searchsorted(since, moments[:-1], side="right") - 1]
        return moments, np.divide(thrown, there, out=np.zeros_like(thrown), where=there > 0)

    def _amounts(self, stretch: Stretch) -> list[int]:
        return [stretch.held[_FLEET].get(name) for name in self._resources]
