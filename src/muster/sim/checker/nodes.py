"""One node while a plan is replayed on it: plain sums, which may go below zero where pods that are not ours push in."""

from __future__ import annotations

from collections.abc import Iterator

from muster.model.nodes import DEVICE_MILLI, Request, Room
from muster.model.resources import CPU, NOTHING, Resources


class NodeBook:
    """What is left of a node's empty room beside our tasks, and what those hold."""

    __slots__ = ("cores_per_gpu", "devices", "free", "held", "tasks", "whole")

    def __init__(self, empty: Room, cores_per_gpu: int = 0) -> None:
        self.cores_per_gpu = cores_per_gpu
        self.free = dict(empty.free.items())
        self.devices = list(empty.devices)
        self.held = NOTHING
        self.tasks = 0
        self.whole = 0

    def copy(self) -> NodeBook:
        """A node to try things on."""
        other = object.__new__(NodeBook)
        other.free, other.devices = dict(self.free), list(self.devices)
        other.held, other.tasks, other.whole = self.held, self.tasks, self.whole
        other.cores_per_gpu = self.cores_per_gpu
        return other

    def put(self, request: Request, devices: tuple[int, ...]) -> None:
        """A task is here from now on, whether or not it fits."""
        self._move(request, devices, -1)
        self.held = self.held + request.resources

    def remove(self, request: Request, devices: tuple[int, ...]) -> None:
        """A task that was here is gone."""
        self._move(request, devices, +1)
        self.held = self.held - request.resources

    def _move(self, request: Request, devices: tuple[int, ...], sign: int) -> None:
        self.tasks -= sign
        self.whole -= sign * request.whole_node
        for name, amount in request.resources.items():
            self.free[name] = self.free.get(name, 0) + sign * amount
        for index in devices:
            if index in range(len(self.devices)):
                self.devices[index] += sign * request.gpu_milli

    def refusals(self, request: Request, devices: tuple[int, ...]) -> Iterator[str]:
        """What is wrong with putting such a task here, on these devices."""
        if self.whole:
            yield "another task has the whole node"
        if request.whole_node and self.tasks:
            yield "it asks for a whole node and is not alone"
        for name, amount in request.resources.items():
            if self.free.get(name, 0) < amount:
                yield f"{name} is over-committed ({self.free.get(name, 0)} left, {amount} asked)"
        if self._kept(request) and self.free.get(CPU, 0) - request.resources.get(CPU) < self._kept(request):
            yield f"it does not leave {self._kept(request)} millicores for idle devices"
        if len(set(devices)) != request.gpus or len(devices) != request.gpus:
            yield f"it gets devices {list(devices)} and asks for {request.gpus}"
        for index in devices:
            if index not in range(len(self.devices)):
                yield f"there is no device {index}"
            elif self.devices[index] < request.gpu_milli:
                yield f"device {index} is over-committed ({self.devices[index]} left, {request.gpu_milli} asked)"

    def _kept(self, request: Request) -> int:
        """Cores that a task must leave for devices that are idle: one without devices, which asks for cores."""
        if request.gpus or not request.resources.get(CPU):
            return 0
        return sum(max(milli, 0) for milli in self.devices) * self.cores_per_gpu // DEVICE_MILLI

    def how_many(self, request: Request) -> int:
        """How many such tasks could be added, devices chosen as well as can be."""
        if self.whole or (request.whole_node and self.tasks):
            return 0
        kept = self._kept(request)
        if kept and request.whole_node:
            return 0
        free = {**self.free, CPU: self.free.get(CPU, 0) - kept}
        count = min(free.get(name, 0) // amount for name, amount in request.resources.items())
        if request.gpus:
            slots = [max(free, 0) // request.gpu_milli for free in self.devices]
            count = min(count, _sets(slots, request.gpus))
        return min(max(count, 0), 1 if request.whole_node else count)

    def shown(self) -> tuple[Resources, tuple[int, ...], int]:
        """Free amounts, devices and number of tasks as a NodeState should show them: never below zero."""
        if self.whole:
            return NOTHING, (0,) * len(self.devices), self.tasks
        free = Resources.of({name: max(amount, 0) for name, amount in self.free.items()})
        return free, tuple(max(milli, 0) for milli in self.devices), self.tasks


def _sets(slots: list[int], size: int) -> int:
    """How many sets of `size` different devices there are, if each device can be in as many as it has slots."""
    count = 0
    while sum(min(slot, count + 1) for slot in slots) >= (count + 1) * size:
        count += 1
    return count
