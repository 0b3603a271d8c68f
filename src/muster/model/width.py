"""Width: how many tasks an elastic job runs, and how much it has been served so far (paddle-trainingjob.md).

Virtual time is what a job was given, divided by its level: whoever has least of it is served first. It adds the
resource score of a task times the seconds it ran, summed over tasks, over the level of that time (design.md 11,
points 1 and 3), from where the job came in: a newcomer starts where the least served is, not at zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

LEVELS = {"Experiment": 10, "Offline": 100, "Normal": 1000, "Production": 10000}
"""The document's levels. They are far apart so that more can be put between them (config: levels)."""

NORMAL = LEVELS["Normal"]
MOST_LEVEL = 1_000_000
FREEZING_MS = 5 * 60 * 1000

MOST_VIRTUAL = 1 << 55  # a tolerance in per cent times this is still one word
_PER_SECOND = 1000  # task time is kept in ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a running elastic job has been given: `served` micro-units × ms up to `since_ms`, and `usage` ever since.

    `entered` is its virtual time at `since_ms`; it rises by its level of now. `resized_ms`: when its width last changed
    (None: not yet).
    """

    entered: int
    since_ms: int
    usage: int
    served: int = 0
    resized_ms: int | None = None

    def virtual_at(self, moment_ms: int, level: int) -> int:
        """Virtual time then, in micro-units × seconds over level."""
        return min(self.entered + self._since(moment_ms) // (_PER_SECOND * level), MOST_VIRTUAL)

    def served_by(self, moment_ms: int) -> int:
        """What it has been given by then, in micro-units × ms."""
        return self.served + self._since(moment_ms)

    def resized(self, now_ms: int, usage: int, level: int) -> Serving:
        """The job goes on wider or narrower; up to now it was of this level."""
        return replace(self.settled(now_ms, level), usage=usage, resized_ms=now_ms)

    def settled(self, now_ms: int, level: int) -> Serving:
        """The same, told from now on: up to now the job was of this level, and may be of another afterwards."""
        virtual = self.virtual_at(now_ms, level)
        return replace(self, entered=virtual, served=self.served_by(now_ms), since_ms=now_ms)

    def _since(self, moment_ms: int) -> int:
        return self.usage * max(moment_ms - self.since_ms, 0)


class Kept(NamedTuple):
    """The virtual time an elastic job came to that waits again, and the pool in which it ran."""

    pool: str
    virtual: int
