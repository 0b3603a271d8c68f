"""Sums over time, and the averages they give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.model.nodes import NO_POD_LIMIT
from muster.model.resources import PODS, Resources


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
        self._steps: dict[str, tuple[int, int, int]] = {}  # the amount, since when, and the sum until then

    def set(self, name: str, amount: int, now_ms: int) -> None:
        """From now on the amount is this."""
        before, since_ms, so_far = self._steps.get(name, (0, 0, 0))
        self._steps[name] = (amount, now_ms, so_far + before * (now_ms - since_ms))

    def set_all(self, amounts: Resources, now_ms: int) -> None:
        """From now on these are all there are."""
        for name in self._steps:
            self.set(name, amounts.get(name), now_ms)
        for name, amount in amounts.items():
            if name not in self._steps:
                self.set(name, amount, now_ms)

    def sum(self, name: str, now_ms: int) -> int:
        """All of it until now."""
        amount, since_ms, so_far = self._steps.get(name, (0, 0, 0))
        return so_far + amount * (now_ms - since_ms)

    def sums(self, now_ms: int) -> dict[str, int]:
        """All of each until now."""
        return {name: self.sum(name, now_ms) for name in self._steps}


def utilisation(held: Mapping[str, int], there: Mapping[str, int], lived_ms: int) -> dict[str, float]:
    """The part of what was there in that time that was held, per resource; pods only where there is a limit."""
    unlimited = NO_POD_LIMIT * max(lived_ms, 1)
    return {
        name: round(held.get(name, 0) / amount, 6)
        for name, amount in sorted(there.items())
        if amount and not (name == PODS and amount >= unlimited)
    }
