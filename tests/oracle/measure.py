"""What a task costs on a node that fits, where the tightest fit does not decide; the smaller, the better.

Plainly, room by room. What the rules mean is told in docs/concepts/placement.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import log

from muster.model.fleet import Fleet
from muster.model.jobs import Profile
from muster.model.labels import Constraint
from muster.model.nodes import DEVICE_MILLI, Node, Request, Room
from muster.model.placement import MOST_LEARNED, Placement, PlacementRule, Typical
from muster.model.resources import CPU, GPU
from muster.model.snapshot import Snapshot
from oracle.room import Span

STEPS = [round(1_000_000 * log(hundredths / (100 - hundredths))) for hundredths in range(1, 100)]


@dataclass(frozen=True)
class Kind:
    """A kind of task that is typical."""

    request: Request
    constraint: Constraint
    part: int
    weight: int = 0


class Measure:
    """A rule, and what it knows of the fleet at the beginning of a turn."""

    def __init__(
        self, placement: Placement, typical: Iterable[Typical], fleet: Fleet, rooms: Mapping[str, Room]
    ) -> None:
        self.rule, self.seed, self.fleet = placement.rule, placement.seed, fleet
        known = [it for it in typical if it.request.gpus or self.rule is PlacementRule.GRADIENT]
        total = sum(it.count for it in known)
        self.kinds = [Kind(it.request, it.constraint, max(it.count * 65536 // total, 1)) for it in known]
        idle = 2 * sum(sum(room.devices) for room in rooms.values())
        for place, kind in enumerate(self.kinds):
            can_use = sum(self.usable(fleet.nodes[name], room, kind) for name, room in rooms.items())
            weight = min(kind.part * idle // can_use, 1 << 30) if can_use else 0
            self.kinds[place] = Kind(kind.request, kind.constraint, kind.part, weight)
        self.most_cpu = max([1, *(node.allocatable.get(CPU) for node in fleet.nodes.values())])
        self.most_milli = max([1, *(node.allocatable.get(GPU) for node in fleet.nodes.values())])

    def best(self, span: Span, node: Node, request: Request) -> tuple[int, tuple[int, ...]]:
        """The cost of a task on the node, and the devices on which it has it."""
        room, devices = span.moments[0][node.name], span.room(node.name).devices
        usual = span.room(node.name).devices_for(request) if request.gpus else ()
        if self.rule is PlacementRule.RANDOM:
            drawn = self._drawn(span)
            usable = [index for index, free in enumerate(devices) if free >= request.gpu_milli]
            usable.sort(key=lambda index: (self._chance(drawn, node, index), index))
            return self._chance(drawn, node, -1), tuple(sorted(usable[: request.gpus]))
        if not self.rule.knows_typical:
            return self._plain_cost(room, request, usual), usual
        if request.gpus != 1 or request.gpu_milli == DEVICE_MILLI or request.whole_node:
            return self._cost(node, room, request, usual), usual
        options = []
        for index, free in enumerate(devices):
            if free >= request.gpu_milli:
                full = 0 if self.rule is PlacementRule.GRADIENT else room.devices[index]
                options.append((self._cost(node, room, request, (index,)), full, index))
        cost, _, index = min(options)
        return cost, (index,)

    # -- plain rules -----------------------------------------------------------------------------------

    def _plain_cost(self, room: Room, request: Request, devices: tuple[int, ...]) -> int:
        cpu, milli = self.most_cpu, self.most_milli
        takes = request.gpus * request.gpu_milli
        if self.rule is PlacementRule.PACKING:
            return _unpacked(room, request, devices)
        if self.rule is PlacementRule.BEST_FIT:
            left = (room.free.get(CPU) - request.resources.get(CPU)) * milli + (sum(room.devices) - takes) * cpu
            return -((2 * cpu * milli - left) * 100 // (2 * cpu * milli))
        product = (room.free.get(CPU) * milli // cpu) * (request.resources.get(CPU) * milli // cpu)
        product += sum(room.devices) * takes
        return -((2 * milli * milli - product) * 100 // (2 * milli * milli))

    @staticmethod
    def _drawn(span: Span) -> int:
        return sum(room.tasks for room in span.moments[0].values())

    def _chance(self, drawn: int, node: Node, device: int) -> int:
        bits = 0
        for number in (self.seed, drawn, list(self.fleet.nodes).index(node.name) + 1, device + 1):
            for shift in (15, 16):
                bits = (bits ^ (number % (2**31 - 1) if shift == 15 else 0)) * 0x45D9F3B % 2**31
                bits ^= bits >> shift
        return bits

    # -- what idle devices are good for ----------------------------------------------------------------

    def _cost(self, node: Node, room: Room, request: Request, devices: tuple[int, ...]) -> int:
        lost = self._worth(node, room) - self._worth(node, room.take(request, devices))
        if self.rule is not PlacementRule.GRADIENT:
            return lost
        parts = max(sum(kind.part for kind in self.kinds), 1)
        return -sum(-lost * 1000 >= passed * parts for passed in STEPS)

    def _worth(self, node: Node, room: Room) -> int:
        if self.rule is PlacementRule.GRADIENT:
            idle = sum(room.devices)
            return -sum(kind.part * (idle - self._large_enough(node, room, kind)) for kind in self.kinds)
        return sum(kind.weight * self.usable(node, room, kind) for kind in self.kinds)

    def _large_enough(self, node: Node, room: Room, kind: Kind) -> int:
        """The idle milli of devices such a task could be on; none if it does not fit at all."""
        is_open = self.fleet.takes_tasks(node) and not kind.constraint.refuses(node.name, node.labels, node.taints)
        if not kind.request.gpus or not is_open or not room.fits(kind.request):
            return 0
        return sum(free for free in room.devices if free >= kind.request.gpu_milli)

    def usable(self, node: Node, room: Room, kind: Kind) -> int:
        """That, and once more as far as all that such tasks need beside devices goes."""
        most = good = self._large_enough(node, room, kind)
        if not good:
            return 0
        asked = kind.request.gpus * kind.request.gpu_milli
        for name, amount in kind.request.resources.items():
            if name != GPU:
                most = min(most, room.free.get(name) * asked // amount)
        return good + most


def _unpacked(room: Room, request: Request, devices: tuple[int, ...]) -> int:
    """Devices in use first, then idle ones of nodes in use, then idle nodes."""
    if not request.gpus:
        return 0
    whole = room.devices.count(DEVICE_MILLI)
    if whole == len(room.devices):
        return -max(33 - whole, whole)
    opened = sum(room.devices[index] == DEVICE_MILLI for index in devices)
    left = sum(room.devices[index] // 10 for index in devices)
    return -max(50 - opened, 33) if opened else -max(100 - left // 10, 50)


def measure_of(snapshot: Snapshot) -> Measure | None:
    """The measure of a turn; None where the tightest fit decides."""
    placement = snapshot.policy.placement
    if placement.rule is PlacementRule.TIGHTEST:
        return None
    rooms = {name: state.room for name, state in snapshot.nodes.items()}
    return Measure(placement, placement.typical or _seen(snapshot), snapshot.fleet, rooms)


def _seen(snapshot: Snapshot) -> list[Typical]:
    """Those that run and those that wait, most frequent first."""
    profiles: list[Profile] = [run.job.profile for run in snapshot.running]
    profiles += [lane.profile for state in snapshot.queues for lane in state.lanes for _ in lane.jobs]
    counts: Counter[tuple[Request, Constraint]] = Counter()
    for profile in profiles:
        for group in profile.groups:
            counts[group.request, group.constraint] += group.min
    seen = [Typical(request=request, constraint=where, count=many) for (request, where), many in counts.items() if many]
    seen.sort(key=lambda it: it.order)
    kept = seen[:MOST_LEARNED]
    for rare in seen[MOST_LEARNED:]:
        like = [it for it in kept if (it.constraint, it.request.gpus) == (rare.constraint, rare.request.gpus)]
        if like:
            kept[kept.index(like[0])] = replace(like[0], count=like[0].count + rare.count)
        else:
            kept.append(rare)
    return kept
