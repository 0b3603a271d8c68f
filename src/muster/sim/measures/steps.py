"""Levels that hold from moment to moment, added up over steps of equal length.

A simulation changes at its own moments, thousands in one step or one in thousands of steps. What is added up is the
level times the milliseconds it held, so that a step's mean is exact however long the steps are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from muster.sim.measures.division import Floats

Moments = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]  # of columns

MOST_STEPS = 2000
_CHUNK = 2048  # steps that are worked out at once
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_WIDTHS_MS = (
    *(1, 2, 10, 20, 100, 200),
    *(_SECOND * count for count in (1, 5, 10, 30)),
    *(_MINUTE * count for count in (1, 5, 10, 30)),
    *(_HOUR * count for count in (1, 2, 4, 12)),
    *(_DAY << count for count in range(24)),
)
"""Lengths of a step that people can name, each a whole number of times the one before."""


def added_up(edges: Moments, levels: Floats, moments: Moments) -> Floats:
    """Level × ms between each two of `edges`, which rise and lie among the moments.

    `levels[i]` holds from `moments[i]` to `moments[i + 1]`.
    """
    inside = moments[np.searchsorted(moments, edges[0]) : np.searchsorted(moments, edges[-1], side="right")]
    cuts = np.union1d(inside, edges)
    within = np.searchsorted(moments, cuts[:-1], side="right") - 1
    pieces = levels[within] * np.diff(cuts)[:, None]
    sums: Floats = np.add.reduceat(pieces, np.searchsorted(cuts, edges[:-1]), axis=0)
    return sums


def by_step(levels: Floats, moments: Moments, width_ms: int) -> Iterator[tuple[int, Floats]]:
    """The number of a first step, and what it and the following ones get of these levels; a few thousand at a time."""
    begin, end = int(moments[0]), int(moments[-1])
    first, last = begin // width_ms, (end - 1) // width_ms
    for number in range(first, last + 1, _CHUNK):
        upto = min(number + _CHUNK, last + 1)
        edges = np.clip(np.arange(number, upto + 1) * width_ms, begin, end)
        yield number, added_up(edges, levels, moments)


class Series:
    """Means of some levels over at most `MOST_STEPS` steps from time 0 on. The steps grow with the time there is."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.width_ms = _WIDTHS_MS[0]
        self._sums = np.zeros((MOST_STEPS, columns))
        self._end_ms = 0

    def add(self, levels: Floats, moments: Moments, columns: Places) -> None:
        """The levels of these columns from the last moment known to the last of these; those of the others are 0."""
        self._widen(int(moments[-1]))
        for first, sums in by_step(levels, moments, self.width_ms):
            self._sums[first : first + len(sums), columns] += sums

    def means(self) -> Floats:
        """One row for each step; the last may be shorter than the others."""
        steps = self._steps(self.width_ms)
        lasted = np.full(steps, float(self.width_ms))
        if steps:
            lasted[-1] = self._end_ms - (steps - 1) * self.width_ms
        means: Floats = self._sums[:steps] / lasted[:, None]
        return means

    def _widen(self, end_ms: int) -> None:
        """Longer steps, each made of whole old ones, until there are few enough of them up to the end."""
        before, self._end_ms = self._steps(self.width_ms), end_ms
        width_ms = next(wide for wide in _WIDTHS_MS if wide >= self.width_ms and self._steps(wide) <= MOST_STEPS)
        if width_ms > self.width_ms and before:
            merged = np.add.reduceat(self._sums[:before], np.arange(0, before, width_ms // self.width_ms))
            self._sums[:] = 0
            self._sums[: len(merged)] = merged
        self.width_ms = width_ms

    def _steps(self, width_ms: int) -> int:
        return -(-self._end_ms // width_ms)
