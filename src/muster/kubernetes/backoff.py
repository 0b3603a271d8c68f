"""How long to wait before trying again: longer each time, and never in step with others."""

from __future__ import annotations

from random import Random

FIRST_S, MOST_S = 0.2, 30.0


class Backoff:
    """Waits that double from `first_s` to `most_s`, each shortened by up to half; the same `random`, the same waits."""

    def __init__(self, random: Random, *, first_s: float = FIRST_S, most_s: float = MOST_S) -> None:
        self._random = random
        self._first_s, self._most_s = first_s, most_s
        self._next_s = first_s

    def wait_s(self, at_least_s: float = 0.0) -> float:
        """How long to wait now."""
        whole, self._next_s = self._next_s, min(self._next_s * 2, self._most_s)
        return max(whole * self._random.uniform(0.5, 1.0), at_least_s)

    def reset(self) -> None:
        """It worked: the next trouble is a first one."""
        self._next_s = self._first_s
