"""Who shrinks so that a job that waits can start: the most served first, never below min (design.md 5.6).

Tasks above min are lined up, those of the most served unit first. The smallest beginning of that line that lets the job
start is looked for; of those in it, only tasks without which it would not start really go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from muster.engine.elastic.unit import Unit
from muster.engine.horizon import Horizon
from muster.engine.placement import Placer, Tasks
from muster.engine.rooms import Books, Span
from muster.engine.shapes import Ints
from muster.model.jobs import Job, Task

Cuts = list[tuple[Unit, tuple[Task, ...]]]

_FIRST_TO_TRY = 4


class Line:
    """The tasks above min of units in one cluster, in the order in which they would go."""

    def __init__(self, units: Iterable[Unit], books: Books) -> None:
        self.spare: list[tuple[Unit, Task]] = [(unit, task) for unit in units for task in unit.surplus()]
        moves = [0] * (3 * len(self.spare))
        for place, (unit, task) in enumerate(self.spare):
            group = unit.run.job.profile.group(task.group)
            moves[3 * place : 3 * place + 3] = books.move(task.node, group, task.devices)
        self._moves: Ints = np.array(moves, np.int64).reshape(-1, 3)
        self._is_there = np.ones(len(self.spare), np.bool_)

    def __len__(self) -> int:
        return int(self._is_there.sum())

    def leave(self, unit: Unit, tasks: Iterable[Task] | None = None) -> None:
        """These tasks of the unit, or all, stand in line no more."""
        gone = None if tasks is None else set(tasks)
        for place, (other, task) in enumerate(self.spare):
            if other is unit and (gone is None or task in gone):
                self._is_there[place] = False

    def cuts_for(self, job: Job, cluster: str, horizon: Horizon) -> Cuts | None:
        """Who gives up what so that the job can start at its min; None if that would not help."""
        there = np.flatnonzero(self._is_there)
        fits = self._tries(job, cluster, horizon, there)
        size = _smallest(fits, len(there))
        if size is None:
            return None
        tasks = fits(size)
        assert tasks is not None
        nodes = {task.node for task in tasks}
        needed = [int(place) for place in there[:size] if self.spare[place][1].node in nodes]
        for place in reversed(needed):  # the least served first: theirs stay if they can
            fewer = [other for other in needed if other != place]
            if self._holds(job, tasks, horizon, fewer):
                needed = fewer
        return self._by_unit(needed)

    def _tries(self, job: Job, cluster: str, horizon: Horizon, there: Ints) -> Callable[[int], Tasks | None]:
        """Where the job's tasks would go if so many of those in line were gone."""
        books = horizon.now.books

        def fits(size: int) -> Tasks | None:
            span = Span([horizon.now])
            span.give_back(books.from_array(self._moves[there[:size]]), size)
            found = Placer(span).place(job.profile, cluster, job.profile.least_widths)
            span.undo()
            return found

        return fits

    def _holds(self, job: Job, tasks: Tasks, horizon: Horizon, places: list[int]) -> bool:
        """Whether these very tasks fit if only those in these places were gone."""
        span = Span([horizon.now])
        span.give_back(horizon.now.books.from_array(self._moves[places]), len(places))
        holds = horizon.now.holds_all(job.profile, tasks)
        span.undo()
        return holds

    def _by_unit(self, places: list[int]) -> Cuts:
        cuts: dict[Unit, tuple[Task, ...]] = {}
        for place in places:
            unit, task = self.spare[place]
            cuts[unit] = (*cuts.get(unit, ()), task)
        return list(cuts.items())


def _smallest(fits: Callable[[int], Tasks | None], most: int) -> int | None:
    """The smallest number for which it fits; whatever fits, fits with more gone as well."""
    low, high = 0, min(_FIRST_TO_TRY, most)
    while fits(high) is None:
        if high == most:
            return None
        low, high = high, min(4 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle) is None:
            low = middle
        else:
            high = middle
    return high
