"""Who grows: running elastic jobs take room that nobody who waits can use in this turn (design.md 5.6).

Least served first, queues below their entitled share before others, one task each per round. Room that is promised may
be used if the job can be shrunk again before the promise is due. Nobody gives way to growth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import accumulate, groupby

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.devices import devices_of
from muster.engine.elastic.load import Load
from muster.engine.elastic.unit import Unit
from muster.engine.horizon import Horizon
from muster.engine.kernels import placing
from muster.engine.kernels.growing import Growing
from muster.engine.ledger import Ledger
from muster.engine.rooms import Rooms, Span
from muster.model.jobs import Profile, Task, TaskGroup
from muster.model.nodes import Node, hops

MOST_TASKS = 1 << 20  # that may come in one turn

Groups = tuple[TaskGroup, ...]
Columns = tuple[list[tuple[Unit, TaskGroup]], Growing]


class Grower:
    """Lets units grow on the books as a turn leaves them."""

    def __init__(self, horizon: Horizon, ledger: Ledger, load: Load, thaws_again_ms: Callable[[Unit], int]) -> None:
        self._horizon = horizon
        self._ledger = ledger
        self._load = load
        self._thaws_again_ms = thaws_again_ms
        self._promised = sorted(horizon.promised.values(), key=lambda it: it.order)
        self._moments: list[Rooms] = [horizon.now, *(it.rooms for it in self._promised)]

    def moments(self, unit: Unit) -> int:
        """How many moments, from now on, one task more of it must fit at: until it may be shrunk again."""
        thaws_ms = self._thaws_again_ms(unit)
        return 1 + sum(it.due_ms < thaws_ms for it in self._promised)

    # -- all together ----------------------------------------------------------------------------------

    def grow(self, units: Iterable[Unit]) -> None:
        """As wide as there is room, least served first."""
        room: dict[tuple[Profile, str, str], bool] = {}  # thousands of jobs share a few profiles

        def has_room(unit: Unit, group: TaskGroup) -> bool:
            key = (unit.run.job.profile, group.name, unit.run.cluster)
            if key not in room:
                room[key] = self._has_room(group, unit.run.cluster)
            return room[key]

        able = [
            (unit, groups)
            for unit in units
            if (groups := tuple(group for group in _elastic(unit) if has_room(unit, group)))
        ]
        self._grow_apart(self._columns([(unit, _free_of(groups)) for unit, groups in able]))
        for unit, groups in able:  # who must stay close is looked at one by one
            for group in groups:
                while group.max_hops is not None and self._may_grow(unit, group) and self.widen(unit, group):
                    pass

    def _has_room(self, group: TaskGroup, cluster: str) -> bool:
        """Whether one task of the group fits anywhere now; if not, nobody who has such a group need be asked."""
        span = Span(self._moments[:1])
        is_there = self._place(span, group, cluster)
        span.undo()
        return is_there

    @staticmethod
    def _may_grow(unit: Unit, group: TaskGroup) -> bool:
        return unit.may_change and not unit.went and unit.width(group) < group.max

    def _grow_apart(self, columns: Columns) -> None:
        entries, growing = columns
        if not entries:
            return
        room = int(min((growing.most - growing.width).clip(min=0).sum(), MOST_TASKS))
        came = np.zeros((room, 3), np.int64)
        ground, books, index, _, trial = Span(self._moments).cells(1)
        entitled = self._ledger.entitled
        many = self._horizon.now.books.kernels.grow(
            ground,
            books,
            index,
            trial,
            growing,
            self._ledger.columns,
            entitled,
            np.zeros(len(entitled), np.int64),
            self._load.margin,
            came,
        )
        names = self._horizon.now.books.grounds.names
        order = np.argsort(came[:many, 0], kind="stable")
        groups, nodes, devices = came[order].T.tolist()
        for entry, places in groupby(range(many), key=groups.__getitem__):
            unit, group = entries[entry]
            first, *others = places
            new = slice(first, first + 1 + len(others))
            unit.gain(group.name, [names[node] for node in nodes[new]], map(devices_of, devices[new]))

    def _columns(self, able: list[tuple[Unit, Groups]]) -> Columns:
        grounds, ledger = self._horizon.now.books.grounds, self._ledger
        units, many = [unit for unit, _ in able], [len(groups) for _, groups in able]
        entries = [(unit, group) for unit, groups in able for group in groups]
        asked = cache(lambda profile: {group.name: self._asked(group) for group in profile.groups})
        asks = [asked(unit.run.job.profile)[group.name] for unit, group in entries]
        growing = Growing(
            first=_ints(accumulate(many, initial=0)),
            cluster=_ints(grounds.cluster_number[unit.run.cluster] for unit in units),
            queue=_ints(ledger.queues[unit.run.job.queue].number for unit in units),
            user=_ints(ledger.user_number(unit.run.job.user) for unit in units),
            moments=_ints(self.moments(unit) for unit in units) if self._promised else np.ones(len(units), np.int64),
            is_done=np.zeros(len(units), np.int64),
            group=_ints(number for number, _, _ in asks),
            width=_ints(unit.width(group) for unit, group in entries),
            least=_ints(group.min for _, group in entries),
            most=_ints(group.max for _, group in entries),
            usage=_ints(usage for _, usage, _ in asks),
            asks=np.array([row for _, _, row in asks], np.int64),
            is_tried=np.zeros(len(entries), np.int64),
        )
        return entries, growing

    def _asked(self, group: TaskGroup) -> tuple[int, int, Ints]:
        """The number of the group, what one task of it uses, and what it asks for."""
        asks = group.request.resources
        number = self._horizon.now.books.grounds.group_number(group)
        return number, self._ledger.weights.usage(asks), self._ledger.shapes.row(asks)

    # -- one by one ------------------------------------------------------------------------------------

    def widen(self, unit: Unit, group: TaskGroup, only: str | None = None) -> bool:
        """One task more of the group, if quotas, load and room allow it; `only`: on this node."""
        job, asks = unit.run.job, group.request.resources
        if not self._load.takes(unit.run.cluster, asks) or not self._ledger.has_quota_for(job, asks):
            return False
        span = Span(self._moments[: self.moments(unit)])
        task = self._anywhere(span, unit, group) if only is None and group.max_hops is None else None
        if task is None:
            node = next((name for name in self._near(unit, group, only) if span.fits(name, group)), None)
            if node is None:
                return False
            task = Task(group=group.name, index=0, node=node, devices=span.take(node, group))
        self._load.change(unit.run.cluster, asks, -1)
        self._ledger.widen(job, (task,))
        unit.gain(group.name, (task.node,), (task.devices,))
        return True

    def widen_by(self, unit: Unit, group: TaskGroup, many: int) -> None:
        """Up to so many tasks more, beside those it has as far as there is room, then on as few nodes as can be."""
        beside = Counter(task.node for task in unit.tasks if task.group == group.name)
        for node, _ in sorted(beside.items(), key=lambda it: (-it[1], it[0])):
            while many and self.widen(unit, group, node):
                many -= 1
        many = self._allowed(unit, group, many)
        span = Span(self._moments[: self.moments(unit)])
        grounds, cluster = span.books.grounds, unit.run.cluster
        cells = span.cells(many)
        span.clear()
        where = grounds.group_number(group), grounds.cluster_number[cluster], placing.OPEN
        placed = int(span.books.kernels.place_group(*cells, *where, many)) if many else 0
        tasks = [Task(group.name, 0, grounds.names[node], devices_of(bits)) for _, node, bits in span.answer(placed)]
        for task in tasks:
            self._load.change(cluster, group.request.resources, -1)
            self._ledger.widen(unit.run.job, (task,))
        unit.gain(group.name, [task.node for task in tasks], [task.devices for task in tasks])

    def may_use(self, node: str, group: TaskGroup) -> bool:
        """Whether tasks of the group may be on that node at all."""
        fleet = self._horizon.now.books.grounds.fleet
        return node in fleet.nodes and fleet.suits(fleet.nodes[node], group.constraint)

    def _allowed(self, unit: Unit, group: TaskGroup, many: int) -> int:
        """How many of so many tasks quotas and load allow."""
        asks = group.request.resources
        while many and not (
            self._load.takes(unit.run.cluster, asks * many) and self._ledger.has_quota_for(unit.run.job, asks * many)
        ):
            many -= 1
        return many

    def _anywhere(self, span: Span, unit: Unit, group: TaskGroup) -> Task | None:
        """The task on the tightest node that has room for it; there it is taken."""
        if not self._place(span, group, unit.run.cluster):
            return None
        grounds = span.books.grounds
        ((_, node, devices),) = span.answer(1)
        return Task(group=group.name, index=0, node=grounds.names[node], devices=devices_of(devices))

    def _place(self, span: Span, group: TaskGroup, cluster: str) -> bool:
        """One task of the group on the tightest node that has room; whether there is one."""
        grounds = span.books.grounds
        number, place = grounds.group_number(group), grounds.cluster_number[cluster]
        cells = span.cells(1)
        span.clear()
        return bool(span.books.kernels.place_group(*cells, number, place, placing.OPEN, 1))

    def _near(self, unit: Unit, group: TaskGroup, only: str | None) -> Iterator[str]:
        """Nodes near enough to every task of the group, the closest first; `only` this one, if it is."""
        fleet = self._horizon.now.books.grounds.fleet
        if group.max_hops is None and only is None:
            return
        held = [fleet.nodes[task.node] for task in unit.tasks if task.group == group.name and task.node in fleet.nodes]
        nodes = fleet.open_matching(unit.run.cluster, group.constraint)
        if only is not None:
            nodes = (fleet.nodes[only],) if only and fleet.suits(fleet.nodes[only], group.constraint) else ()
        apart = [(_furthest(node, held), node.key, node) for node in nodes if node.cluster == unit.run.cluster]
        for distance, _, node in sorted(apart, key=lambda it: it[:2]):
            if group.max_hops is None or distance <= group.max_hops:
                yield node.name


def _free_of(groups: Groups) -> Groups:
    """Those that may be anywhere."""
    return tuple(group for group in groups if group.max_hops is None)


def _elastic(unit: Unit) -> Groups:
    """The groups of the unit that could be wider."""
    groups = unit.run.job.profile.groups
    return tuple(group for group in groups if group.min < group.max and unit.width(group) < group.max)


def _furthest(node: Node, held: list[Node]) -> int:
    return max((hops(node, other) for other in held), default=0)


def _ints(numbers: Iterable[int]) -> Ints:
    return np.array(list(numbers), np.int64)
