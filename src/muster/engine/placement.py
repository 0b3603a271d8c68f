"""Where the tasks of a job go, inside one cluster (design.md 5.4).

All or nothing. Tasks go to the node where the least opportunity is lost: the tightest fit, measured in rough
steps so that it can be indexed, then node order; nodes with GPUs come last for those who ask for none. Filling the
tightest node first also keeps the number of nodes small. Tasks that care stay as close together as can be: the
smallest hop count, then without wasting GPUs, then the tightest set of nodes.

The search is in the kernels of kernels/placing.py; here jobs become numbers, and numbers become tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.engine.columns.devices import devices_of
from muster.engine.columns.fleet_index import Grounds, blank_cells
from muster.engine.kernels import placing, sets
from muster.engine.kernels.placing import Cells
from muster.engine.rooms import Span
from muster.model.jobs import Profile, Task, TaskGroup
from muster.model.resources import GPU

step = sets.step

WHOLE_NODE = "wholeNode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Why a job does not fit: `dimension` is short on `short` of the `matching` nodes.

    `placed` of the `needed` tasks found room. A dimension is a resource, or what else stood in the way:
    nodeSelector, affinity, taint, cordoned, wholeNode, topology, nodes or clusters (there are none). `lacking`: on how
    many nodes one more task lacks each resource, or a node for itself, if that is what stood in the way.
    """

    dimension: str
    group: TaskGroup
    short: int
    matching: int
    placed: int
    needed: int
    lacking: Mapping[str, int] = field(default_factory=dict, compare=False)


NODES, CLUSTERS = "nodes", "clusters"  # the dimensions of which there are none


def nearest(profile: Profile, shortages: Iterable[Shortage]) -> Shortage:
    """Of what a job lacks in each cluster, what it lacks where it lacks least. A cluster without nodes says nothing."""
    none = Shortage(
        dimension=CLUSTERS, group=profile.groups[0], short=0, matching=0, placed=0, needed=profile.tasks_min
    )
    return max(shortages, key=lambda shortage: (shortage.placed, shortage.dimension != NODES), default=none)


Tasks = tuple[Task, ...]


class Placer:
    """Places profiles on one span of room. `everywhere`: cordoned nodes count too (could it ever fit?)."""

    def __init__(self, span: Span, *, everywhere: bool = False) -> None:
        self.span = span
        self.books = span.books
        self.grounds = span.books.grounds
        self.column = placing.ANY if everywhere else placing.OPEN

    def place(self, profile: Profile, cluster: str, widths: Mapping[str, int]) -> Tasks | None:
        """The widest placement from min up to `widths`, taken from the span; None, with nothing taken, if min fails."""
        shape = self.grounds.shape_of(profile)
        groups, least = shape.cells(listed=self.books.listed)
        wanted, reached, many = least, least, profile.tasks_min  # of the least, nothing else is ever reached
        if widths is not profile.least_widths:
            numbers = [widths[group.name] for group in profile.groups]
            wanted, reached, many = self.books.of(numbers), self.books.of(numbers), max(sum(numbers), many)
        count = self.books.kernels.place(
            *self.span.cells(many),
            groups,
            least,
            wanted,
            reached,
            self.grounds.cluster_number[cluster],
            self.column,
        )
        return None if count < 0 else self._tasks(profile, count)

    def _tasks(self, profile: Profile, count: int) -> Tasks:
        """The tasks that the kernel wrote down."""
        return tasks_of(self.grounds, profile, self.span.answer(count))

    def shortage(self, profile: Profile, cluster: str) -> Shortage:
        """What keeps the profile from being placed at its min. Only for profiles that do not fit."""
        mark, placed = self.span.mark(), 0
        for group in profile.groups:
            placed += (count := self._place_group(group, cluster))
            if count < group.min:
                break
        dimension, short, matching, lacking = self._short_of(group, cluster)
        self.span.undo(mark)
        return Shortage(
            dimension=dimension,
            group=group,
            short=short,
            matching=matching,
            placed=placed,
            needed=profile.tasks_min,
            lacking=lacking,
        )

    def _place_group(self, group: TaskGroup, cluster: str) -> int:
        """As many tasks of the group as fit, up to its min; returns how many."""
        number, at = self.grounds.group_number(group), self.grounds.cluster_number[cluster]
        cells = self.span.cells(group.min)
        self.span.clear()
        return self.books.kernels.place_group(*cells, number, at, self.column, group.min)

    def _short_of(self, group: TaskGroup, cluster: str) -> tuple[str, int, int, dict[str, int]]:
        """What stands in the way of one more task as the span is now, on how many nodes, of how many; and what else."""
        number, at = self.grounds.group_number(group), self.grounds.cluster_number[cluster]
        counts, unknown = self.books.of([0] * (len(self.grounds.dims) + 2)), self.grounds.unknown(group.request)
        ground, books, _ = self.span.moments[0].cells()
        matching = self.books.kernels.count_lacking(ground, books, self.span.trial(0), number, at, self.column, counts)
        if not matching:
            return (*self.grounds.refusal(cluster, group.constraint), 0, {})
        *by_dim, whole_node, nothing = (int(count) for count in counts)
        if nothing and not unknown:  # one more task would fit somewhere, only not close enough
            return "topology", nothing, matching, {}
        lacking = dict(zip(self.grounds.dims, by_dim, strict=True))
        lacking |= {WHOLE_NODE: whole_node} | dict.fromkeys(unknown, matching - whole_node)
        dimension = max(lacking, key=lambda name: (lacking[name], name == GPU, name))
        return dimension, lacking[dimension], matching, lacking


