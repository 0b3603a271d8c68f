"""The rooms at promised moments: without those who have left by then, and with what promises take.

Of those that no stated end takes away in time, only as many are taken to leave as a drain needs: a promise that rests
on guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.profile_cells import Asks
from muster.engine.columns.table import NONE
from muster.engine.kernels.placing import TASK, Cells
from muster.engine.rooms import Rooms
from muster.engine.stays import Stays
from muster.model.jobs import NEVER_MS, Job, Reservation, Task, TaskGroup
from muster.model.names import NameKey
from muster.model.policy import Hold


@dataclass(slots=True, kw_only=True)
class Promised:
    """A promise, and the rooms at the moment it is due with all promises kept.

    `due_ms`: its start; of a drain whose start is past, the next moment.
    """

    job: Job
    reservation: Reservation
    rooms: Rooms
    due_ms: int
    hold: Hold
    sheds: frozenset[str] = frozenset()  # elastic jobs that are to be narrower by then

    @property
    def order(self) -> tuple[int, int, NameKey]:
        """First start first."""
        return (self.due_ms, self.reservation.start_ms, self.job.key)

    @property
    def end_ms(self) -> int:
        """When the promised job will be gone again: of a drain whose start is past nobody knows."""
        known_ms = self.job.known_ms
        is_late = self.due_ms > self.reservation.start_ms
        return NEVER_MS if known_ms is None or is_late else self.due_ms + known_ms

    def is_under_way(self, moment_ms: int) -> bool:
        """Whether the promised job will be running at that moment."""
        return self.due_ms <= moment_ms < self.end_ms

    def is_as(self, other: Promised) -> bool:
        """Whether it is the very same promise."""
        return self.job is other.job and self.reservation is other.reservation


class Spare(NamedTuple):
    """A task above its job's min, which may be gone by the moment someone else is promised its room."""

    job: str
    group: TaskGroup
    task: Task


SpareOn = Callable[[str, int], Iterable[Spare]]
"""Those on a node by a moment, first to go first."""


class Leavers(NamedTuple):
    """Attempts on nodes that promises count on, first end or guess first, and what they leave behind: the moves up to
    their own of `lasts`. When each ends (NEVER_MS: nobody said), whom it overtook, and from when on it may be evicted
    for those."""

    rows: Ints
    ends: Ints
    moves: Cells
    lasts: Cells
    overtook: list[tuple[str, ...]]
    expiries: list[int]

    def who_may_leave_for(self, it: Promised) -> list[int]:
        """One flag per attempt: may this promise assume that it has left? For a firm one only attempts that overtook
        it."""
        if not it.reservation.is_firm:
            return [1] * len(self.rows)
        both = zip(self.overtook, self.expiries, strict=True)
        return [int(it.job.id in overtook and expiry_ms <= it.due_ms) for overtook, expiry_ms in both]

    def without(self, row: int, move: Cells) -> Leavers:
        """The same when a task of the attempt in a row has gone before it."""
        place = next((place for place, other in enumerate(self.rows.tolist()) if other == row), None)
        if place is None:
            return self
        first, last = (self.lasts[place - 1] if place else 0), self.lasts[place]
        starts = range(first * TASK, last * TASK, TASK)
        at = next((at for at in starts if list(self.moves[at : at + TASK]) == list(move)), None)
        if at is None:
            return self
        moves, lasts = np.array(self.moves, np.int64), np.array(self.lasts, np.int64)
        lasts[place:] -= 1
        kept = np.delete(moves, slice(at, at + TASK))
        if isinstance(self.moves, list):
            return self._replace(moves=kept.tolist(), lasts=lasts.tolist())
        return self._replace(moves=cast(Cells, kept), lasts=cast(Cells, lasts))

    def have_left(self, moment_ms: int) -> list[int]:
        """One flag per attempt: has it left by then, as stated?"""
        return [int(end_ms <= moment_ms) for end_ms in self.ends.tolist()]


class Kept(NamedTuple):
    """The rooms of a promise, and with whom they were shared out."""

    it: Promised
    under_way: list[Promised]
    rooms: Rooms


_REMEMBERED = 4  # sets of promises


