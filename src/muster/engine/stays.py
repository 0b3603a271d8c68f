"""Who runs while a turn goes on, and when they are taken to leave.

Those of the snapshot, which the turn only reads, and those it started itself; without those it evicted. A row is told
by one number: first come the rows of the snapshot's attempts, then the turn's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.engine import runs
from muster.engine.grounds import Grounds
from muster.engine.present import Flags, Present
from muster.engine.runs import RunTable
from muster.engine.shapes import Ints
from muster.engine.table import NONE
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """From whom a job could take, their age apart: from these queues, by number, and of its own from lower ranks."""

    queues: Flags
    own: int
    rank: tuple[int, int]


class Ends(NamedTuple):
    """Rows and when each is taken to leave; stated by someone, or our guess."""

    rows: Ints
    moments: Ints
    stated: Flags


RightsOf = Callable[[], Rights | None]
"""Asked only where it matters from whom a job may take."""


class Givers(NamedTuple):
    """By queue: how many attempts may give way, and the lowest (class, priority) among them."""

    many: Ints
    lowest_class: Ints
    lowest_priority: Ints


_WORKED_OUT = ("ends", "_expiring", "givers", "_giving", "_gives", "movable", "lowest_class")


class Stays(Present):
    """The attempts that run, in the columns of muster.engine.runs; in a part of a fleet, those that are there."""

    def fork(self) -> Stays:
        """The same, to go on by themselves."""
        other = Stays(self.resident, self.roll, self.policy, self.now_ms, self.fleet, self.borrowers)
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

    # -- ends ------------------------------------------------------------------------------------------

    @property
    def _is_as_found(self) -> bool:
        """Whether the turn has changed nothing yet."""
        return not self.fresh.size and not self._gone

    @cached_property
    def ends(self) -> Ends:
        """When everyone is taken to leave: those who were there as the turn found them, and those it started."""
        ends = self._resident_ends[0]
        if self.fresh.size:
            rows = self.fresh.cells[runs.MANY, : self.fresh.size].nonzero()[0]
            more = self._ends_of(self.fresh, rows)
            ends = Ends(
                np.concatenate((ends.rows, rows + self._base)),
                np.concatenate((ends.moments, more.moments)),
                np.concatenate((ends.stated, more.stated)),
            )
        if self._gone:
            is_gone = np.zeros(self._base + self.fresh.size, np.bool_)
            is_gone[list(self._gone)] = True
            stay = ~is_gone[ends.rows]
            ends = Ends(ends.rows[stay], ends.moments[stay], ends.stated[stay])
        return ends

    @property
    def _resident_ends(self) -> tuple[Ends, int]:
        """When those of the snapshot are taken to leave, and the first end that was stated."""
        how = ("ends", self.policy.reestimate_ms, self.policy.unknown_end_ms)
        return self.known(how, self._ends_and_until)

    def _ends_and_until(self) -> tuple[tuple[Ends, int], int]:
        """The same, and until when it holds: guesses move on, and who overruns is guessed."""
        ends = self._ends_of(self.resident.table, self.residents)
        first_ms = _first_stated(ends)
        return (ends, first_ms), self._until(first_ms)

    def _until(self, first_ms: int) -> int:
        """Until when guesses stay as they are, or that end is stated."""
        step_ms = self.policy.reestimate_ms
        return min(self.now_ms - self.now_ms % step_ms + step_ms, first_ms)

    def _ends_of(self, table: RunTable, rows: Ints) -> Ends:
        """When those in these rows of a table are taken to leave.

        Those whose end nobody knows, or who overran it, have as long to go as they have run, at least 10 minutes;
        counted in steps of 10 s, so that a reservation does not move with every tick of the clock.
        """
        ends = table.cells[runs.END, rows]
        stated = (ends > self.now_ms) & (ends < NEVER_MS)
        guesses = (~stated).nonzero()[0]
        if len(guesses):
            ends[guesses] = self._guesses(table.cells[runs.STARTED, rows[guesses]])
        return Ends(rows, ends, stated)

    def _guesses(self, started_ms: Ints) -> Ints:
        """When those who started then are taken to leave, if nobody knows."""
        now_ms = self.now_ms - self.now_ms % self.policy.reestimate_ms
        guesses: Ints = now_ms + np.maximum(now_ms - started_ms, self.policy.unknown_end_ms)
        return guesses

    def ends_as_seen_by(self, job: Job, rights: RightsOf, cluster: str, before_ms: int) -> Ends:
        """When those of a cluster leave: of unknown end, with their lifetime if the job may then evict them.

        Who leaves at `before_ms` or later may be said to leave at another such moment.
        """
        rows, moments, stated = self.ends
        places, expiry = self._expiring
        is_seen = expiry < before_ms
        here = None
        if len(self.resident.clusters) > 1:
            here = self.column(runs.CLUSTER, rows) == self.resident.clusters.number(cluster)
            is_seen &= here[places]
        places, expiry = places[is_seen], expiry[is_seen]
        if len(places):
            is_seen = self._is_within(rights(), rows[places])
            for row, jobs in self.overtook().items():
                if job.id in jobs:
                    is_seen |= rows[places] == row
            moments = moments.copy()
            moments[places[is_seen]] = expiry[is_seen]
        ends = Ends(rows, moments, stated)
        return ends if here is None else Ends(*(column[here] for column in ends))

    @cached_property
    def _expiring(self) -> tuple[Ints, Ints]:
        """The places among the ends of those of unknown end whose lifetime is over before our guess, and when."""
        if self._gone:
            return self._expiring_of(self.ends, 0)
        if not self.fresh.size:
            return self._residents_expiring
        known = self._residents_expiring
        fresh = self._expiring_of(self.ends, len(self._resident_ends[0].rows))
        return np.concatenate((known[0], fresh[0])), np.concatenate((known[1], fresh[1]))

    @property
    def _residents_expiring(self) -> tuple[Ints, Ints]:
        how = ("expiring", self.policy.reestimate_ms, self.policy.unknown_end_ms)
        return self.known(how, self._expiring_and_until)

    def _expiring_and_until(self) -> tuple[tuple[Ints, Ints], int]:
        places, expiry = self._expiring_of(self._resident_ends[0], 0)
        return (places, expiry), min(self._until(self._resident_ends[1]), int(expiry.min(initial=NEVER_MS)))

    def _expiring_of(self, ends: Ends, first: int) -> tuple[Ints, Ints]:
        """The same of those from some place on."""
        rows, moments, stated = ends
        places = (~stated[first:]).nonzero()[0] + first
        expiry = self.expiries(rows[places])
        is_sooner = (expiry > self.now_ms) & (expiry < moments[places])
        return places[is_sooner], expiry[is_sooner]

    def expiries(self, rows: Ints) -> Ints:
        """From when on those in these rows may be evicted."""
        return self.column(runs.EXPIRES, rows)

    def _is_within(self, rights: Rights | None, rows: Ints) -> Flags:
        if rights is None:
            return np.zeros(len(rows), np.bool_)
        queue, rank = self.column(runs.QUEUE, rows), self.column(runs.CLASS, rows)
        priority_class, priority = rights.rank
        is_lower = (rank < priority_class) | ((rank == priority_class) & (self.column(runs.PRIORITY, rows) < priority))
        is_within: Flags = (rank <= priority_class) & np.where(queue == rights.own, is_lower, rights.queues[queue])
        return is_within

    def stated_by(self, moment_ms: int) -> Ints:
        """The rows of those whose stated end comes by that moment."""
        rows, moments, stated = self.ends
        return rows[stated & (moments <= moment_ms)]

    def next_stated_end(self) -> int | None:
        """The first end that was stated and is still to come."""
        first_ms = self._resident_ends[1] if self._is_as_found else _first_stated(self.ends)
        return first_ms if first_ms < NEVER_MS else None

    def has_guess_since(self, started_ms: int) -> bool:
        """Whether anyone whose end is a guess started then or later."""
        rows = self.ends.rows[~self.ends.stated]
        return bool((self.column(runs.STARTED, rows) >= started_ms).any())

    def guesses_reach(self, moment_ms: int) -> int | None:
        """When the first guess that lies before a moment comes to lie there; None if there is none."""
        is_before = ~self.ends.stated & (self.ends.moments < moment_ms)
        if not np.count_nonzero(is_before):
            return None
        started_ms = int(self.column(runs.STARTED, self.ends.rows[is_before]).min())
        since_ms = min(moment_ms - self.policy.unknown_end_ms, -(-(moment_ms + started_ms) // 2))
        return -(-since_ms // self.policy.reestimate_ms) * self.policy.reestimate_ms

    def guessed_on(self, nodes: frozenset[str]) -> Ints:
        """The rows of those on some of the nodes whose end is a guess, first guess first."""
        rows = self.of_unknown_end_on(nodes)
        guesses = self._guesses(self.column(runs.STARTED, rows)).tolist()
        in_order = sorted(zip(guesses, self.keys(rows.tolist()), range(len(rows)), strict=True))
        return rows[[place for _, _, place in in_order]]

    def of_unknown_end_on(self, nodes: frozenset[str]) -> Ints:
        """The rows of those on some of the nodes whose end is a guess."""
        return self._on(nodes, None) if nodes else np.zeros(0, np.int64)

    def stated_on(self, nodes: frozenset[str], moment_ms: int) -> Ints:
        """The rows of those on some of the nodes whose stated end comes by that moment."""
        return self._on(nodes, moment_ms)

    def _on(self, nodes: frozenset[str], moment_ms: int | None) -> Ints:
        """Those of the snapshot are looked for once: they only ever leave."""
        numbers = [self.resident.nodes.number(name) for name in nodes]  # nobody may ever have been there
        is_one = np.zeros(len(self.resident.nodes), np.bool_)
        is_one[numbers] = True
        found = self._found_on.get((nodes, moment_ms))
        if found is None:
            found = self._found_on[nodes, moment_ms] = self._among(self._resident_ends[0], moment_ms, is_one)
        if self._gone:
            found = found[~np.isin(found, list(self._gone))]
        if not self.fresh.size:
            return found
        rows = self.fresh.cells[runs.MANY, : self.fresh.size].nonzero()[0]
        fresh = self._ends_of(self.fresh, rows)._replace(rows=rows + self._base)
        mine = self._among(fresh, moment_ms, is_one)
        return np.concatenate((found, mine[~np.isin(mine, list(self._gone))]))

    def _among(self, ends: Ends, moment_ms: int | None, is_one: Flags) -> Ints:
        """Who leaves by a moment of these, or, without one, whose end is a guess; and is on one of some nodes."""
        rows = ends.rows[~ends.stated if moment_ms is None else ends.stated & (ends.moments <= moment_ms)]
        tasks, owner = self._tasks_of(rows)
        on_one: Ints = rows[np.unique(owner[is_one[tasks[:, runs.NODE]]])]
        return on_one

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

    def safe_from(self) -> int | None:
        """The highest class to whose jobs nobody who runs will ever give way; None if someone may to any class. Where
        nobody has tasks above min; who left may count still."""
        if (self._whole(runs.EXPIRES) < NEVER_MS).any():
            return None
        is_here = self._whole(runs.MANY) > 0
        return int(np.where(is_here, self._whole(runs.CLASS), NEVER_MS).min(initial=NEVER_MS))

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


def _first_stated(ends: Ends) -> int:
    """The first end that was stated; NEVER_MS if none was."""
    return int(np.where(ends.stated, ends.moments, NEVER_MS).min(initial=NEVER_MS))
