"""Who runs while a turn goes on, and who of them may give way.

Those of the snapshot, which the turn only reads, and those it started itself; without those it evicted. A row is told
by one number: first come the rows of the snapshot's attempts, then the turn's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.engine.columns import running_jobs as runs
from muster.engine.columns.arrays import Ints
from muster.engine.columns.fleet_index import Grounds
from muster.engine.columns.running_jobs import RunTable
from muster.engine.columns.table import NONE
from muster.engine.ends import Leaving, Passed
from muster.engine.present import Flags
from muster.model.jobs import NEVER_MS, Job, Running

BORROWER = -NEVER_MS  # the class of whoever only borrows: lower than any


class Started(NamedTuple):
    """Jobs that filling started in one go, in columns: their rows of the roll, clusters and tasks (the place of the
    group in its profile, node and devices), of which each has those up to the next one's first."""

    rows: Ints
    clusters: Ints
    is_above: npt.NDArray[np.uint8]
    first_task: Ints
    tasks: Ints

    def many_tasks(self) -> Ints:
        """How many tasks each has."""
        many = np.empty_like(self.first_task)
        np.subtract(self.first_task[1:], self.first_task[:-1], out=many[:-1])
        if len(many):
            many[-1] = len(self.tasks) - self.first_task[-1]
        return many


class Givers(NamedTuple):
    """By queue: how many attempts may give way, and the lowest (class, priority) among them."""

    many: Ints
    lowest_class: Ints
    lowest_priority: Ints


_WORKED_OUT = ("ends", "_expiring", "givers", "_giving", "_gives", "movable", "lowest_class")


