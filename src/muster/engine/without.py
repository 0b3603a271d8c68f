"""What room a head would find if others were gone; nothing is taken, and rooms are as before afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from muster.engine.horizon import Horizon
from muster.engine.kernels.placing import Cells
from muster.engine.kernels.yielding import ENOUGH
from muster.engine.placement import Headcount, Leaving, Placer
from muster.engine.rooms import Span
from muster.engine.victims import Unit
from muster.model.jobs import Job, Profile, Task


def span_without(units: Iterable[Unit], horizon: Horizon) -> Span:
    """The room now without these units, to be undone."""
    span = Span([horizon.now])
    span.give_all([(unit.run.job.profile, unit.tasks) for unit in units])
    return span


class Without:
    """One head in one cluster. `careful`: what comes of it beside the promises that must hold, None if they do not."""

    def __init__(
        self, horizon: Horizon, job: Job, cluster: str, careful: Callable[[list[Unit]], object | None]
    ) -> None:
        self._horizon = horizon
        self._profile = job.profile
        self._cluster = cluster
        self._careful = careful

    def fits(self, units: list[Unit]) -> bool:
        """Whether the head could start if these units were gone; a quick no before the careful answer."""
        span = span_without(units, self._horizon)
        found = Placer(span).place(self._profile, self._cluster, self._profile.least_widths)
        span.undo()
        if found is None:
            return False
        return not self._horizon.promised or self._careful(units) is not None

    # -- many units at once ----------------------------------------------------------------------------

    def each_alone(self, units: Sequence[Unit]) -> list[Unit]:
        """Those of the units in the place of which alone the head has room."""
        books = self._horizon.now.books
        moves, lasts = self._leaving((unit.run.job.profile, unit.tasks) for unit in units)
        may, same = books.of([1] * len(units)), books.of([0] * len(units))
        shape = books.grounds.shape_of(self._profile)
        longest = max((len(unit.tasks) for unit in units), default=0)
        cells = Span([self._horizon.now]).cells(longest + sum(shape.least))
        cluster = books.grounds.cluster_number[self._cluster]
        groups, least = shape.cells(listed=books.listed)
        books.kernels.who_is_enough(*cells, groups, least, cluster, moves, books.of(lasts), same, may, 0, len(units))
        return [unit for place, unit in enumerate(units) if may[place] == ENOUGH]

    def room_after(self, units: Sequence[Unit], *, at_once: bool = False) -> int | None:
        """After how many of these units there could be room, each group of the head counted by itself; None if never.

        `at_once`: only whether there is any after all of them.
        """
        rooms = self._horizon.now.copy()
        books = rooms.books
        moves, lasts = self._leaving(_one_after_the_other(units))
        moments = [0] * len(units) if at_once else range(len(units))
        headcount = Headcount(Placer(Span([rooms])), self._profile, self._cluster)
        many, is_enough = headcount.free_until_enough(Leaving(books.of(moments), moves, books.of(lasts)), 0)
        return many if is_enough else None

    def _leaving(self, tasks: Iterable[tuple[Profile, Sequence[Task]]]) -> tuple[Cells, list[int]]:
        """Tasks of several in cells, and for each how many come by its last; of a part of a fleet, those there."""
        books, lasts = self._horizon.now.books, list[int]()
        here = [(profile, [task for task in some if task.node in books.grounds.number]) for profile, some in tasks]
        for _, some in here:
            lasts.append(len(some) + (lasts[-1] if lasts else 0))
        return books.moves_of(here), lasts


def _one_after_the_other(units: Iterable[Unit]) -> Iterable[tuple[Profile, Sequence[Task]]]:
    """What each unit still has: who goes whole may have lost tasks above min before."""
    gone: dict[str, set[Task]] = {}
    for unit in units:
        before = gone.setdefault(unit.run.job.id, set())
        yield unit.run.job.profile, [task for task in unit.tasks if task not in before]
        before.update(unit.tasks)
