"""Nodes: entries with a count, spread over labels and topology by index."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from muster.documents.fields import Fields
from muster.documents.values import Scalar
from muster.model.errors import InvalidValue
from muster.model.labels import Taint, parse_selector
from muster.model.nodes import Node
from muster.model.resources import Resources
from muster.sim.scenario.roster import expand, longest, read_name

MOST_NODES = 200_000

_TOPOLOGY = re.compile(r"[A-Za-z0-9._-]{1,63}(/[A-Za-z0-9._-]{1,63}){0,15}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """One entry of a list of nodes; `at_ms` None: there from the beginning."""

    fields: Fields
    name: str
    count: int
    cluster: str
    at_ms: int | None
    allocatable: Resources
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    topology: str

    def names(self) -> list[str]:
        """The names of its nodes: scenario.md numbers them only when there are several."""
        return [self.name] if self.count == 1 else [f"{self.name}-{index}" for index in range(self.count)]

    def nodes(self) -> Iterator[Node]:
        """Its nodes, in order of index."""
        has_own_labels = any("{" in value for value in self.labels.values())
        for index, name in enumerate(self.names()):
            labels = (
                {key: expand(value, index) for key, value in self.labels.items()} if has_own_labels else self.labels
            )
            yield Node(
                name=name,
                cluster=self.cluster,
                allocatable=self.allocatable,
                labels=labels,
                taints=self.taints,
                topology=tuple(expand(self.topology, index).split("/")) if self.topology else (),
            )


@dataclass(slots=True)
class Nodes:
    """Every node of the file, also those that come later. A name may come back once it was removed.

    `there`: nodes of a world that runs already, which no file describes.
    """

    entries: list[NodeEntry] = field(default_factory=list)
    total: int = 0
    _additions: dict[str, list[tuple[int, NodeEntry]]] = field(default_factory=dict)
    _removals: dict[str, list[int]] = field(default_factory=dict)
    _other_names: dict[str, str] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)

    def read(self, fields: Fields, cluster: str, at_ms: int | None) -> None:
        """Take in the nodes listed under the key `nodes`."""
        for entry in fields.entries("nodes", "node"):
            node = _read_entry(entry, cluster, at_ms)
            if node is not None:
                self._take(node)

    def named(self, name: str) -> str | None:
        """The name of the node that is meant. The only node of `count: 1` may be called n or n-0."""
        return name if name in self._additions or name in self.there else self._other_names.get(name)

    def names(self) -> Collection[str]:
        """The names of all nodes."""
        return self._additions.keys() | self.there

    def made(self) -> Iterator[Node]:
        """The nodes that are there from the beginning."""
        for entry in self.entries:
            if entry.at_ms is None:
                yield from entry.nodes()

    def remove(self, name: str, at_ms: int) -> None:
        """Remember that a node will be removed."""
        self._removals.setdefault(name, []).append(at_ms)

    def check(self) -> None:
        """Note every node that is added while one of its name is there."""
        refused = set()
        for name, additions in self._additions.items():
            additions.sort(key=lambda addition: (addition[0], addition[1].fields.line))
            removals = sorted(self._removals.get(name, ()))
            if name in self.there and not bisect_right(removals, additions[0][0]):
                additions[0][1].fields.refuse("name", "a node of that name is there: names are unique")
            for (before_ms, before), (at_ms, entry) in pairwise(additions):
                # At one moment removals come first, so a node may be replaced at once.
                is_gone = bisect_right(removals, before_ms) < bisect_right(removals, at_ms)
                if not is_gone and entry.fields.path not in refused:
                    refused.add(entry.fields.path)
                    allowed = f"the node {name} of line {before.fields.line} is still there then: names are unique"
                    entry.fields.refuse("name", allowed)

    def _take(self, entry: NodeEntry) -> None:
        self.total += entry.count
        if self.total > MOST_NODES:
            entry.fields.add("count", f"more than {MOST_NODES} nodes in the whole file are not allowed")
            return
        self.entries.append(entry)
        for name in entry.names():
            at_ms = -1 if entry.at_ms is None else entry.at_ms
            self._additions.setdefault(name, []).append((at_ms, entry))
        if entry.count == 1 and entry.fields.has("count"):
            self._other_names[f"{entry.name}-0"] = entry.name


def _read_entry(fields: Fields, cluster: str, at_ms: int | None) -> NodeEntry | None:
    name, count = read_name(fields)
    count = count or 1
    amounts = fields.node_amounts()
    labels = read_labels(fields, count)
    taints = _taints(fields)
    topology = _topology(fields, count)
    fields.close_with_amounts()
    if name is None:
        return None
    return NodeEntry(
        fields=fields,
        name=name,
        count=count,
        cluster=cluster,
        at_ms=at_ms,
        allocatable=Resources.of(amounts),
        labels=labels,
        taints=taints,
        topology=topology,
    )


def read_labels(fields: Fields, count: int = 1) -> dict[str, str]:
    """The key `labels`, each value fit for every index below `count`."""
    labels = fields.texts("labels")
    for key, value in labels.items():
        try:
            parse_selector({key: longest(value, count)}, path="labels")
        except InvalidValue as err:
            fields.refuse_invalid(err)
    return labels


def _taints(fields: Fields) -> tuple[Taint, ...]:
    taints = set()
    for item, path in fields.items("taints"):
        try:
            taints.add(Taint.parse(item.value if isinstance(item, Scalar) else None))
        except InvalidValue as err:
            fields.refuse_invalid(err.inside(path.removeprefix(f"{fields.path}.")))
    return tuple(sorted(taints, key=str))


def _topology(fields: Fields, count: int) -> str:
    value = fields.get("topology")
    if value is None:
        return ""
    if isinstance(value, Scalar) and value.value is not None and len(value.text) <= 2000:
        if _TOPOLOGY.fullmatch(longest(value.text, count)):
            return value.text
    fields.refuse("topology", 'a path of switches from the top such as "spine/leaf"; {i}, {i//4}, {i%4} are the index')
    return ""
