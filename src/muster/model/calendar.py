"""The capacity calendar: room that is kept free for services at certain times of the week (paddle-trainingjob.md).

Time 0 is Monday 00:00 in scenarios; a server, whose time 0 is another, says when some Monday began. A window is in
force from `ahead_ms` before it opens, so that elastic jobs have shrunk by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from muster.model.resources import Resources

DAY_MS = 24 * 60 * 60 * 1000
WEEK_MS = 7 * DAY_MS
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """On these days of the week (0: Monday), from one time of day to another, so much of a cluster is not for us.

    With a `pool`, so much of its nodes there; with a pool and no cluster (the empty name), of its nodes anywhere.
    A window that ends before it begins goes on past midnight. `monday_ms`: when a week begins.
    """

    cluster: str
    days: frozenset[int]
    from_ms: int
    to_ms: int
    withhold: Resources
    pool: str | None = None
    ahead_ms: int = 0
    monday_ms: int = 0

    def in_force(self, now_ms: int) -> bool:
        """Whether room is withheld now."""
        return any(begin_ms <= now_ms < end_ms for begin_ms, end_ms in self._around(now_ms))

    def next_edge_ms(self, now_ms: int) -> int:
        """When that changes next; windows that meet have no edge between them, but may say so."""
        return min(edge_ms for span in self._around(now_ms) for edge_ms in span if edge_ms > now_ms)

    def _around(self, now_ms: int) -> Iterator[tuple[int, int]]:
        """When the windows of last week, this and the next are in force."""
        length_ms = (self.to_ms - self.from_ms) % DAY_MS or DAY_MS
        week_ms = now_ms - (now_ms - self.monday_ms) % WEEK_MS
        for week in (-1, 0, 1):
            for day in sorted(self.days):
                opens_ms = week_ms + week * WEEK_MS + day * DAY_MS + self.from_ms
                yield opens_ms - self.ahead_ms, opens_ms + length_ms