def tasks_of(grounds: Grounds, profile: Profile, numbers: list[list[int]]) -> Tasks:
    """Tasks told in numbers: the place of the group in its profile, node, devices; group by group."""
    tasks: list[Task] = []
    place, index = -1, 0
    for group, node, devices in numbers:
        place, index = group, index + 1 if group == place else 0
        name = profile.groups[group].name
        tasks.append(Task(group=name, index=index, node=grounds.names[node], devices=devices_of(devices)))
    return tuple(tasks)


class Leavers(NamedTuple):
    """Who leaves when, first to leave first, in cells: the moves of each are those up to its own of `lasts`."""

    moments: Cells
    moves: Cells
    lasts: Cells


class Headcount:
    """How many tasks of each group the nodes of a cluster take, kept up as rooms change.

    Groups are counted each by itself: enough here is needed, but not sufficient, for a gang to fit.
    """

    def __init__(self, placer: Placer, profile: Profile, cluster: str) -> None:
        self._span = placer.span
        self._books = books = placer.books
        shape = placer.grounds.shape_of(profile)
        self._groups, self._least = shape.cells(listed=books.listed)
        self._where = (placer.grounds.cluster_number[cluster], placer.column)
        self._totals = blank_cells(len(shape.groups), listed=books.listed)
        self._counts = blank_cells(len(shape.groups) * len(placer.grounds.names), listed=books.listed)
        self._seen = -1

    def free_until_enough(self, leaving: Leavers, position: int) -> tuple[int, bool]:
        """Let those after so many leave until every group could have its min if it were alone; who has left then."""
        trial, rooms = self._span.trial(1), self._span.moments[0]
        position, self._seen, is_enough = self._books.kernels.free_until_enough(
            *rooms.cells(),
            trial,
            leaving.moves,
            leaving.lasts,
            leaving.moments,
            position,
            self._groups,
            self._least,
            *self._where,
            self._totals,
            self._counts,
            self._seen,
        )
        return position, is_enough

    def who_must_go(self, leaving: Leavers, tasks: int) -> list[bool]:
        """With all of them gone: without whose place alone some group could not have its min. Of a new headcount."""
        trial, must = self._span.trial(2 * tasks), self._books.of([0] * len(leaving.lasts))
        self._books.kernels.who_must_go(
            *self._span.moments[0].cells(),
            trial,
            leaving.moves,
            leaving.lasts,
            self._groups,
            self._least,
            *self._where,
            self._totals,
            self._counts,
            must,
        )
        return [bool(each) for each in must]
