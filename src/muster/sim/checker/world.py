"""A snapshot, indexed: who is where in it, and which nodes may take what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from muster.model.jobs import Job, Profile, Running, Task, TaskGroup
from muster.model.labels import Constraint
from muster.model.nodes import Node
from muster.model.order import Place
from muster.model.snapshot import Snapshot
from muster.sim.checker.pools import Pools

Spot = tuple[str, str]
"""A cluster and a pool: the nodes that both have."""


class World:
    """The jobs of a snapshot by id and phase, and its nodes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.now_ms = snapshot.now_ms
        self.policy = snapshot.policy
        self.nodes = snapshot.fleet.nodes
        self.clusters = snapshot.fleet.clusters
        self.pools = Pools(self.clusters, self.nodes, snapshot.fleet.pools, snapshot.fleet.pool)
        self.queues = {state.queue.name: state for state in snapshot.queues}
        self.queued = {job.id: job for state in snapshot.queues for lane in state.lanes for job in lane.jobs}
        self.pending = {pending.job.id: pending for pending in snapshot.pending}
        self.running = {run.job.id: run for run in snapshot.running}
        self.held = {held.job.id: held for held in snapshot.held}
        self._admitting: dict[tuple[Spot, Constraint], list[Node]] = {}

    def is_borrower(self, run: Running) -> bool:
        """Whether the job runs on nodes of another pool than its own."""
        if run.job.id in self.snapshot.borrowers:
            return True
        return not self.pools.holding(run.tasks) <= {self.pools.home(run.job.profile)}

    def ids(self) -> Iterator[str]:
        """Every job once for each place it stands in; a sound snapshot names each job once."""
        for state in self.snapshot.queues:
            yield from (job.id for lane in state.lanes for job in lane.jobs)
        yield from (pending.job.id for pending in self.snapshot.pending)
        yield from (run.job.id for run in self.snapshot.running)
        yield from (held.job.id for held in self.snapshot.held)

    def startable(self, job: str) -> Job | None:
        """The job if it may start at all: it is queued or pending."""
        if job in self.pending:
            return self.pending[job].job
        return self.queued.get(job)

    def attempt_of(self, job: Job) -> int:
        """The attempt that the job's next start is."""
        pending = self.pending.get(job.id)
        return self.snapshot.next_attempt(job) if pending is None else pending.attempt

    def is_aged(self, job: Job) -> bool:
        """Whether it has waited for so long that it goes ahead of class and flow (design.md 4.5)."""
        return self.now_ms - job.submit_ms >= self.policy.aging_after_ms

    def place(self, job: Job) -> Place:
        """Where a queued job stands in its queue."""
        return self.policy.place(job, self.now_ms)

    def candidates(self, profile: Profile) -> list[str]:
        """The clusters the job may go to, silent ones too."""
        named, needs = {name for name, _ in profile.clusters}, set(profile.needs)
        return [name for name, it in self.clusters.items() if (not named or name in named) and needs <= set(it.honours)]

    def places(self, profile: Profile, *, abroad: bool) -> list[Spot]:
        """Where the job may be: in its own pool, and `abroad` in those that it may borrow from."""
        home = self.pools.home(profile)
        clusters = [name for name in self.candidates(profile) if name in self.pools.clusters_of(home)]
        pools = [home, *self.pools.lenders(home)] if abroad else [home]
        return [(cluster, pool) for cluster in clusters for pool in pools]

    def is_bare(self, profile: Profile) -> bool:
        """Whether its own pool has no node in any cluster that it may go to."""
        places = self.places(profile, abroad=False)
        return bool(places) and not any(self._is_there(place) for place in places)

    def without_nodes(self, profile: Profile) -> list[str]:
        """The clusters it may go to without nodes: without any of its pool if that is bare, else without any at all."""
        clusters, bare = sorted(cluster for cluster, _ in self.places(profile, abroad=False)), self.is_bare(profile)
        there = {node.cluster for node in self.nodes.values()}
        return [cluster for cluster in clusters if bare or cluster not in there]

    def _is_there(self, place: Spot) -> bool:
        return any((it.cluster, self.pools.of[it.name]) == place for it in self.nodes.values())

    def takes_tasks(self, node: Node) -> bool:
        """Whether anything new may go to the node."""
        return not node.cordoned and not self.clusters[node.cluster].silent

    def admitting(self, place: Spot, constraint: Constraint) -> list[Node]:
        """The nodes of a place that the constraint admits, whatever is on them."""
        if (place, constraint) not in self._admitting:
            self._admitting[place, constraint] = [
                node for node in self.nodes_of(place) if constraint.refuses(node.name, node.labels, node.taints) is None
            ]
        return self._admitting[place, constraint]

    def nodes_of(self, place: Spot) -> list[Node]:
        """All nodes of a pool in a cluster."""
        return [it for it in self.nodes.values() if (it.cluster, self.pools.of[it.name]) == place]


def groups_of(profile: Profile) -> dict[str, TaskGroup]:
    """The job's groups by name."""
    return {group.name: group for group in profile.groups}


def width(tasks: tuple[Task, ...]) -> Counter[str]:
    """How many tasks each group has."""
    return Counter(task.group for task in tasks)
