"""Who stands in which lane: rows and lanes as jobs come and go. What a turn reads of them: queued_jobs.py.

One row per job. A lane links the rows of one queue with the same profile, class and priority, oldest first; where run
times decide who comes first, of the same run time too, and always of the same service attained: so the first of a lane
is never behind its others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.bulk import Crowd
from muster.engine.columns.known import asks_planner
from muster.engine.columns.numbering import Numbers
from muster.engine.columns.table import NONE, Table
from muster.model.after import After
from muster.model.jobs import NEVER_MS, Job, Profile
from muster.model.names import NameKey, name_key
from muster.model.retries import NO_RETRIES, Retries
from muster.model.width import FREEZING_MS, NORMAL

RANK_STEP = 1 << 20
_MOST_MADE = 16_384  # jobs that are kept as they came: a million are not
_MOST_MOVED = 1 << 16  # lanes, before it is not worth to know which
_APART = ("priority_class", "priority", "pace", "attained", "asks")  # what tells lanes apart beside queue and profile
_MOMENTS = 64  # at which jobs came out of order, to be put in order at once


class Rest(NamedTuple):
    """What few jobs have, and no decision about a queued job needs."""

    job_set: str
    expected_ms: int | None
    time_limit_ms: int | None
    retries: Retries
    after: tuple[After, ...]
    level: int
    freezing_ms: int


class LineUp(NamedTuple):
    """How the lanes of a pool stood in line when a turn began, by which rules, after how many of them moved."""

    how: Hashable
    since: int
    lines: tuple[Ints, ...]


class Lined:
    """All queued jobs. `version` changes with every job that comes or goes, `mix` with their profiles."""

    def __init__(self, by_time: bool = False) -> None:
        self.version = 0
        self._by_time = by_time
        self.mix = 0
        self.row_of: dict[str, int] = {}
        self.ids: list[str | None] = []
        self._rest: dict[int, Rest] = {}
        self._whole: dict[int, Job] = {}  # jobs of which these columns do not say all, or jobs that they are like
        self._made: dict[int, Job] = {}
        self.profiles = Numbers[Profile]()
        self.queues = Numbers[str]()
        self.users = Numbers[str]()
        self._lane_of: dict[tuple[int, int, int, int, int, int, int], int] = {}
        self._are_ranked = True  # all of them: none has a rank that is to be worked out
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
            "shortest",
            "asks",
        )
        self._heads = Table("lane")
        self._waiting = Table("count")  # by profile
        self._run: tuple[int, int, NameKey, int] = (NONE, NONE, name_key(""), 0)  # who came in order last, and its rank
        self._left: list[tuple[int, str]] = []
        self._newest = NONE
        self.classes: set[int] = set()  # that jobs ever had, here or where they run
        # Whether any ever had a lifetime or tasks above min: who has neither gives way to higher classes only.
        self.has_givers = False
        self.asks_planner = False  # whether a rule that only the planner applies may ever have held for any
        self.to_come = 0  # jobs that are known to come, these included: it tells which kernels are worth their while
        self._line_ups: dict[Hashable, LineUp] = {}
        self._moved: list[int] = []  # lanes with another first job, one after the other

    def queue_number(self, name: str) -> int:
        """The number of a queue, a new one if it had none."""
        number = self.queues.number(name)
        while number >= len(self._heads):
            self._heads.grow()
            self._forget_line_ups()  # a queue without jobs has its place in line too
        return number

    def note(self, job: Job) -> None:
        """There is a job like this, here or elsewhere."""
        self.classes.add(job.priority_class)
        self.has_givers = self.has_givers or job.lifetime_ms is not None or job.profile.is_elastic
        self.asks_planner = self.asks_planner or asks_planner(job)

    def add(self, job: Job) -> None:
        """A job stands in line."""
        self.version += 1
        self.note(job)
        lane = self._lane(job)
        row = self._free_rows.pop() if self._free_rows else self._rows.grow()
        if row == len(self.ids):
            self.ids.append(job.id)
        else:
            self.ids[row] = job.id
        self.row_of[job.id] = row
        rows, known_ms = self._rows.cells, job.known_ms
        rows["submit"][row] = job.submit_ms
        rows["rank"][row] = rank = self._rank(job)
        self._are_ranked &= rank > 0
        rows["number"][row] = job.number
        rows["lifetime"][row] = NONE if job.lifetime_ms is None else job.lifetime_ms
        rows["known"][row] = NONE if known_ms is None else known_ms
        rows["user"][row] = self.users.number(job.user)
        rows["lane"][row] = lane
        if (rest := _rest_of(job)) is not None:
            self._rest[row] = rest
        if asks_planner(job):
            self._whole[row] = job
        if len(self._made) < _MOST_MADE:  # most likely it starts soon, and is asked for then
            self._made[row] = job
        shortest = self._lanes.cells["shortest"]
        shortest[lane] = min(shortest[lane], _shortest(known_ms, job.lifetime_ms))
        self._link(row, lane, self._before(job, lane))
        self._count(self._lanes.cells["profile"][lane], 1)

    def add_all(self, crowd: Crowd) -> None:
        """Many stand in line: as if each had been added by itself, for a fraction of the time."""
        self.version += 1
        order, size = crowd.oldest_first(), len(crowd)
        first = self._rows.grow(size)
        rows = np.arange(first, first + size)
        ids = [crowd.ids[place] for place in order.tolist()]
        self.ids += ids
        self.row_of.update(zip(ids, rows.tolist(), strict=True))
        like = np.array(crowd.like)[order]
        submit_ms, numbers = np.array(crowd.submit_ms)[order], np.array(crowd.numbers)[order]
        for name, cells in self._of_likes(crowd, like).items():
            self._rows.array(name)[rows] = cells[like]
        self._rows.array("submit")[rows] = submit_ms
        self._rows.array("number")[rows] = numbers
        self._rows.array("rank")[rows] = ranks = self._ranks(submit_ms)
        self._are_ranked &= bool(ranks.all())
        if submit_ms[-1] > self._newest:
            self._newest = int(submit_ms[-1])
            rank = self._rows.cells["rank"][first + size - 1]
            self._run = (self._newest, int(numbers[-1]), name_key(ids[-1]), rank)
        for job in crowd.likes:
            self.note(job)
        rests = [_rest_of(job) for job in crowd.likes]
        are_rich = np.array([rest is not None for rest in rests])[like]
        for row, one in zip(rows[are_rich].tolist(), like[are_rich].tolist(), strict=True):
            self._rest[row] = cast(Rest, rests[one])
        are_whole = np.array([asks_planner(job) for job in crowd.likes])[like]
        for row, one in zip(rows[are_whole].tolist(), like[are_whole].tolist(), strict=True):
            self._whole[row] = crowd.likes[one]
        self._link_all(rows, self._rows.array("lane")[rows])

    def _of_likes(self, crowd: Crowd, like: Ints) -> dict[str, Ints]:
        """What a row says of jobs that are like another, by number."""
        used = set(np.unique(like).tolist())  # a lane is only made for someone who is to stand in it
        lifetimes, known = ([getattr(job, name) for job in crowd.likes] for name in ("lifetime_ms", "known_ms"))
        return {
            "lane": np.array([self._lane(job) if number in used else NONE for number, job in enumerate(crowd.likes)]),
            "lifetime": np.array([NONE if ms is None else ms for ms in lifetimes]),
            "known": np.array([NONE if ms is None else ms for ms in known]),
            "user": np.array([self.users.number(job.user) for job in crowd.likes]),
        }

    def _ranks(self, submit_ms: Ints) -> Ints:
        """The ranks of jobs in order of age: of each moment from the first on, if nobody of that moment came before."""
        places = np.arange(len(submit_ms))
        begins = np.flatnonzero(np.diff(submit_ms, prepend=submit_ms[0] - 1))
        ranks = (places - np.repeat(begins, np.diff(begins, append=len(places))) + 1) * RANK_STEP
        return np.where(submit_ms > self._newest, ranks, 0)

    def _link_all(self, rows: Ints, lanes: Ints) -> None:
        """Rows, oldest first, stand in these lanes from now on."""
        by_lane = np.argsort(lanes, kind="stable")
        rows, lanes = rows[by_lane], lanes[by_lane]
        ends = np.flatnonzero(np.diff(lanes, append=NONE)) + 1
        self._rows.array("next")[rows] = np.append(rows[1:], NONE)
        self._rows.array("previous")[rows] = np.append(NONE, rows[:-1])
        known, lifetime = self._rows.array("known")[rows], self._rows.array("lifetime")[rows]
        bounds = np.where(known != NONE, known, np.where(lifetime != NONE, np.maximum(lifetime, 1), NEVER_MS))
        begin, cells = 0, self._lanes.cells
        for end in ends.tolist():
            lane = int(lanes[begin])
            cells["shortest"][lane] = min(cells["shortest"][lane], int(bounds[begin:end].min()))
            self._append(lane, int(rows[begin]), int(rows[end - 1]))
            cells["count"][lane] += end - begin
            self._count(cells["profile"][lane], end - begin)
            begin = end

    def _append(self, lane: int, first: int, last: int) -> None:
        """A chain of rows, oldest first, joins a lane; most often at its end."""
        rows, lanes = self._rows.cells, self._lanes.cells
        rows["next"][last] = rows["previous"][first] = NONE
        before = lanes["last"][lane]
        if before != NONE and self._age(first) < self._age(before):
            both = sorted((*self._rows_of(lane), *self._chain(first)), key=self._age)
            for one, following in pairwise(both):
                rows["next"][one], rows["previous"][following] = following, one
            before, first, last = NONE, both[0], both[-1]
            rows["next"][last] = rows["previous"][first] = NONE
        if before == NONE:
            self._note_moved(lane)
        (rows["next"] if before != NONE else lanes["first"])[before if before != NONE else lane] = first
        rows["previous"][first] = before
        lanes["last"][lane] = last

    def remove(self, job_id: str) -> None:
        """A job left the line."""
        self.version += 1
        row = self.row_of.pop(job_id)
        self._left.append((row, job_id))
        rows, lanes = self._rows.cells, self._lanes.cells
        lane, previous, following = rows["lane"][row], rows["previous"][row], rows["next"][row]
        if previous == NONE:
            self._note_moved(lane)
        (rows["next"] if previous != NONE else lanes["first"])[previous if previous != NONE else lane] = following
        (rows["previous"] if following != NONE else lanes["last"])[following if following != NONE else lane] = previous
        self.ids[row] = None
        self._rest.pop(row, None)
        self._whole.pop(row, None)
        self._made.pop(row, None)
        self._free_rows.append(row)
        self._count(lanes["profile"][lane], -1)
        lanes["count"][lane] -= 1
        if not lanes["count"][lane]:
            self._close(lane)

    def _note_moved(self, lane: int) -> None:
        """The lane has another first job than before."""
        if self._line_ups:
            self._moved.append(lane)
            if len(self._moved) > _MOST_MOVED:
                self._forget_line_ups()

    def _forget_line_ups(self) -> None:
        self._line_ups.clear()
        self._moved.clear()

    def _count(self, profile: int, change: int) -> None:
        """So many more (or, below zero, less) wait with a profile."""
        waiting = self._waiting.cells["count"]
        before = waiting[profile]
        waiting[profile] = before + change
        if not before or not before + change:
            self.mix += 1

    def rank_those_of(self, submit_ms: int) -> None:
        """Work out the order, by number and name, of all jobs submitted at one moment."""
        self._forget_line_ups()
        rows = np.flatnonzero(self._rows.array("submit")[: len(self._rows)] == submit_ms).tolist()
        numbers = self._rows.cells["number"]
        found = [(numbers[row], name_key(job_id), row) for row in rows if (job_id := self.ids[row]) is not None]
        for place, (_, _, row) in enumerate(sorted(found), 1):
            self._rows.cells["rank"][row] = place * RANK_STEP

    def rank_all(self) -> bool:
        """Work out the order of all jobs of one moment before it is asked for, if that is not too much; whether it was
        not. Ranks may change on the way: nobody else may read them meanwhile."""
        if self._are_ranked:
            return True
        rows = np.flatnonzero(self._rows.array("rank")[: len(self._rows)] == 0).tolist()
        submitted = self._rows.cells["submit"]
        moments = {submitted[row] for row in rows if self.ids[row] is not None}
        if len(moments) > _MOMENTS:
            return False
        for submit_ms in moments:
            self.rank_those_of(submit_ms)
        self._are_ranked = True
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
        if before == NONE:
            self._note_moved(lane)
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
        self._forget_line_ups()  # it has no place in them
        lane = self._lane_of[key] = self._free_lanes.pop() if self._free_lanes else self._lanes.grow()
        lanes = self._lanes.cells
        lanes["queue"][lane], lanes["profile"][lane] = queue, profile
        for name, value in zip(_APART, key[2:], strict=True):
            lanes[name][lane] = value
        lanes["first"][lane] = lanes["last"][lane] = lanes["previous"][lane] = NONE
        lanes["count"][lane] = 0
        lanes["shortest"][lane] = NEVER_MS
        following = self._heads.cells["lane"][queue]
        lanes["next"][lane] = following
        if following != NONE:
            lanes["previous"][following] = lane
        self._heads.cells["lane"][queue] = lane
        return lane

    def _apart(self, job: Job) -> tuple[int, int, int, int, int]:
        """What tells lanes apart beside queue and profile."""
        pace = NONE if not self._by_time or job.known_ms is None else job.known_ms
        return (job.priority_class, job.priority, pace, job.attained, int(asks_planner(job)))

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
        queue, profile, a, b, c, d, e = (lanes[name][lane] for name in ("queue", "profile", *_APART))
        del self._lane_of[queue, profile, a, b, c, d, e]
        self._free_lanes.append(lane)

    # -- looking -----------------------------------------------------------------------------------------

    def _is_before(self, row: int, job: Job) -> bool:
        """Whether the job in that row is older; of one age, their numbers decide, then their names."""
        rows, job_id = self._rows.cells, self.ids[row]
        age, own = (rows["submit"][row], rows["number"][row]), (job.submit_ms, job.number)
        return age < own or (age == own and job_id is not None and name_key(job_id) < job.key)

    def _age(self, row: int) -> tuple[int, int, NameKey]:
        rows = self._rows.cells
        return rows["submit"][row], rows["number"][row], name_key(self.ids[row] or "")

    def _rows_of(self, lane: int) -> Iterator[int]:
        return self._chain(self._lanes.cells["first"][lane])

    def _chain(self, row: int) -> Iterator[int]:
        following = self._rows.cells["next"]
        while row != NONE:
            yield row
            row = following[row]


def _is_next(job: Job, number: int, last: NameKey) -> bool:
    """Whether the job comes behind one of its moment that has this number and name."""
    return job.number > number or (job.number == number and job.key > last)


def _shortest(known_ms: int | None, lifetime_ms: int | None) -> int:
    """The least time a job may be said to be in the way."""
    if known_ms is not None:
        return known_ms
    return NEVER_MS if lifetime_ms is None else max(lifetime_ms, 1)


def _rest_of(job: Job) -> Rest | None:
    """What a job has that few have."""
    is_served_otherwise = job.level != NORMAL or job.freezing_ms != FREEZING_MS
    if job.job_set or job.time_limit_ms is not None or job.retries != NO_RETRIES or job.after or is_served_otherwise:
        return Rest(job.job_set, job.expected_ms, job.time_limit_ms, job.retries, job.after, job.level, job.freezing_ms)
    return None
