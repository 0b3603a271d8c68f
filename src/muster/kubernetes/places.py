"""Who is on which node: pods of others, with the room they take, and the devices that our own pods are counted on.

Kubernetes says of a bound pod how many GPUs it has, not which. We count each on devices of our own choosing, so that
what is free adds up to whole ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.model import events as ev
from muster.model.nodes import DEVICE_MILLI, Node, Request
from muster.model.resources import GPU, NOTHING, Resources


class Foreign:
    """Pods that are not ours to place, by node; also those of nodes that are not there (yet)."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._on: dict[str, dict[str, Resources]] = {}

    def put(self, pod: str, node: str, amounts: Resources) -> Iterable[ev.Event]:
        """A pod is on a node; nothing if that is known."""
        if self._on.get(node, {}).get(pod) == amounts:
            return
        yield from self.remove(pod)
        self._node_of[pod] = node
        self._on.setdefault(node, {})[pod] = amounts
        yield ev.ForeignPlaced(id=pod, node=node, amounts=amounts)

    def remove(self, pod: str) -> Iterable[ev.Event]:
        """It is there no more; nothing if it never was."""
        node = self._node_of.pop(pod, None)
        if node is None:
            return
        del self._on[node][pod]
        if not self._on[node]:
            del self._on[node]
        yield ev.ForeignGone(id=pod, node=node)

    def held(self, node: str) -> Resources:
        """What they hold of a node."""
        held = NOTHING
        for amounts in self._on.get(node, {}).values():
            held = held + amounts
        return held

    def on(self, node: str) -> Iterable[ev.Event]:
        """All that is on a node, which has just appeared."""
        for pod, amounts in self._on.get(node, {}).items():
            yield ev.ForeignPlaced(id=pod, node=node, amounts=amounts)


class Devices:
    """Which devices of each node our tasks are counted on."""

    def __init__(self) -> None:
        self._taken: dict[str, set[int]] = {}

    def take(self, node: str, devices: Iterable[int]) -> None:
        """A task is counted on these."""
        self._taken.setdefault(node, set()).update(devices)

    def give(self, node: str, devices: Iterable[int]) -> None:
        """It is no more."""
        left = self._taken.get(node)
        if left is not None:
            left.difference_update(devices)
            if not left:
                del self._taken[node]

    def choose(self, node: Node, request: Request) -> tuple[int, ...]:
        """Devices for a pod that is there already: free ones, and others only where the node holds more than it has."""
        taken = self._taken.get(node.name, set())
        there = range(node.allocatable.get(GPU) // DEVICE_MILLI)
        return tuple(sorted(sorted(there, key=lambda device: (device in taken, device))[: request.gpus]))
