"""The clusters and their nodes, whatever runs on them.

A fleet changes when nodes or clusters change, which is rare, so it remembers its answers: which
nodes a constraint admits, which nodes are close to each other. Same nodes, same answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from muster.model.jobs import Profile
from muster.model.labels import Constraint
from muster.model.nodes import NO_POD_LIMIT, Node, emptied
from muster.model.pools import DEFAULT, DEFAULT_POOL, Pool, pool_of
from muster.model.resources import PODS, Resources, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A set of nodes that a job stays inside of. A silent one gets nothing new.

    An opaque one shows no nodes and can only submit, query and cancel: it is in no fleet, jobs are raced over it.
    `honours`: what jobs may need of it that not every cluster can do (Profile.needs).
    """

    name: str
    preference: int = 50
    silent: bool = False
    opaque: bool = False
    honours: tuple[str, ...] = ()

    def can(self, needs: Iterable[str]) -> bool:
        """Whether it honours all of these."""
        return all(need in self.honours for need in needs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Nodes no two of which are further apart than `hops`."""

    hops: int
    path: tuple[str, ...]
    nodes: tuple[Node, ...]


class Fleet:
    """Clusters and nodes in order of name, with answers remembered.

    `pools` are those that someone made. A fleet with pools is in parts, one for each and one for the default pool; a
    part is a fleet of its own, of that `pool`. A fleet without pools is all one part.
    `preempts_in`: the clusters in which jobs may be evicted for others. `where`: in which of the clusters a node is.
    `bare`: the clusters without any. `machines`: how many nodes have the same to give; most machines of a fleet are
    alike. `kinds`: what machines have to give, also those of other parts of the same fleet. `closed`: the names of
    those nodes that take no new tasks.
    """

    __slots__ = (
        "_areas",
        "_by_cluster",
        "_candidates",
        "_domains",
        "_homes",
        "_matching",
        "_open",
        "_parts",
        "_pool_of",
        "allocatable",
        "bare",
        "closed",
        "clusters",
        "kinds",
        "machines",
        "nodes",
        "pool",
        "pools",
        "preempts_in",
    )

    def __init__(
        self,
        clusters: Iterable[Cluster] = (),
        nodes: Iterable[Node] = (),
        pools: Iterable[Pool] = (),
        *,
        pool: Pool | None = None,
        kinds: Iterable[Resources] | None = None,
        where: Callable[[Node], str] = attrgetter("cluster"),
    ) -> None:
        made = {each.name: each for each in sorted(pools, key=lambda each: each.name)}
        self.pool = made.pop(DEFAULT_POOL, DEFAULT) if pool is None else pool
        self.pools = made
        self._homes: dict[Profile, str] = {}
        self._parts: dict[str, Fleet] | None = None
        self._areas: Areas | None = None
        self.clusters = {cluster.name: cluster for cluster in sorted(clusters, key=lambda cluster: cluster.name)}
        self.nodes = {node.name: node for node in sorted(nodes, key=lambda node: node.key)}
        # Of several pools each says for itself, in its part.
        self.preempts_in = frozenset(self.clusters if self.pools or self.pool.preempts else ())
        self.machines = Counter(node.allocatable for node in self.nodes.values())
        self.kinds = tuple(self.machines if kinds is None else kinds)
        self.allocatable = total(emptied(kind).free * many for kind, many in self.machines.items())
        self._by_cluster: dict[str, list[Node]] = {name: [] for name in self.clusters}
        for node in self.nodes.values():
            self._by_cluster[where(node)].append(node)
        self.closed = frozenset(
            node.name
            for name, members in self._by_cluster.items()
            for node in members
            if node.cordoned or self.clusters[name].silent
        )
        self.bare = frozenset(name for name, members in self._by_cluster.items() if not members)
        self._pool_of: dict[str, str] = {}
        if self.pools:
            self._pool_of = {node.name: pool_of(node.labels, self.pools.values()) for node in self.nodes.values()}
        self._matching: dict[tuple[str, Constraint], tuple[Node, ...]] = {}
        self._open: dict[tuple[str, Constraint], tuple[Node, ...]] = {}
        self._domains: dict[str, tuple[Domain, ...]] = {}
        self._candidates: dict[tuple[tuple[tuple[str, int], ...], tuple[str, ...], bool], tuple[str, ...]] = {}

    def scarce(self, resources: Resources) -> list[tuple[str, int]]:
        """Of the resources asked for, those that are limited at all, and how much there is with all nodes empty."""
        there_is = self.allocatable
        return [(name, there_is.get(name)) for name in resources if name != PODS or there_is.get(name) < NO_POD_LIMIT]

    def candidates(self, profile: Profile, *, silent: bool = False) -> tuple[str, ...]:
        """The clusters a job may go to, most preferred first; silent ones only when asked for."""
        key = (profile.clusters, profile.needs, silent)
        known = self._candidates.get(key)
        if known is None:
            known = self._candidates[key] = self._candidates_of(profile, silent=silent)
        return known

    def _candidates_of(self, profile: Profile, *, silent: bool) -> tuple[str, ...]:
        wanted = dict(profile.clusters) or {name: cluster.preference for name, cluster in self.clusters.items()}
        known = [name for name in wanted if name in self.clusters and (silent or not self.clusters[name].silent)]
        if profile.needs:
            known = [name for name in known if self.clusters[name].can(profile.needs)]
        return tuple(sorted(known, key=lambda name: (-wanted[name], name)))

    # -- pools -----------------------------------------------------------------------------------------

    @property
    def parts(self) -> Mapping[str, Fleet]:
        """The nodes of each pool by its name, the default pool first; of a cluster, those pools that it has."""
        if not self.pools:
            return {self.pool.name: self}
        if self._parts is None:
            self._parts = self._divided()
        return self._parts

    def _divided(self) -> dict[str, Fleet]:
        nodes: dict[str, list[Node]] = {DEFAULT_POOL: [], **{name: [] for name in self.pools}}
        for node in self.nodes.values():
            nodes[self._pool_of[node.name]].append(node)
        # A pool without any node is everywhere: its jobs wait, or borrow.
        has = {name: {node.cluster for node in members} or set(self.clusters) for name, members in nodes.items()}
        has[DEFAULT_POOL] = set(self.clusters)
        parts = {}
        for name, members in nodes.items():
            pool = self.pools.get(name, self.pool)
            clusters = [cluster for cluster in self.clusters.values() if cluster.name in has[name]]
            parts[name] = Fleet(clusters, members, pool=pool, kinds=self.kinds)
        return parts

    def pool_of(self, node: str) -> str:
        """The name of the pool that a node belongs to."""
        return self._pool_of[node] if self.pools else self.pool.name

    def home(self, profile: Profile) -> str:
        """The pool that a job belongs to: the one it names if any cluster it may go to has that, else the default."""
        if not self.pools:
            return self.pool.name
        home = self._homes.get(profile)
        if home is None:
            part = self.parts.get(profile.pool)
            is_there = part is not None and part.candidates(profile, silent=True)
            home = self._homes[profile] = profile.pool if is_there else DEFAULT_POOL
        return home

    def lenders(self, profile: Profile) -> tuple[str, ...]:
        """The pools a job may ever borrow from, in order of name; whether they lend now is another question."""
        home = self.parts[self.home(profile)].pool
        return tuple(name for name, part in self.parts.items() if home.may_borrow_from(part.pool))

    def is_bare(self, profile: Profile) -> bool:
        """Whether the pool of a job has no nodes in any of the clusters that the job may go to."""
        part = self.parts[self.home(profile)]
        clusters = part.candidates(profile, silent=True) if part.bare else ()
        return bool(clusters) and part.bare.issuperset(clusters)

    def without_nodes(self, profile: Profile) -> tuple[str, ...]:
        """The clusters that a job may go to without nodes: without any of its pool if that is bare, or any at all."""
        part = self.parts[self.home(profile)]
        bare = part.bare if self.is_bare(profile) else self.bare
        return tuple(name for name in part.candidates(profile, silent=True) if name in bare)

    def by_area(self) -> Areas:
        """The same nodes with each pool of a cluster as a cluster of its own."""
        if self._areas is None:
            self._areas = _areas(self)
        return self._areas

    # -- nodes -----------------------------------------------------------------------------------------

    def nodes_of(self, cluster: str) -> tuple[Node, ...]:
        """Every node of a cluster, cordoned ones too."""
        return tuple(self._by_cluster[cluster])

    def takes_tasks(self, node: Node) -> bool:
        """Whether new tasks may go to the node."""
        return node.name not in self.closed

    def suits(self, node: Node, constraint: Constraint) -> bool:
        """Whether new tasks with the constraint may go to the node."""
        return self.takes_tasks(node) and constraint.refuses(node.name, node.labels, node.taints) is None

    def matching(self, cluster: str, constraint: Constraint) -> tuple[Node, ...]:
        """The nodes of a cluster that the constraint admits, cordoned ones too."""
        found = self._matching.get((cluster, constraint))
        if found is None:
            found = tuple(self._by_cluster[cluster])
            if not constraint.is_lenient or any(node.taints for node in found):
                found = tuple(node for node in found if constraint.refuses(node.name, node.labels, node.taints) is None)
            self._matching[cluster, constraint] = found
        return found

    def open_matching(self, cluster: str, constraint: Constraint) -> tuple[Node, ...]:
        """Of those, the nodes that take new tasks."""
        found = self._open.get((cluster, constraint))
        if found is None:
            found = self.matching(cluster, constraint)
            if self.closed:
                found = tuple(node for node in found if self.takes_tasks(node))
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Areas:
    """A fleet whose clusters are areas, the nodes of one pool in one cluster. `places`: cluster and pool of each."""

    fleet: Fleet
    places: tuple[tuple[str, str], ...]


def _areas(fleet: Fleet) -> Areas:
    places = [(cluster, pool) for pool, part in fleet.parts.items() for cluster in part.clusters]
    # Numbered, so that their order is that of the places: by pool, and of one pool by cluster.
    names = {place: f"{number:06}" for number, place in enumerate(places)}
    clusters = [replace(fleet.clusters[cluster], name=name) for (cluster, _), name in names.items()]
    areas = Fleet(clusters, fleet.nodes.values(), where=lambda node: names[node.cluster, fleet.pool_of(node.name)])
    return Areas(fleet=areas, places=tuple(places))


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
