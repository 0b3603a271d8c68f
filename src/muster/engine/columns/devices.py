"""The devices of a node that a task has, as the bits of one number."""

from __future__ import annotations

from functools import cache


@cache
def devices_of(chosen: int) -> tuple[int, ...]:
    """The devices that are bits of the number."""
    return tuple(device for device in range(chosen.bit_length()) if chosen >> device & 1)


@cache
def bits_of(devices: tuple[int, ...]) -> int:
    """Devices as bits of one number."""
    return sum(1 << device for device in devices)
