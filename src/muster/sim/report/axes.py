"""Where the marks of an axis are, and what they say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from muster.sim.report import words

_S, _MIN, _H, _D = 1, 60, 3600, 86_400
_TIME_STEPS = (
    *((each * _S, _S, "s") for each in (1, 2, 5, 10, 15, 30)),
    *((each * _MIN, _MIN, "min") for each in (1, 2, 5, 10, 15, 30)),
    *((each * _H, _H, "h") for each in (1, 2, 3, 6, 12)),
    *((each * _D, _D, "d") for each in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)),
)
_LOG_TIMES = (1, 10, 60, 600, _H, 10 * _H, 4 * _D, 40 * _D, 400 * _D)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """From `low` to `high`, with marks (value, text). `place` gives 0 to 1."""

    low: float
    high: float
    marks: tuple[tuple[float, str], ...]
    is_log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies on the axis."""
        if self.is_log:
            value, low, high = (math.log10(max(each, self.low)) for each in (value, self.low, self.high))
        else:
            low, high = self.low, self.high
        return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.0


def time_axis(end_s: float, most: int = 6) -> Axis:
    """From the beginning to the end of a simulation."""
    end_s = max(end_s, 1e-3)
    step, size, unit = next(
        ((step, size, unit) for step, size, unit in _TIME_STEPS if end_s / step <= most), (end_s, _D, "d")
    )
    marks = [(0.0, "0")]
    while marks[-1][0] + step <= end_s * 1.0001:
        at = marks[-1][0] + step
        marks.append((at, f"{at / size:,.0f} {unit}"))
    return Axis(low=0.0, high=end_s, marks=tuple(marks))


def amount_axis(most: float, say: Callable[[float], str] = words.number, marks: int = 5) -> Axis:
    """From 0 to something above `most`."""
    step = nice_step(max(most, 1e-9) / marks)
    many = max(math.ceil(most / step - 1e-9), 1)
    return Axis(low=0.0, high=many * step, marks=tuple((each * step, say(each * step)) for each in range(many + 1)))


def part_axis(most: float) -> Axis:
    """Parts of a whole, in percent."""
    return amount_axis(min(max(most, 0.01), 1.0) if most <= 1 else most, lambda part: f"{part * 100:.3g} %")


def count_axis(most: float) -> Axis:
    """Whole numbers."""
    step = max(nice_step(max(most, 1) / 5), 1)
    many = max(math.ceil(most / step - 1e-9), 1)
    return Axis(
        low=0.0, high=many * step, marks=tuple((each * step, words.count(each * step)) for each in range(many + 1))
    )


def nice_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, not below `rough`."""
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next((each * power for each in (1, 2, 5) if each * power >= rough * 0.999), 10 * power)


def log_time_axis(most_s: float) -> Axis:
    """From a second to something above `most_s`."""
    high = next((each for each in _LOG_TIMES[1:] if each >= most_s), max(most_s, 400 * _D))
    marks = [(each, words.duration(each)) for each in _LOG_TIMES if each <= high]
    return Axis(low=1.0, high=float(high), marks=tuple(marks), is_log=True)


def log_axis(most: float) -> Axis:
    """From 1 to something above `most`: marks at 1, 2, 5, 10 … while there is room for them, else at powers of ten."""
    fine = [each * 10**power for power in range(3) for each in (1, 2, 5)]
    if most <= fine[-1]:
        marks = fine[: next(place for place, each in enumerate(fine) if each >= max(most, 2)) + 1]
    else:
        powers = math.ceil(math.log10(most) - 1e-9)
        marks = [10**power for power in range(0, powers + 1, -(-powers // 6))]
        marks += [10 ** (powers + 1)] if marks[-1] < most else []
    told = tuple((float(each), words.count(each)) for each in marks)
    return Axis(low=1.0, high=float(marks[-1]), marks=told, is_log=True)
