"""Where the tasks of a job go, inside one cluster (design.md 5.4).

All or nothing. Tasks go to the node where the least opportunity is lost: the tightest fit, measured in rough
steps so that it can be indexed, then node order; nodes with GPUs come last for those who ask for none. Filling the
tightest node first also keeps the number of nodes small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from muster.model.fleet import Fleet
from muster.model.jobs import Profile, Task, TaskGroup
from muster.model.nodes import DEVICE_MILLI, Node, Request, Room
from muster.model.placement import PlacementRule
from muster.model.resources import CPU, GPU, MEMORY
from oracle.measure import Measure
from oracle.room import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Why a job does not fit: `dimension` is short on `short` of the `matching` nodes.

    `placed` of the `needed` tasks found room. A dimension is a resource, or what else stood in the way:
    nodeSelector, affinity, taint, cordoned, wholeNode, topology, nodes or clusters (there are none).
    """

    dimension: str
    group: TaskGroup
    short: int
    matching: int
    placed: int
    needed: int


Tasks = tuple[Task, ...]


def step(amount: int, steps: int) -> int:
    """Where an amount stands on a logarithmic scale with so many steps (1, 2 or 4) per doubling."""
    if amount < steps:
        return amount
    shift = amount.bit_length() - steps.bit_length()
    return shift * steps + (amount >> shift)


def tightness(node: Node, room: Room, request: Request) -> tuple[int, ...]:
    """Sort key, node order aside: the smaller, the less opportunity is lost by putting such a task here.

    Who asks for whole devices goes where fewest are whole; who asks for a part of one, to the device it fills most;
    who asks for none, first where there are none. Then counts how much is free, in rough steps.
    """
    if request.gpus and request.gpu_milli < DEVICE_MILLI:
        return (min(free for free in room.devices if free >= request.gpu_milli),)
    rough = (step(room.free.get(CPU), 4), step(room.free.get(MEMORY) >> 20, 1))
    whole = room.devices.count(DEVICE_MILLI) if request.gpus else int(node.has_gpus)
    return (whole, *rough)


