"""Pools as Kubernetes has them: what an object asks for becomes an event, and what is counted becomes its status.

The pool `default` is an object too, so that its status has a place and its switches can be changed; the scheduler makes
it where nobody does. It has the nodes that no other pool has for itself: a selector of its own means nothing
(ai-scheduler-pools.md; docs/adr/0045-kubernetes-pools.md).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from muster.kubernetes.amounts import resources_of
from muster.kubernetes.batches import Batches
from muster.kubernetes.cache import Change
from muster.kubernetes.kinds import Kind
from muster.kubernetes.objects import LabelSelector, Meta, Read
from muster.kubernetes.selectors import expression_of
from muster.kubernetes.tally import Tally
from muster.model import events as ev
from muster.model import pools
from muster.model.pools import as_pool
from muster.model.resources import GPU
from muster.state.pools import told
from muster.state.state import State

Status: TypeAlias = dict[str, Any]


class PoolSpec(Read, frozen=True):
    """Which nodes, and what is allowed there."""

    node_selector: LabelSelector = LabelSelector()
    disable_preemption: bool = False
    disable_borrowing: bool = False
    disable_sharing: bool = False
    borrowing_pools: tuple[str, ...] = ()
    keep: dict[str, str | int] = msgspec.field(default_factory=dict)


class Pool(Read, frozen=True):
    """A Pool. What else its status says is nobody's business but who wrote it."""

    metadata: Meta = Meta()
    spec: PoolSpec = PoolSpec()
    status: Status = msgspec.field(default_factory=dict)


POOLS = Kind(type=Pool, plural="pools", version="v1alpha1", group="resource.aibee.cn", is_namespaced=False)


def pool_of(it: Pool) -> pools.Pool:
    """The pool as the engine knows it."""
    name = as_pool(it.metadata.name)
    selector = LabelSelector() if name == pools.DEFAULT_POOL else it.spec.node_selector
    return pools.Pool(
        name=name,
        selector=selector.match_labels,
        expressions=tuple(map(expression_of, selector.match_expressions)),
        shares=not it.spec.disable_sharing,
        borrows=not it.spec.disable_borrowing,
        preempts=not it.spec.disable_preemption,
        borrows_from=tuple(as_pool(name) for name in it.spec.borrowing_pools),
        keep=dict(resources_of({GPU if name == "gpu" else name: most for name, most in it.spec.keep.items()}).items()),
    )


def is_asked_anew(change: Change[Pool]) -> bool:
    """Whether the change is more than a status; also one that asks for the same in other words has to be observed."""
    before, after = change.before, change.after
    if before is None or after is None:
        return True
    return before.metadata.generation != after.metadata.generation or before.spec != after.spec


class Pools:
    """The objects there are, and a tally of what they stand for. Batches have the news."""

    def __init__(self, batches: Batches) -> None:
        self.tally = Tally()
        self._batches = batches
        self._there: dict[str, Pool] = {}

    def hear(self, change: Change[Pool]) -> None:
        """A Pool was made, changed or deleted."""
        it = change.after or change.before
        assert it is not None
        name = it.metadata.name
        self._there.pop(name, None)
        if change.after is not None:
            self._there[name] = change.after
        if change.after is None:
            self._batches.news.append(ev.PoolDeleted(pool=as_pool(name)))
        else:
            self._batches.news.append(ev.PoolSet(pool=pool_of(change.after)))

    def statuses(self, state: State) -> dict[str, Status]:
        """What the status of each Pool is as of the last turn, by its name; `default` is always among them."""
        table = told(self.tally.table(state.fleet, state.policy))
        return {name: {"observedGeneration": self._generation(name), **standing} for name, standing in table.items()}

    def _generation(self, name: str) -> int:
        return self._there[name].metadata.generation if name in self._there else 1
