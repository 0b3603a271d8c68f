"""Who must leave if a head of higher class needs the room, or its pool's own: by node, in columns.

Everyone who is not safe counts, whatever the age. State's runs keep the columns from one turn to the next as long as
nobody comes or goes; a turn notes who left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from muster.engine.columns import running_jobs as runs
from muster.engine.columns.arrays import Ints
from muster.engine.columns.fleet_index import Grounds, blank_cells
from muster.engine.horizon import Horizon
from muster.engine.kernels import costing
from muster.engine.kernels.placing import TASK, Cells
from muster.engine.present import Flags
from muster.engine.stays import BORROWER, Stays
from muster.engine.walls import Walls
from muster.model.budgets import Budget


class _Columns(NamedTuple):
    """What can be kept: everything but who left, and what budgets allow."""

    grounds: Grounds
    rows: Ints
    rank: Ints
    started: Ints
    ends: Ints
    mark: Ints
    cluster: Ints
    first: Ints
    moves: Ints
    owner: Ints
    above: Ints
    begin: Ints
    here: Ints
    place: Ints  # by row of the runs: its place among these, or -1


class Tenants:
    """The attempts of one turn that are not safe, and their tasks."""

    def __init__(self, horizon: Horizon, budgets: Mapping[tuple[str, str], Budget], walls: Walls) -> None:
        stays, books = horizon.stays, horizon.now.books
        self._books = books
        self._columns = columns = _columns_of(horizon)
        self.rows = columns.rows
        rank = columns.rank.copy() if stays.borrowers else columns.rank
        for row in stays.borrowers:
            if self.tasks_in(row):
                rank[columns.place[row]] = BORROWER
        self.has_budgets = False
        self._walls = walls
        slot, allowed = self._slots(stays, budgets)
        self.cells = costing.Tenants(
            rank=books.from_array(rank),
            started=books.from_array(columns.started),
            ends=books.from_array(columns.ends),
            mark=books.from_array(columns.mark),
            first=books.from_array(columns.first),
            moves=books.from_array(columns.moves),
            owner=books.from_array(columns.owner),
            above=books.from_array(columns.above),
            gone=blank_cells(len(columns.owner), listed=books.listed),
            slot=slot,
            allowed=allowed,
            is_wall=books.of([int(slot < len(walls.left)) for slot in range(len(allowed))]),
            begin=books.from_array(columns.begin),
            here=books.from_array(columns.here),
        )
        most = int(np.diff(columns.begin).max(initial=0))  # on one node
        self.units = costing.Units(*(books.of([0] * size) for size in (2, most, most, most)))
        self._left: set[int] = set()
        self._is_left = np.ones(len(columns.rows), np.bool_)
        self.rank, self.cluster = rank, columns.cluster
        self.note_gone(stays.gone)

    def _slots(self, stays: Stays, budgets: Mapping[tuple[str, str], Budget]) -> tuple[Cells, Cells]:
        """For each task the number of its wall or budget, or -1; and how many of each may go without a violation."""
        columns, walls = self._columns, self._walls
        allowed = list(walls.left)
        slot = np.full(len(columns.owner), -1, np.int64)
        by_job: dict[str, list[Budget]] = {}
        for budget in budgets.values():
            by_job.setdefault(budget.job, []).append(budget)
        for row in stays.rows_of(by_job):
            if not (mine := self.tasks_in(row)):
                continue
            job, first = stays.run(row).job, mine.start
            tasks = stays.tasks_in(np.array([row]))[:, runs.GROUP]
            for budget in by_job[job.id]:
                group = next((it for it, known in enumerate(job.profile.groups) if known.name == budget.group), -1)
                slot[first + np.flatnonzero(tasks == group)] = len(allowed)
                allowed.append(int((tasks == group).sum()) - budget.min_available)
        for row in stays.rows_of(walls.jobs):
            if mine := self.tasks_in(row):
                run = stays.run(row)
                behind = np.array(walls.before(run.job.id, run.tasks), np.int64)
                slot[mine.start : mine.stop] = np.where(behind >= 0, behind, slot[mine.start : mine.stop])
        self.has_budgets = bool(allowed)
        return self._books.from_array(slot), self._books.of(allowed)

    def note_walls(self) -> None:
        """So many may still go, after those who went in this turn."""
        for number, left in enumerate(self._walls.left):
            self.cells.allowed[number] = left

    def note_gone(self, rows: Iterable[int]) -> None:
        """These left, or went on in another row."""
        gone = self.cells.gone
        for row in set(rows) - self._left:
            self._left.add(row)
            if mine := self.tasks_in(row):
                self._is_left[self._columns.place[row]] = False
            for task in mine:
                gone[task] = 1

    def tasks_in(self, row: int) -> range:
        """The tasks of a row of the runs."""
        place = int(self._columns.place[row]) if row < len(self._columns.place) else -1
        return range(0) if place < 0 else range(int(self._columns.first[place]), int(self._columns.first[place + 1]))

    def owner_of(self, task: int) -> int:
        """The row of the runs that a task belongs to."""
        return int(self.rows[self._columns.owner[task]])

    def place_of(self, task: int) -> int:
        """The place of a task among those of its attempt."""
        return task - int(self._columns.first[self._columns.owner[task]])

    def on(self, nodes: Iterable[int]) -> list[int]:
        """The rows of those who have tasks on any of the nodes and are still there."""
        begin, here = self._columns.begin, self._columns.here
        tasks = [int(task) for node in nodes for task in here[begin[node] : begin[node + 1]]]
        return sorted({self.owner_of(task) for task in tasks if not self.cells.gone[task]})

    def is_left(self, barred: set[int]) -> Flags:
        """Which attempts are still there, without those that are barred."""
        is_left = self._is_left.copy()
        is_left[self._columns.place[list(barred)]] = False
        return is_left

    def rank_by_name(self, stays: Stays) -> None:
        """Marks told two apart too little: work out the order of all names."""
        marks = self._columns.mark.tolist()
        keys = list(zip(marks, stays.keys(self.rows.tolist()), strict=True))
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
        ranks = np.empty(len(keys), np.int64)
        ranks[order] = np.arange(len(keys))
        self.cells = self.cells._replace(mark=self._books.from_array(ranks))


def _columns_of(horizon: Horizon) -> _Columns:
    """The columns, kept with the runs while nobody came or went."""
    stays = horizon.stays
    if stays.epoch:
        return _worked_out(horizon)
    known = stays.known("tenants", lambda: (_worked_out(horizon), stays.next_movable_ms()))
    return known if known.grounds is horizon.now.books.grounds else _worked_out(horizon)


def _worked_out(horizon: Horizon) -> _Columns:
    stays, books = horizon.stays, horizon.now.books
    movable, grounds, asks = stays.movable, books.grounds, horizon.asks
    parts = [
        (base, movable[base : base + size], table.cells[:, : min(size, len(movable) - base)], table.tasks)
        for base, table, size in stays.movable_parts()
    ]
    attempts = int(np.count_nonzero(movable))
    tasks = sum(int(cells[runs.MANY][are_movable].sum()) for _, are_movable, cells, _ in parts)
    rows, first = np.zeros(attempts, np.int64), np.zeros(attempts + 1, np.int64)
    moves, owner, above = np.zeros(tasks * TASK, np.int64), np.zeros(tasks, np.int64), np.zeros(tasks, np.int64)
    size = books.of([0, 0])
    for base, are_movable, cells, theirs in parts:
        books.kernels.list_tenants(
            are_movable,
            cells[runs.FIRST],
            cells[runs.MANY],
            cells[runs.PROFILE],
            theirs,
            asks.first_group,
            asks.groups,
            stays.resident.on(grounds),
            size,
            base,
            rows,
            first,
            moves,
            owner,
            above,
        )
    attempts, tasks = int(size[0]), int(size[1])
    rows, moves = rows[:attempts], moves[: tasks * TASK]
    begin, here = np.zeros(len(grounds.names) + 1, np.int64), np.zeros(tasks, np.int64)
    books.kernels.sort_tenants(moves, begin, here)
    place = np.full(len(movable), -1, np.int64)
    place[rows] = np.arange(attempts)
    return _Columns(
        grounds=grounds,
        rows=rows,
        rank=stays.column(runs.CLASS, rows),
        started=stays.column(runs.STARTED, rows),
        ends=stays.column(runs.END, rows),
        mark=stays.column(runs.MARK, rows),
        cluster=stays.column(runs.CLUSTER, rows),
        first=first[: attempts + 1],
        moves=moves,
        owner=owner[:tasks],
        above=above[:tasks],
        begin=begin,
        here=here,
        place=place,
    )
