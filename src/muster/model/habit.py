"""For how long a queue's jobs usually run (docs/adr/0051-queues-of-short-jobs-first.md).

Nobody need state anything for that: it is learned from attempts that have ended by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from muster.model.quick import dataclass

_REMEMBERED = 256  # ends: a later one counts for one part in so many


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """The mean run time of so many attempts; of more than can be remembered, early ones count ever less."""

    ends: int = 0
    mean_ms: int = 0

    def after(self, run_ms: int) -> Habit:
        """The habit once another has ended that ran for so long."""
        ends = min(self.ends + 1, _REMEMBERED)
        return Habit(ends=ends, mean_ms=self.mean_ms + (run_ms - self.mean_ms) // ends)

    def usual_ms(self, unknown_ms: int) -> int:
        """How long its jobs usually run; `unknown_ms` while none has ended."""
        return self.mean_ms if self.ends else unknown_ms


NO_HABIT = Habit()
