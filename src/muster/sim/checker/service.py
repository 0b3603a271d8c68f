"""Whose turn it is by service (design.md 4.3), as fractions: what a plan may not contradict."""

from __future__ import annotations

from fractions import Fraction

from muster.model.resources import MICRO
from muster.model.snapshot import QueueState
from muster.sim.checker.world import World

_CLOSE = 1 << 40  # dues that differ by less than one part in so many of what is at most due are not told apart


class Service:
    """How far each queue in line is ahead of the last, per weight, as a turn opens."""

    def __init__(self, world: World, capacity: int) -> None:
        policy, now_ms = world.policy, world.now_ms
        mark_ms = now_ms // policy.flow_step_ms * policy.flow_step_ms

        def served(state: QueueState) -> Fraction:
            return Fraction(state.account.service_at(max(mark_ms, state.account.as_of_ms)), state.queue.weight)

        line = [state for state in world.queues.values() if state.lanes]
        weights = sum(it.queue.weight for it in world.queues.values() if it.demand and not it.queue.cordoned)
        part = Fraction(capacity, max(weights, 1))
        there = [it for it in line if it.stands_since_ms is not None]
        there = there or [it for it in world.queues.values() if it.account.usage]
        floor = min((served(it) for it in there), default=None)
        where: dict[str, Fraction] = {}
        for state in line:
            own = served(state)
            is_new = state.stands_since_ms is None and floor is not None
            where[state.queue.name] = max(own, floor - 2 * policy.half_time_ms * part) if is_new and floor else own
        last, most = min(where.values(), default=Fraction(0)), policy.aging_after_ms * part
        self._ahead = {name: min(it - last, most) for name, it in where.items()}
        self._half_time_ms = policy.half_time_ms
        self.close = (2 * policy.half_time_ms * Fraction(capacity, MICRO) + most) / _CLOSE

    def due(self, queue: str, usage: int, weight: int, turn_weight: int) -> Fraction:
        """What is compared of a queue that uses so much now; the smallest comes first."""
        return Fraction(usage * self._half_time_ms, turn_weight) + self._ahead[queue] * Fraction(weight, turn_weight)
