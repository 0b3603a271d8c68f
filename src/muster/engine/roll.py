"""The roll of queued jobs, in columns: what a turn reads of a million jobs without touching a million objects.

One row per job; a lane links the rows of one queue with the same profile, class and priority, oldest first. State
keeps the roll as jobs come and go; the kernels of a turn read it and write nothing to it (design.md 13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from muster.engine.columns import Columns, Sight
from muster.engine.numbers import Numbers
from muster.engine.shapes import Ints, ShapeTable
from muster.model.jobs import Job, Profile
from muster.model.resources import Weights
from muster.model.snapshot import Lane, Snapshot

NONE = -1
RANK_STEP = 1 << 20
_LOOKS = 64


class RollColumns(NamedTuple):
    """The columns of a roll. -1 stands for none: no lifetime, no known run time, no next row."""

    lane_queue: Ints
    lane_profile: Ints
    lane_class: Ints
    lane_priority: Ints
    lane_first: Ints
    lane_next: Ints  # the next lane of the same queue
    lane_count: Ints
    queue_lane: Ints  # the first lane of each queue
    submit: Ints
    rank: Ints  # order among jobs of one submit time; 0: not worked out yet
    lifetime: Ints
    known: Ints
    user: Ints
    next: Ints


class Roll:
    """The queued jobs of all queues. `version` changes with every job that comes or goes."""

    def __init__(self) -> None:
        self.version = 0
        self.jobs: list[Job | None] = []
        self.row_of: dict[str, int] = {}
        self.profiles = Numbers[Profile]()
        self.queues = Numbers[str]()
        self.users = Numbers[str]()
        self._lane_of: dict[tuple[int, int, int, int], int] = {}
        self._free_rows: list[int] = []
        self._free_lanes: list[int] = []
        self._rows = _Table("submit", "rank", "lifetime", "known", "user", "next", "previous", "lane")
        self._lanes = _Table(
            "queue", "profile", "priority_class", "priority", "first", "last", "next", "previous", "count"
        )
        self._heads = _Table("lane")
        self._waiting = _Table("count")  # by profile
        self._run: tuple[int, Any, int] = (NONE, None, 0)
        self._newest = NONE
        self._shapes: ShapeTable | None = None

    @classmethod
    def of(cls, snapshot: Snapshot) -> Roll:
        """The roll of a snapshot's queued jobs: the one state keeps, or made from values if that has moved on."""
        columns = snapshot.columns
        if isinstance(columns, Columns) and (kept := columns.roll.seen()) is not None:
            return kept
        roll = cls()
        for job in (*(run.job for run in snapshot.running), *(pending.job for pending in snapshot.pending)):
            roll.profiles.number(job.profile)
        jobs = [job for state in snapshot.queues for lane in state.lanes for job in lane.jobs]
        for job in sorted(jobs, key=lambda job: (job.submit_ms, job.key)):
            roll.add(job)
        return roll

    def __len__(self) -> int:
        return len(self.row_of)

    def sight(self) -> Sight[Roll]:
        """The roll as it is now, for a snapshot."""
        return Sight(self)

    def fork(self) -> Roll:
        """A copy that can go its own way."""
        other = object.__new__(Roll)
        other.__dict__.update(
            {name: part.copy() if hasattr(part, "copy") else part for name, part in self.__dict__.items()}
        )
        other._shapes = None
        return other

    # -- reading ---------------------------------------------------------------------------------------

    def columns(self) -> RollColumns:
        """The columns as they are now; they change with the roll."""
        rows, lanes = self._rows, self._lanes
        return RollColumns(
            lane_queue=lanes["queue"],
            lane_profile=lanes["profile"],
            lane_class=lanes["priority_class"],
            lane_priority=lanes["priority"],
            lane_first=lanes["first"],
            lane_next=lanes["next"],
            lane_count=lanes["count"],
            queue_lane=self._heads["lane"],
            submit=rows["submit"],
            rank=rows["rank"],
            lifetime=rows["lifetime"],
            known=rows["known"],
            user=rows["user"],
            next=rows["next"],
        )

    def job(self, row: int) -> Job:
        """The job in that row."""
        job = self.jobs[row]
        assert job is not None, f"row {row} is empty"
        return job

    def lanes_of(self, queue: str) -> tuple[Lane, ...]:
        """The lanes of a queue as values."""
        if queue not in self.queues:
            return ()
        lane, lanes, found = int(self._heads["lane"][self.queues[queue]]), self._lanes, []
        while lane != NONE:
            jobs = tuple(self.job(row) for row in self._rows_of(lane))
            found.append(Lane(profile=self.profiles.names[lanes["profile"][lane]], jobs=jobs))
            lane = int(lanes["next"][lane])
        return tuple(found)

    def shapes(self, weights: Weights) -> ShapeTable:
        """What its profiles ask for."""
        if self._shapes is None or self._shapes.weights != weights:
            self._shapes = ShapeTable(self.profiles, weights)
        self._shapes.catch_up()
        return self._shapes

    def has_one_before(self, job: Job, is_as_free: Callable[[Job], bool]) -> bool:
        """Whether some of the first in the job's lane, were it to join, stands before it and is as free to start."""
        if job.queue not in self.queues or job.profile not in self.profiles:
            return False
        key = (self.queues[job.queue], self.profiles[job.profile], job.priority_class, job.priority)
        if key not in self._lane_of:
            return False
        first = (self.job(row) for row in islice(self._rows_of(self._lane_of[key]), _LOOKS))
        return any(_age(other) < _age(job) and is_as_free(other) for other in first)

    def ids_in(self, rows: Ints) -> list[str]:
        """The ids of the jobs in these rows."""
        return [self.job(row).id for row in rows.tolist()]

    def lanes_in(self, rows: Ints) -> Ints:
        """The lanes that rows stand in."""
        return self._rows["lane"][rows]

    def waiting_with(self) -> Ints:
        """How many queued jobs have each profile."""
        return self._waiting["count"]

    def _rows_of(self, lane: int) -> Iterator[int]:
        row = int(self._lanes["first"][lane])
        while row != NONE:
            yield row
            row = int(self._rows["next"][row])

    # -- writing ---------------------------------------------------------------------------------------

    def queue_number(self, name: str) -> int:
        """The number of a queue, a new one if it had none."""
        number = self.queues.number(name)
        while number >= len(self._heads):
            self._heads.grow()
        return number

    def add(self, job: Job) -> None:
        """A job stands in line."""
        self.version += 1
        lane = self._lane(job)
        row = self._free_rows.pop() if self._free_rows else self._rows.grow()
        if row == len(self.jobs):
            self.jobs.append(job)
        else:
            self.jobs[row] = job
        self.row_of[job.id] = row
        rows = self._rows
        rows["submit"][row] = job.submit_ms
        rows["rank"][row] = self._rank(job)
        rows["lifetime"][row] = NONE if job.lifetime_ms is None else job.lifetime_ms
        rows["known"][row] = NONE if job.known_ms is None else job.known_ms
        rows["user"][row] = self.users.number(job.user)
        rows["lane"][row] = lane
        self._link(row, lane, self._before(job, lane))
        self._waiting["count"][self._lanes["profile"][lane]] += 1

    def remove(self, job: Job) -> None:
        """A job left the line."""
        self.version += 1
        row = self.row_of.pop(job.id)
        rows, lanes = self._rows, self._lanes
        lane, previous, following = int(rows["lane"][row]), rows["previous"][row], rows["next"][row]
        (rows["next"] if previous != NONE else lanes["first"])[previous if previous != NONE else lane] = following
        (rows["previous"] if following != NONE else lanes["last"])[following if following != NONE else lane] = previous
        self.jobs[row] = None
        self._free_rows.append(row)
        self._waiting["count"][lanes["profile"][lane]] -= 1
        lanes["count"][lane] -= 1
        if not lanes["count"][lane]:
            self._close(lane)

    def rank_those_of(self, submit_ms: int) -> None:
        """Work out the order, by name, of all jobs submitted at one moment."""
        submits = self._rows["submit"]
        found = [int(row) for row in np.flatnonzero(submits == submit_ms) if self.jobs[row] is not None]
        found.sort(key=lambda row: self.job(row).key)
        for place, row in enumerate(found, 1):
            self._rows["rank"][row] = place * RANK_STEP

    def _rank(self, job: Job) -> int:
        """Jobs that come in order get their rank at once; others when it is first asked for."""
        submit_ms, key, rank = self._run
        if job.submit_ms > self._newest:
            self._newest = job.submit_ms
            self._run = (job.submit_ms, job.key, RANK_STEP)
        elif job.submit_ms == submit_ms and job.key > key:
            self._run = (submit_ms, job.key, rank + RANK_STEP)
        else:
            return 0
        return self._run[2]

    def _before(self, job: Job, lane: int) -> int:
        """The row of the lane after which the job stands."""
        last = int(self._lanes["last"][lane])
        age = (job.submit_ms, job.key)
        if last == NONE or _age(self.job(last)) < age:
            return last
        before = NONE
        for row in self._rows_of(lane):  # who comes back is old, and stands near the front
            if _age(self.job(row)) > age:
                break
            before = row
        return before

    def _link(self, row: int, lane: int, before: int) -> None:
        rows, lanes = self._rows, self._lanes
        following = rows["next"][before] if before != NONE else lanes["first"][lane]
        rows["previous"][row], rows["next"][row] = before, following
        (rows["next"] if before != NONE else lanes["first"])[before if before != NONE else lane] = row
        (rows["previous"] if following != NONE else lanes["last"])[following if following != NONE else lane] = row
        lanes["count"][lane] += 1

    def _lane(self, job: Job) -> int:
        queue, profile = self.queue_number(job.queue), self.profiles.number(job.profile)
        while profile >= len(self._waiting):
            new = self._waiting.grow()
            self._waiting["count"][new] = 0
        key = (queue, profile, job.priority_class, job.priority)
        if key in self._lane_of:
            return self._lane_of[key]
        lane = self._lane_of[key] = self._free_lanes.pop() if self._free_lanes else self._lanes.grow()
        lanes = self._lanes
        lanes["queue"][lane], lanes["profile"][lane] = queue, profile
        lanes["priority_class"][lane], lanes["priority"][lane] = job.priority_class, job.priority
        lanes["first"][lane] = lanes["last"][lane] = lanes["previous"][lane] = NONE
        lanes["count"][lane] = 0
        following = int(self._heads["lane"][queue])
        lanes["next"][lane] = following
        if following != NONE:
            lanes["previous"][following] = lane
        self._heads["lane"][queue] = lane
        return lane

    def _close(self, lane: int) -> None:
        """An empty lane is taken out of its queue."""
        lanes = self._lanes
        previous, following = int(lanes["previous"][lane]), int(lanes["next"][lane])
        if previous != NONE:
            lanes["next"][previous] = following
        else:
            self._heads["lane"][lanes["queue"][lane]] = following
        if following != NONE:
            lanes["previous"][following] = previous
        names = ("queue", "profile", "priority_class", "priority")
        queue, profile, priority_class, priority = (int(lanes[name][lane]) for name in names)
        del self._lane_of[queue, profile, priority_class, priority]
        self._free_lanes.append(lane)


def _age(job: Job) -> tuple[int, Any]:
    return (job.submit_ms, job.key)


class _Table:
    """Columns of one length that grow together. What is not written yet reads as none."""

    def __init__(self, *names: str) -> None:
        self._columns: dict[str, Ints] = {name: np.full(16, NONE, np.int64) for name in names}
        self._size = 0
        self._room = 16

    def __getitem__(self, name: str) -> Ints:
        return self._columns[name]

    def __len__(self) -> int:
        return self._size

    def grow(self) -> int:
        """A new row at the end."""
        if self._size == self._room:
            self._room *= 2
            for name, column in self._columns.items():
                self._columns[name] = np.full(self._room, NONE, np.int64)
                self._columns[name][: self._size] = column
        self._size += 1
        return self._size - 1

    def copy(self) -> _Table:
        """The same columns, to go on by themselves."""
        other = _Table()
        other._columns = {name: column.copy() for name, column in self._columns.items()}
        other._size, other._room = self._size, self._room
        return other