class Stays(Leaving):
    """The attempts that run, in the columns of columns.running_jobs; in a part of a fleet, those that are there."""

    def fork(self) -> Stays:
        """The same, to go on by themselves."""
        other = Stays(self.resident, self.roll, self.policy, self.now_ms, self.fleet, self.whole, self.borrowers)
        other.fresh, other._base, other._gone = self.fresh.copy(), self._base, set(self._gone)
        other.epoch, other.moves, other._found_on = self.epoch, self.moves, self._found_on
        kept = ("ends", "_expiring", "_giving", "movable", "lowest_class", "_gave_way")
        other.__dict__.update({name: part for name, part in self.__dict__.items() if name in kept})
        if "givers" in self.__dict__:
            other.givers = Givers(*(column.copy() for column in self.givers))
            other._gives = self._gives.copy()
        return other

    # -- coming and going ------------------------------------------------------------------------------

    def start(self, run: Running) -> int:
        """The turn starts a job, or what is left of one goes on; returns its row."""
        if run.started_ms == self.now_ms:
            self._forget_ends()
        else:
            self._forget()
        numbers, tasks = self.resident.numbers_of(run)
        row = self._base + self.fresh.add(run, numbers, tasks)
        if not self.borrowers.isdisjoint(self.resident.rows_of([run.job.id])):
            self.borrowers.add(row)  # what is left of one borrows on
        return row

    def start_all(self, started: Started, grounds: Grounds) -> None:
        """The turn starts many jobs."""
        self._forget_ends()
        columns, many = self.roll.columns(), len(started.rows)
        lanes, known = self.roll.lanes_in(started.rows), columns.known[started.rows]
        clusters, nodes = self.resident.numbers_on(grounds)
        cells = np.zeros((runs.COLUMNS, many), np.int64)
        cells[runs.QUEUE], cells[runs.PROFILE] = columns.lane_queue[lanes], columns.lane_profile[lanes]
        cells[runs.CLUSTER] = clusters[started.clusters]
        cells[runs.CLASS], cells[runs.PRIORITY] = columns.lane_class[lanes], columns.lane_priority[lanes]
        cells[runs.STARTED] = self.now_ms
        cells[runs.END] = np.where(known == NONE, NEVER_MS, self.now_ms + known)
        lifetime = columns.lifetime[started.rows]
        cells[runs.EXPIRES] = np.where(lifetime == NONE, NEVER_MS, self.now_ms + lifetime)
        cells[runs.CAME] = columns.submit[started.rows]
        cells[runs.FIRST] = started.first_task
        cells[runs.MANY] = started.many_tasks()
        tasks = np.zeros((len(started.tasks), runs.TASK_COLUMNS), np.int64)
        tasks[:, : runs.ABOVE] = started.tasks
        tasks[:, runs.NODE] = nodes[tasks[:, runs.NODE]]
        self.fresh.extend(cells, tasks, started.rows.tolist())

    def leave(self, row: int) -> None:
        """The attempt in this row is evicted."""
        self._gone.add(row)
        self._forget_ends()
        givers = self.givers  # as they were: the row still counts if it ever did
        if row < len(self._gives) and self._gives[row]:
            self._gives[row] = False
            givers.many[self.column(runs.QUEUE, np.array([row]))[0]] -= 1  # the lowest ranks stay: a hint

    def row_of(self, run: Running) -> int:
        """The row of an attempt."""
        known = self.resident.row_of(run)
        if known is not None and known not in self._gone:
            return known
        return self._base + next(row for row, who in enumerate(self.fresh.who) if who is run)

    def _forget(self) -> None:
        self.epoch += 1
        self.moves += 1
        for name in _WORKED_OUT:
            self.__dict__.pop(name, None)

    def _forget_ends(self) -> None:
        """Someone starts, who gives way to nobody now, or leaves: the givers need no new look."""
        self.moves += 1
        for name in ("ends", "_expiring"):
            self.__dict__.pop(name, None)

    # -- giving way ------------------------------------------------------------------------------------

    @cached_property
    def _gives(self) -> Flags:
        """Of which rows anything could be evicted now, if someone has a right to it."""
        if not self._is_as_found:
            return self._who_gives()
        return self.known("gives", self._who_gives_and_until).copy()

    def _who_gives_and_until(self) -> tuple[Flags, int]:
        """Who gives way, and until when nobody else does."""
        return self._who_gives(), self.next_movable_ms()

    def _who_gives(self) -> Flags:
        """Of which rows anything could be evicted now for fairness, if someone has a right to it."""
        has_part = (self._whole(runs.EXPIRES) <= self.now_ms) | (self._whole(runs.SURPLUS) > 0)
        gives: Flags = has_part & self._unsafe(self._parts())
        gives[list(self._gone)] = False
        return gives

    @cached_property
    def movable(self) -> Flags:
        """Which rows are not safe, those who left included; who started in this turn may be missing."""
        if self.epoch:
            return self._unsafe(self._parts())
        return self.known("movable", lambda: (self._unsafe(self.movable_parts()), self.next_movable_ms()))

    def movable_parts(self) -> list[tuple[int, RunTable, int]]:
        """The tables whose rows `movable` tells of: the first row of each, and how many."""
        return list(self._parts())[: None if self.epoch else 1]

    def _unsafe(self, parts: Iterable[tuple[int, RunTable, int]]) -> Flags:
        """Which rows are not safe; at the very moment it started everyone is: that would only be a start too many."""
        found = []
        for _, table, size in parts:
            started, protected = table.cells[runs.STARTED, :size], table.cells[runs.PROTECTED, :size]
            found.append((protected <= self.now_ms) & (started != self.now_ms))
        unsafe = found[0] if len(found) == 1 else np.concatenate(found)
        if self._are_here is not None:
            unsafe[: self._base] &= self._are_here
            unsafe[self._astride] = False  # what goes whole must be ours as a whole
        return unsafe

    def next_movable_ms(self) -> int:
        """Until when nobody else of the snapshot turns movable, or may give way."""
        starts_now = bool((self.resident.table.cells[runs.STARTED, : self._base] >= self.now_ms).any())
        return self.now_ms + 1 if starts_now else min(self.outlived_from(), default=NEVER_MS)

    @cached_property
    def lowest_class(self) -> int:
        """The lowest class of anyone who is not safe, borrowers below all; NEVER_MS if nobody is left. A hint: who
        left counts still."""
        if any(self.movable[row] for row in self.borrowers):
            return BORROWER
        return int(np.where(self.movable, self._whole(runs.CLASS)[: len(self.movable)], NEVER_MS).min(initial=NEVER_MS))

    @property
    def is_calm(self) -> bool:
        """Whether nothing that runs could give way to any job: all are of one class, and none has a lifetime, tasks
        above min or a node of another pool."""
        return not (self.roll.has_givers or self.borrowers) and len(self.roll.classes) <= 1

    @property
    def has_givers(self) -> bool:
        """Whether anything may be evicted for fairness now."""
        return self.roll.has_givers and bool(self.givers.many.any())

    @property
    def gone(self) -> frozenset[int] | set[int]:
        """The rows of those who were evicted, or went on in another row, in this turn."""
        return self._gone

    def gave_way_to(self, job: str) -> list[int]:
        """The rows of those who gave way to this job before: it may not take from them again."""
        fresh = [self._base + row for row, by in self.fresh.preempted_by.items() if job in by]
        return self._gave_way.get(job, []) + fresh

    @cached_property
    def _gave_way(self) -> dict[str, list[int]]:
        """For each job the rows of those of the snapshot that gave way to it."""
        found: dict[str, list[int]] = {}
        for row, jobs in self.resident.table.preempted_by.items():
            for job in jobs:
                found.setdefault(job, []).append(row)
        return found

    @cached_property
    def _giving(self) -> tuple[Ints, Ints]:
        rows = self._gives.nonzero()[0]
        return rows, self.column(runs.QUEUE, rows)

    @cached_property
    def givers(self) -> Givers:
        """Who of each queue may give way."""
        rows, queue = self._giving
        many = len(self.roll.queues)
        lowest_class, lowest_priority = np.full(many, NEVER_MS), np.full(many, NEVER_MS)
        rank, priority = self.column(runs.CLASS, rows), self.column(runs.PRIORITY, rows)
        np.minimum.at(lowest_class, queue, rank)
        at_lowest = rank == lowest_class[queue]
        np.minimum.at(lowest_priority, queue[at_lowest], priority[at_lowest])
        return Givers(np.bincount(queue, minlength=many), lowest_class, lowest_priority)

    def giving(self) -> tuple[Ints, Ints]:
        """The rows of those who might give way when that was last looked at, and their queues."""
        return self._giving

    def who_gives(self) -> Flags:
        """By row, who may give way; it is written on as they leave."""
        return self._gives

    def giving_rows(self, queue: str) -> Ints:
        """The rows of those of a queue that may give way."""
        rows, queues = self._giving
        rows = rows[queues == self.roll.queues[queue]]
        giving: Ints = rows[self._gives[rows]]
        return giving

    def giving_of(self, queue: str) -> list[Running]:
        """Those of a queue that may give way."""
        return [self.run(row) for row in self.giving_rows(queue).tolist()]

    def gives(self, rows: Ints) -> Flags:
        """Which of these rows may give way; who starts now does not."""
        gives: Flags = self._gives[rows]
        return gives

    def giving_in(self, row: int) -> list[Running]:
        """The attempt in this row, if it may give way."""
        return [self.run(row)] if row < len(self._gives) and self._gives[row] else []

    def giving_past(self, passed: Passed) -> Ints:
        """The rows of those who passed a gang, and may give way."""
        rows = self._giving[0]
        past: Ints = rows[self._gives[rows] & self.have_passed(rows, passed)]
        return past

    def giving_to(self, job: Job, *, any_queue: bool) -> Ints:
        """The rows of those who may give way and overtook its reservation, or are below it in its own queue; or, of any
        queue, all who may: what their queues can spare is another question."""
        rows, queue = self._giving
        is_it = self._gives[rows]
        if not any_queue:
            is_it &= self.are_below(rows, job.rank) & (queue == self.roll.queues[job.queue])
        overtook = [row for row, jobs in self.overtook().items() if job.id in jobs and self.giving_in(row)]
        return np.union1d(rows[is_it], np.array(overtook, np.int64))

    def overtaken(self) -> set[str]:
        """The jobs that someone overtook who may give way."""
        return {job for row, jobs in self.overtook().items() if self.giving_in(row) for job in jobs}

    def outlived_from(self) -> list[int]:
        """The next moments at which someone's protection or lifetime ends, as things stand in the snapshot."""
        return self.known("outlived", self._outlived_and_until)

    def _outlived_and_until(self) -> tuple[list[int], int]:
        first = []
        for column in (runs.PROTECTED, runs.EXPIRES):
            until_ms = self.resident.table.cells[column, : self._base]
            is_ahead = until_ms > self.now_ms
            if self._are_here is not None:
                is_ahead &= self._are_here
            # Quicker than a minimum where something holds.
            first.append(int(np.where(is_ahead, until_ms, NEVER_MS).min(initial=NEVER_MS)))
        moments = [moment_ms for moment_ms in first if moment_ms < NEVER_MS]
        return moments, min(moments, default=NEVER_MS)
