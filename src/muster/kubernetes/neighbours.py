"""Where the pods around it let a pod go, at this moment.

Host ports, required inter-pod affinity and anti-affinity, and topology spread with DoNotSchedule all come to demands on
a node's labels or its name, given the pods that are on nodes now. So a constraint says it all to the engine; but every
pod that is bound, ends or is deleted may change it. Who plans many pods at once asks again for each before it binds it
(`refuses`), having put those that it bound before.

The rules are those of kube-scheduler's filters NodePorts, InterPodAffinity and PodTopologySpread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import NamedTuple, TypeVar

from muster.kubernetes.amounts import is_sidecar
from muster.kubernetes.crowds import Census, Crowd, Labels, Who, change, who_is_meant, who_is_spread
from muster.kubernetes.objects import Key, Pod, PodAffinityTerm, Spread
from muster.kubernetes.selectors import constraint_of, narrowed, not_on
from muster.model.labels import Constraint, Expression, NodeAffinity, Term, tolerates
from muster.model.nodes import Node

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_CLOSE = "spec.affinity.podAffinity"
_FAR = "spec.affinity.podAntiAffinity"
_SPREAD = "spec.topologySpreadConstraints"
_PORTS = "spec.containers.ports.hostPort"
_KEPT_AWAY = f"{_FAR} of other pods"
_HOSTNAME = "kubernetes.io/hostname"
_ANY_ADDRESS = "0.0.0.0"
_DO_NOT_SCHEDULE = "DoNotSchedule"
_HONOR, _IGNORE = "Honor", "Ignore"

_K = TypeVar("_K")


class HostPort(NamedTuple):
    """A port of a node. One of any address takes that of every address."""

    protocol: str
    port: int
    address: str

    def clashes(self, other: HostPort) -> bool:
        """Whether only one of them can be had on a node."""
        if self[:2] != other[:2]:
            return False
        return self.address == other.address or _ANY_ADDRESS in (self.address, other.address)


class Apart(NamedTuple):
    """Pods of a kind are not wanted within a domain."""

    who: Who
    topology_key: str


@dataclass(frozen=True, slots=True)
class Demand:
    """Something that must hold of a node, and the field that says so."""

    field: str
    term: Term


class Neighbours:
    """The pods on nodes, whoever bound them. `nodes` are all there are; whoever keeps that mapping may change it."""

    __slots__ = ("_apart", "_census", "_ports", "nodes")

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.nodes = nodes
        self._census = Census()
        self._apart: dict[Apart, Counter[str]] = {}  # who is kept away, and on which nodes those are that do it
        self._ports: dict[HostPort, Counter[str]] = {}

    # -- what is so ------------------------------------------------------------------------------------------

    def put(self, pod: Pod, node: str) -> None:
        """A pod is on a node, or is about to be; it may have been put before, and have changed."""
        self.remove(pod.metadata.key)
        if not pod.is_over:
            self._census.add(pod, node)
            self._count(pod, node, 1)

    def remove(self, key: Key) -> None:
        """A pod is on no node any more, if it was."""
        found = self._census.remove(key)
        if found is not None:
            self._count(*found, -1)

    def relabel(self, namespace: str, labels: Labels) -> None:
        """A namespace has these labels now; one that nobody spoke of has none."""
        self._census.relabel(namespace, labels)

    @property
    def keeps_away(self) -> bool:
        """Whether any pod keeps others away from it: then whoever comes may be meant."""
        return bool(self._apart)

    def _count(self, pod: Pod, node: str, by: int) -> None:
        for term in far_terms(pod):
            apart = Apart(who_is_meant(term, pod.metadata.namespace), term.topology_key)
            _change(self._apart, apart, node, by)
        for port in host_ports(pod):
            _change(self._ports, port, node, by)

    # -- what follows ----------------------------------------------------------------------------------------

    def narrowed(self, pod: Pod, constraint: Constraint) -> Constraint:
        """The nodes that the constraint admits, and the pods that are there now do too."""
        demands = [demand.term for demand in self.demands(pod)]
        if not demands:
            return constraint
        everything = Term(
            expressions=tuple(each for term in demands for each in term.expressions),
            fields=tuple(each for term in demands for each in term.fields),
        )
        return narrowed(constraint, NodeAffinity(terms=(everything,)))

    def refuses(self, pod: Pod, node: Node) -> str:
        """The field by which the pod may not go to the node now, empty when it may."""
        for demand in self.demands(pod):
            if not demand.term.matches(node.name, node.labels):
                return demand.field
        return ""

    def among(self, gang: Sequence[Pod]) -> str:
        """The field by which some pods that are to be bound together mind where others of them go, if there is any.

        They cannot be planned as others are: where each may go depends on where the others went.
        """
        return next((field for field, _, _ in self._quarrels(gang)), "")

    def apart(self, gang: Sequence[Pod]) -> frozenset[Key] | None:
        """Those of them that may share no node, if that is all that they mind of each other; None if they mind more.

        Such a gang can be planned if these ask for more than the others (`muster.kubernetes.amounts.kept_apart`).
        """
        apart: set[int] = set()
        for _, key, quarrel in self._quarrels(gang):
            if key != _HOSTNAME:
                return None
            apart |= quarrel
        return frozenset(gang[number].metadata.key for number in apart)

    def _quarrels(self, gang: Sequence[Pod]) -> Iterator[tuple[str, str, set[int]]]:
        """By which field, the label of domains not to be shared (none if it is about more), and who quarrels."""
        for (field, who, key), minding in _who_says(_minded(pod) for pod in gang).items():
            meant = {number for number, pod in enumerate(gang) if self._census.includes(who, pod.metadata)}
            if meant and len(meant | minding) > 1:
                yield field, key if field == _FAR else "", meant | minding
        ports = _who_says(host_ports(pod) for pod in gang)
        for (one, its), (other, others) in combinations_with_replacement(ports.items(), 2):
            if one.clashes(other) and len(its | others) > 1:
                yield _PORTS, _HOSTNAME, its | others

    def demands(self, pod: Pod) -> Iterator[Demand]:
        """What must hold of the pod's node now. The pod itself is not on one."""
        yield from self._free_ports(pod)
        yield from self._far_from_it(pod)
        yield from self._far(pod)
        yield from self._close(pod)
        yield from self._spread(pod)

    def _free_ports(self, pod: Pod) -> Iterator[Demand]:
        ports = host_ports(pod)
        taken: set[str] = set()
        if ports:
            for other, where in self._ports.items():
                if any(port.clashes(other) for port in ports):
                    taken |= where.keys()
        if taken:
            yield Demand(_PORTS, not_on(taken))

    def _far_from_it(self, pod: Pod) -> Iterator[Demand]:
        """Others keep it away from them."""
        for apart, where in self._apart.items():
            if self._census.includes(apart.who, pod.metadata):
                yield from self._outside(_KEPT_AWAY, apart.topology_key, where)

    def _far(self, pod: Pod) -> Iterator[Demand]:
        """It keeps away from others."""
        for index, term in enumerate(far_terms(pod)):
            where = self._census.where(Crowd(whos=(who_is_meant(term, pod.metadata.namespace),)))
            yield from self._outside(f"{_FAR}.{_REQUIRED}[{index}]", term.topology_key, where)

    def _outside(self, field: str, key: str, where: Mapping[str, int]) -> Iterator[Demand]:
        if domains := self._domains(key, where):
            yield Demand(field, _one(Expression(key=key, operator="NotIn", values=domains)))

    def _close(self, pod: Pod) -> Iterator[Demand]:
        """It goes where pods are that all its terms mean; the first of its own kind, wherever there are domains."""
        terms = close_terms(pod)
        if not terms:
            return
        crowd = Crowd(whos=tuple(who_is_meant(term, pod.metadata.namespace) for term in terms))
        where = self._census.where(crowd)
        domains = [self._domains(term.topology_key, where) for term in terms]
        is_first = not any(domains) and self._census.includes(crowd, pod.metadata)
        for index, (term, inside) in enumerate(zip(terms, domains, strict=True)):
            key = term.topology_key
            wanted = Expression(key=key, operator="Exists" if is_first else "In", values=inside)
            yield Demand(f"{_CLOSE}.{_REQUIRED}[{index}]", _one(wanted))

    def _spread(self, pod: Pod) -> Iterator[Demand]:
        """It goes where no more than maxSkew pods of its kind are than where fewest are."""
        spreads = hard_spreads(pod)
        if not spreads:
            return
        own = constraint_of(pod.spec)
        keys = {spread.topology_key for _, spread in spreads}
        counted = [node for node in self.nodes.values() if keys <= node.labels.keys()]
        for index, spread in spreads:
            key, who = spread.topology_key, who_is_spread(spread, pod.metadata)
            where = self._census.where(Crowd(whos=(who,), staying=True))
            there: Counter[str] = Counter()
            for node in counted:
                if _counts(spread, node, own):
                    there[node.labels[key]] += where.get(node.name, 0)
            fewest = min(there.values()) if len(there) >= (spread.min_domains or 1) else 0
            most = fewest + spread.max_skew - self._census.includes(who, pod.metadata)
            full = tuple(sorted(value for value, count in there.items() if count > most))
            demands = (Expression(key=key, operator="Exists"), Expression(key=key, operator="NotIn", values=full))
            yield Demand(f"{_SPREAD}[{index}]", Term(expressions=demands))

    def _domains(self, key: str, where: Mapping[str, int]) -> tuple[str, ...]:
        """The values that nodes have of a label, of the nodes that still are there."""
        nodes = (self.nodes[name] for name in where if name in self.nodes)
        return tuple(sorted({node.labels[key] for node in nodes if key in node.labels}))


