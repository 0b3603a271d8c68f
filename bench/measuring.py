"""What benchmarks share: CPU time, bars, tables, and words on the way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from time import process_time
from typing import TypeVar

from bench.worlds import SCALE

T = TypeVar("T")

MEASURE = "Times are CPU time of one core, garbage collection included; ms are thousandths of a second."


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """What the call answers, and the CPU seconds it took."""
    start = process_time()
    answer = call()
    return answer, process_time() - start


def tell(text: str) -> None:
    """A line on the way, for whoever watches: what is going on, and after how much CPU time."""
    print(f"bench: {process_time():6.1f} s  {text}", file=sys.stderr, flush=True)


def median(numbers: Iterable[float]) -> float:
    """The middle one; of an even number the lower of the two in the middle."""
    ordered = sorted(numbers)
    return ordered[(len(ordered) - 1) // 2]


def at_least(what: str, bar: float, measured: float, unit: str = "") -> str:
    """How the result stands against a bar it should reach."""
    return _against(what, f"at least {bar:,.0f}{unit}", measured, unit, is_met=measured >= bar)


def at_most(what: str, bar: float, measured: float, unit: str = "") -> str:
    """How the result stands against a bar it should not pass."""
    return _against(what, f"at most {bar:,.0f}{unit}", measured, unit, is_met=measured <= bar)


def below(what: str, bar: float, measured: float, unit: str = "") -> str:
    """How the result stands against a bar it should stay under."""
    return _against(what, f"below {bar:,.0f}{unit}", measured, unit, is_met=measured < bar)


def ratio_at_least(what: str, bar: float, measured: float) -> str:
    """How one figure over another stands against what it should reach."""
    return f"- {what}: bar: at least {bar:.2f}; measured {measured:.2f}: {judged(is_met=measured >= bar)}."


def _against(what: str, bar: str, measured: float, unit: str, *, is_met: bool) -> str:
    number = f"{measured:,.0f}" if abs(measured) >= 100 else f"{measured:.1f}"
    return f"- {what}: bar: {bar}; measured {number}{unit}: {judged(is_met=is_met)}."


def judged(*, is_met: bool) -> str:
    """Bars are for worlds of full size: a quick try on a part of one says nothing about them."""
    if SCALE != 1:
        return f"not judged, at {SCALE:g} of the size"
    return "met" if is_met else "**missed**"


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines of a table in Markdown."""
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in rows]
    return [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings), *lines]


def ms(seconds: float) -> str:
    """Seconds as thousandths."""
    return f"{seconds * 1000:,.1f}"
