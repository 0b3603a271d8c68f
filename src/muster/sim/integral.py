"""Sums over time, and the averages they give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.model.nodes import NO_POD_LIMIT
from muster.model.resources import PODS


@dataclass(slots=True)
class Integral:
    """Sums over time, by name."""

    sums: dict[str, int] = field(default_factory=dict)

    def add(self, amounts: Iterable[tuple[str, int]], dt_ms: int) -> None:
        """Amounts that held for a while."""
        for name, amount in amounts:
            self.sums[name] = self.sums.get(name, 0) + amount * dt_ms


def utilisation(held: Integral, there: Integral, lived_ms: int) -> dict[str, float]:
    """The part of what was there in that time that was held, per resource; pods only where there is a limit."""
    unlimited = NO_POD_LIMIT * max(lived_ms, 1)
    return {
        name: round(held.sums.get(name, 0) / amount, 6)
        for name, amount in sorted(there.sums.items())
        if amount and not (name == PODS and amount >= unlimited)
    }
