"""Who is served before whom by service (design.md 4.3), worked out for one queue after the other.

Positions are whole numbers of micro-unit-milliseconds for a weight of one, leads whole numbers of a unit that keeps
them within 60 bits: so that every implementation agrees.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.model.resources import MICRO
from muster.model.snapshot import QueueState, Snapshot

_BITS = 60


class Service:
    """What counts beside usage for each queue in line, and what a half time of usage counts."""

    def __init__(self, snapshot: Snapshot, capacity: int) -> None:
        self._snapshot, self._policy = snapshot, snapshot.policy
        self._line = [state for state in snapshot.queues if any(lane.jobs for lane in state.lanes)]
        used = sum(state.account.usage for state in snapshot.queues)
        most = max(capacity, used)
        power = 1 << most.bit_length()
        biggest = 2 * self._policy.half_time_ms * power + self._policy.aging_after_ms * capacity
        self._unit = 1
        while biggest // self._unit >= 1 << _BITS:
            self._unit *= 2
        self.memory = max(self._policy.half_time_ms // self._unit, 1)
        weights = sum(state.queue.weight for state in snapshot.queues if state.demand and not state.queue.cordoned)
        self._part = capacity * MICRO // max(weights, 1)
        self.entering = {state.queue.name: self._credit(state) for state in self._line if state.stands_since_ms is None}

    def _credit(self, state: QueueState) -> int:
        """What is put down to a queue that had nothing in line: it may be behind by two half times at its part."""
        others = [it for it in self._line if it.stands_since_ms is not None]
        others = others or [it for it in self._snapshot.queues if it.account.usage]
        if not others:
            return 0
        floor = min(self._position(it, 0, self._as_of) for it in others) - 2 * self._policy.half_time_ms * self._part
        wanted = -((-floor * state.queue.weight) // MICRO)
        return max(0, wanted - state.account.service_at(self._as_of(state)))

    def _as_of(self, state: QueueState) -> int:
        step_ms = max(self._policy.half_time_ms // 8, 1)
        return max(self._snapshot.now_ms // step_ms * step_ms, state.account.as_of_ms)

    def _position(self, state: QueueState, more: int, as_of: Callable[[QueueState], int]) -> int:
        return (state.account.service_at(as_of(state)) + more) * MICRO // state.queue.weight

    def leads(self, changed: set[str]) -> dict[str, int]:
        """By how much each queue is ahead of the last; of those whose usage has changed in this turn, as of now."""

        def as_of(state: QueueState) -> int:
            return self._snapshot.now_ms if state.queue.name in changed else self._as_of(state)

        where = {it.queue.name: self._position(it, self.entering.get(it.queue.name, 0), as_of) for it in self._line}
        most, last = self._policy.aging_after_ms * self._part, min(where.values(), default=0)
        return {
            it.queue.name: min(where[it.queue.name] - last, most) * it.queue.weight // MICRO // self._unit
            for it in self._line
        }


def last_start(state: QueueState) -> tuple[int, int]:
    """Whose last start is oldest comes first; before them those that never started any, the longest in line first."""
    if state.last_start_ms is not None:
        return 1, state.last_start_ms
    return 0, 1 << 62 if state.stands_since_ms is None else state.stands_since_ms
