"""Who shrinks so that a job that waits can start: the most served first, never below min (design.md 5.6).

Tasks above min are lined up, those of the most served unit first. The smallest beginning of that line that lets the job
start is looked for; of those in it, only tasks without which it would not start really go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from muster.engine.columns import running_jobs as runs
from muster.engine.columns.arrays import Ints
from muster.engine.elastic.unit import Unit
from muster.engine.horizon import Horizon
from muster.engine.kernels.placing import TASK
from muster.engine.placement import Placer, Tasks
from muster.engine.rooms import Rooms, Span
from muster.model.jobs import Job, Task

Cuts = list[tuple[Unit, tuple[Task, ...]]]


class Yield(NamedTuple):
    """Where a job can start if these give something up."""

    cuts: Cuts
    tasks: Tasks


_FIRST_TO_TRY = 4
_MANY = 256  # beyond so many it is worth asking first whether it would help if all were gone


class Line:
    """The tasks above min of units in one cluster, in the order in which they would go."""

    def __init__(self, units: Sequence[Unit], horizon: Horizon) -> None:
        self._units = units
        self._number = {unit: number for number, unit in enumerate(units)}
        self._spare = [unit.spare_places() for unit in units]
        many = np.array([len(places) for places in self._spare], np.int64)
        self._owner: Ints = np.repeat(np.arange(len(units)), many)
        self._first: Ints = np.cumsum(many) - many
        self._moves = self._moves_of(horizon)
        self._is_there = np.ones(len(self._owner), np.bool_)
        self._many = len(self._owner)
        self._lean: Rooms | None = None  # the rooms without any of them, once

    def _moves_of(self, horizon: Horizon) -> Ints:
        """The tasks as kernels see them."""
        stays, books = horizon.stays, horizon.now.books
        rows = np.array([unit.row for unit in self._units], np.int64)
        places = np.array([place for spare in self._spare for place in spare], np.int64)
        tasks = stays.tasks_at(rows[self._owner], places)
        groups = np.asarray(horizon.asks.first_group)[stays.column(runs.PROFILE, rows)][self._owner]
        moves = np.empty((len(tasks), TASK), np.int64)
        moves[:, 0] = np.asarray(horizon.asks.groups)[groups + tasks[:, runs.GROUP]]
        moves[:, 1] = stays.resident.on(books.grounds)[tasks[:, runs.NODE]]
        moves[:, 2] = tasks[:, runs.DEVICES]
        return moves

    def __len__(self) -> int:
        return self._many

    def spare(self, place: int) -> tuple[Unit, Task]:
        """The unit and the task in a place of the line."""
        owner = int(self._owner[place])
        unit = self._units[owner]
        return unit, unit.in_line[self._spare[owner][place - int(self._first[owner])]]

    def leave(self, unit: Unit, tasks: Iterable[Task] | None = None) -> None:
        """These tasks of the unit, or all, stand in line no more."""
        gone = None if tasks is None else set(tasks)
        if unit not in self._number:
            return
        owner = self._number[unit]
        first = int(self._first[owner])
        for place in range(first, first + len(self._spare[owner])):
            if self._is_there[place] and (gone is None or self.spare(place)[1] in gone):
                self._is_there[place] = False
                self._many -= 1

    def yield_to(self, job: Job, cluster: str, horizon: Horizon) -> Yield | None:
        """Who gives up what so that the job can start at its min, and where; None if that would not help."""
        there = np.flatnonzero(self._is_there)
        fits = cache(self._tries(job, cluster, horizon, there))
        size = _smallest(fits, len(there), partial(self._would_help, job, cluster, horizon))
        if size is None:
            return None
        tasks = fits(size)
        assert tasks is not None
        nodes, grounds = {task.node for task in tasks}, horizon.now.books.grounds
        needed = [int(place) for place in there[:size] if grounds.names[self._moves[place, 1]] in nodes]
        for place in reversed(needed):  # the least served first: theirs stay if they can
            fewer = [other for other in needed if other != place]
            if self._holds(job, tasks, horizon, fewer):
                needed = fewer
        return Yield(self._by_unit(needed), tasks)

    def _tries(self, job: Job, cluster: str, horizon: Horizon, there: Ints) -> Callable[[int], Tasks | None]:
        """Where the job's tasks would go if so many of those in line were gone."""
        books = horizon.now.books

        def fits(size: int) -> Tasks | None:
            span = horizon.span_from_now(job)
            span.give_back(books.from_array(self._moves[there[:size]]), size)
            found = Placer(span).place(job.profile, cluster, job.profile.least_widths)
            span.undo()
            return found

        return fits

    def _would_help(self, job: Job, cluster: str, horizon: Horizon) -> bool:
        """Whether there would be room if all who ever stood in line were gone; others may have come since."""
        if self._lean is None:
            self._lean = horizon.now.copy()
            self._lean.give_back(horizon.now.books.from_array(self._moves))
        span = Span([self._lean])
        found = Placer(span).place(job.profile, cluster, job.profile.least_widths)
        span.undo()
        return found is not None

    def _holds(self, job: Job, tasks: Tasks, horizon: Horizon, places: list[int]) -> bool:
        """Whether these very tasks fit if only those in these places were gone."""
        span = horizon.span_from_now(job)
        span.give_back(horizon.now.books.from_array(self._moves[places]), len(places))
        holds = taken(span, job, tasks) is not None
        span.undo()
        return holds

    def _by_unit(self, places: list[int]) -> Cuts:
        cuts: dict[Unit, tuple[Task, ...]] = {}
        for place in places:
            unit, task = self.spare(place)
            cuts[unit] = (*cuts.get(unit, ()), task)
        return list(cuts.items())


def taken(span: Span, job: Job, tasks: Tasks) -> Tasks | None:
    """The tasks on their very nodes, taken from the span; None if one does not fit."""
    found = []
    for task in tasks:
        group = job.profile.group(task.group)
        if not span.fits(task.node, group):
            return None
        found.append(task._replace(devices=span.take(task.node, group)))
    return tuple(found)


def _smallest(fits: Callable[[int], Tasks | None], most: int, would_help: Callable[[], bool]) -> int | None:
    """The smallest number for which it fits; whatever fits, fits with more gone as well."""
    low, high = 0, min(_FIRST_TO_TRY, most)
    while fits(high) is None:
        if high == most or (high >= _MANY and low < _MANY and not would_help()):
            return None
        low, high = high, min(4 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle) is None:
            low = middle
        else:
            high = middle
    return high
