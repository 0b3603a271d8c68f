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

    def add(self, amounts: Iterable[tuple[str, int]], dt_ms: int = 1) -> None:
        """Amounts that held for a while, or that are sums already."""
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


@dataclass(slots=True)
class Use:
    """What there was of a place in some time, what of it was held, and what of that was thrown away, by resource."""

    there: Mapping[str, int]
    held: Mapping[str, int]
    thrown: Mapping[str, int]
    lived_ms: int

    def told(self) -> dict[str, dict[str, float]]:
        """The part of what there was that was held, and the part that was not thrown away either."""
        good = {name: amount - self.thrown.get(name, 0) for name, amount in self.held.items()}
        return {"utilisation": self._part(self.held), "goodput": self._part(good)}

    def _part(self, amounts: Mapping[str, int]) -> dict[str, float]:
        """Per resource; of pods only where there is a limit."""
        unlimited = NO_POD_LIMIT * max(self.lived_ms, 1)
        return {
            name: round(amounts.get(name, 0) / amount, 6)
            for name, amount in sorted(self.there.items())
            if amount and not (name == PODS and amount >= unlimited)
        }


NO_USE = Use({}, {}, {}, 0)


def together(uses: Iterable[Use]) -> Use:
    """The use of several places of the same time as one."""
    there, held, thrown, lived_ms = Integral(), Integral(), Integral(), 0
    for use in uses:
        there.add(use.there.items())
        held.add(use.held.items())
        thrown.add(use.thrown.items())
        lived_ms = max(lived_ms, use.lived_ms)
    return Use(there.sums, held.sums, thrown.sums, lived_ms)
