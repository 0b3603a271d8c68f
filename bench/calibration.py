"""How fast this machine is, by a fixed loop, so that absolute numbers can be compared."""

from __future__ import annotations

from time import process_time


def calibration() -> str:
    """Seconds of a fixed piece of plain Python."""
    start = process_time()
    counts: dict[int, int] = {}
    for number in range(3_000_000):
        counts[number % 1009] = counts.get(number % 1009, 0) + number
    return f"A fixed loop of plain Python took {process_time() - start:.2f} s of CPU."
