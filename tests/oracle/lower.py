"""Who gives way to a blocked head whatever their age: borrowers, and lower classes (design.md 5.5).

Task by task the head goes where it costs least, until all of it fits; then every unit it can do without is put back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.model.budgets import Budget
from muster.model.fleet import Fleet
from muster.model.jobs import Job, Running, Task, TaskGroup
from muster.model.names import NameKey, name_mark
from muster.model.nodes import Node, Room
from muster.model.plan import Rule
from oracle.measure import Measure
from oracle.placement import Placer
from oracle.room import Span
from oracle.victims import Fits, Unit, merged, minimal
from oracle.walls import Walls

Going = tuple[bool, int, bool, int, int, NameKey, int]
BORROWER = -(1 << 62)  # lower than any class


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one more task on a node costs; the node is the cheapest whose `key` is the least."""

    key: tuple[int, int, int, int, int, int]
    node: str
    units: list[Unit]


@dataclass(kw_only=True)
class Lower:
    """Those a head may take from, in one cluster."""

    head: Job
    cluster: str
    fleet: Fleet
    empties: Mapping[str, Room]
    budgets: Mapping[tuple[str, str], Budget]
    walls: Walls
    units: list[Unit]
    starts: list[int]
    measure: Measure | None = None
    _gone: set[tuple[str, Task]] = field(default_factory=set)
    _behind: Counter[str] = field(default_factory=Counter)  # how many of those who are gone were behind each wall

    def enough(self, span: Span, fits: Fits) -> list[Unit] | None:
        """Those of the units that go; None if nothing is enough."""
        groups = self.head.profile.groups
        is_close = any(group.is_close for group in groups)
        chosen = None if is_close else self._cheapest(span)
        span.undo()
        if chosen is not None and not fits(chosen):
            chosen = None
        if chosen is None and (is_close or len(groups) > 1):
            chosen = self._near(fits, span.at([0]))
        if chosen is None:
            return None
        few = minimal(sorted(chosen, key=self._going, reverse=True), fits)
        return few if self.walls.allow(((unit.run, task) for unit in few for task in unit.tasks), {}) else None

    # -- task by task ----------------------------------------------------------------------------------

    def _cheapest(self, span: Span) -> list[Unit] | None:
        """For every task the node where it costs least, as things stand with those before it."""
        chosen: list[Unit] = []
        for group in self.head.profile.groups:
            nodes = self.fleet.open_matching(self.cluster, group.constraint)
            for _ in range(group.min):
                costs = [self._cost(span, group, node, place) for place, node in enumerate(nodes)]
                best = min((cost for cost in costs if cost is not None), key=lambda cost: cost.key, default=None)
                if best is None:
                    self._forget_gone()
                    return None
                for unit in best.units:
                    self._leave(span, unit)
                chosen += best.units
                span.take(best.node, group.request)
        self._forget_gone()
        return merged(chosen)

    def _forget_gone(self) -> None:
        self._gone.clear()
        self._behind.clear()

    def _cost(self, span: Span, group: TaskGroup, node: Node, place: int) -> Cost | None:
        """What it costs to put one more task here; None if that is not possible."""
        if span.fits(node.name, group.request):
            return Cost(key=(0, BORROWER - 1, 0, 0, 0, place), node=node.name, units=[])
        mark, here = span.mark(), self._within_walls(sorted(self._on(node.name), key=self._going))
        for unit in here:
            self._move(span, unit, node.name, gives=True)
        go: list[Unit] = []
        if is_possible := span.fits(node.name, group.request):
            for unit in reversed(here):
                if any(other.whole and other.run is unit.run for other in go):
                    continue  # it goes with the rest of its job
                self._move(span, unit, node.name, gives=False)
                if not span.fits(node.name, group.request):
                    self._move(span, unit, node.name, gives=True)
                    go.append(unit)
        span.undo(mark)
        if not is_possible:
            return None
        tasks = [(unit, task) for unit in go for task in self._left(unit)]
        key = (
            self._violations(tasks),
            max((_rank(unit) for unit in go), default=BORROWER - 1),
            sum(max(_rank(unit), 0) for unit, _ in tasks),
            len(tasks),
            -min((unit.run.started_ms for unit in go), default=0),
            place,
        )
        return Cost(key=key, node=node.name, units=go)

    def _on(self, node: str) -> Iterable[Unit]:
        """The units that would make room on the node: what is above min task by task, the rest with its job."""
        for unit in self.units:
            above = set(unit.run.surplus()) if unit.whole else ()
            if any(task.node == node and task not in above for task in self._left(unit)):
                yield unit

    def _within_walls(self, units: list[Unit]) -> list[Unit]:
        """Of units behind one wall only the first to go, as many as may go together."""
        behind, found = Counter(self._behind), []
        on_their_own = [unit for unit in units if self.walls.allow(self._tasks_of(unit), self._behind)]
        for unit in on_their_own:
            if self.walls.allow(self._tasks_of(unit), behind):
                behind.update(self.walls.counted(self._tasks_of(unit)))
                found.append(unit)
        return found

    def _tasks_of(self, unit: Unit) -> list[tuple[Running, Task]]:
        return [(unit.run, task) for task in self._left(unit)]

    def _left(self, unit: Unit) -> list[Task]:
        """Its tasks that are not gone yet."""
        return [task for task in unit.tasks if (unit.run.job.id, task) not in self._gone]

    def _move(self, span: Span, unit: Unit, node: str, *, gives: bool) -> None:
        """What a unit has on the node, tasks above min of a whole job apart, leaves or comes back."""
        above = set(unit.run.surplus()) if unit.whole else ()
        for task in self._left(unit):
            if task.node == node and task not in above:
                request = unit.run.job.profile.group(task.group).request
                there = span.at(self._moments_of(unit.run))
                if gives:
                    there.give(node, request, task.devices, self.empties[node])
                else:
                    there.put(node, request, task.devices)

    def _leave(self, span: Span, unit: Unit) -> None:
        """The unit is gone from all its nodes."""
        self._behind.update(self.walls.counted(self._tasks_of(unit)))
        there = span.at(self._moments_of(unit.run))
        for task in self._left(unit):
            there.give(task.node, unit.run.job.profile.group(task.group).request, task.devices, self.empties[task.node])
            self._gone.add((unit.run.job.id, task))

    def _moments_of(self, run: Running) -> list[int]:
        """At which moments the run is there: not when it is stated to have left by then."""
        now_ms = self.starts[0]
        return [at for at, ms in enumerate(self.starts) if at == 0 or run.end_ms <= now_ms or run.end_ms > ms]

    # -- in order --------------------------------------------------------------------------------------

    def _near(self, fits: Fits, span: Span) -> list[Unit] | None:
        """Where the head would go if all of them were gone, as many of those there as it takes, in order."""
        walled = {unit.run.job.id for unit in self.units if unit.whole and not self._may_go(unit)}
        units = [unit for unit in self.units if unit.run.job.id not in walled]
        for unit in units:
            if unit.whole:
                for task in unit.tasks:
                    request = unit.run.job.profile.group(task.group).request
                    span.give(task.node, request, task.devices, self.empties[task.node])
        tasks = Placer(self.fleet, span, measure=self.measure).place(
            self.head.profile, self.cluster, self.head.profile.least_widths
        )
        span.undo()
        if tasks is None:
            return None
        nodes = {task.node for task in tasks}
        near = [unit for unit in units if any(task.node in nodes for task in unit.tasks)]
        near.sort(key=self._going)
        if not near or not fits(merged(near)):
            return None
        least, most = 1, len(near)
        while least < most:
            middle = (least + most) // 2
            least, most = (least, middle) if fits(merged(near[:middle])) else (middle + 1, most)
        return merged(near[:most])

    def _may_go(self, unit: Unit) -> bool:
        return self.walls.allow(self._tasks_of(unit), {})

    def _going(self, unit: Unit) -> Going:
        """Who goes first: without a violation, borrowers, the lowest class, single tasks, the newest."""
        run = unit.run
        violates = self._violations((unit, task) for task in self._left(unit)) > 0
        place = 0 if unit.whole else run.surplus().index(unit.tasks[0])
        return (
            violates,
            _rank(unit),
            unit.whole,
            -run.started_ms,
            name_mark(run.job.id),
            run.job.key,
            place,
        )

    def _violations(self, tasks: Iterable[tuple[Unit, Task]]) -> int:
        """How many of these tasks leave fewer of their group than its disruption budget says."""
        left: dict[tuple[str, str], int] = {}
        violations = 0
        for unit, task in tasks:
            key = (unit.run.job.id, task.group)
            if key in self.budgets and self.walls.wall_of(unit.run, task) is None:
                if key not in left:
                    left[key] = self._running(unit.run, task.group)
                left[key] -= 1
                violations += left[key] < self.budgets[key].min_available
        return violations

    def _running(self, run: Running, group: str) -> int:
        """How many tasks of a group count in its budget: all but those that are gone from it. Those behind a wall never
        leave it, since nobody counts them."""
        gone = {
            task for task in run.tasks if (run.job.id, task) in self._gone and self.walls.wall_of(run, task) is None
        }
        return sum(task.group == group and task not in gone for task in run.tasks)


def _rank(unit: Unit) -> int:
    return BORROWER if unit.rule is Rule.BORROWER else unit.run.job.priority_class


def lower_units(
    head: Job, movable: Iterable[Running], borrowers: frozenset[str], *, only_borrowers: bool
) -> list[Unit]:
    """Every unit the head may take as a borrower's, or of a lower class; never again of one it took from before."""
    found: list[Unit] = []
    for run in movable:
        is_borrower = run.job.id in borrowers
        is_lower = not only_borrowers and run.job.priority_class < head.priority_class
        if head.id in run.preempted_by or not (is_borrower or is_lower):
            continue
        rule = Rule.BORROWER if is_borrower else Rule.CLASS
        found += [Unit(run=run, tasks=(task,), whole=False, rule=rule) for task in run.surplus()]
        found.append(Unit(run=run, tasks=run.tasks, whole=True, rule=rule))
    return found
