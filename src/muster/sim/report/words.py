"""Numbers as people write them."""

from __future__ import annotations

import math
from collections.abc import Callable

from muster.model.resources import CPU, GPU, MEMORY, Resources, format_amount, units_of

Say = Callable[[float], str]

_UNITS_S = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def count(number: float) -> str:
    """`12,345`."""
    return f"{round(number):,}"


def number(value: float | None) -> str:
    """Three digits are enough: `0.123`, `1.23`, `12.3`, `8`, `12,345`; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    if abs(value) >= 100 or value == round(value):
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:,.{min(digits, 3)}f}"


def percent(part: float | None) -> str:
    """`12.3 %`, never with the sign on the next line."""
    if part is None:
        return "–"
    return f"{part * 100:.1f}\u00a0%" if abs(part) < 0.9995 else f"{part * 100:,.0f}\u00a0%"


def duration(seconds: float | None) -> str:
    """The two largest units: `3 d 4 h`, `5 min 20 s`, `12 s`, `0.25 s`."""
    if seconds is None or math.isnan(seconds):
        return "–"
    if seconds < 10:
        return f"{seconds:.3g} s"
    left = round(seconds)
    told: list[tuple[int, str]] = []
    for name, size in _UNITS_S:
        if left >= size or told:
            told.append((left // size, name))
            left %= size
        if len(told) == 2:
            break
    return " ".join(f"{amount:,} {name}" for amount, name in told if amount)


def span(ms: float) -> str:
    """The same of milliseconds."""
    return duration(ms / 1000)


def amount(name: str, base_units: float) -> str:
    """`12 GPUs`, `1,024 cores`, `2.5 TiB of memory`."""
    if name == MEMORY:
        return f"{_bytes(base_units)} of memory"
    if name in (CPU, GPU):
        many = base_units / units_of(name)
        told = f"{many:,.0f}" if many == round(many) else number(many)
        return f"{told} {_NAMES[name] if many != 1 else _NAMES[name][:-1]}"
    return f"{format_amount(name, round(base_units))} {name}"


def resource(name: str) -> str:
    """`GPUs`, `cores`, `memory`."""
    return _NAMES.get(name, name)


def amounts(resources: Resources) -> str:
    """All of them, those people look at first in front."""
    names = sorted((name for name in resources if name != "pods"), key=lambda name: (name not in _ORDER, name))
    first = [name for name in _ORDER if name in names]
    return ", ".join(amount(name, resources.get(name)) for name in [*first, *(it for it in names if it not in first)])


_ORDER = (CPU, MEMORY, GPU)
_NAMES = {CPU: "cores", MEMORY: "memory", GPU: "GPUs"}


def _bytes(many: float) -> str:
    for name, power in (("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20)):
        if many >= 1 << power:
            return f"{number(many / (1 << power)).removesuffix('.0')} {name}"
    return f"{count(many)} bytes"


def listed(parts: list[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1] if parts else ""
