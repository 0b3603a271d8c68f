"""What events add up to on the nodes: who is where, and the room that is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from muster.engine.columns.fleet_index import Grounds, grounds_of
from muster.engine.columns.node_rooms import Floor
from muster.model import events as ev
from muster.model.fleet import Cluster, Fleet
from muster.model.jobs import Job, Profile, Task
from muster.model.nodes import Node
from muster.model.pools import DEFAULT_POOL, Pool
from muster.model.resources import NOTHING, Resources
from muster.model.snapshot import NodeState

Tenants = dict[tuple[str, str, int], tuple[Task, Profile]]
"""By job, group and index."""


class Machines:
    """Clusters and nodes as events left them.

    What is on the nodes is kept in columns, the floor. Nodes that changed themselves are kept apart as values until
    someone asks for the floor, so that many can change at once.
    """

    def __init__(self) -> None:
        self.clusters: dict[str, Cluster] = {}
        self.nodes: dict[str, Node] = {}
        self.pools: dict[str, Pool] = {}
        self._tenants: dict[str, Tenants] = {}
        self._foreign: dict[str, dict[str, Resources]] = {}
        self._changed: dict[str, NodeState] = {}
        self._fleet: Fleet | None = None
        self._floor = Floor(Grounds(Fleet()))

    def fork(self) -> Machines:
        """A copy that can go its own way."""
        other = Machines()
        other.clusters, other.nodes, other._changed = dict(self.clusters), dict(self.nodes), dict(self._changed)
        other.pools = dict(self.pools)
        other._tenants = {name: dict(tenants) for name, tenants in self._tenants.items()}
        other._foreign = {name: dict(pods) for name, pods in self._foreign.items()}
        other._fleet, other._floor = self._fleet, self._floor.fork()
        return other

    def fleet(self) -> Fleet:
        """The nodes as a frozen fleet; the same object until one changes."""
        if self._fleet is None:
            self._fleet = Fleet(self.clusters.values(), self.nodes.values(), self.pools.values())
        return self._fleet

    def pool_with(self, tasks: Iterable[Task]) -> str:
        """The pool of the nodes these tasks of an attempt are on; the default pool once the nodes are gone."""
        if not self.pools:
            return DEFAULT_POOL
        fleet = self.fleet()
        return next((fleet.pool_of(task.node) for task in tasks if task.node in fleet.nodes), DEFAULT_POOL)

    def floor(self) -> Floor:
        """What is on each node; the same object until the fleet changes."""
        fleet = self.fleet()
        if fleet is not self._floor.grounds.fleet:
            self._floor = self._floor.moved_to(grounds_of(fleet), self._changed)
        elif self._changed:
            self._floor.put(self._changed)
        self._changed = {}
        return self._floor

    def apply(self, event: ev.Event) -> None:
        """Take note of what happened to clusters, nodes, or pods that are not ours."""
        match event:
            case ev.ClusterSet(cluster=cluster):
                self.set_cluster(cluster)
            case ev.ClusterSilent(cluster=name, silent=silent):
                self.set_cluster(replace(self.clusters[name], silent=silent))
            case ev.NodeAdded(node=node):
                self.set_node(node)
            case ev.NodeRemoved(node=name):
                self.remove_node(name)
            case ev.NodeCordoned(node=name, cordoned=cordoned) if name in self.nodes:
                self.cordon(name, cordoned=cordoned)
            case ev.NodeDrained(node=name) if name in self.nodes:
                self.cordon(name, cordoned=True)
            case ev.NodeLabelled(node=name, labels=labels) if name in self.nodes:
                self.label(name, dict(labels))
            case ev.PoolSet(pool=pool):
                self.set_pool(pool)
            case ev.PoolChanged(pool=name, changes=changes):
                self.set_pool(replace(self.pools.get(name, Pool(name=name)), **changes))
            case ev.PoolDeleted(pool=name):
                self.pools.pop(name, None)
                self._fleet = None
            case ev.ForeignPlaced(id=pod, node=node_name, amounts=amounts):
                self.set_foreign(node_name, pod, amounts)
            case ev.ForeignGone(id=pod, node=node_name):
                self.set_foreign(node_name, pod, None)
            case _:
                pass

    def set_cluster(self, cluster: Cluster) -> None:
        """A cluster appeared or changed."""
        self.clusters[cluster.name] = cluster
        self._fleet = None

    def set_pool(self, pool: Pool) -> None:
        """A pool was made or changed: nodes may belong elsewhere from now on, whoever is there stays."""
        self.pools[pool.name] = pool
        self._fleet = None

    def set_node(self, node: Node) -> None:
        """A node appeared or changed; whoever is there stays."""
        self.nodes[node.name] = node
        self._fleet = None
        self._count(node.name)

    def remove_node(self, name: str) -> None:
        """A node is gone; its tasks must have been dealt with before."""
        for book in (self.nodes, self._tenants, self._foreign, self._changed):
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
            self._tenants.setdefault(task.node, {})[job.id, task.group, task.index] = (task, job.profile)
            if task.node in self._changed:
                self._changed[task.node] = _with(self._changed[task.node], task, job.profile)
            else:
                self._floor.move_in(job.profile, task)

    def move_out(self, job: Job, tasks: Iterable[Task]) -> None:
        """Tasks of the job left their nodes."""
        for task in tasks:
            tenants = self._tenants.get(task.node, {})
            if tenants.pop((job.id, task.group, task.index), None) is None:
                continue  # its node went first
            if task.node in self._changed:
                request = job.profile.group(task.group).request
                self._changed[task.node] = self._changed[task.node].give(request, task.devices)
            else:
                self._floor.move_out(job.profile, task)

    def jobs_on(self, node: str) -> list[str]:
        """Ids of the jobs with a task on the node."""
        return sorted({job for job, _, _ in self._tenants.get(node, {})})

    def foreign(self) -> Iterable[tuple[str, str, Resources]]:
        """Pods that are not ours: the node, the pod, and what it holds."""
        return [(node, pod, held) for node, pods in self._foreign.items() for pod, held in pods.items()]

    def _count(self, name: str) -> None:
        """Work the node out again from what is on it."""
        foreign = NOTHING
        for amounts in self._foreign.get(name, {}).values():
            foreign = foreign + amounts
        empty = self.nodes[name].empty().beside(foreign)
        state = NodeState(empty=empty, room=empty)
        tenants = [(job, *tenant) for (job, _, _), tenant in self._tenants.get(name, {}).items()]
        for _, task, profile in sorted(tenants, key=lambda tenant: (tenant[0], tenant[1].name)):
            state = _with(state, task, profile)
        self._changed[name] = state


def _with(state: NodeState, task: Task, profile: Profile) -> NodeState:
    """The node once the task is on it."""
    return state.take(profile.group(task.group).request, task.devices)
