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


class Steps:
    """Sums over time, by name, of amounts that stay as they are until they are set anew."""

    def __init__(self) -> None:
        self._sums: dict[str, int] = {}
        self._now: dict[str, tuple[int, int]] = {}  # the amount, and since when

    def set(self, name: str, amount: int, now_ms: int) -> None:
        """From now on the amount is this."""
        before, since_ms = self._now.get(name, (0, 0))
        self._sums[name] = self._sums.get(name, 0) + before * (now_ms - since_ms)
        self._now[name] = (amount, now_ms)

    def sum(self, name: str, now_ms: int) -> int:
        """All of it until now."""
        amount, since_ms = self._now.get(name, (0, 0))
        return self._sums.get(name, 0) + amount * (now_ms - since_ms)


def utilisation(held: Integral, there: Integral, lived_ms: int) -> dict[str, float]:
    """The part of what was there in that time that was held, per resource; pods only where there is a limit."""
    unlimited = NO_POD_LIMIT * max(lived_ms, 1)
    return {
        name: round(held.sums.get(name, 0) / amount, 6)
        for name, amount in sorted(there.sums.items())
        if amount and not (name == PODS and amount >= unlimited)
    }
