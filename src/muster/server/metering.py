"""What there was of each cluster since the server began, what attempts held of it, and what of that was thrown away.

Three sums that only grow, for /metrics: over any time, utilisation is held ÷ there, and goodput (held − thrown away) ÷
there. An attempt that comes to nothing is thrown away at its end, all of it, also what it held before the server
began: an earlier server had counted that as held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster.model.fleet import Fleet
from muster.model.resources import total
from muster.server.leases import ENDED
from muster.server.usage import COUNTED, Wasted, held_between, wasted
from muster.sim.integral import Steps
from muster.store.rows import LeaseRow

_Key = tuple[str, str]  # a cluster, and a resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Sums until `now_ms`, in base units × milliseconds: by cluster and resource, of what was thrown away also by why.

    `over`: what attempts held that have ended. What the others hold is added up when someone asks, which needs no lock.
    """

    began_ms: int
    now_ms: int
    there: dict[_Key, float]
    over: dict[_Key, float]
    live: tuple[LeaseRow, ...]
    thrown: dict[tuple[str, str, Wasted], float]

    def held(self) -> dict[_Key, float]:
        """What all attempts held."""
        held = dict(self.over)
        for row in self.live:
            for key, amount in _since(row, self.began_ms, self.now_ms):
                held[key] = held.get(key, 0) + amount
        return held


class Meter:
    """Have it look after every turn; read it at any time, but not while it looks."""

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._fleet: Fleet | None = None
        self._there: dict[str, Steps] = {}
        self._held: dict[_Key, float] = {}  # of attempts that are over
        self._thrown: dict[tuple[str, str, Wasted], float] = {}

    def look(self, fleet: Fleet, leases: Iterable[LeaseRow], now_ms: int) -> None:
        """The fleet as it is from now on, and leases that a turn changed."""
        if fleet is not self._fleet:
            self._fleet = fleet
            for name in fleet.clusters:
                there = total(node.allocatable for node in fleet.nodes_of(name))
                self._there.setdefault(name, Steps()).set_all(there, now_ms)
        for row in leases:
            if row.state != ENDED:
                continue
            for key, amount in _since(row, self._began_ms, now_ms):
                self._held[key] = self._held.get(key, 0) + amount
            if (why := wasted(row)) is not None:
                for (cluster, name), amount in _since(row, 0, now_ms):
                    mine = (cluster, name, why)
                    self._thrown[mine] = self._thrown.get(mine, 0) + amount

    def read(self, live: Iterable[LeaseRow], now_ms: int) -> Reading:
        """All until now; `live`: the leases that have not ended."""
        return Reading(
            began_ms=self._began_ms,
            now_ms=now_ms,
            there={
                (cluster, name): amount
                for cluster, steps in self._there.items()
                for name, amount in steps.sums(now_ms).items()
                if name in COUNTED
            },
            over=dict(self._held),
            live=tuple(live),
            thrown=dict(self._thrown),
        )


def _since(row: LeaseRow, from_ms: int, now_ms: int) -> Iterator[tuple[_Key, float]]:
    """What an attempt held from then until now."""
    for name, amount in zip(COUNTED, held_between(row.spec.get("widths", ()), from_ms, now_ms), strict=True):
        if amount:
            yield (row.cluster, name), amount
