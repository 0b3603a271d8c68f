"""The tree of units, least served first (paddle-trainingjob.md, `GpuPriorityCFS`).

The document keeps a red-black tree; a sorted list of lists has the same operations and is quicker in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sortedcontainers import SortedKeyList

from muster.engine.elastic.unit import Order, Unit


def _order(unit: Unit) -> Order:
    return unit.order


class Tree:
    """Units in the order of their virtual time, then of their names."""

    def __init__(self, units: Iterable[Unit] = ()) -> None:
        self._units: SortedKeyList[Unit, Order] = SortedKeyList(units, key=_order)

    def __len__(self) -> int:
        return len(self._units)

    def add(self, unit: Unit) -> None:
        """One unit more."""
        self._units.add(unit)

    def enter(self, unit: Unit) -> None:
        """A newcomer: it starts where the least served is, unless it was given more than that already."""
        if self._units:
            unit.virtual = max(unit.virtual, self.left_most().virtual)
        self.add(unit)

    def delete(self, unit: Unit) -> None:
        """The unit is done, or not to be looked at any more."""
        self._units.remove(unit)

    def left_most(self) -> Unit:
        """The unit that was given least."""
        return self._units[0]

    def right_most(self) -> Unit:
        """The unit that was given most."""
        return self._units[-1]

    def traverse(self) -> Iterator[Unit]:
        """Every unit, least served first."""
        return iter(self._units)

    def from_the_right(self) -> Iterator[Unit]:
        """Every unit, most served first."""
        return reversed(self._units)

    def set_level(self, unit: Unit, level: int, moment_ms: int) -> None:
        """The unit's level is another from that moment on (`SetPrio`); what it was given before stays as it is."""
        self.delete(unit)
        serving = unit.run.serving and unit.run.serving.settled(moment_ms, unit.run.job.level)
        unit.run = replace(unit.run, job=replace(unit.run.job, level=level), serving=serving)
        if serving is not None:
            unit.virtual = serving.entered
        self.add(unit)
