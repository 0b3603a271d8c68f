"""The roll of queued jobs, in columns: what a turn reads of a million jobs without touching a million objects.

State keeps the roll as jobs come and go (queued_rows.py); the kernels of a turn read it and write nothing to it
(design.md 13). No job is kept as an object: it is made from its row when someone asks, equal to the one that came.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple
from weakref import ref

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.profiles import ShapeTable
from muster.engine.columns.queue_accounts import Carried
from muster.engine.columns.queued_rows import Lined, LineUp, Rest
from muster.engine.columns.sight import Sight
from muster.engine.columns.table import NONE
from muster.engine.kernels.filling import Roll as RollColumns
from muster.model.jobs import Job
from muster.model.resources import Weights
from muster.model.retries import NO_RETRIES
from muster.model.snapshot import Lane
from muster.model.width import FREEZING_MS, NORMAL

_LOOKS = 64
_ASKED = 256  # names at most of which most nobody needs any more
_LINE_UPS = 64  # at most: of so many pools
_LEFT = 1 << 16  # so many are remembered for those who have not read yet


class Traits(NamedTuple):
    """What decides, among jobs of one lane, who is freer to start."""

    known_ms: int | None
    lifetime_ms: int | None
    user: str


class Names:
    """The ids of the jobs in some rows as they are now, read when someone asks: most are never asked for."""

    def __init__(self, rows: Ints, ids: list[str | None], left: list[tuple[int, str]]) -> None:
        self._rows = rows
        self._ids = ids
        self._left, self._since = left, len(left)  # who has left the roll, and how many had already

    @property
    def are_read(self) -> bool:
        """Whether someone has asked: then it does not matter any more who leaves."""
        return "ids" in self.__dict__

    @cached_property
    def ids(self) -> list[str]:
        """One for each row."""
        ids, rows = self._ids, self._rows.tolist()
        if len(self._left) == self._since:
            return [ids[row] or "" for row in rows]
        left = dict(reversed(self._left[self._since :]))  # the first to leave a row is the one who was meant
        return [left.get(row) or ids[row] or "" for row in rows]


class Roll(Lined):
    """The queued jobs of all queues."""

    def __init__(self, by_time: bool = False) -> None:
        super().__init__(by_time)
        self._asked: list[ref[Names]] = []
        self._columns: tuple[tuple[int, int, int], RollColumns] | None = None
        self._shapes: ShapeTable | None = None
        self.carried = Carried()  # what queues hold, from turn to turn

    def __len__(self) -> int:
        return len(self.row_of)

    def sight(self) -> Sight[Roll]:
        """The roll as it is now, for a snapshot."""
        if len(self._asked) > _ASKED:
            self._asked = [each for each in self._asked if each() is not None]
        return Sight(self)

    def fork(self) -> Roll:
        """A copy that can go its own way."""
        other = object.__new__(Roll)
        other.__dict__.update(
            {name: part.copy() if hasattr(part, "copy") else part for name, part in self.__dict__.items()}
        )
        other._shapes, other._line_ups, other._moved, other._asked, other._left = None, {}, [], [], []
        other.carried, other._columns = Carried(), None
        return other

    # -- reading ---------------------------------------------------------------------------------------

    def columns(self) -> RollColumns:
        """The columns as they are now; they change with the roll."""
        epochs = (self._rows.epoch, self._lanes.epoch, self._heads.epoch)
        if self._columns is None or self._columns[0] != epochs:
            self._columns = (epochs, self._columns_now())
        return self._columns[1]

    def _columns_now(self) -> RollColumns:
        rows, lanes = self._rows.array, self._lanes.array
        return RollColumns(
            lane_queue=lanes("queue"),
            lane_profile=lanes("profile"),
            lane_class=lanes("priority_class"),
            lane_priority=lanes("priority"),
            lane_attained=lanes("attained"),
            lane_first=lanes("first"),
            lane_next=lanes("next"),
            lane_count=lanes("count"),
            lane_shortest=lanes("shortest"),
            lane_asks=lanes("asks"),
            queue_lane=self._heads.array("lane"),
            submit=rows("submit"),
            rank=rows("rank"),
            lifetime=rows("lifetime"),
            known=rows("known"),
            user=rows("user"),
            next=rows("next"),
        )

    def queues_in_line(self) -> list[bool]:
        """By number, whether a queue has queued jobs."""
        in_line: list[bool] = (self.columns().queue_lane[: len(self.queues)] != NONE).tolist()
        return in_line

    def job(self, row: int) -> Job:
        """The job in that row. Who is asked for once is asked for again soon, so it is kept until it leaves."""
        job = self._made.get(row)
        if job is None:
            job = self._made[row] = self._make(row)
        return job

    def _make(self, row: int) -> Job:
        job_id, rest = self.ids[row], self._rest.get(row)
        rows, lanes = self._rows.cells, self._lanes.cells
        assert job_id is not None, f"row {row} is empty"
        if (whole := self._whole.get(row)) is not None:
            return replace(whole, id=job_id, submit_ms=rows["submit"][row], number=rows["number"][row])
        lane, (known_ms, lifetime_ms, user) = rows["lane"][row], self._traits(row)
        if rest is None:
            rest = Rest("", known_ms, None, NO_RETRIES, (), NORMAL, FREEZING_MS)
        return Job(
            id=job_id,
            queue=self.queues.names[lanes["queue"][lane]],
            profile=self.profiles.names[lanes["profile"][lane]],
            submit_ms=rows["submit"][row],
            number=rows["number"][row],
            user=user,
            job_set=rest.job_set,
            priority_class=lanes["priority_class"][lane],
            priority=lanes["priority"][lane],
            lifetime_ms=lifetime_ms,
            expected_ms=rest.expected_ms,
            time_limit_ms=rest.time_limit_ms,
            retries=rest.retries,
            after=rest.after,
            level=rest.level,
            freezing_ms=rest.freezing_ms,
            attained=lanes["attained"][lane],
        )

    def lanes_of(self, queue: str) -> tuple[Lane, ...]:
        """The lanes of a queue as values."""
        if queue not in self.queues:
            return ()
        lane, lanes, found = self._heads.cells["lane"][self.queues[queue]], self._lanes.cells, []
        while lane != NONE:
            jobs = tuple(self._made.get(row) or self._make(row) for row in self._rows_of(lane))
            found.append(Lane(profile=self.profiles.names[lanes["profile"][lane]], jobs=jobs))
            lane = lanes["next"][lane]
        return tuple(found)

    def shapes(self, weights: Weights) -> ShapeTable:
        """What its profiles ask for."""
        if self._shapes is None or self._shapes.weights != weights:
            self._shapes = ShapeTable(self.profiles, weights)
        self._shapes.catch_up()
        return self._shapes

    def has_one_before(self, job: Job, is_as_free: Callable[[Traits], bool]) -> bool:
        """Whether some of the first in the job's lane, were it to join, stands before it and is as free to start."""
        if job.queue not in self.queues or job.profile not in self.profiles:
            return False
        key = (self.queues[job.queue], self.profiles[job.profile], *self._apart(job))
        if key not in self._lane_of:
            return False
        first = islice(self._rows_of(self._lane_of[key]), _LOOKS)
        return any(self._is_before(row, job) and is_as_free(self._traits(row)) for row in first)

    def names_in(self, rows: Ints) -> Names:
        """The ids of the jobs in these rows, as they are now."""
        self.forget_leavers()
        names = Names(rows, self.ids, self._left)
        self._asked.append(ref(names))
        return names

    def forget_leavers(self) -> None:
        """Nobody who asked for names still needs to know who left; if it is very many, they read what they asked for.

        Pools that are decided beside each other ask at the same time: then nobody has left since this was done.
        """
        if not self._left:
            return
        unread = [names for each in self._asked if (names := each()) is not None and not names.are_read]
        if not unread or len(self._left) > _LEFT:
            for names in unread:
                _ = names.ids
            self._asked, self._left = [], []

    def lined_up(self, whose: Hashable, how: Hashable) -> tuple[tuple[Ints, ...], Ints] | None:
        """How lanes stood in line when a turn began, not to be changed; and which have another first job since."""
        known = self._line_ups.get(whose)
        if known is None or known.how != how:
            return None
        return known.lines, np.array(self._moved[known.since :], np.int64)

    def line_up(self, whose: Hashable, how: Hashable, lines: tuple[Ints, ...]) -> None:
        """This is how lanes stand in line when a turn begins."""
        self._line_ups.pop(whose, None)
        if not self._line_ups or len(self._line_ups) >= _LINE_UPS:
            self._forget_line_ups()
        self._line_ups[whose] = LineUp(how, len(self._moved), lines)

    def lanes_in(self, rows: Ints) -> Ints:
        """The lanes that rows stand in."""
        return self._rows.array("lane")[rows].astype(np.int64)

    def waiting_with(self) -> Ints:
        """How many queued jobs have each profile."""
        return self._waiting.array("count")

    def in_line(self) -> list[tuple[int, int, int]]:
        """How many stand in line by queue and profile, both as numbers; costs what there are lanes."""
        lanes, size, many = self._lanes.array, len(self._lanes), max(len(self.profiles), 1)
        used = np.flatnonzero(lanes("count")[:size] > 0)
        keys, where = np.unique(lanes("queue")[used] * many + lanes("profile")[used], return_inverse=True)
        counts = np.bincount(where, weights=lanes("count")[used], minlength=len(keys)).astype(np.int64)
        return list(zip((keys // many).tolist(), (keys % many).tolist(), counts.tolist(), strict=True))

    def kind_of(self, job: str) -> tuple[int, int] | None:
        """The numbers of the queue and the profile of a job, if it stands in line."""
        row = self.row_of.get(job)
        if row is None:
            return None
        lane, lanes = self._rows.cells["lane"][row], self._lanes.cells
        return lanes["queue"][lane], lanes["profile"][lane]

    def _traits(self, row: int) -> Traits:
        rows = self._rows.cells
        known_ms, lifetime_ms = rows["known"][row], rows["lifetime"][row]
        return Traits(
            None if known_ms == NONE else known_ms,
            None if lifetime_ms == NONE else lifetime_ms,
            self.users.names[rows["user"][row]],
        )
