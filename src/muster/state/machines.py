"""What events add up to on the nodes: who is where, and the room that is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from muster.model.fleet import Cluster, Fleet
from muster.model.jobs import Job, Task
from muster.model.nodes import Node, Request
from muster.model.resources import NOTHING, Resources
from muster.model.snapshot import NodeState

Tenants = dict[tuple[str, str], tuple[Task, Request]]


class Machines:
    """Clusters and nodes as events left them."""

    def __init__(self) -> None:
        self.clusters: dict[str, Cluster] = {}
        self.nodes: dict[str, Node] = {}
        self._tenants: dict[str, Tenants] = {}
        self._foreign: dict[str, dict[str, Resources]] = {}
        self._states: dict[str, NodeState] = {}
        self._fleet: Fleet | None = None

    def fork(self) -> Machines:
        """A copy that can go its own way."""
        other = Machines()
        other.clusters, other.nodes, other._states = dict(self.clusters), dict(self.nodes), dict(self._states)
        other._tenants = {name: dict(tenants) for name, tenants in self._tenants.items()}
        other._foreign = {name: dict(pods) for name, pods in self._foreign.items()}
        other._fleet = self._fleet
        return other

    def fleet(self) -> Fleet:
        """The nodes as a frozen fleet; the same object until one changes."""
        if self._fleet is None:
            self._fleet = Fleet(self.clusters.values(), self.nodes.values())
        return self._fleet

    def states(self) -> dict[str, NodeState]:
        """What is on each node, as a copy."""
        return dict(self._states)

    def set_cluster(self, cluster: Cluster) -> None:
        """A cluster appeared or changed."""
        self.clusters[cluster.name] = cluster
        self._fleet = None

    def set_node(self, node: Node) -> None:
        """A node appeared or changed; whoever is there stays."""
        self.nodes[node.name] = node
        self._fleet = None
        self._count(node.name)

    def remove_node(self, name: str) -> None:
        """A node is gone; its tasks must have been dealt with before."""
        for book in (self.nodes, self._tenants, self._foreign, self._states):
            book.pop(name, None)
        self._fleet = None

    def cordon(self, name: str, *, cordoned: bool) -> None:
        """New tasks may not (or may again) go to the node."""
        self.set_node(replace(self.nodes[name], cordoned=cordoned))

    def label(self, name: str, labels: dict[str, str]) -> None:
        """Labels of the node were set."""
        self.set_node(replace(self.nodes[name], labels={**self.nodes[name].labels, **labels}))

    def set_foreign(self, node: str, pod: str, amounts: Resources | None) -> None:
        """A pod that is not ours came, or went (None)."""
        if node not in self.nodes:
            return
        pods = self._foreign.setdefault(node, {})
        if amounts is None:
            pods.pop(pod, None)
        else:
            pods[pod] = amounts
        self._count(node)

    def move_in(self, job: Job, tasks: Iterable[Task]) -> None:
        """Tasks of the job now run on their nodes."""
        for task in tasks:
            request = job.profile.group(task.group).request
            self._tenants.setdefault(task.node, {})[job.id, task.name] = (task, request)
            state = self._states[task.node]
            room = state.room.take(request, task.devices)
            self._states[task.node] = replace(state, room=room, held=state.held + request.resources)

    def move_out(self, job: Job, tasks: Iterable[Task]) -> None:
        """Tasks of the job left their nodes."""
        for task in tasks:
            tenants = self._tenants.get(task.node, {})
            if tenants.pop((job.id, task.name), None) is None:
                continue  # its node went first
            request = job.profile.group(task.group).request
            state = self._states[task.node]
            room = state.room.give(request, task.devices, state.empty)
            self._states[task.node] = replace(state, room=room, held=state.held - request.resources)

    def jobs_on(self, node: str) -> list[str]:
        """Ids of the jobs with a task on the node."""
        return sorted({job for job, _ in self._tenants.get(node, {})})

    def _count(self, name: str) -> None:
        """Work the node out again from what is on it."""
        foreign = NOTHING
        for amounts in self._foreign.get(name, {}).values():
            foreign = foreign + amounts
        empty = self.nodes[name].empty().beside(foreign)
        room, held = empty, NOTHING
        for _, (task, request) in sorted(self._tenants.get(name, {}).items(), key=lambda entry: entry[0]):
            room, held = room.take(request, task.devices), held + request.resources
        self._states[name] = NodeState(empty=empty, room=room, held=held)