def minds_neighbours(pod: Pod) -> str:
    """The field by which it matters to a pod which others are where; empty if none does."""
    if close_terms(pod):
        return _CLOSE
    if far_terms(pod):
        return _FAR
    if hard_spreads(pod):
        return _SPREAD
    return _PORTS if host_ports(pod) else ""


def close_terms(pod: Pod) -> Sequence[PodAffinityTerm]:
    """The pods that it must be close to."""
    affinity = pod.spec.affinity
    return affinity.pod_affinity.required if affinity and affinity.pod_affinity else ()


def far_terms(pod: Pod) -> Sequence[PodAffinityTerm]:
    """The pods that it must be far from."""
    affinity = pod.spec.affinity
    return affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()


def hard_spreads(pod: Pod) -> list[tuple[int, Spread]]:
    """How it must be spread, each with its place in the spec."""
    spreads = enumerate(pod.spec.topology_spread_constraints)
    return [(index, spread) for index, spread in spreads if spread.when_unsatisfiable == _DO_NOT_SCHEDULE]


def host_ports(pod: Pod) -> list[HostPort]:
    """The ports that it needs of its node, as long as it runs."""
    running = [*pod.spec.containers, *filter(is_sidecar, pod.spec.init_containers)]
    return [
        HostPort(port.protocol, port.host_port, port.host_ip or _ANY_ADDRESS)
        for container in running
        for port in container.ports
        if port.host_port
    ]


