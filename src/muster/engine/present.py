"""The attempts of a turn, row by row: those of the snapshot, which the turn only reads, and those it started itself.

A row is told by one number: first come the rows of the snapshot's attempts, then the turn's own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from muster.engine.columns import running_jobs as runs
from muster.engine.columns.arrays import Ints
from muster.engine.columns.fleet_index import Grounds
from muster.engine.columns.profile_cells import Asks
from muster.engine.columns.queued_jobs import Roll
from muster.engine.columns.running_jobs import Runs, RunTable
from muster.engine.kernels.placing import TASK
from muster.model.fleet import Fleet
from muster.model.jobs import Running
from muster.model.names import NameKey
from muster.model.policy import Policy

Flags = npt.NDArray[np.bool_]
T = TypeVar("T")


class Present:
    """Who is there, in the columns of columns.running_jobs; in a part of a fleet, those that are there."""

    def __init__(
        self,
        resident: Runs,
        roll: Roll,
        policy: Policy,
        now_ms: int,
        fleet: Fleet,
        whole: Fleet,
        borrowers: Iterable[int] = (),
    ) -> None:
        self.resident = resident
        self.fleet = fleet
        self.whole = whole
        self._are_here, self._astride, self._epoch = resident.residents(fleet.pool.name, whole)
        self.borrowers = set(borrowers)  # rows of those on nodes of another pool than their own
        self.roll = roll
        self.policy = policy
        self.now_ms = now_ms
        self.fresh = RunTable()
        self._base = resident.table.size
        self._gone: set[int] = set()
        self.epoch = 0  # changes when someone else than those who left may give way
        self.moves = 0  # how often anyone came or went
        self._found_on: dict[Hashable, Ints] = {}  # by nodes, who of the snapshot is there

    # -- reading ---------------------------------------------------------------------------------------

    def _parts(self) -> Iterator[tuple[int, RunTable, int]]:
        yield 0, self.resident.table, self._base
        if self.fresh.size:
            yield self._base, self.fresh, self.fresh.size

    def column(self, column: int, rows: Ints) -> Ints:
        """A column of some rows."""
        if not self.fresh.size or (len(rows) == 1 and rows[0] < self._base):
            cells: Ints = self.resident.table.cells[column, rows]
            return cells
        ours = (rows >= self._base).nonzero()[0]  # few, or all
        if len(ours) == len(rows):
            mine: Ints = self.fresh.cells[column, rows - self._base]
            return mine
        values: Ints = self.resident.table.cells[column].take(rows, mode="clip")
        values[ours] = self.fresh.cells[column, rows[ours] - self._base]
        return values

    def _whole(self, column: int) -> Ints:
        """A column of all rows, also of those that are empty or gone."""
        columns = [table.cells[column, :size] for _, table, size in self._parts()]
        return columns[0] if len(columns) == 1 else np.concatenate(columns)

    def known(self, what: Hashable, work_out: Callable[[], tuple[T, int]]) -> T:
        """What was worked out for the attempts of this part before, if nobody came or went since; else anew."""
        return self.resident.known((what, self.fleet.pool.name, self._epoch), self.now_ms, work_out)

    @cached_property
    def residents(self) -> Ints:
        """The rows of those who were here when the turn began."""
        is_resident = self.resident.table.cells[runs.MANY, : self._base] > 0
        return (is_resident if self._are_here is None else is_resident & self._are_here).nonzero()[0]

    def run(self, row: int) -> Running:
        """The attempt in a row; only for those that were not started by filling."""
        run = self.fresh.who[row - self._base] if row >= self._base else self.resident.table.who[row]
        assert isinstance(run, Running), f"row {row} holds {run!r}"
        return run

    def key(self, row: int) -> NameKey:
        """The order of a row's job among others."""
        return self.keys([row])[0]

    def keys(self, rows: Iterable[int]) -> list[NameKey]:
        """The order of each row's job among others."""
        base, fresh, resident, roll = self._base, self.fresh.who, self.resident.table.who, self.roll
        found = [fresh[row - base] if row >= base else resident[row] for row in rows]
        return [who.job.key if isinstance(who, Running) else roll.job(who or 0).key for who in found]

    def overtook(self) -> Mapping[int, tuple[str, ...]]:
        """The rows of those who overtook others."""
        found = {row: jobs for row, jobs in self.resident.table.overtook.items() if row not in self._gone}
        mine = {self._base + row: jobs for row, jobs in self.fresh.overtook.items()}
        return found | {row: jobs for row, jobs in mine.items() if row not in self._gone}

    # -- tasks -----------------------------------------------------------------------------------------

    def _tasks_of(self, rows: Ints) -> tuple[Ints, Ints]:
        """The tasks of rows, one after the other; and the place of its row for each."""
        if len(rows) == 1 and rows[0] >= 0:
            return self._tasks_of_one(int(rows[0]))
        first, many = self.column(runs.FIRST, rows), self._many(rows)
        owner = np.repeat(np.arange(len(rows)), many)
        begins = np.cumsum(many) - many
        places = np.arange(len(owner)) + (first - begins)[owner]
        if not self.fresh.size:
            return self.resident.table.tasks[places], owner
        ours = rows[owner] >= self._base
        tasks = np.empty((len(owner), runs.TASK_COLUMNS), np.int64)
        tasks[~ours] = self.resident.table.tasks[places[~ours]]
        tasks[ours] = self.fresh.tasks[places[ours]]
        return tasks, owner

    def _tasks_of_one(self, row: int) -> tuple[Ints, Ints]:
        table, row = (self.fresh, row - self._base) if row >= self._base else (self.resident.table, row)
        first, many = int(table.cells[runs.FIRST, row]), int(table.cells[runs.MANY, row])
        return table.tasks[first : first + many], np.zeros(many, np.int64)

    def tasks_in(self, rows: Ints) -> Ints:
        """The tasks of rows, one after the other."""
        return self._tasks_of(rows)[0]

    def rows_of(self, jobs: Iterable[str]) -> list[int]:
        """The rows of those of the jobs that run, and have not been started by this turn's filling."""
        wanted = set(jobs)
        if not wanted:
            return []
        mine = [row for row, who in enumerate(self.fresh.who) if isinstance(who, Running) and who.job.id in wanted]
        rows = [*self.resident.rows_of(sorted(wanted)), *(self._base + row for row in mine)]
        return [row for row in rows if row not in self._gone]

    def tasks_at(self, rows: Ints, places: Ints) -> Ints:
        """For each row the task in a place among its own."""
        where = self.column(runs.FIRST, rows) + places
        tasks = np.empty((len(rows), runs.TASK_COLUMNS), np.int64)
        ours = rows >= self._base
        tasks[~ours], tasks[ours] = self.resident.table.tasks[where[~ours]], self.fresh.tasks[where[ours]]
        return tasks

    def moves_of(self, rows: Ints, grounds: Grounds, asks: Asks) -> tuple[Ints, Ints]:
        """The tasks of rows as kernels see them: group, node, devices; and for each row how many come by its end."""
        first_group = np.asarray(asks.first_group)[self.column(runs.PROFILE, rows)]
        is_simple = not self.fresh.size and self.resident.table.are_single and not np.count_nonzero(rows < 0)
        if is_simple:
            tasks = self.resident.table.tasks[self.resident.table.cells[runs.FIRST, rows]]
        else:
            tasks, owner = self._tasks_of(rows)
            first_group = first_group[owner]
        moves = np.empty((len(tasks), TASK), np.int64)
        moves[:, 0] = np.asarray(asks.groups)[first_group + tasks[:, runs.GROUP]]
        moves[:, 1] = self.resident.on(grounds)[tasks[:, runs.NODE]]
        moves[:, 2] = tasks[:, runs.DEVICES]
        if is_simple:
            return moves, np.arange(1, len(rows) + 1)
        if self._astride:  # what lies on nodes of other pools changes nothing here
            is_here = moves[:, 1] >= 0
            moves, owner = moves[is_here], owner[is_here]
            return moves, np.cumsum(np.bincount(owner, minlength=len(rows)))
        return moves, np.cumsum(self._many(rows))

    def _many(self, rows: Ints) -> Ints:
        """How many tasks; a row that is none has none."""
        return np.where(rows >= 0, self.column(runs.MANY, rows), 0)

    def are_on(self, rows: Ints, nodes: Iterable[str]) -> bool:
        """Whether any task of the rows is on any of the nodes."""
        numbers = [self.resident.nodes.number(name) for name in nodes]
        is_one = np.zeros(len(self.resident.nodes), np.bool_)
        is_one[numbers] = True
        return bool(is_one[self._tasks_of(rows)[0][:, runs.NODE]].any())