class Keeper:
    """Works out the rooms of promises; remembers them for as long as nobody comes or goes."""

    def __init__(self, now: Rooms, stays: Stays, asks: Asks) -> None:
        self._now = now
        self._stays = stays
        self._asks = asks
        self._known: list[tuple[int, dict[str, Kept]]] = []  # promises kept together, when so many had moved

    def keep(self, promised: Iterable[Promised], spare: SpareOn | None, stays: int, *, may_recall: bool) -> bool:
        """Give each promise the rooms of its moment; False if one finds no room.

        Those on nodes of a drain may be taken to leave in time for it, except the one in the row that `stays`.
        """
        order = sorted(promised, key=lambda it: it.order)
        if may_recall and self._recall(order):
            return True
        leavers, are_kept, kept = self._leavers(order, stays), True, dict[str, Kept]()
        for it in order:
            moment_ms = it.due_ms
            under_way = [other for other in order if other.is_under_way(moment_ms)]
            known = self._rooms_known(it, under_way) if may_recall else None
            if known is None:
                it.rooms = self._now.copy()
                self._let_go(it.rooms, self._stays.stated_by(moment_ms))
                taking = _Taking(it.rooms, self._stays, leavers, leavers.have_left(moment_ms), spare)
                for other in under_way:
                    are_kept &= taking.keep(other)
                it.sheds = frozenset(spare.job for spare in taking.shed)
            else:
                it.rooms = known
            kept[it.job.id] = Kept(it, under_way, it.rooms)
        if may_recall and are_kept:
            self._known = [*self._known[1 - _REMEMBERED :], (self._stays.moves, kept)]
        return are_kept

    def take_under_way(self, rooms: Rooms, promised: Iterable[Promised], moment_ms: int, left: Ints) -> None:
        """Promises under way at a moment take their room, from which those in some rows have left already."""
        order = sorted((it for it in promised if it.is_under_way(moment_ms)), key=lambda it: it.order)
        leavers = self._leavers(order, NONE)
        are_gone = np.isin(leavers.rows, left).astype(np.int64).tolist()
        taking = _Taking(rooms, self._stays, leavers, are_gone, None)
        for it in order:
            taking.keep(it)

    def _leavers(self, order: Sequence[Promised], stays: int) -> Leavers:
        """Those that may be taken to leave for some of these promises."""
        overtook = self._stays.overtook()
        overtaken = {job for jobs in overtook.values() for job in jobs}
        fragile = [it.reservation for it in order if not it.reservation.is_firm or it.job.id in overtaken]
        rows = ends = np.zeros(0, np.int64)
        if fragile:
            rows, ends = self._stays.in_turn_on(frozenset(task.node for it in fragile for task in it.tasks))
            is_one = rows != stays
            if all(it.is_firm for it in fragile):  # only those leave who overtook one
                is_one &= np.isin(rows, list(overtook))
            rows, ends = rows[is_one], ends[is_one]
        books = self._now.books
        moves, lasts = self._stays.moves_of(rows, books.grounds, self._asks)
        whom = [overtook.get(row, ()) for row in rows.tolist()]
        expiries = self._stays.expiries(rows).tolist()  # of those who overtook
        return Leavers(rows, ends, books.from_array(moves), books.from_array(lasts), whom, expiries)

    def _recall(self, order: Sequence[Promised]) -> bool:
        """The rooms of promises that were kept together before, if nobody came or went since."""
        for moves, kept in self._known:
            if moves != self._stays.moves or len(kept) != len(order):
                continue
            both = list(zip(order, kept.values(), strict=True))
            if all(it.is_as(known.it) for it, known in both):
                for it, known in both:
                    it.rooms = known.rooms
                return True
        return False

    def _rooms_known(self, it: Promised, under_way: list[Promised]) -> Rooms | None:
        """The rooms of a promise that was kept beside the same ones before, whoever else was promised anything."""
        for moves, kept in self._known:
            known = kept.get(it.job.id) if moves == self._stays.moves else None
            if known is None or not it.is_as(known.it) or len(known.under_way) != len(under_way):
                continue
            if all(one.is_as(other) for one, other in zip(known.under_way, under_way, strict=True)):
                return known.rooms
        return None

    def _let_go(self, rooms: Rooms, rows: Ints) -> None:
        """Those in these rows leave."""
        if len(rows):
            moves, _ = self._stays.moves_of(rows, rooms.books.grounds, self._asks)
            rooms.give_back(rooms.books.from_array(moves))


class _Taking:
    """Promises take their room at one moment."""

    def __init__(
        self, rooms: Rooms, stays: Stays, leavers: Leavers, are_gone: list[int], spare: SpareOn | None
    ) -> None:
        self.shed: dict[Spare, None] = {}
        self._stays = stays
        self._rooms = rooms
        self._leavers = leavers
        self._spare = spare
        self._is_gone = rooms.books.of(are_gone)

    def keep(self, it: Promised) -> bool:
        """Take the promised room; False if there is none. Tasks above min leave first, and who overtook it; only for a
        drain everyone else on its nodes as well."""
        tasks, is_kept, place = it.reservation.tasks, True, 0
        moves, nobody = self._rooms.books.moves(it.job.profile, tasks), self._rooms.books.nothing
        assert len(moves) == TASK * len(tasks), f"{it.job.id} was promised nodes that are not here"
        may = self._rooms.books.of(self._leavers.who_may_leave_for(it))
        while (place := self._take(moves, place, len(tasks), may if self._spare is None else nobody)) < len(tasks):
            task = tasks[place]
            if self._spare is not None and self._sheds_one(self._spare, task.node, it.due_ms):
                continue
            if self._spare is None or self._take(moves, place, place + 1, may) == place:
                is_kept = False
                # nobody else may have the room, but more cannot be said
                self._rooms.take(task.node, it.job.profile.group(task.group), task.devices)
            place += 1
        return is_kept

    def _take(self, moves: Cells, begin: int, end: int, may: Cells) -> int:
        """Tasks from one place to another take their room, whoever must leave for them; up to where they could."""
        leavers = self._leavers
        return self._rooms.take_while(moves, begin, end, leavers.moves, leavers.lasts, may, self._is_gone)

    def _sheds_one(self, spare_on: SpareOn, node: str, start_ms: int) -> bool:
        """One more task above min is taken to be gone from the node by then; False if there is none left."""
        for spare in spare_on(node, start_ms):
            row = None if spare in self.shed else self._row_with(spare)
            if row is not None:
                self.shed[spare] = None
                move = self._rooms.books.move(node, spare.group, spare.task.devices)
                self._leavers = self._leavers.without(row, move)
                self._rooms.give(node, spare.group, spare.task.devices)
                return True
        return False

    def _row_with(self, spare: Spare) -> int | None:
        """The row of the attempt that has the task, if it was not evicted on this horizon."""
        rows = self._stays.rows_of([spare.job])
        has_it = rows and spare.task in self._stays.run(rows[0]).tasks
        return rows[0] if has_it else None
