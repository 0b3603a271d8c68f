"""Pools: nodes kept for some jobs first, of which others may borrow room that nobody of the pool needs.

A node belongs to the pool whose selector alone matches it; to the default pool, whose name is empty, when none or
several match (design.md 5.1). Pools may be created, changed and deleted at any time. The default pool is one like any
other, but for its nodes: it is always there, and what is said of it changes what is allowed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.model.labels import Expression

DEFAULT_POOL = ""
DEFAULT_NAME = "default"  # how people call it; no other pool may be called so


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes with certain labels, of which `expressions` demand more, and what is allowed there.

    `shares`: others may borrow room on its nodes; `keep`: how much of what is idle there is never lent, by resource.
    `borrows`: its jobs may run elsewhere, only in `borrows_from` if that names any. `preempts`: its jobs may evict
    others from its nodes. Who demands nothing of nodes has none.
    """

    name: str
    selector: Mapping[str, str] = field(default_factory=dict)
    expressions: tuple[Expression, ...] = ()
    shares: bool = True
    borrows: bool = True
    preempts: bool = True
    borrows_from: tuple[str, ...] = ()
    keep: Mapping[str, int] = field(default_factory=dict)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is one of those it selects."""
        if not self.selector and not self.expressions:
            return False
        has_labels = all(labels.get(key) == value for key, value in self.selector.items())
        return has_labels and all(each.admits(labels.get(each.key)) for each in self.expressions)

    def may_borrow_from(self, other: Pool) -> bool:
        """Whether its jobs may ever run on nodes of the other pool."""
        is_named = not self.borrows_from or other.name in self.borrows_from
        return self.borrows and other.shares and is_named and other.name != self.name


DEFAULT = Pool(name=DEFAULT_POOL)
"""The default pool where nobody said anything of it."""


def called(pool: str) -> str:
    """The name that people know a pool by."""
    return DEFAULT_NAME if pool == DEFAULT_POOL else pool


def as_pool(name: str) -> str:
    """The pool that people call so."""
    return DEFAULT_POOL if name == DEFAULT_NAME else name


def pool_of(labels: Mapping[str, str], pools: Iterable[Pool]) -> str:
    """The name of the pool that a node with these labels belongs to."""
    matching = [pool.name for pool in pools if pool.matches(labels)]
    return matching[0] if len(matching) == 1 else DEFAULT_POOL
