"""The clusters and their nodes, whatever runs on them.

A fleet changes when nodes or clusters change, which is rare, so it remembers its answers: which
nodes a constraint admits, which nodes are close to each other. Same nodes, same answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from muster.model.jobs import Profile
from muster.model.labels import Constraint
from muster.model.nodes import NO_POD_LIMIT, Node
from muster.model.resources import PODS, Resources, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A set of nodes that a job stays inside of. A silent one gets nothing new.

    An opaque one shows no nodes and can only submit, query and cancel: it is in no fleet, jobs are raced over it.
    """

    name: str
    preference: int = 50
    silent: bool = False
    opaque: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Nodes no two of which are further apart than `hops`."""

    hops: int
    path: tuple[str, ...]
    nodes: tuple[Node, ...]


class Fleet:
    """Clusters and nodes in order of name, with answers remembered."""

    __slots__ = ("_by_cluster", "_domains", "_matching", "_open", "allocatable", "clusters", "nodes")

    def __init__(self, clusters: Iterable[Cluster] = (), nodes: Iterable[Node] = ()) -> None:
        self.clusters = {cluster.name: cluster for cluster in sorted(clusters, key=lambda cluster: cluster.name)}
        self.nodes = {node.name: node for node in sorted(nodes, key=lambda node: node.key)}
        self.allocatable = total(node.empty().free for node in self.nodes.values())
        self._by_cluster: dict[str, list[Node]] = {name: [] for name in self.clusters}
        for node in self.nodes.values():
            self._by_cluster[node.cluster].append(node)
        self._matching: dict[tuple[str, Constraint], tuple[Node, ...]] = {}
        self._open: dict[tuple[str, Constraint], tuple[Node, ...]] = {}
        self._domains: dict[str, tuple[Domain, ...]] = {}

    def scarce(self, resources: Resources) -> list[tuple[str, int]]:
        """Of the resources asked for, those that are limited at all, and how much there is with all nodes empty."""
        there_is = self.allocatable
        return [(name, there_is.get(name)) for name in resources if name != PODS or there_is.get(name) < NO_POD_LIMIT]

    def candidates(self, profile: Profile, *, silent: bool = False) -> tuple[str, ...]:
        """The clusters a job may go to, most preferred first; silent ones only when asked for."""
        wanted = dict(profile.clusters) or {name: cluster.preference for name, cluster in self.clusters.items()}
        known = [name for name in wanted if name in self.clusters and (silent or not self.clusters[name].silent)]
        return tuple(sorted(known, key=lambda name: (-wanted[name], name)))

    def nodes_of(self, cluster: str) -> tuple[Node, ...]:
        """Every node of a cluster, cordoned ones too."""
        return tuple(self._by_cluster[cluster])

    def takes_tasks(self, node: Node) -> bool:
        """Whether new tasks may go to the node."""
        return not node.cordoned and not self.clusters[node.cluster].silent

    def suits(self, node: Node, constraint: Constraint) -> bool:
        """Whether new tasks with the constraint may go to the node."""
        return self.takes_tasks(node) and constraint.refuses(node.name, node.labels, node.taints) is None

    def matching(self, cluster: str, constraint: Constraint) -> tuple[Node, ...]:
        """The nodes of a cluster that the constraint admits, cordoned ones too."""
        found = self._matching.get((cluster, constraint))
        if found is None:
            nodes = self._by_cluster[cluster]
            found = tuple(node for node in nodes if constraint.refuses(node.name, node.labels, node.taints) is None)
            self._matching[cluster, constraint] = found
        return found

    def open_matching(self, cluster: str, constraint: Constraint) -> tuple[Node, ...]:
        """Of those, the nodes that take new tasks."""
        found = self._open.get((cluster, constraint))
        if found is None:
            found = tuple(node for node in self.matching(cluster, constraint) if self.takes_tasks(node))
            self._open[cluster, constraint] = found
        return found

    def domains(self, cluster: str) -> tuple[Domain, ...]:
        """Sets of nodes that are close to each other, closest first.

        Below one switch, all nodes at most k levels down are at most 2 + 2k hops apart. In trees of even
        depth these are all such sets; in uneven ones a few wider mixtures are left out.
        """
        if cluster not in self._domains:
            self._domains[cluster] = tuple(_domains(self._by_cluster[cluster]))
        return self._domains[cluster]


def _domains(nodes: list[Node]) -> list[Domain]:
    found = [Domain(hops=0, path=(*node.topology, node.name), nodes=(node,)) for node in nodes]
    below: dict[tuple[int, tuple[str, ...]], list[Node]] = {}
    depth = max((len(node.topology) for node in nodes), default=0)
    for node in nodes:
        for length in range(len(node.topology) + 1):
            for levels in range(len(node.topology) - length, depth - length + 1):
                below.setdefault((2 + 2 * levels, node.topology[:length]), []).append(node)
    found += [Domain(hops=hops, path=path, nodes=tuple(members)) for (hops, path), members in below.items()]
    return sorted(found, key=lambda domain: (domain.hops, domain.path))
