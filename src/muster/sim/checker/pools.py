"""Whose node and whose job it is, worked out from labels and selectors alone (design.md 5.1)."""

from __future__ import annotations

from collections.abc import Mapping

from muster.model.fleet import Cluster
from muster.model.jobs import Profile, Task
from muster.model.nodes import Node
from muster.model.pools import Pool

DEFAULT = ""  # the name of the default pool


class Pools:
    """The pools of a snapshot. Without any, all nodes and all jobs are of the default pool."""

    def __init__(
        self, clusters: Mapping[str, Cluster], nodes: Mapping[str, Node], pools: Mapping[str, Pool], default: Pool
    ) -> None:
        self._pools = pools
        self._all = {DEFAULT: default, **pools}
        self._clusters = set(clusters)
        self.of = {name: self._pool_of(node) for name, node in nodes.items()}
        # A pool that has no nodes is everywhere; so is the default pool.
        self._in = {name: {nodes[it].cluster for it in nodes if self.of[it] == name} or set(clusters) for name in pools}

    def _pool_of(self, node: Node) -> str:
        """The one pool whose selector matches the node's labels, if there is just one."""
        matching = [name for name, pool in self._pools.items() if _selects(pool, node)]
        return matching[0] if len(matching) == 1 else DEFAULT

    def holding(self, tasks: tuple[Task, ...]) -> set[str]:
        """The pools that these tasks are in."""
        return {self.of[task.node] for task in tasks if task.node in self.of}

    def home(self, profile: Profile) -> str:
        """The pool a job belongs to: the one it names, if some cluster it may go to has that."""
        named = {name for name, _ in profile.clusters} or self._clusters
        return profile.pool if named & self._in.get(profile.pool, set()) else DEFAULT

    def clusters_of(self, pool: str) -> set[str]:
        """The clusters that have the pool: only there are its jobs offered."""
        return self._in.get(pool, self._clusters)

    def may_borrow(self, home: str, lender: str) -> bool:
        """Whether jobs of one pool may ever run on nodes of another."""
        if home == lender or not self._all[home].borrows:
            return False
        named = self._all[home].borrows_from
        return self._all[lender].shares and (not named or lender in named)

    def lenders(self, home: str) -> list[str]:
        """The pools that jobs of a pool may ever run in besides their own."""
        return [name for name in self._all if self.may_borrow(home, name)]

    def keep(self, pool: str) -> Mapping[str, int]:
        """What a pool never lends of what is idle there."""
        return self._all[pool].keep

    def preempts(self, pool: str) -> bool:
        """Whether anyone may be evicted there."""
        return self._all[pool].preempts


def _selects(pool: Pool, node: Node) -> bool:
    """Whether the node meets every demand of a pool that has any."""
    met = [node.labels.get(key) == value for key, value in pool.selector.items()]
    for demand in pool.expressions:
        is_there, is_listed = demand.key in node.labels, node.labels.get(demand.key) in demand.values
        answers = {"In": is_listed, "NotIn": not is_listed, "Exists": is_there, "DoesNotExist": not is_there}
        met.append(answers[demand.operator])
    return bool(met) and all(met)
