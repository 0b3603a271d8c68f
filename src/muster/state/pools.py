"""The table of pools: what each has, uses, lends, borrows and waits for (ai-scheduler-pools.md; design.md 6).

Pure: a snapshot in, a table out. Amounts are resources with one more dimension, `nodes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from muster.model.fleet import Fleet
from muster.model.jobs import Profile, Running, Task, resources_of
from muster.model.nodes import NO_POD_LIMIT, Node
from muster.model.policy import Policy, Preemption
from muster.model.pools import Pool, called
from muster.model.resources import CPU, GPU, MEMORY, NOTHING, PODS, Resources, format_amount, total
from muster.model.snapshot import Snapshot

NODES = "nodes"
KINDS = {"cpu": CPU, "gpu": GPU, "memory": MEMORY, "storage": "ephemeral-storage", "nodes": NODES, "pods": PODS}
"""What the table counts, by the name it goes under there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a pool stands.

    `capacity`: all its nodes have; `allocatable`: those of them that take new tasks. `used`: what everything on its
    nodes asks for; `shared`: the part of that which is not its own jobs', but borrowers' and of pods that are not ours.
    `borrowed`: what its own jobs hold on nodes of others. `pending`: what its waiting jobs ask for at their min. A node
    is used, shared or borrowed if anything on it is.
    """

    capacity: Resources = NOTHING
    allocatable: Resources = NOTHING
    used: Resources = NOTHING
    shared: Resources = NOTHING
    borrowed: Resources = NOTHING
    pending: Resources = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTable:
    """Every pool by its name, the default pool first; `total` are all of them together."""

    pools: Mapping[str, Pool]
    standings: Mapping[str, Standing]
    total: Standing


def pool_table(snapshot: Snapshot) -> PoolTable:
    """What pools have, use, lend, borrow and wait for at this moment."""
    fleet = snapshot.fleet
    held = _Held(fleet)
    for run in snapshot.running:
        held.add(run)
    foreign = {name: _foreign(node, snapshot) for name, node in fleet.nodes.items()}
    pending = _pending(snapshot)
    standings = {}
    for name, part in fleet.parts.items():
        others = {node: amounts for node in part.nodes if (amounts := held.by_others(node) + foreign[node])}
        everyone = {node: amounts for node in part.nodes if (amounts := held.by_all(node) + foreign[node])}
        standings[name] = Standing(
            capacity=_room(part.nodes.values()),
            allocatable=_room(node for node in part.nodes.values() if fleet.takes_tasks(node)),
            used=_on(everyone),
            shared=_on(others),
            borrowed=_on(held.abroad(name)),
            pending=pending.get(name, NOTHING),
        )
    return tabled(fleet, snapshot.policy, standings)


def tabled(fleet: Fleet, policy: Policy, standings: Mapping[str, Standing]) -> PoolTable:
    """The table of pools that stand so. Where nobody may be evicted at all, no pool preempts."""
    pools = {name: part.pool for name, part in fleet.parts.items()}
    if policy.preemption is not Preemption.ON:
        pools = {name: replace(pool, preempts=False) for name, pool in pools.items()}
    return PoolTable(pools=pools, standings=standings, total=_sum(standings.values()))


class _Held:
    """What jobs hold on each node, by the pool that the jobs belong to."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._by_node: dict[str, dict[str, Resources]] = {}

    def add(self, run: Running) -> None:
        home = self._fleet.home(run.job.profile)
        for node, tasks in _by(lambda task: task.node, run.tasks).items():
            on_node = self._by_node.setdefault(node, {})
            on_node[home] = on_node.get(home, NOTHING) + resources_of(run.job.profile, tasks)

    def by_all(self, node: str) -> Resources:
        return total(self._by_node.get(node, {}).values())

    def by_others(self, node: str) -> Resources:
        own = self._fleet.pool_of(node)
        return total(amounts for home, amounts in self._by_node.get(node, {}).items() if home != own)

    def abroad(self, home: str) -> dict[str, Resources]:
        """By node, what jobs of a pool hold on nodes of others."""
        return {
            node: by_home[home]
            for node, by_home in self._by_node.items()
            if home in by_home and self._fleet.pool_of(node) != home
        }


def held_by_pool(fleet: Fleet, run: Running) -> dict[str, Resources]:
    """What a job holds on the nodes of each pool."""
    by_pool = _by(lambda task: fleet.pool_of(task.node), run.tasks)
    return {pool: resources_of(run.job.profile, tasks) for pool, tasks in by_pool.items()}


def _by(where: Callable[[Task], str], tasks: Iterable[Task]) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = {}
    for task in tasks:
        found.setdefault(where(task), []).append(task)
    return found


def _foreign(node: Node, snapshot: Snapshot) -> Resources:
    """What pods that are not ours take of a node."""
    return node.empty().free - snapshot.nodes[node.name].empty.free


def _pending(snapshot: Snapshot) -> dict[str, Resources]:
    """What jobs that wait for room ask for, by their pool. Those that come after others ask for nothing yet."""
    asked: dict[str, Resources] = {}

    def ask(profile: Profile, count: int) -> None:
        home = snapshot.fleet.home(profile)
        asked[home] = asked.get(home, NOTHING) + profile.least * count

    for queue in snapshot.queues:
        for lane in queue.lanes:
            ask(lane.profile, len(lane.jobs))
    for pending in snapshot.pending:
        ask(pending.job.profile, 1)
    return asked


def _room(nodes: Iterable[Node]) -> Resources:
    return _on({node.name: node.empty().free for node in nodes})


def _on(by_node: Mapping[str, Resources]) -> Resources:
    """Amounts on nodes, and how many nodes those are."""
    return total(by_node.values()) + Resources.of({NODES: len(by_node)})


def _sum(standings: Iterable[Standing]) -> Standing:
    rows = list(standings)
    return Standing(**{column.name: total(getattr(row, column.name) for row in rows) for column in fields(Standing)})


# --- as JSON ----------------------------------------------------------------------------------


def told(table: PoolTable) -> dict[str, Any]:
    """The table as JSON: Kubernetes quantities, and None where there is no limit."""
    return {
        called(name): {
            "preemption": table.pools[name].preempts,
            "borrowing": table.pools[name].borrows,
            "sharing": table.pools[name].shares,
            "resources": {kind: _row(standing, table.total, kind) for kind in KINDS},
        }
        for name, standing in table.standings.items()
    }


def _row(standing: Standing, everywhere: Standing, kind: str) -> dict[str, str | None]:
    columns = {column.name: getattr(standing, column.name) for column in fields(Standing)}
    return {
        name: _amount(KINDS[kind], amounts) for name, amounts in {**columns, "total": everywhere.allocatable}.items()
    }


def _amount(name: str, amounts: Resources) -> str | None:
    amount = amounts.get(name)
    return None if name == PODS and amount >= NO_POD_LIMIT else format_amount(name, amount)
