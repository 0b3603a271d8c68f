"""What pools have, use, lend, borrow and wait for, kept as pods come and go: a look at it costs what changed.

The same numbers as `state.pools.pool_table` works out of a whole snapshot, with two differences that are Kubernetes'
own: capacity is what nodes say it is, not what of it is allocatable; and a pod that is being evicted is of its pool
until it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from muster.kubernetes import objects
from muster.kubernetes.amounts import resources_of
from muster.kubernetes.jobs import pool_named_by
from muster.kubernetes.objects import Pod
from muster.model.fleet import Fleet
from muster.model.policy import Policy
from muster.model.pools import DEFAULT_POOL
from muster.model.resources import NOTHING, PODS, Resources, total
from muster.state.pools import NODES, PoolTable, Standing, tabled

_ONE = Resources.of({NODES: 1})


class _Held(NamedTuple):
    """What a pod holds on a node, or asks for if that is empty. `pool` is the one it names; None: it is not ours."""

    node: str
    pool: str | None
    amounts: Resources


class _Share(NamedTuple):
    """What a node adds to a column of a pool."""

    pool: str
    column: str
    amounts: Resources


class Tally:
    """Tell it of pods and nodes; `table` is how pools stand."""

    def __init__(self) -> None:
        self._pods: dict[str, _Held] = {}  # by uid
        self._on: dict[str, dict[str | None, Resources]] = {}  # by node ("" for those that wait) and pool
        self._capacity: dict[str, Resources] = {}  # by node
        self._changed: set[str] = set()  # nodes to be counted again
        self._fleet = Fleet((), ())  # as of the last count
        self._shares: dict[str, tuple[_Share, ...]] = {}  # by node, as of the last count
        self._sums: dict[str, dict[str, Resources]] = {}  # of all shares, by pool and column

    # -- what happens ----------------------------------------------------------------------------------------

    def put(self, pod: Pod, amounts: Resources, node: str, *, is_ours: bool) -> None:
        """A pod is on a node; or, where that is empty, waits for one."""
        held = _Held(node, pool_named_by(pod) if is_ours else None, amounts)
        if self._pods.get(pod.metadata.uid) != held:
            self.remove(pod)
            self._pods[pod.metadata.uid] = held
            on_node = self._on.setdefault(node, {})
            on_node[held.pool] = on_node.get(held.pool, NOTHING) + amounts
            self._changed.add(node)

    def remove(self, pod: Pod) -> None:
        """A pod is neither on a node nor waits for one."""
        held = self._pods.pop(pod.metadata.uid, None)
        if held is None:
            return
        on_node = self._on[held.node]
        left = on_node[held.pool] - held.amounts
        if left.get(PODS):
            on_node[held.pool] = left
        else:
            del on_node[held.pool]
        self._changed.add(held.node)

    def hear_node(self, node: objects.Node) -> None:
        """A node appeared, or may have another capacity."""
        capacity = resources_of(node.status.capacity)
        if self._capacity.get(node.metadata.name) != capacity:
            self._capacity[node.metadata.name] = capacity
            self._changed.add(node.metadata.name)

    # -- how pools stand -------------------------------------------------------------------------------------

    def table(self, fleet: Fleet, policy: Policy) -> PoolTable:
        """How the pools of these nodes stand now."""
        for name in self._to_count(fleet):
            self._count(name, fleet)
        self._fleet, self._changed = fleet, set()
        pending = self._by_home("", fleet)
        standings = {
            name: Standing(**self._sums.get(name, {}), pending=pending.get(name, NOTHING)) for name in fleet.parts
        }
        return tabled(fleet, policy, standings)

    def _to_count(self, fleet: Fleet) -> list[str]:
        """The nodes of which something is different; all of them where pools were made or deleted."""
        before = self._fleet
        if before is fleet:
            return sorted(self._changed - {""})
        if before.pools.keys() != fleet.pools.keys():
            return sorted({*before.nodes, *fleet.nodes})
        moved = {
            name
            for name, node in fleet.nodes.items()
            if before.nodes.get(name) is not node or before.pool_of(name) != fleet.pool_of(name)
        }
        gone = before.nodes.keys() - fleet.nodes.keys()
        return sorted((self._changed | moved | gone) - {""})

    def _count(self, name: str, fleet: Fleet) -> None:
        before, now = self._shares.pop(name, ()), tuple(self._shares_of(name, fleet))
        for share in before:
            if share not in now:
                column = self._sums[share.pool]
                column[share.column] = column[share.column] - share.amounts
        for share in now:
            if share not in before:
                column = self._sums.setdefault(share.pool, {})
                column[share.column] = column.get(share.column, NOTHING) + share.amounts
        if now:
            self._shares[name] = now
        else:
            self._capacity.pop(name, None)

    def _shares_of(self, name: str, fleet: Fleet) -> Iterator[_Share]:
        """What a node adds to the pools; nothing, if it is not there."""
        node = fleet.nodes.get(name)
        if node is None:
            return
        pool = fleet.pool_of(name)
        yield _Share(pool, "capacity", self._capacity.get(name, NOTHING) + _ONE)
        if fleet.takes_tasks(node):
            yield _Share(pool, "allocatable", node.allocatable + _ONE)
        held = self._by_home(name, fleet)
        others = {home: amounts for home, amounts in held.items() if home != pool}
        if held:
            yield _Share(pool, "used", total(held.values()) + _ONE)
        if others:
            yield _Share(pool, "shared", total(others.values()) + _ONE)
        for home, amounts in others.items():
            if home is not None:
                yield _Share(home, "borrowed", amounts + _ONE)

    def _by_home(self, node: str, fleet: Fleet) -> dict[str | None, Resources]:
        """What is held on a node by the pods of each pool; None are pods that are not ours."""
        found: dict[str | None, Resources] = {}
        for named, amounts in self._on.get(node, {}).items():
            home = named if named is None or named in fleet.pools else DEFAULT_POOL
            found[home] = found.get(home, NOTHING) + amounts
        return found
