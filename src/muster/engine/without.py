"""What room a head would find if others were gone; nothing is taken, and rooms are as before afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from muster.engine.books import Books
from muster.engine.horizon import Horizon
from muster.engine.kernels.hoping import FEW
from muster.engine.kernels.placing import CORES, Cells
from muster.engine.kernels.yielding import ENOUGH
from muster.engine.offers import Leaving, has_room_without, until_of
from muster.engine.placement import Headcount, Leavers, Placer, Tasks
from muster.engine.rooms import Span
from muster.engine.victims import Unit, by_run, merged
from muster.model.jobs import Job, Profile, Task


def span_without(units: Iterable[Unit], horizon: Horizon) -> Span:
    """The room now without these units, to be undone."""
    span = Span([horizon.now])
    span.give_all([(unit.run.job.profile, unit.tasks) for unit in units])
    return span


def are_odd(units: Iterable[Unit]) -> bool:
    """Whether any of these leaves more or less than all its job asked for."""
    return any(
        not unit.whole or any(group.request.whole_node for group in unit.run.job.profile.groups) for unit in units
    )


def is_room_left(units: Sequence[Unit], horizon: Horizon, job: Job, cluster: str, *, only_delays: bool) -> bool:
    """Whether by a plain count a head could have room if these units were gone, beside firm promises.

    `only_delays`: there may be room for it as things are, which is promised to others.
    """
    books = horizon.now.books
    moves, lasts = _leaving(books, ((unit.run.job.profile, unit.tasks) for unit in units))
    until = until_of(horizon, np.array([horizon.stays.row_of(unit.run) for unit in units], np.int64))
    leaving = [Leaving(moves, books.of(lasts), books.from_array(until), books.of([1] * len(units)))]
    return has_room_without(horizon, job, cluster, leaving, only_delays=only_delays)


class Without:
    """One head in one cluster. `careful`: what comes of it beside the promises that must hold, None if they do not."""

    def __init__(
        self, horizon: Horizon, job: Job, cluster: str, careful: Callable[[list[Unit]], object | None]
    ) -> None:
        self._horizon = horizon
        self._job = job
        self._profile = job.profile
        self._cluster = cluster
        self._careful = careful
        self._promised = {task.node for it in horizon.promised.values() for task in it.reservation.tasks}

    def fits(self, units: list[Unit]) -> bool:
        """Whether the head could start if these units were gone; a quick no before the careful answer."""
        if self._regardless(units) is None:
            return False
        return not self._horizon.promised or self._careful(units) is not None

    def _regardless(self, units: list[Unit]) -> Tasks | None:
        """Where the head would go if these units were gone and nothing were promised."""
        span = span_without(units, self._horizon)
        found = Placer(span).place(self._profile, self._cluster, self._profile.least_widths)
        span.undo()
        return found

    # -- many units at once ----------------------------------------------------------------------------

    def each_alone(self, units: Sequence[Unit]) -> list[Unit]:
        """Those of the units in the place of which alone the head has room."""
        books = self._horizon.now.books
        moves, lasts = _leaving(books, ((unit.run.job.profile, unit.tasks) for unit in units))
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
        moves, lasts = _leaving(books, _one_after_the_other(units))
        moments = [0] * len(units) if at_once else range(len(units))
        headcount = Headcount(Placer(Span([rooms])), self._profile, self._cluster)
        many, is_enough = headcount.free_until_enough(Leavers(books.of(moments), moves, books.of(lasts)), 0)
        return many if is_enough else None

    def who_must_go(self, units: Sequence[Unit]) -> list[bool]:
        """Without which of these units there is no room, whoever of the others goes; others may have to go as well.

        A quick answer: each group of the head is counted by itself. Where a task that stays may leave more room than
        one that goes, or units have tasks in common, it says nothing.
        """
        books = self._horizon.now.books
        if books.cells[CORES] or len(merged(units)) < len(units):
            return [False] * len(units)
        moves, lasts = _leaving(books, ((unit.run.job.profile, unit.tasks) for unit in units))
        headcount = Headcount(Placer(Span([self._horizon.now])), self._profile, self._cluster)
        return headcount.who_must_go(Leavers(books.nothing, moves, books.of(lasts)), lasts[-1] if lasts else 0)

    def who_matters(self, units: Sequence[Unit]) -> list[bool]:
        """Which of the units, if it alone were gone, could change where the head goes: it has use for their nodes.

        Where nodes are chosen for what else there is around them, all of them could; and promises may.
        """
        books = self._horizon.now.books
        if books.cells[CORES] or any(group.is_close for group in self._profile.groups):
            return [True] * len(units)
        moves, lasts = _leaving(books, ((unit.run.job.profile, unit.tasks) for unit in units))
        trial = Span([self._horizon.now]).trial(max((len(unit.tasks) for unit in units), default=0))
        groups, cluster = books.grounds.shape_of(self._profile).groups, books.grounds.cluster_number[self._cluster]
        matters, cells = books.of([0] * len(units)), self._horizon.now.cells()
        books.kernels.who_matters(*cells, trial, books.of(groups), cluster, moves, books.of(lasts), matters)
        return [does == 1 or not self.is_apart([unit]) for does, unit in zip(matters, units, strict=True)]

    def is_apart(self, units: Iterable[Unit]) -> bool:
        """Whether no promise counts on nodes of those who leave. Of all their nodes: where a promise counts on one of
        them to be gone by then, it is gone from the others too."""
        return self._promised.isdisjoint(task.node for unit in units for task in unit.run.tasks)


class ByRight(Without):
    """A head that promises which rest on guesses cannot stop; what firm ones say to it is remembered."""

    def __init__(
        self, horizon: Horizon, job: Job, cluster: str, careful: Callable[[list[Unit]], object | None]
    ) -> None:
        super().__init__(horizon, job, cluster, careful)
        self._are_kept: dict[frozenset[Task], bool] = {}
        # Of several groups, one may be in the way of another where promises leave less to choose from.
        is_simple = len(job.profile.groups) == 1 and not job.profile.groups[0].is_close
        self.is_plain = is_simple and horizon.is_plain

    def fits(self, units: list[Unit]) -> bool:
        """Whether the head could start if these units were gone. Beside all promises it found no room."""
        if self.is_apart(units):
            return (bool(units) and self._is_beside_promises(units)) or self.may_pass(units)
        return super().fits(units)

    def is_apart(self, units: Iterable[Unit]) -> bool:
        """Whether the rooms at promised moments change just by what these units leave."""
        return self.is_plain or super().is_apart(units)

    def may_have_room(self, units: Sequence[Unit], reach: int, *, only_delays: bool) -> bool:
        """Whether by a plain count there could be room if all of these units were gone; `reach`: of how many that may
        give way. Of many, and where they leave more or less than all they have, it is not counted.

        `only_delays`: there is room, which is promised to others; it may be that nobody has to go.
        """
        if reach > FEW or are_odd(units):
            return True
        if not (reach if only_delays else units):
            return False
        return is_room_left(units, self._horizon, self._job, self._cluster, only_delays=only_delays)

    def _is_beside_promises(self, units: list[Unit]) -> bool:
        gone = [(unit.run, unit.tasks) for unit in by_run(units)]
        undo, tasks = self._horizon.place_in_place_of(gone, self._job, self._cluster)
        undo()
        return tasks is not None

    def may_pass(self, units: list[Unit]) -> bool:
        """Whether the head could start by right if these units were gone, which are apart, though not beside promises.

        Promises care only for what the head takes of nodes that they count on.
        """
        if self.is_plain or (found := self._regardless(units)) is None:
            return False
        on_promised = frozenset(task for task in found if task.node in self._promised)
        if on_promised not in self._are_kept:
            self._are_kept[on_promised] = self._careful(units) is not None
        return self._are_kept[on_promised]


def _leaving(books: Books, tasks: Iterable[tuple[Profile, Sequence[Task]]]) -> tuple[Cells, list[int]]:
    """Tasks of several in cells, and for each how many come by its last; of a part of a fleet, those there."""
    lasts, number = list[int](), books.grounds.number
    here = [(profile, [task for task in some if task.node in number]) for profile, some in tasks]
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
