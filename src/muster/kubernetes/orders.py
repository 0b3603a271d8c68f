"""What a turn asks to be done in the cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from muster.kubernetes.objects import Key


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind this pod to that node. `lender`: the pool whose node that is, where it is not the pod's own."""

    uid: str
    key: Key
    node: str
    lender: str | None = None


@dataclass(frozen=True, slots=True)
class Eviction:
    """Evict this pod, for that reason."""

    uid: str
    key: Key
    why: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class Selection:
    """Say where the volume of this claim is to be made."""

    uid: str
    key: Key
    node: str


@dataclass(slots=True)
class Orders:
    """What is to be done after a turn."""

    binds: list[Bind] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)

    def add(self, more: Orders) -> None:
        """These as well."""
        self.binds += more.binds
        self.evictions += more.evictions
        self.selections += more.selections


HandOver = Callable[[Orders], object]
"""Takes a part of what a turn orders, to be carried out."""
