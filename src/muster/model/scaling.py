"""How much faster a job is with more tasks, as someone measured it: speeds by width, in micro-units of one task's."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from muster.model.resources import MICRO


def speeds_of(stated: Mapping[int, int], most: int) -> tuple[int, ...]:
    """Speeds at every width from 1 to `most`, from those stated at some widths in any unit.

    On straight lines between them, through nothing at no tasks; beyond the last one no task makes it any faster.
    """
    points = [(0, 0), *sorted(stated.items())]
    raw = [_between(points, width) for width in range(1, most + 1)]
    return tuple(part * MICRO * whole // raw[0][0] // each for part, each in raw for whole in (raw[0][1],))


def _between(points: list[tuple[int, int]], width: int) -> tuple[int, int]:
    """The speed at a width, as a fraction."""
    for (left, low), (right, high) in pairwise(points):
        if width <= right:
            return low * (right - left) + (high - low) * (width - left), right - left
    return points[-1][1], 1
