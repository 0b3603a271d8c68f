"""Nodes and the room on them.

A node's devices (GPUs) are told apart: a request for n devices × m milli takes m from each of n
devices, so two halves of different devices never add up to a whole one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from muster.model.labels import Taint
from muster.model.names import NameKey, name_key
from muster.model.resources import GPU, NOTHING, PODS, Resources

DEVICE_MILLI = 1000
NO_POD_LIMIT = 1 << 31  # a node that states no `pods` takes any number of tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one task asks of its node. `resources` holds everything, GPUs (n × m milli) and pods included."""

    resources: Resources
    gpus: int = 0
    gpu_milli: int = DEVICE_MILLI
    whole_node: bool = False

    @classmethod
    def of(cls, amounts: Mapping[str, int], *, gpu_milli: int = DEVICE_MILLI, whole_node: bool = False) -> Request:
        """A request from plain amounts; GPU counts whole devices (× 1000), each taken to `gpu_milli`."""
        gpus = amounts.get(GPU, 0) // DEVICE_MILLI
        resources = Resources.of({**amounts, GPU: gpus * gpu_milli, PODS: 1})
        return cls(resources=resources, gpus=gpus, gpu_milli=gpu_milli, whole_node=whole_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine of a cluster. `topology` is its path of switches from the top, e.g. ("spine", "leaf")."""

    name: str
    cluster: str
    allocatable: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    topology: tuple[str, ...] = ()
    cordoned: bool = False
    key: NameKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", name_key(self.name))

    @property
    def has_gpus(self) -> bool:
        """Whether the node carries devices at all."""
        return self.allocatable.get(GPU) > 0

    def empty(self) -> Room:
        """The room on the node with nothing on it."""
        return emptied(self.allocatable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is free on a node: amounts, milli of each device, and how many of our tasks are there.

    `debt` is what pods that are not ours took although our tasks held it; whoever leaves pays it first.
    """

    free: Resources
    devices: tuple[int, ...] = ()
    tasks: int = 0
    debt: Resources = NOTHING

    def fits(self, request: Request) -> bool:
        """Whether one task with this request can be put here."""
        if request.whole_node and self.tasks:
            return False
        return self.free.covers(request.resources) and (not request.gpus or self.has_devices(request))

    def has_devices(self, request: Request) -> bool:
        """Whether enough devices have the milli asked of each."""
        enough = 0
        for free in self.devices:
            enough += free >= request.gpu_milli
        return enough >= request.gpus

    def devices_for(self, request: Request) -> tuple[int, ...]:
        """The devices a task gets: those it fills most, lowest index first."""
        usable = [(free, index) for index, free in enumerate(self.devices) if free >= request.gpu_milli]
        return tuple(sorted(index for _, index in sorted(usable)[: request.gpus]))

    def take(self, request: Request, devices: tuple[int, ...]) -> Room:
        """The room left once a task with this request is here."""
        if request.whole_node:
            return Room(free=NOTHING, devices=(0,) * len(self.devices), tasks=self.tasks + 1, debt=self.debt)
        missing = self.free.missing(request.resources)
        taken = self.free.lowest(request.resources) if missing else request.resources
        return Room(
            free=self.free - taken,
            devices=_changed(self.devices, devices, -request.gpu_milli),
            tasks=self.tasks + 1,
            debt=self.debt + Resources.of(missing) if missing else self.debt,
        )

    def give(self, request: Request, devices: tuple[int, ...], empty: Room) -> Room:
        """The room after such a task left; `empty` is the node without any task of ours."""
        if request.whole_node:
            return empty
        freed = self.free + request.resources
        paid = freed.lowest(self.debt) if self.debt else NOTHING
        return Room(
            free=freed - paid,
            devices=tuple(map(min, _changed(self.devices, devices, request.gpu_milli), empty.devices)),
            tasks=self.tasks - 1,
            debt=self.debt - paid,
        )

    def lowest(self, other: Room) -> Room:
        """What is free in both rooms at once (two moments of one node)."""
        return Room(
            free=self.free.lowest(other.free),
            devices=tuple(map(min, self.devices, other.devices)),
            tasks=max(self.tasks, other.tasks),
        )

    def beside(self, foreign: Resources) -> Room:
        """An empty node's room beside pods that are not ours, which sit on its last devices."""
        left = foreign.get(GPU)
        devices = list(self.devices)
        for index in reversed(range(len(devices))):
            left -= (part := min(devices[index], left))
            devices[index] -= part
        return replace(self, free=self.free - self.free.lowest(foreign), devices=tuple(devices))


def emptied(allocatable: Resources) -> Room:
    """The room on a node that has this, with nothing on it."""
    free = allocatable if allocatable.get(PODS) else allocatable + Resources.of({PODS: NO_POD_LIMIT})
    return Room(free=free, devices=(DEVICE_MILLI,) * (allocatable.get(GPU) // DEVICE_MILLI))


def _changed(free: tuple[int, ...], devices: tuple[int, ...], milli: int) -> tuple[int, ...]:
    """Free milli of each device after some of them changed; never below zero."""
    if not devices:
        return free
    changed = list(free)
    for index in devices:
        changed[index] = max(changed[index] + milli, 0)
    return tuple(changed)


def hops(one: Node, other: Node) -> int:
    """Distance of two nodes of a cluster in the tree of switches: 0 on one node, 2 under one switch."""
    if one.name == other.name:
        return 0
    common = 0
    for left, right in zip(one.topology, other.topology, strict=False):
        if left != right:
            break
        common += 1
    return len(one.topology) + len(other.topology) - 2 * common + 2
