"""Nodes that operators closed, and those that they empty.

A cordon is one small thing of its own beside the node, because nodes are what their agents say of them: an agent that
starts again, or a machine that comes back from its repair, does not undo what an operator said. A drain is a cordon
with a moment from which on whatever runs there must leave (`NodeDrained`). It is written down before it is carried out,
so that a server that comes back goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from muster.model import events as ev
from muster.model.nodes import Node
from muster.model.plan import Rule
from muster.server.leases import ENDED, STOPPING, Leases, revision
from muster.store.rows import LeaseRow, Thing

CORDON = "cordon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """An attempt that goes on without its tasks on a node, as soon as its agent has that width."""

    job: str
    attempt: int
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """A node that an operator closed.

    `leaves_ms`: from when on what runs there must leave, if it must; `is_told`: it was told to, and the attempts that
    could go on without their tasks there were `narrowed`.
    """

    node: str
    by: str
    since_ms: int
    leaves_ms: int | None = None
    is_told: bool = False
    narrowed: tuple[Narrowed, ...] = ()

    @property
    def due_ms(self) -> int | None:
        """When there is something to do."""
        return None if self.is_told else self.leaves_ms


class Cordons:
    """All of them, by node. Hold the world's lock while changing any."""

    def __init__(self, things: Iterable[Thing] = ()) -> None:
        self._known = {thing.name: cordon_of(thing) for thing in things}

    def __contains__(self, node: str) -> bool:
        return node in self._known

    def get(self, node: str) -> Cordon | None:
        """What an operator said of a node."""
        return self._known.get(node)

    def closed(self, nodes: Iterable[Node]) -> list[Node]:
        """The nodes as they are with what operators said of them."""
        return [replace(node, cordoned=True) if node.name in self._known else node for node in nodes]

    def hear(self, things: Iterable[Thing], gone: Iterable[tuple[str, str]]) -> None:
        """What news brings about cordons."""
        self._known.update({thing.name: cordon_of(thing) for thing in things if thing.kind == CORDON})
        for kind, name in gone:
            if kind == CORDON:
                self._known.pop(name, None)

    def next_ms(self) -> int | None:
        """When somebody must leave a node."""
        return min((it.due_ms for it in self._known.values() if it.due_ms is not None), default=None)

    def due(self, now_ms: int) -> list[ev.Event]:
        """What happens to nodes by now."""
        late = sorted(it.node for it in self._known.values() if it.due_ms is not None and it.due_ms <= now_ms)
        return [ev.NodeDrained(node=node) for node in late]

    def told(self, happened: Iterable[ev.Event], rows: Sequence[LeaseRow]) -> list[Thing]:
        """Nodes were drained, and leases changed by that: the cordons to write down."""
        revisions = {(row.job, row.attempt): revision(row) for row in rows if row.state not in (STOPPING, ENDED)}
        left: dict[str, list[Narrowed]] = {}
        for event in happened:
            if isinstance(event, ev.NodeDrained):
                left.setdefault(event.node, [])
            if isinstance(event, ev.JobPreempted) and event.rule is Rule.DRAIN:
                key = (event.job, event.attempt)
                if key in revisions:
                    left[event.by].append(Narrowed(job=event.job, attempt=event.attempt, revision=revisions[key]))
        for node, narrowed in left.items():
            if node in self._known:
                self._known[node] = replace(self._known[node], is_told=True, narrowed=tuple(narrowed))
        return [cordon_thing(self._known[node]) for node in left if node in self._known]


def leaving(cordon: Cordon, leases: Leases) -> list[str]:
    """Jobs that were told to leave a node and whose agent has not said yet that they did."""
    return sorted({*_stopping_on(cordon.node, leases), *_not_narrow_yet(cordon, leases)})


def _stopping_on(node: str, leases: Leases) -> Iterator[str]:
    for row in leases.stopping():
        if any(place["node"] == node for place in row.spec["places"]):
            yield row.job


def _not_narrow_yet(cordon: Cordon, leases: Leases) -> Iterator[str]:
    for it in cordon.narrowed:
        row = leases.get(it.job, it.attempt)
        if row is not None and row.state != STOPPING and int(row.result.get("revision", 0)) < it.revision:
            yield it.job


# --- as the store keeps them --------------------------------------------------------------------


def cordon_thing(cordon: Cordon) -> Thing:
    """A cordon as the store keeps it."""
    body: dict[str, Any] = {"by": cordon.by, "since": cordon.since_ms}
    if cordon.leaves_ms is not None:
        narrowed = [[it.job, it.attempt, it.revision] for it in cordon.narrowed]
        body["drain"] = {"leaves": cordon.leaves_ms, "told": cordon.is_told, "narrowed": narrowed}
    return Thing(kind=CORDON, name=cordon.node, body=body)


def cordon_of(thing: Thing) -> Cordon:
    """The cordon that the store keeps."""
    body, drain = thing.body, thing.body.get("drain")
    cordon = Cordon(node=thing.name, by=body["by"], since_ms=int(body["since"]))
    if drain is None:
        return cordon
    narrowed = tuple(
        Narrowed(job=job, attempt=attempt, revision=revised) for job, attempt, revised in drain["narrowed"]
    )
    return replace(cordon, leaves_ms=int(drain["leaves"]), is_told=bool(drain["told"]), narrowed=narrowed)
