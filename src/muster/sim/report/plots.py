"""Plots as SVG inside the page: nothing is fetched, and colours follow the page's light or dark.

A line is drawn from means over steps, so it goes in steps. What the pointer reads out is kept beside the drawing as
JSON: the places of the points along the axis, and the values in words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from muster.sim.measures.division import Floats
from muster.sim.report.axes import Axis

WIDTH, HEIGHT = 440, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 10, 28
MOST_POINTS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A named line; `colour` is its number among the page's colours, `is_area` fills what is below it."""

    name: str
    values: Floats
    colour: int
    is_area: bool = False
    is_dashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Lines over one horizontal axis. `at` are where values begin to hold (steps) or belong (curves)."""

    title: str
    told: str  # what it shows, for those who cannot see it
    across: Axis
    up: Axis
    at: Sequence[float]
    lines: Sequence[Line]
    say_at: Callable[[float], str]
    say: Callable[[float], str]
    is_stepped: bool = True
    height: int = HEIGHT


def coarse(values: Floats, times: int) -> Floats:
    """Means over `times` steps each; the last of fewer."""
    if times <= 1 or not len(values):
        return values
    starts = np.arange(0, len(values), times)
    many = np.diff([*starts, len(values)])
    means: Floats = np.add.reduceat(values, starts, axis=0) / (many if values.ndim == 1 else many[:, None])
    return means


def fewer(steps: int, most: int = MOST_POINTS) -> int:
    """How many steps make one point of a plot."""
    return max(-(-steps // most), 1)


def figure(plot: Plot, *, note: str = "", css: str = "") -> str:
    """A plot with its heading, legend and read-out."""
    legend = "".join(
        f'<li><span class="key c{line.colour}{" dashed" if line.is_dashed else ""}"></span>{escape(line.name)}</li>'
        for line in plot.lines
    )
    keys = f'<ul class="legend">{legend}</ul>' if len(plot.lines) > 1 else ""
    told = f'<p class="note">{escape(note)}</p>' if note else ""
    return (
        f'<figure class="plot {css}"><figcaption>{escape(plot.title)}</figcaption>{told}{keys}{drawing(plot)}'
        f'<p class="readout" aria-hidden="true">&nbsp;</p>{_read_out(plot)}</figure>'
    )


def drawing(plot: Plot) -> str:
    """The SVG."""
    high, wide = plot.height - TOP - BOTTOM, WIDTH - LEFT - RIGHT
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {plot.height}" role="img" aria-label="{escape(f"{plot.title}. {plot.told}")}" '
        f'data-left="{LEFT}" data-wide="{wide}" data-top="{TOP}" data-high="{high}">'
    ]
    for value, text in plot.up.marks:
        y = TOP + high * (1 - plot.up.place(value))
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}h{wide}"/>')
        parts.append(f'<text class="mark" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>')
    for number, (value, text) in enumerate(plot.across.marks):
        x, last = LEFT + wide * plot.across.place(value), len(plot.across.marks) - 1
        anchor = "start" if number == 0 else "end" if number == last and x > WIDTH - RIGHT - 20 else "middle"
        parts.append(f'<path class="tick" d="M{x:.1f} {TOP + high}v4"/>')
        parts.append(
            f'<text class="mark" x="{x:.1f}" y="{plot.height - 9}" text-anchor="{anchor}">{escape(text)}</text>'
        )
    parts.append(f'<path class="axis" d="M{LEFT} {TOP + high}h{wide}"/>')
    for line in sorted(plot.lines, key=lambda line: not line.is_area):
        parts.append(_line(plot, line, high, wide))
    parts.append(f'<path class="cursor" d="M0 {TOP}v{high}" visibility="hidden"/></svg>')
    return "".join(parts)


def _line(plot: Plot, line: Line, high: float, wide: float) -> str:
    if not len(line.values):
        return ""
    xs = [round(LEFT + wide * plot.across.place(at), 1) for at in plot.at]
    ys = [round(TOP + high * (1 - plot.up.place(value)), 1) for value in line.values.tolist()]
    end = LEFT + wide if plot.is_stepped else xs[-1]
    drawn = _stepped(xs, ys, end) if plot.is_stepped else "".join(f"L{x:g} {y:g}" for x, y in zip(xs, ys, strict=True))
    path = f"M{xs[0]:g} {ys[0]:g}{drawn}"
    dashed = " dashed" if line.is_dashed else ""
    if line.is_area:
        floor = TOP + high
        return f'<path class="area c{line.colour}" d="{path}V{floor}H{xs[0]:g}Z"/>'
    return f'<path class="line c{line.colour}{dashed}" d="{path}"/>'


def _stepped(xs: list[float], ys: list[float], end: float) -> str:
    """Level from each point to the next; points at the same height are left out."""
    drawn, height = [], ys[0]
    for x, y in zip(xs[1:], ys[1:], strict=True):
        if y != height:
            drawn.append(f"H{x:g}V{y:g}")
            height = y
    return "".join(drawn) + f"H{end:g}"


def _read_out(plot: Plot) -> str:
    """What the pointer reads out: places from 0 to 1, and words."""
    told = {
        "at": [round(plot.across.place(at), 4) for at in plot.at],
        "when": [plot.say_at(at) for at in plot.at],
        "lines": [[line.name, [plot.say(value) for value in line.values.tolist()]] for line in plot.lines],
        "stepped": plot.is_stepped,
    }
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json">{text}</script>'
