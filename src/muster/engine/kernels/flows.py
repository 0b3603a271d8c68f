"""What a queue has used lately, over columns: the whole numbers of muster.model.flow, in words of 64 bits.

Amounts are below 2^60, and a half time below 2^31 ms: whoever calls sees to that.
"""

from __future__ import annotations

from typing import NamedTuple

from muster.engine.kernels.filling import Ints
from muster.engine.kernels.jit import kernel

SCALE = 60  # of the factors: 1.0 is 2**60
_HALF = 30
_LOW = (1 << _HALF) - 1


class Accounts(NamedTuple):
    """What queues use, and their flow as of when that last changed."""

    usage: Ints
    flow: Ints
    as_of: Ints
    powers: Ints  # 2^-x for each byte of a fraction, from the highest (muster.model.flow)
    half_time: Ints  # one number


@kernel
def scaled(one: int, other: int) -> int:
    """one × other ÷ 2^60, rounded down. Neither is above 2^60."""
    high, low = one >> _HALF, one & _LOW
    other_high, other_low = other >> _HALF, other & _LOW
    middle = high * other_low + low * other_high + (low * other_low >> _HALF)
    return high * other_high + (middle >> _HALF)


@kernel
def is_rest_half(one: int, other: int) -> bool:
    """Whether what that rounds off is a half at least."""
    high, low = one >> _HALF, one & _LOW
    other_high, other_low = other >> _HALF, other & _LOW
    middle = high * other_low + low * other_high + (low * other_low >> _HALF)
    return (middle & _LOW) >= 1 << (_HALF - 1)


@kernel
def faded(amount: int, dt_ms: int, accounts: Accounts) -> int:
    """What is left of an amount after so long, to the nearest whole number."""
    half_time = int(accounts.half_time[0])
    halvings = dt_ms // half_time
    if amount <= 0 or halvings > SCALE:
        return 0
    fraction = ((dt_ms - halvings * half_time) << 32) // half_time
    powers = accounts.powers
    factor = scaled(int(powers[0, fraction >> 24]), int(powers[1, fraction >> 16 & 255]))
    factor = scaled(factor, int(powers[2, fraction >> 8 & 255]))
    factor = scaled(factor, int(powers[3, fraction & 255]))
    left = scaled(amount, factor)
    if halvings == 0:
        return left + 1 if is_rest_half(amount, factor) else left
    return (left + (1 << (halvings - 1))) >> halvings


@kernel
def flow_at(accounts: Accounts, queue: int, now_ms: int) -> int:
    """A queue's flow, at a moment not before its usage last changed."""
    usage, memory = int(accounts.usage[queue]), int(accounts.flow[queue] - accounts.usage[queue])
    return usage if memory == 0 else usage + faded(memory, now_ms - int(accounts.as_of[queue]), accounts)


@kernel
def use(accounts: Accounts, queue: int, by: int, now_ms: int) -> None:
    """A queue uses more (or, below zero, less) from now on."""
    if accounts.as_of[queue] != now_ms:
        accounts.flow[queue] = flow_at(accounts, queue, now_ms)
        accounts.as_of[queue] = now_ms
    accounts.usage[queue] += by
    accounts.flow[queue] = max(accounts.flow[queue], accounts.usage[queue])
