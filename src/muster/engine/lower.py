"""Who gives way to a blocked head whatever their age: borrowers, and lower classes (design.md 5.5).

Task by task the head goes where it costs least, found by a kernel over the tenants of all nodes; then every unit it can
do without is put back. Groups that must be close, and several groups in each other's way, go where they would if
everyone were gone; of those there, as many leave as it takes. What nodes cost is remembered for the next head that
asks for the same. Why it decides as it does: docs/adr/0022-victims-of-class-and-pool.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.fleet_index import blank_cells
from muster.engine.horizon import Horizon
from muster.engine.kernels import costing, evicting
from muster.engine.kernels.placing import Cells
from muster.engine.placement import Placer
from muster.engine.present import Flags
from muster.engine.rooms import Span
from muster.engine.stays import BORROWER
from muster.engine.tenants import Tenants
from muster.engine.victims import Fits, MustGo, Unit, merged, minimal
from muster.engine.walls import Walls
from muster.model.budgets import Budget
from muster.model.jobs import Job, Running, Task
from muster.model.names import NameKey, name_mark
from muster.model.plan import Rule

Budgets = Mapping[tuple[str, str], Budget]
Going = tuple[bool, int, bool, int, int, NameKey, int]

_ROOM_TO_LOG = 256  # tasks, at first


@dataclass(slots=True)
class _Costs:
    """What nodes cost, and as of which change that is known."""

    cells: Cells
    best: Cells
    seen: Cells


class Lower:
    """The tenants of a turn, and what nodes cost as far as that is known."""

    def __init__(self, budgets: Iterable[Budget], walls: Walls) -> None:
        self._walls = walls
        self._budgets: Budgets = {(budget.job, budget.group): budget for budget in budgets}
        self._as_of: tuple[int, Tenants] | None = None
        self._costs: dict[tuple[int, ...], _Costs] = {}

    def search(self, horizon: Horizon, head: Job, cluster: str, *, only_borrowers: bool) -> Search:
        """A search for the head in one cluster."""
        stays = horizon.stays
        if self._as_of is None or self._as_of[0] != stays.epoch:
            self._as_of = (stays.epoch, Tenants(horizon, self._budgets, self._walls))
            self._costs.clear()
        tenants = self._as_of[1]
        tenants.note_gone(stays.gone)
        tenants.note_walls()
        limit = BORROWER + 1 if only_borrowers else head.priority_class
        return Search(horizon, tenants, self._budgets, self._walls, self._costs, head, cluster, limit)


class Search:
    """One head looks for room in the place of ranks below a limit, in one cluster."""

    def __init__(
        self,
        horizon: Horizon,
        tenants: Tenants,
        budgets: Budgets,
        walls: Walls,
        costs: dict[tuple[int, ...], _Costs],
        head: Job,
        cluster: str,
        limit: int,
    ) -> None:
        self.horizon = horizon
        self.head = head
        self.cluster = cluster
        self._tenants = tenants
        self._budgets = budgets
        self._walls = walls
        self._limit = limit
        barred = set(horizon.stays.gave_way_to(head.id)) - horizon.stays.gone
        self._barred = {row for row in barred if tenants.tasks_in(row)}
        # A budget changes what other nodes cost than those whose room changes, and so does who is barred.
        self._costs = {} if tenants.has_budgets or self._barred else costs

    @property
    def is_barred(self) -> bool:
        """Whether someone gave way to the head before, from whom it may not take again."""
        return bool(self._barred)

    def has_anyone(self) -> bool:
        """Whether there is anyone in the cluster whom the head may take from."""
        return bool(self._in_reach().any())

    def _in_reach(self) -> Flags:
        """Which tenants the head may take from."""
        number = self.horizon.stays.resident.clusters.number(self.cluster)
        is_there = self._tenants.is_left(self._barred)
        in_reach: Flags = is_there & (self._tenants.rank < self._limit) & (self._tenants.cluster == number)
        return in_reach

    def enough(self, fits: Fits, who_must_go: MustGo) -> list[Unit] | None:
        """Those who go; None if nothing is enough."""
        groups = self.head.profile.groups
        is_close = any(group.is_close for group in groups)
        chosen = None if is_close else self._cheapest()
        if chosen is not None and not fits(chosen):
            chosen = None
        if chosen is None and (is_close or len(groups) > 1):
            chosen = self._near(fits)
        if chosen is not None and len(chosen) > 1:  # without anyone going the head does not fit: it has tried
            chosen.sort(key=self._going, reverse=True)
            chosen = minimal(chosen, fits, who_must_go(chosen))
        return None if chosen is None or self._walls.forbid(chosen) else chosen

    # -- task by task ----------------------------------------------------------------------------------

    def _cheapest(self) -> list[Unit] | None:
        """For every task the node where it costs least, as things stand with those before it."""
        room = _ROOM_TO_LOG + self.head.profile.tasks_min
        while True:
            with _Trial(self, room) as trial:
                result = trial.choose()
            if result == evicting.NO_ROOM_TO_LOG:
                room *= 4
            elif result == evicting.TIED:
                self._tenants.rank_by_name(self.horizon.stays)
                self._costs.clear()
            else:
                return None if result == evicting.TOO_DEAR else self._units_of(trial.tasks)

    def _units_of(self, tasks: list[int]) -> list[Unit]:
        """The units that these tasks, in the order in which they go, belong to."""
        stays, tenants = self.horizon.stays, self._tenants
        places: dict[int, list[int]] = {}
        for task in tasks:
            places.setdefault(tenants.owner_of(task), []).append(tenants.place_of(task))
        chosen: list[Unit] = []
        for row, mine in places.items():
            run = stays.run(row)
            above = set(run.surplus())
            if any(run.tasks[place] not in above for place in mine):
                chosen.append(self._unit(run, row, run.tasks, whole=True))
            else:
                chosen += [self._unit(run, row, (run.tasks[place],), whole=False) for place in mine]
        return chosen

    def _unit(self, run: Running, row: int, tasks: tuple[Task, ...], *, whole: bool) -> Unit:
        rule = Rule.BORROWER if row in self.horizon.stays.borrowers else Rule.CLASS
        return Unit(run=run, tasks=tasks, whole=whole, rule=rule)

    # -- in order --------------------------------------------------------------------------------------

    def _near(self, fits: Fits) -> list[Unit] | None:
        """Where the head would go if all of them were gone, as many of those there as it takes, in order."""
        near = self._those_near()
        near.sort(key=self._going)
        if not near or not fits(merged(near)):
            return None
        least, most = 1, len(near)
        while least < most:
            middle = (least + most) // 2
            least, most = (least, middle) if fits(merged(near[:middle])) else (middle + 1, most)
        return merged(near[:most])

    def _those_near(self) -> list[Unit]:
        """The units on the nodes where the head would go if everyone it may take from were gone."""
        stays, tenants, books = self.horizon.stays, self._tenants, self.horizon.now.books
        rows = self._rows_in_reach()
        lean = self.horizon.now.copy()
        lean.give_back(books.from_array(stays.moves_of(rows, books.grounds, self.horizon.asks)[0]))
        tasks = Placer(Span([lean])).place(self.head.profile, self.cluster, self.head.profile.least_widths)
        if tasks is None:
            return []
        found: list[Unit] = []
        nodes = {task.node for task in tasks}
        there, allowed = tenants.on(sorted({books.grounds.number[node] for node in nodes})), set(rows.tolist())
        for row in (row for row in there if row in allowed):
            run = stays.run(row)
            found += [self._unit(run, row, (task,), whole=False) for task in run.surplus() if task.node in nodes]
            found.append(self._whole(row))
        return found

    def _rows_in_reach(self) -> Ints:
        """The rows of those the head may take from, if they can go by themselves."""
        stays, rows = self.horizon.stays, self._tenants.rows[self._in_reach()]
        walled = [row for row in stays.rows_of(self._walls.jobs) if self._walls.forbid([self._whole(row)])]
        return rows[~np.isin(rows, walled)] if walled else rows

    def _whole(self, row: int) -> Unit:
        run = self.horizon.stays.run(row)
        return self._unit(run, row, run.tasks, whole=True)

    def _going(self, unit: Unit) -> Going:
        """Who goes first: without a violation, borrowers, the lowest class, single tasks, the newest."""
        run = unit.run
        rank = BORROWER if unit.rule is Rule.BORROWER else run.job.priority_class
        place = 0 if unit.whole else run.surplus().index(unit.tasks[0])
        mark = name_mark(run.job.id)
        return (self._violates(unit), rank, unit.whole, -run.started_ms, mark, run.job.key, place)

    def _violates(self, unit: Unit) -> bool:
        """Whether the unit cannot go without violating a disruption budget. Tasks behind a wall count in none."""
        job, has = unit.run.job.id, unit.run.tasks
        goes = self._walls.not_behind(unit) if self._budgets else []
        for group in {task.group for task in goes}:
            budget = self._budgets.get((job, group))
            left = sum(task.group == group for task in has) - sum(task.group == group for task in goes)
            if budget is not None and left < budget.min_available:
                return True
        return False


class _Trial:
    """The kernel's choice for all groups of the head; what it did is undone at the end, its tasks are kept."""

    def __init__(self, search: Search, room: int) -> None:
        self.tasks: list[int] = []
        self._search = search
        self._tenants = search._tenants
        self._span = search.horizon.span_from_now(search.head)
        self._room = room
        books = search.horizon.now.books
        self._chosen = blank_cells(room + 1, listed=books.listed)
        self._allowed = list(self._tenants.cells.allowed)

    def __enter__(self) -> _Trial:
        for task in self._barred():
            self._tenants.cells.gone[task] = 1
        return self

    def __exit__(self, *_: object) -> None:
        self.tasks = [int(task) for task in self._chosen[1 : 1 + self._chosen[0]]]
        self._span.undo()
        cells = self._tenants.cells
        for task in (*self.tasks, *self._barred()):
            cells.gone[task] = 0
        for slot, allowed in enumerate(self._allowed):
            cells.allowed[slot] = allowed

    def _barred(self) -> list[int]:
        return [task for row in self._search._barred for task in self._tenants.tasks_in(row)]

    def choose(self) -> int:
        """Choose for one group after the other; how many tasks go, or why nothing was chosen."""
        search, span = self._search, self._span
        books, grounds = span.books, span.books.grounds
        shape, cluster = grounds.shape_of(search.head.profile), grounds.cluster_number[search.cluster]
        starts = search.horizon.starts_from_now(search.head)
        for group, width in zip(shape.groups, shape.least, strict=True):
            ground, cells, index, _, trial = span.cells(self._room)
            key = (group, cluster, search._limit, *(rooms.birth for rooms in span.moments))
            costs = search._costs.get(key)
            if costs is None:
                blank = blank_cells(len(grounds.names) * costing.COST, listed=books.listed)
                blocks = -(-len(grounds.names) // evicting.BLOCK)
                best = books.of([evicting.UNKNOWN] * blocks)
                costs = search._costs[key] = _Costs(blank, best, books.of([-1]))
            result = books.kernels.choose_for_group(
                ground,
                cells,
                index,
                trial,
                books.of(starts),
                self._tenants.cells,
                self._tenants.units,
                costs.cells,
                costs.best,
                costs.seen,
                self._chosen,
                group,
                width,
                cluster,
                search._limit,
                self._room - int(self._chosen[0]) - 1,
            )
            if result < 0:
                return result
        return int(self._chosen[0])
