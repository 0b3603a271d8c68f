"""By how much queues are ahead in service of the one that was served least (design.md 4.3, ADR 0053).

Service is usage × time, never decayed, and what counts is service per weight since queues have stood in line together:
whoever comes to stand in line takes over the position of the least served there, less a short memory's worth of credit.
Nobody is ahead by more than `agingAfter` at an equal part of the fleet.

Columns hold leads in units of time so large that products stay within 62 bits.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from muster.model.flow import Account
from muster.model.policy import Policy
from muster.model.resources import MICRO
from muster.model.snapshot import QueueState

_BITS = 60
_CREDIT = 2  # half times


class Leads(NamedTuple):
    """Of each queue in line by its number the lead, and what a half time is, in units of so many ms; and by name what
    is put down to those that came to stand in line."""

    by_number: Mapping[int, int]
    memory: int
    unit_ms: int
    entered: Mapping[str, int]


class Positions:
    """Where queues in line stand by what they were served. `in_line`: their states, and the number of each."""

    def __init__(
        self, states: Iterable[QueueState], in_line: Mapping[int, QueueState], now_ms: int, usage: int, policy: Policy
    ) -> None:
        self._in_line = in_line
        self._now_ms, self._mark_ms = now_ms, now_ms - now_ms % policy.flow_step_ms
        active, used, self._runs = 0, 0, list[QueueState]()
        for state in states:
            if state.demand and not state.queue.cordoned:
                active += state.queue.weight
            if state.account.usage:
                used += state.account.usage
                self._runs.append(state)
        part = usage * MICRO // max(active, 1)  # of the fleet, for a weight of one
        self._credit, self._most = _CREDIT * policy.half_time_ms * part, policy.aging_after_ms * part
        largest = (2 * policy.half_time_ms << max(usage, used).bit_length()) + policy.aging_after_ms * usage
        self._unit_bits = max(largest.bit_length() - _BITS, 0)
        self._memory = max(policy.half_time_ms >> self._unit_bits, 1)
        self._entered = self._enter()

    def _enter(self) -> dict[str, int]:
        """The service that is put down to queues that come to stand in line now."""
        coming = [state for state in self._in_line.values() if state.stands_since_ms is None]
        if not coming:
            return {}
        there = [state for state in self._in_line.values() if state.stands_since_ms is not None] or self._runs
        if not there:
            return dict.fromkeys((state.queue.name for state in coming), 0)
        least = min(self._served(state, self._as_of(state.account)) for state in there) - self._credit
        return {state.queue.name: self._missing(state, least) for state in coming}

    def _missing(self, state: QueueState, least: int) -> int:
        """How much service a queue lacks to stand where the least served may."""
        own = state.account.service_at(self._as_of(state.account))
        return max(-(-least * state.queue.weight // MICRO) - own, 0)

    def _as_of(self, account: Account) -> int:
        return max(self._mark_ms, account.as_of_ms)

    def _served(self, state: QueueState, at_ms: int, more: int = 0) -> int:
        """Service for a weight of one, as of a moment."""
        return (state.account.service_at(at_ms) + more) * MICRO // state.queue.weight

    def leads(self, changed: Container[str] = ()) -> Leads:
        """The leads, once the usage of these has changed at this very moment."""
        positions = {
            number: self._served(
                state,
                self._now_ms if state.queue.name in changed else self._as_of(state.account),
                self._entered.get(state.queue.name, 0),
            )
            for number, state in self._in_line.items()
        }
        last = min(positions.values(), default=0)
        by_number = {
            number: min(position - last, self._most) * self._in_line[number].queue.weight // MICRO >> self._unit_bits
            for number, position in positions.items()
        }
        return Leads(by_number, self._memory, 1 << self._unit_bits, self._entered)
