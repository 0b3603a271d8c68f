"""The running jobs, in columns: what a turn reads of all that runs without touching an object each.

One row per attempt, and one per task. State keeps the runs as attempts start and end; a turn reads them and writes
nothing to them (design.md 13). Profiles and queues have the numbers of the roll.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from muster.engine.columns.arrays import Ints
from muster.engine.columns.devices import bits_of
from muster.engine.columns.fleet_index import Grounds
from muster.engine.columns.numbering import Numbers
from muster.engine.columns.queued_jobs import Roll
from muster.engine.columns.sight import Sight
from muster.model.fleet import Fleet
from muster.model.jobs import NEVER_MS, Running
from muster.model.names import name_mark

QUEUE, PROFILE, CLUSTER, CLASS, PRIORITY, STARTED, END, EXPIRES, PROTECTED, SURPLUS, CAME, MARK = range(12)
FIRST, MANY, COLUMNS = 12, 13, 14
"""Columns of an attempt. END is NEVER_MS where nobody stated any; EXPIRES: from when on it may be evicted, NEVER_MS if
it has no lifetime; it is safe while it is PROTECTED; SURPLUS: it has tasks above min; CAME: when its job did; MARK
tells it from others; its tasks are the MANY from FIRST on. A row of no tasks is empty, and protected for ever."""

GROUP, NODE, DEVICES, ABOVE, TASK_COLUMNS = range(5)
"""Columns of a task: its group's place in the profile, its node, its devices as bits; if it is above min, its place
(from 1 on) among those that are, in the order in which they go, else 0."""

_ROOM = 16  # rows at first

T = TypeVar("T")


def expires_ms(run: Running) -> int:
    """From when on an attempt may be evicted; NEVER_MS if it has no lifetime."""
    lifetime_ms = run.job.lifetime_ms
    return NEVER_MS if lifetime_ms is None else max(run.started_ms + lifetime_ms, run.safe_until_ms)


class _Views:
    """The columns to write number by number, one after the other: much faster than in arrays where it is so few."""

    __slots__ = ("cells", "of_cells", "of_tasks", "tasks")

    def __init__(self, cells: Ints, tasks: Ints) -> None:
        self.of_cells, self.of_tasks = cells, tasks
        self.cells, self.tasks = (cast("memoryview[int]", memoryview(cast(Any, it.ravel()))) for it in (cells, tasks))


class RunTable:
    """Attempts and their tasks in columns. `who` is in a row: the attempt, or the row of the roll it came from."""

    def __init__(self) -> None:
        self.size = 0
        self.cells = np.zeros((COLUMNS, _ROOM), np.int64)
        self.tasks = np.zeros((_ROOM, TASK_COLUMNS), np.int64)
        self.who: list[Running | int | None] = []
        self.overtook: dict[int, tuple[str, ...]] = {}
        self.preempted_by: dict[int, tuple[str, ...]] = {}
        self._tasks = 0
        self._gangs = 0
        self._free_rows: list[int] = []
        self._free_tasks: dict[int, list[int]] = {}
        self._views = _Views(self.cells, self.tasks)

    def copy(self) -> RunTable:
        """The same rows, to go on by themselves."""
        other = RunTable()
        other.size, other._tasks, other._gangs = self.size, self._tasks, self._gangs
        other.cells, other.tasks = self.cells.copy(), self.tasks.copy()
        other.who, other._free_rows = self.who.copy(), self._free_rows.copy()
        other.overtook, other.preempted_by = self.overtook.copy(), self.preempted_by.copy()
        other._free_tasks = {many: places.copy() for many, places in self._free_tasks.items()}
        return other

    def add(self, run: Running, numbers: Sequence[int], tasks: Sequence[Sequence[int]]) -> int:
        """One more attempt; `numbers` are its columns up to MARK."""
        row = self._free_rows.pop() if self._free_rows else self._new_rows(1)
        free = self._free_tasks.get(len(tasks))
        first = free.pop() if free else self._new_tasks(len(tasks))
        views = self._viewed()
        cells, places, width, at = views.cells, views.tasks, self.cells.shape[1], row
        for number in numbers:
            cells[at] = number
            at += width
        cells[at], cells[at + width] = first, len(tasks)
        at = first * TASK_COLUMNS
        for task in tasks:
            places[at], places[at + 1], places[at + 2], places[at + 3] = task
            at += TASK_COLUMNS
        self.who[row] = run
        self._gangs += len(tasks) != 1
        if run.overtook:
            self.overtook[row] = run.overtook
        if run.preempted_by:
            self.preempted_by[row] = run.preempted_by
        return row

    @property
    def are_single(self) -> bool:
        """Whether everyone has just one task."""
        return not self._gangs

    def extend(self, cells: Ints, tasks: Ints, who: Sequence[int]) -> None:
        """Many more attempts at once; FIRST of `cells` counts from the first of `tasks`."""
        self._gangs += len(tasks) != len(who)
        if not self.size:  # nothing to add to: they are ours from now on
            self.size, self._tasks = len(who), len(tasks)
            self.cells, self.tasks, self.who = cells, tasks, list(who)
            return
        first, row = self._new_tasks(len(tasks)), self._new_rows(len(who))
        self.tasks[first : first + len(tasks)] = tasks
        self.cells[:, row : row + len(who)] = cells
        self.cells[FIRST, row : row + len(who)] += first
        self.who[row:] = who

    def remove(self, row: int) -> None:
        """The attempt is over."""
        cells, width = self._viewed().cells, self.cells.shape[1]
        first, many = cells[FIRST * width + row], cells[MANY * width + row]
        self._free_tasks.setdefault(many, []).append(first)
        self._free_rows.append(row)
        self._gangs -= many != 1
        cells[MANY * width + row] = 0
        cells[EXPIRES * width + row] = cells[PROTECTED * width + row] = NEVER_MS
        self.who[row] = None
        self.overtook.pop(row, None)
        self.preempted_by.pop(row, None)

    def _viewed(self) -> _Views:
        views = self._views
        if views.of_cells is not self.cells or views.of_tasks is not self.tasks:
            self.cells, self.tasks = np.ascontiguousarray(self.cells), np.ascontiguousarray(self.tasks)
            views = self._views = _Views(self.cells, self.tasks)
        return views

    def _new_rows(self, many: int) -> int:
        self.size += many
        if self.size > self.cells.shape[1]:
            wider = np.zeros((COLUMNS, max(self.size + _ROOM, 5 * self.cells.shape[1] // 4)), np.int64)
            wider[:, : self.cells.shape[1]] = self.cells
            self.cells = wider
        self.who += [None] * many
        return self.size - many

    def _new_tasks(self, many: int) -> int:
        self._tasks += many
        if self._tasks > len(self.tasks):
            longer = np.zeros((max(self._tasks + _ROOM, 5 * len(self.tasks) // 4), TASK_COLUMNS), np.int64)
            longer[: len(self.tasks)] = self.tasks
            self.tasks = longer
        return self._tasks - many


class Residents(NamedTuple):
    """Of which rows a pool's turn takes care (None: all), which are on nodes of several pools, and a number that
    changes when that may be otherwise although nobody came or went."""

    are_here: npt.NDArray[np.bool_] | None
    astride: list[int]
    epoch: int


class _Pools:
    """In which pool of a fleet each attempt runs: where its first task is. `astride`: those that are in others too,
    because pools or labels changed."""

    def __init__(self, fleet: Fleet, epoch: int) -> None:
        self.fleet = fleet
        self.epoch = epoch
        self.number = {name: number for number, name in enumerate(fleet.parts)}
        self.of = np.zeros(0, np.int64)
        self.astride: set[int] = set()
        self._of_node = np.zeros(0, np.int64)

    def look_up(self, rows: Ints, table: RunTable, nodes: Sequence[str]) -> None:
        """Look again where these rows are."""
        if len(self._of_node) < len(nodes):
            known = self.fleet.nodes
            numbers = [self.number[self.fleet.pool_of(name)] if name in known else 0 for name in nodes]
            self._of_node = np.array(numbers, np.int64)
        if len(self.of) < table.size:
            wider = np.zeros(table.cells.shape[1], np.int64)
            wider[: len(self.of)] = self.of
            self.of = wider
        first, many = table.cells[FIRST, rows], table.cells[MANY, rows]
        rows, first, many = rows[many > 0], first[many > 0], many[many > 0]
        self.of[rows] = self._of_node[table.tasks[first, NODE]]
        self.astride.difference_update(rows.tolist() if self.astride else ())
        for place in np.flatnonzero(many > 1).tolist():
            row, begin, end = int(rows[place]), int(first[place]), int(first[place] + many[place])
            if (self._of_node[table.tasks[begin:end, NODE]] != self.of[row]).any():
                self.astride.add(row)


_GROUNDS = 64  # of which numbers are kept


def _keep_few(known: dict[Grounds, Any]) -> None:
    while len(known) >= _GROUNDS:
        del known[next(iter(known))]


class Runs:
    """All attempts that run. `version` changes with every one that starts, changes or ends."""

    def __init__(self, roll: Roll) -> None:
        self.version = 0
        self.table = RunTable()
        self.clusters = Numbers[str]()
        self.nodes = Numbers[str]()
        self._roll = roll
        self._row_of: dict[str, int] = {}
        self._on: dict[Grounds, Ints] = {}
        self._from: dict[Grounds, tuple[Ints, Ints]] = {}
        self._known: dict[Hashable, tuple[int, int, int, Any]] = {}
        self._pools: _Pools | None = None
        self._touched: list[int] = []  # rows whose pool is to be looked up

    def fork(self, roll: Roll) -> Runs:
        """A copy that can go its own way, beside another roll."""
        other = Runs(roll)
        other.table, other.clusters, other.nodes = self.table.copy(), self.clusters.copy(), self.nodes.copy()
        other._row_of = self._row_of.copy()
        return other

    def sight(self) -> Sight[Runs]:
        """The runs as they are now, for a snapshot."""
        return Sight(self)

    def add(self, run: Running) -> None:
        """An attempt started."""
        self.version += 1
        self._roll.note(run.job)
        numbers, tasks = self.numbers_of(run)
        row = self._row_of[run.job.id] = self.table.add(run, numbers, tasks)
        if self._pools is not None:
            self._touched.append(row)

    def remove(self, job_id: str) -> None:
        """The attempt of a job is over."""
        self.version += 1
        self.table.remove(self._row_of.pop(job_id))

    def numbers_of(self, run: Running) -> tuple[list[int], list[tuple[int, int, int, int]]]:
        """An attempt and its tasks in numbers."""
        job, profile, surplus = run.job, run.job.profile, run.surplus()
        above = {task: place for place, task in enumerate(surplus, 1)} if surplus else {}
        numbers = [
            self._roll.queue_number(job.queue),
            self._roll.profiles.number(profile),
            self.clusters.number(run.cluster),
            job.priority_class,
            job.priority,
            run.started_ms,
            run.end_ms,
            expires_ms(run),
            run.safe_until_ms,
            int(bool(surplus)),
            job.submit_ms,
            name_mark(job.id),
        ]
        nodes = self.nodes
        if len(profile.groups) == 1 and not above:
            return numbers, [(0, nodes.number(task.node), bits_of(task.devices), 0) for task in run.tasks]
        place = {group.name: number for number, group in enumerate(profile.groups)}
        return numbers, [
            (place[task.group], nodes.number(task.node), bits_of(task.devices), above.get(task, 0))
            for task in run.tasks
        ]

    def known(self, what: Hashable, now_ms: int, work_out: Callable[[], tuple[T, int]]) -> T:
        """What was worked out at some moment and holds until another, if nobody came or went; else worked out anew."""
        version, since_ms, until_ms, value = self._known.get(what, (-1, 0, 0, None))
        if version != self.version or not since_ms <= now_ms < until_ms:
            value, until_ms = work_out()
            self._known[what] = (self.version, now_ms, until_ms, value)
        return cast(T, value)

    def row_of(self, run: Running) -> int | None:
        """The row of this very attempt."""
        row = self._row_of.get(run.job.id)
        return row if row is not None and self.table.who[row] is run else None

    def rows_of(self, jobs: Iterable[str]) -> list[int]:
        """The rows of those of the jobs that run."""
        return [self._row_of[job] for job in jobs if job in self._row_of]

    def on(self, grounds: Grounds) -> Ints:
        """The numbers that grounds have for our nodes; -1 for those that are gone."""
        known = self._on.get(grounds)
        if known is None or len(known) < len(self.nodes):
            _keep_few(self._on)
            seen = np.zeros(0, np.int64) if known is None else known
            new = map(grounds.number.get, self.nodes.names[len(seen) :], repeat(-1))
            known = self._on[grounds] = np.concatenate((seen, np.array(list(new), np.int64)))
        return known

    def numbers_on(self, grounds: Grounds) -> tuple[Ints, Ints]:
        """The numbers we have for the clusters and nodes of grounds."""
        if grounds not in self._from:
            _keep_few(self._from)
            clusters = [self.clusters.number(name) for name in grounds.cluster_number]
            nodes = self.nodes.number_all(grounds.names)
            self._from[grounds] = (np.array(clusters, np.int64), np.array(nodes, np.int64))
        return self._from[grounds]

    # -- pools -----------------------------------------------------------------------------------------

    def residents(self, pool: str, whole: Fleet) -> Residents:
        """Who runs on the nodes of a pool of a fleet; all, if it has no pools."""
        if not whole.pools:
            return Residents(None, [], -1)
        pools = self._pools
        if pools is None or pools.fleet is not whole:
            pools = self._pools = _Pools(whole, 0 if pools is None else pools.epoch + 1)
            self._touched = list(range(self.table.size))
            self._known.clear()
        if self._touched:
            pools.look_up(np.array(self._touched), self.table, self.nodes.names)
            self._touched = []
        here = pools.number[pool]
        return Residents(pools.of[: self.table.size] == here, sorted(pools.astride), pools.epoch)
