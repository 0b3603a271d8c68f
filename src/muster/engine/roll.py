"""The roll of queued jobs, in columns: what a turn reads of a million jobs without touching a million objects.

One row per job; a lane links the rows of one queue with the same profile, class and priority, oldest first; where run
times decide who comes first, of the same run time too, and always of the same service attained: so the first of a lane
is never behind its others. State
keeps the roll as jobs come and go; the kernels of a turn read it and write nothing to it (design.md 13). No job is
kept as an object: it is made from its row when someone asks, equal to the one that came.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from itertools import islice
from typing import NamedTuple
from weakref import ref

import numpy as np

from muster.engine.carried import Carried
from muster.engine.columns import Columns, Sight
from muster.engine.kernels.filling import Roll as RollColumns
from muster.engine.numbers import Numbers
from muster.engine.shapes import Ints, ShapeTable
from muster.engine.table import NONE, Table
from muster.model.after import After
from muster.model.jobs import Job, Profile
from muster.model.names import NameKey, name_key
from muster.model.resources import Weights
from muster.model.retries import NO_RETRIES, Retries
from muster.model.snapshot import Lane, Snapshot
from muster.model.width import FREEZING_MS, NORMAL

RANK_STEP = 1 << 20
_LOOKS = 64
_ASKED = 256  # names at most of which most nobody needs any more
_MOMENTS = 64  # at which jobs came out of order, to be put in order at once
_LEFT = 1 << 16  # so many are remembered for those who have not read yet


class Traits(NamedTuple):
    """What decides, among jobs of one lane, who is freer to start."""

    known_ms: int | None
    lifetime_ms: int | None
    user: str


class _Rest(NamedTuple):
    """What few jobs have, and no decision about a queued job needs."""

    job_set: str
    expected_ms: int | None
    time_limit_ms: int | None
    retries: Retries
    after: tuple[After, ...]
    level: int
    freezing_ms: int


class Names:
    """The ids of the jobs in some rows as they are now, read when someone asks: most are never asked for."""

    def __init__(self, rows: Ints, roll: Roll, left: list[tuple[int, str]]) -> None:
        self._rows = rows
        self._roll = roll
        self._left, self._since = left, len(left)  # who has left the roll, and how many had already

    @property
    def are_read(self) -> bool:
        """Whether someone has asked: then it does not matter any more who leaves."""
        return "ids" in self.__dict__

    @cached_property
    def ids(self) -> list[str]:
        """One for each row."""
        ids, rows = self._roll.ids, self._rows.tolist()
        if len(self._left) == self._since:
            return [ids[row] or "" for row in rows]
        left = dict(reversed(self._left[self._since :]))  # the first to leave a row is the one who was meant
        return [left.get(row) or ids[row] or "" for row in rows]


class Roll:
    """The queued jobs of all queues. `version` changes with every job that comes or goes, `mix` with their profiles."""

    def __init__(self, by_time: bool = False) -> None:
        self.version = 0
        self._by_time = by_time
        self.mix = 0
        self.row_of: dict[str, int] = {}
        self.ids: list[str | None] = []
        self._rest: dict[int, _Rest] = {}
        self._made: dict[int, Job] = {}
        self.profiles = Numbers[Profile]()
        self.queues = Numbers[str]()
        self.users = Numbers[str]()
        self._lane_of: dict[tuple[int, int, int, int, int, int], int] = {}
        self._free_rows: list[int] = []
        self._free_lanes: list[int] = []
        self._rows = Table(
            *("submit", "rank", "lifetime", "known", "user", "next", "number"),
            narrow=("previous", "lane"),
            side_by_side=True,
        )
        self._lanes = Table(
            "queue",
            "profile",
            "priority_class",
            "priority",
            "pace",
            "attained",
            "first",
            "last",
            "next",
            "previous",
            "count",
        )
        self._heads = Table("lane")
        self._waiting = Table("count")  # by profile
        self._run: tuple[int, int, NameKey, int] = (NONE, NONE, name_key(""), 0)  # who came in order last, and its rank
        self._asked: list[ref[Names]] = []
        self._left: list[tuple[int, str]] = []
        self._newest = NONE
        self._columns: tuple[tuple[int, int, int], RollColumns] | None = None
        self._lined_up: tuple[int, dict[Hashable, tuple[Ints, ...]]] = (NONE, {})
        self._shapes: ShapeTable | None = None
        self.carried = Carried()  # what queues hold, from turn to turn

    @classmethod
    def of(cls, snapshot: Snapshot) -> Roll:
        """The roll of a snapshot's queued jobs: the one state keeps, or made from values if that has moved on."""
        columns = snapshot.columns
        if isinstance(columns, Columns) and (kept := columns.roll.seen()) is not None:
            return kept
        roll = cls(snapshot.policy.order.reads_time)
        for job in (*(run.job for run in snapshot.running), *(pending.job for pending in snapshot.pending)):
            roll.profiles.number(job.profile)
        jobs = [job for state in snapshot.queues for lane in state.lanes for job in lane.jobs]
        for job in sorted(jobs, key=lambda job: (job.submit_ms, job.number, job.key)):
            roll.add(job)
        return roll

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
        other._shapes, other._lined_up, other._asked, other._left = None, (NONE, {}), [], []
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
            queue_lane=self._heads.array("lane"),
            submit=rows("submit"),
            rank=rows("rank"),
            lifetime=rows("lifetime"),
            known=rows("known"),
            user=rows("user"),
            next=rows("next"),
        )

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
        lane, (known_ms, lifetime_ms, user) = rows["lane"][row], self._traits(row)
        if rest is None:
            rest = _Rest("", known_ms, None, NO_RETRIES, (), NORMAL, FREEZING_MS)
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
        names = Names(rows, self, self._left)
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

    def lined_up(self, how: Hashable) -> tuple[Ints, ...] | None:
        """How lanes stood in line when a turn began, if nothing has changed since; not to be changed."""
        version, known = self._lined_up
        return known.get(how) if version == self.version else None

    def line_up(self, how: Hashable, lines: tuple[Ints, ...]) -> None:
        """This is how lanes stand in line when a turn begins."""
        if self._lined_up[0] != self.version:
            self._lined_up = (self.version, {})
        self._lined_up[1][how] = lines

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

    def _is_before(self, row: int, job: Job) -> bool:
        """Whether the job in that row is older; of one age, their numbers decide, then their names."""
        rows, job_id = self._rows.cells, self.ids[row]
        age, own = (rows["submit"][row], rows["number"][row]), (job.submit_ms, job.number)
        return age < own or (age == own and job_id is not None and name_key(job_id) < job.key)

    def _rows_of(self, lane: int) -> Iterator[int]:
        row, following = self._lanes.cells["first"][lane], self._rows.cells["next"]
        while row != NONE:
            yield row
            row = following[row]

    # -- writing ---------------------------------------------------------------------------------------

    def queue_number(self, name: str) -> int:
        """The number of a queue, a new one if it had none."""
        number = self.queues.number(name)
        while number >= len(self._heads):
            self._heads.grow()
            self._lined_up = (NONE, {})  # a queue without jobs has its place in line too
        return number

    def add(self, job: Job) -> None:
        """A job stands in line."""
        self.version += 1
        lane = self._lane(job)
        row = self._free_rows.pop() if self._free_rows else self._rows.grow()
        if row == len(self.ids):
            self.ids.append(job.id)
        else:
            self.ids[row] = job.id
        self.row_of[job.id] = row
        rows, known_ms = self._rows.cells, job.known_ms
        rows["submit"][row] = job.submit_ms
        rows["rank"][row] = self._rank(job)
        rows["number"][row] = job.number
        rows["lifetime"][row] = NONE if job.lifetime_ms is None else job.lifetime_ms
        rows["known"][row] = NONE if known_ms is None else known_ms
        rows["user"][row] = self.users.number(job.user)
        rows["lane"][row] = lane
        if job.job_set or job.time_limit_ms is not None or job.retries != NO_RETRIES or job.after or _is_special(job):
            self._rest[row] = _Rest(
                job.job_set, job.expected_ms, job.time_limit_ms, job.retries, job.after, job.level, job.freezing_ms
            )
        self._link(row, lane, self._before(job, lane))
        self._count(self._lanes.cells["profile"][lane], 1)

    def remove(self, job_id: str) -> None:
        """A job left the line."""
        self.version += 1
        row = self.row_of.pop(job_id)
        self._left.append((row, job_id))
        rows, lanes = self._rows.cells, self._lanes.cells
        lane, previous, following = rows["lane"][row], rows["previous"][row], rows["next"][row]
        (rows["next"] if previous != NONE else lanes["first"])[previous if previous != NONE else lane] = following
        (rows["previous"] if following != NONE else lanes["last"])[following if following != NONE else lane] = previous
        self.ids[row] = None
        self._rest.pop(row, None)
        self._made.pop(row, None)
        self._free_rows.append(row)
        self._count(lanes["profile"][lane], -1)
        lanes["count"][lane] -= 1
        if not lanes["count"][lane]:
            self._close(lane)

    def _count(self, profile: int, change: int) -> None:
        """So many more (or, below zero, less) wait with a profile."""
        waiting = self._waiting.cells["count"]
        before = waiting[profile]
        waiting[profile] = before + change
        if not before or not before + change:
            self.mix += 1

    def rank_those_of(self, submit_ms: int) -> None:
        """Work out the order, by number and name, of all jobs submitted at one moment."""
        self._lined_up = (NONE, {})
        rows = np.flatnonzero(self._rows.array("submit")[: len(self._rows)] == submit_ms).tolist()
        numbers = self._rows.cells["number"]
        found = [(numbers[row], name_key(job_id), row) for row in rows if (job_id := self.ids[row]) is not None]
        for place, (_, _, row) in enumerate(sorted(found), 1):
            self._rows.cells["rank"][row] = place * RANK_STEP

    def rank_all(self) -> bool:
        """Work out the order of all jobs of one moment before it is asked for, if that is not too much; whether it was
        not. Ranks may change on the way: nobody else may read them meanwhile."""
        rows = np.flatnonzero(self._rows.array("rank")[: len(self._rows)] == 0).tolist()
        submitted = self._rows.cells["submit"]
        moments = {submitted[row] for row in rows if self.ids[row] is not None}
        if len(moments) > _MOMENTS:
            return False
        for submit_ms in moments:
            self.rank_those_of(submit_ms)
        return True

    def _rank(self, job: Job) -> int:
        """Jobs that come in order get their rank at once; others when it is first asked for."""
        submit_ms, number, last, rank = self._run
        if job.submit_ms > self._newest:
            self._newest, rank = job.submit_ms, 0
        elif job.submit_ms != submit_ms or not _is_next(job, number, last):
            return 0
        self._run = (job.submit_ms, job.number, job.key, rank + RANK_STEP)
        return rank + RANK_STEP

    def _before(self, job: Job, lane: int) -> int:
        """The row of the lane after which the job stands."""
        last = self._lanes.cells["last"][lane]
        if last == NONE or self._is_before(last, job):
            return last
        before = NONE
        for row in self._rows_of(lane):  # who comes back is old, and stands near the front
            if not self._is_before(row, job):
                break
            before = row
        return before

    def _link(self, row: int, lane: int, before: int) -> None:
        rows, lanes = self._rows.cells, self._lanes.cells
        following = rows["next"][before] if before != NONE else lanes["first"][lane]
        rows["previous"][row], rows["next"][row] = before, following
        (rows["next"] if before != NONE else lanes["first"])[before if before != NONE else lane] = row
        (rows["previous"] if following != NONE else lanes["last"])[following if following != NONE else lane] = row
        lanes["count"][lane] += 1

    def _lane(self, job: Job) -> int:
        queue, profile = self.queue_number(job.queue), self.profiles.number(job.profile)
        while profile >= len(self._waiting):
            new = self._waiting.grow()
            self._waiting.cells["count"][new] = 0
        key = (queue, profile, *self._apart(job))
        if key in self._lane_of:
            return self._lane_of[key]
        lane = self._lane_of[key] = self._free_lanes.pop() if self._free_lanes else self._lanes.grow()
        lanes = self._lanes.cells
        lanes["queue"][lane], lanes["profile"][lane] = queue, profile
        _, _, lanes["priority_class"][lane], lanes["priority"][lane], lanes["pace"][lane], lanes["attained"][lane] = key
        lanes["first"][lane] = lanes["last"][lane] = lanes["previous"][lane] = NONE
        lanes["count"][lane] = 0
        following = self._heads.cells["lane"][queue]
        lanes["next"][lane] = following
        if following != NONE:
            lanes["previous"][following] = lane
        self._heads.cells["lane"][queue] = lane
        return lane

    def _apart(self, job: Job) -> tuple[int, int, int, int]:
        """What tells lanes apart beside queue and profile."""
        pace = NONE if not self._by_time or job.known_ms is None else job.known_ms
        return (job.priority_class, job.priority, pace, job.attained)

    def _close(self, lane: int) -> None:
        """An empty lane is taken out of its queue."""
        lanes = self._lanes.cells
        previous, following = lanes["previous"][lane], lanes["next"][lane]
        if previous != NONE:
            lanes["next"][previous] = following
        else:
            self._heads.cells["lane"][lanes["queue"][lane]] = following
        if following != NONE:
            lanes["previous"][following] = previous
        queue, profile, pace, attained = (lanes[name][lane] for name in ("queue", "profile", "pace", "attained"))
        del self._lane_of[queue, profile, lanes["priority_class"][lane], lanes["priority"][lane], pace, attained]
        self._free_lanes.append(lane)


def _is_next(job: Job, number: int, last: NameKey) -> bool:
    """Whether the job comes behind one of its moment that has this number and name."""
    return job.number > number or (job.number == number and job.key > last)


def _is_special(job: Job) -> bool:
    """Whether its width is served otherwise than most."""
    return job.level != NORMAL or job.freezing_ms != FREEZING_MS