def _minded(pod: Pod) -> Iterator[tuple[str, Who, str]]:
    """The pods that matter to it by their labels, and within which domains; each with the field that says so."""
    for field, terms in ((_CLOSE, close_terms(pod)), (_FAR, far_terms(pod))):
        yield from ((field, who_is_meant(term, pod.metadata.namespace), term.topology_key) for term in terms)
    for _, spread in hard_spreads(pod):
        yield _SPREAD, who_is_spread(spread, pod.metadata), spread.topology_key


def _who_says(said: Iterable[Iterable[_K]]) -> dict[_K, set[int]]:
    """What is said, with the numbers of those who say it."""
    speakers: dict[_K, set[int]] = {}
    for number, things in enumerate(said):
        for thing in things:
            speakers.setdefault(thing, set()).add(number)
    return speakers


def _counts(spread: Spread, node: Node, own: Constraint) -> bool:
    """Whether pods on the node are counted for a spread: where its pod could go, by default whatever the taints."""
    if (spread.node_affinity_policy or _HONOR) == _HONOR and own.refuses(node.name, node.labels, ()) is not None:
        return False
    return (spread.node_taints_policy or _IGNORE) == _IGNORE or tolerates(node.taints, own.tolerations) is None


def _one(expression: Expression) -> Term:
    return Term(expressions=(expression,))


def _change(counts: dict[_K, Counter[str]], key: _K, node: str, by: int) -> None:
    """Count; who is nowhere is forgotten."""
    where = counts.setdefault(key, Counter())
    change(where, node, by)
    if not where:
        del counts[key]