class Placer:
    """Places profiles on one span of room. `everywhere`: cordoned nodes count too (could it ever fit?)."""

    def __init__(self, fleet: Fleet, span: Span, *, everywhere: bool = False, measure: Measure | None = None) -> None:
        self.fleet = fleet
        self.span = span
        self.measure = measure
        self.everywhere = everywhere

    def place(self, profile: Profile, cluster: str, widths: Mapping[str, int]) -> Tasks | None:
        """The widest placement from min up to `widths`, taken from the span; None, with nothing taken, if min fails."""
        least = profile.least_widths
        tasks = self._gang(profile, cluster, widths)
        if tasks is not None or least == widths:
            return tasks
        mark = self.span.mark()
        if self._gang(profile, cluster, least) is None:
            return None
        best = dict(least)
        for group in profile.groups:
            low, high = best[group.name], widths[group.name]
            while low < high:
                middle = (low + high + 1) // 2
                self.span.undo(mark)
                if self._gang(profile, cluster, best | {group.name: middle}) is None:
                    high = middle - 1
                else:
                    low = middle
            best[group.name] = low
        self.span.undo(mark)
        return self._gang(profile, cluster, best)

    def _gang(self, profile: Profile, cluster: str, widths: Mapping[str, int]) -> Tasks | None:
        mark = self.span.mark()
        tasks: list[Task] = []
        for group in profile.groups:
            placed = self._group(group, widths[group.name], cluster)
            if len(placed) < widths[group.name]:
                self.span.undo(mark)
                return None
            tasks += placed
        return tuple(tasks)

    def _group(self, group: TaskGroup, count: int, cluster: str) -> list[Task]:
        """As many tasks of the group as fit, up to `count`."""
        nodes = self.nodes(group, cluster)
        return self._close(group, count, cluster, nodes) if group.is_close else self._fill(group, count, nodes)

    def nodes(self, group: TaskGroup, cluster: str) -> tuple[Node, ...]:
        """The nodes the group may use."""
        if self.everywhere:
            return self.fleet.matching(cluster, group.constraint)
        return self.fleet.open_matching(cluster, group.constraint)

    def _fill(self, group: TaskGroup, count: int, nodes: Iterable[Node]) -> list[Task]:
        """Up to `count` tasks, tightest node first. A node stays the tightest until it is full."""
        if self.measure is not None:
            return self._fill_cheapest(self.measure, group, count, list(nodes))
        request, span = group.request, self.span
        rooms = span.moments[0]
        fitting = [
            (tightness(node, rooms[node.name], request), node.key, node.name)
            for node in nodes
            if span.fits(node.name, request)
        ]
        tasks: list[Task] = []
        for _, _, name in [min(fitting)] if count == 1 and fitting else sorted(fitting):
            while len(tasks) < count and span.fits(name, request):
                devices = span.take(name, request)
                tasks.append(Task(group=group.name, index=len(tasks), node=name, devices=devices))
            if len(tasks) == count:
                break
        return tasks

    def _fill_cheapest(self, measure: Measure, group: TaskGroup, count: int, nodes: list[Node]) -> list[Task]:
        """Up to `count` tasks, each on the node where it costs least as things are then."""
        request, span, tasks = group.request, self.span, list[Task]()
        while len(tasks) < count:
            options = []
            for node in nodes:
                if span.fits(node.name, request):
                    cost, devices = measure.best(span, node, request)
                    is_tight = tightness(node, span.moments[0][node.name], request)
                    tight = is_tight if measure.rule is PlacementRule.FRAGMENTATION else ()
                    options.append((cost, tight, node.key, node.name, devices))
            if not options:
                break
            *_, name, devices = min(options)
            span.put(name, request, devices)
            tasks.append(Task(group=group.name, index=len(tasks), node=name, devices=devices))
        return tasks

    def _close(self, group: TaskGroup, count: int, cluster: str, nodes: Iterable[Node]) -> list[Task]:
        """All tasks as close together as can be: the smallest hop count, then the tightest set of nodes."""
        usable = {node.name for node in nodes}
        counts: dict[str, int] = {name: self.how_many(name, group.request, count) for name in usable}
        best: tuple[int, bool, int, tuple[str, ...]] | None = None
        chosen: tuple[Node, ...] = ()
        most = 0
        for domain in self.fleet.domains(cluster):
            too_far = group.max_hops is not None and domain.hops > group.max_hops
            if too_far or (best is not None and domain.hops > best[0]):
                break
            holds = sum(counts.get(node.name, 0) for node in domain.nodes)
            wastes_gpus = not group.request.gpus and any(node.has_gpus for node in domain.nodes)
            key = (domain.hops, wastes_gpus, holds, domain.path)
            if holds >= count and (best is None or key < best):
                best, chosen = key, domain.nodes
            elif best is None and holds > most:
                most, chosen = holds, domain.nodes
        if best is None and group.max_hops is None:
            chosen = self.fleet.nodes_of(cluster)
        return self._fill(group, count, [node for node in chosen if node.name in usable])

    def how_many(self, node: str, request: Request, most: int) -> int:
        """How many such tasks the node takes, counted up to `most`."""
        room, count = self.span.room(node), 0
        while count < most and room.fits(request):
            room = room.take(request, room.devices_for(request))
            count += 1
        return count

    def shortage(self, profile: Profile, cluster: str) -> Shortage:
        """What keeps the profile from being placed at its min. Only for profiles that do not fit."""
        mark, placed = self.span.mark(), 0
        for group in profile.groups:
            placed += (count := len(self._group(group, group.min, cluster)))
            if count < group.min:
                break
        dimension, short = self._short_of(group, cluster)
        self.span.undo(mark)
        return Shortage(
            dimension=dimension,
            group=group,
            short=short,
            matching=len(self.nodes(group, cluster)),
            placed=placed,
            needed=profile.tasks_min,
        )

    def _short_of(self, group: TaskGroup, cluster: str) -> tuple[str, int]:
        """What stands in the way of one more task as the span is now, and on how many nodes."""
        nodes = self.nodes(group, cluster)
        lacking: dict[str, int] = {}
        for node in nodes:
            for name in _lacks(self.span.room(node.name), group.request) or ("topology",):
                lacking[name] = lacking.get(name, 0) + 1
        if not nodes:
            return self._refusal(group, cluster)
        if "topology" in lacking:  # one more task would fit somewhere, only not close enough
            return "topology", lacking["topology"]
        dimension = max(lacking, key=lambda name: (lacking[name], name == GPU, name))
        return dimension, lacking[dimension]

    def _refusal(self, group: TaskGroup, cluster: str) -> tuple[str, int]:
        """What keeps the group off the nodes that came nearest to taking it."""
        reasons = [
            group.constraint.refuses(node.name, node.labels, node.taints) or "cordoned"
            for node in self.fleet.nodes_of(cluster)
        ]
        for reason in ("cordoned", "taint", "affinity", "nodeSelector"):  # the last to be asked first
            if reason in reasons:
                return reason, reasons.count(reason)
        return "nodes", 0


