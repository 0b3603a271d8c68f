"""What a queue has used: lately (flow), and in all (service) (design.md 4.1, 4.3, docs/adr/0004-flow-by-weight.md).

Flow follows usage up at once and down slowly: the part above usage halves every half time.
Decay is computed in whole numbers only, so every machine gets the same bytes, and always from
the last change of usage, so it does not matter how often anyone looked in between. Service is usage × time, summed
exactly, and never decays (docs/adr/0053-order-by-service.md).
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from muster.model.quick import dataclass

_SCALE = 60  # fixed point: 1.0 is 2**60
_STEPS = 32  # binary digits of the fraction of a half time that we tell apart


def _powers() -> tuple[tuple[int, ...], ...]:
    """For each byte of the fraction, from the highest: 2^-x in fixed point for each of its 256 values."""
    tables, root = [], 1 << (_SCALE - 1)
    for _ in range(_STEPS // 8):
        table = [1 << _SCALE] * 256
        for bit in reversed(range(8)):  # 2^(-1/2), 2^(-1/4), 2^(-1/8) …
            root = isqrt(root << _SCALE)
            for value in range(256):
                if value >> bit & 1:
                    table[value] = table[value] * root >> _SCALE
        tables.append(tuple(table))
    return tuple(tables)


_HIGHEST, _HIGH, _LOW, _LOWEST = _powers()


def faded(amount: int, dt_ms: int, half_time_ms: int) -> int:
    """`amount` × 0.5^(dt ÷ half time), to the nearest whole number."""
    halvings, rest = divmod(dt_ms, half_time_ms)
    if amount <= 0 or halvings > amount.bit_length():
        return 0
    fraction = (rest << _STEPS) // half_time_ms
    factor = _HIGHEST[fraction >> 24] * _HIGH[fraction >> 16 & 255] >> _SCALE
    factor = factor * _LOW[fraction >> 8 & 255] >> _SCALE
    factor = factor * _LOWEST[fraction & 255] >> _SCALE
    shift = _SCALE + halvings
    return (amount * factor + (1 << (shift - 1))) >> shift


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Usage of a queue and its memory of it, in micro-units. flow >= usage always. `service` is in micro-units × ms."""

    usage: int = 0
    flow: int = 0
    as_of_ms: int = 0
    service: int = 0

    def flow_at(self, now_ms: int, half_time_ms: int) -> int:
        """The flow at `now_ms`, if usage has not changed since `as_of_ms`."""
        return self.usage + faded(self.flow - self.usage, now_ms - self.as_of_ms, half_time_ms)

    def with_usage(self, usage: int, now_ms: int, half_time_ms: int) -> Account:
        """The account after usage changed at `now_ms`."""
        flow = max(self.flow_at(now_ms, half_time_ms), usage)
        return Account(usage=usage, flow=flow, as_of_ms=now_ms, service=self.service_at(now_ms))

    def service_at(self, now_ms: int) -> int:
        """The service up to `now_ms`, if usage has not changed since `as_of_ms`."""
        return self.service + self.usage * (now_ms - self.as_of_ms)

    def when_at_most(self, limit: int, now_ms: int, half_time_ms: int) -> int | None:
        """The first moment from `now_ms` on at which flow is at most `limit`; None if usage forbids it."""
        if self.usage > limit:
            return None
        low, high = now_ms, now_ms
        while self.flow_at(high, half_time_ms) > limit:
            low, high = high, high + half_time_ms
        return first_moment(lambda moment_ms: self.flow_at(moment_ms, half_time_ms) <= limit, low, high)


def first_moment(is_true: Callable[[int], bool], low_ms: int, high_ms: int) -> int:
    """The first moment at which something is true that stays true until `high_ms`, where it is."""
    while low_ms < high_ms:
        middle_ms = (low_ms + high_ms) // 2
        if is_true(middle_ms):
            high_ms = middle_ms
        else:
            low_ms = middle_ms + 1
    return high_ms