class Headcount:
    """How many tasks of each group the nodes of a cluster take, kept up as rooms change.

    Groups are counted each by itself: enough here is needed, but not sufficient, for a gang to fit.
    """

    def __init__(self, placer: Placer, profile: Profile, cluster: str) -> None:
        self._placer = placer
        self._groups = profile.groups
        self._counts = [
            {node.name: placer.how_many(node.name, group.request, group.min) for node in placer.nodes(group, cluster)}
            for group in profile.groups
        ]
        self._totals = [sum(counts.values()) for counts in self._counts]

    def refresh(self, node: str) -> None:
        """The room on the node changed."""
        for place, (group, counts) in enumerate(zip(self._groups, self._counts, strict=True)):
            if node in counts:
                count = self._placer.how_many(node, group.request, group.min)
                self._totals[place] += count - counts[node]
                counts[node] = count

    def is_enough(self) -> bool:
        """Whether every group could have its min if it were alone."""
        return all(total >= group.min for group, total in zip(self._groups, self._totals, strict=True))


def _lacks(room: Room, request: Request) -> list[str]:
    """The dimensions in which one more task is too much for the room."""
    if request.whole_node and room.tasks:
        return ["wholeNode"]
    free = room.free
    missing = [name for name, amount in request.resources.items() if free.get(name) < amount]
    if request.gpus and GPU not in missing and not room.has_devices(request):
        missing.append(GPU)
    return missing


@lru_cache(maxsize=4096)
def never_fits(fleet: Fleet, profile: Profile) -> Shortage | None:
    """What keeps the job from starting even if every cluster were empty and uncordoned; None if it could start."""
    empty = {node.name: node.empty() for node in fleet.nodes.values()}
    shortages = []
    for cluster in fleet.candidates(profile, silent=True):
        placer = Placer(fleet, Span([empty.copy()]), everywhere=True)
        if placer.place(profile, cluster, profile.least_widths) is not None:
            return None
        shortages.append(placer.shortage(profile, cluster))
    return nearest(profile, shortages)


def nearest(profile: Profile, shortages: list[Shortage]) -> Shortage:
    """What a job lacks in the cluster where most of it is placed; of equals in the first that has any nodes."""
    if not shortages:
        group, needed = profile.groups[0], profile.tasks_min
        return Shortage(dimension="clusters", group=group, short=0, matching=0, placed=0, needed=needed)
    most = max(shortage.placed for shortage in shortages)
    best = [shortage for shortage in shortages if shortage.placed == most]
    return next((shortage for shortage in best if shortage.dimension != "nodes"), best[0])
