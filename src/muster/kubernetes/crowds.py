"""Which pods are meant by a term of a pod's affinity or spread, and on which nodes they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.kubernetes.objects import Key, Meta, Pod, PodAffinityTerm, Spread
from muster.kubernetes.selectors import Selector, selector_of

Labels = Mapping[str, str]

_MOST_KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Pods by their labels, in namespaces by name or by label. No selector selects nothing."""

    selector: Selector | None
    namespaces: frozenset[str]
    in_namespaces: Selector | None = None

    def includes(self, pod: Meta, namespace_labels: Labels) -> bool:
        """Whether a pod is meant."""
        if pod.namespace not in self.namespaces and (
            self.in_namespaces is None or not self.in_namespaces.matches(namespace_labels)
        ):
            return False
        return self.selector is not None and self.selector.matches(pod.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Pods that each of these means; `staying`: without those that are being deleted."""

    whos: tuple[Who, ...]
    staying: bool = False

    def includes(self, pod: Meta, namespace_labels: Labels) -> bool:
        """Whether a pod is one of them."""
        if self.staying and pod.deletion_timestamp is not None:
            return False
        return all(who.includes(pod, namespace_labels) for who in self.whos)


def who_is_meant(term: PodAffinityTerm, namespace: str) -> Who:
    """Which pods a term of a pod in this namespace means.

    matchLabelKeys and mismatchLabelKeys are in its selector already: the API server puts them there.
    """
    names = term.namespaces
    if not names and term.namespace_selector is None:
        names = (namespace,)
    return Who(
        selector=selector_of(term.label_selector),
        namespaces=frozenset(names),
        in_namespaces=selector_of(term.namespace_selector),
    )


def who_is_spread(spread: Spread, pod: Meta) -> Who:
    """Which pods are to be spread together with this one: of its namespace only."""
    also = {key: pod.labels[key] for key in spread.match_label_keys if key in pod.labels}
    return Who(selector=selector_of(spread.label_selector, also), namespaces=frozenset((pod.namespace,)))


class Census:
    """All pods on nodes, and where the crowds are that anyone asked for: counted once, then kept true."""

    __slots__ = ("_crowds", "_namespaces", "_pods")

    def __init__(self) -> None:
        self._pods: dict[Key, tuple[Pod, str]] = {}
        self._namespaces: dict[str, Labels] = {}
        self._crowds: dict[Crowd, Counter[str]] = {}

    def add(self, pod: Pod, node: str) -> None:
        """A pod is on a node."""
        self._pods[pod.metadata.key] = (pod, node)
        self._count(pod.metadata, node, 1)

    def remove(self, key: Key) -> tuple[Pod, str] | None:
        """It no longer is; the pod and its node, if it was."""
        found = self._pods.pop(key, None)
        if found is not None:
            self._count(found[0].metadata, found[1], -1)
        return found

    def relabel(self, namespace: str, labels: Labels) -> None:
        """A namespace has these labels now."""
        if self._namespaces.get(namespace, {}) != labels:
            self._namespaces[namespace] = dict(labels)
            self._crowds = {crowd: where for crowd, where in self._crowds.items() if not _by_label(crowd.whos)}

    def includes(self, who: Who | Crowd, pod: Meta) -> bool:
        """Whether a pod is meant, wherever it is."""
        return who.includes(pod, self._namespaces.get(pod.namespace, {}))

    def where(self, crowd: Crowd) -> Mapping[str, int]:
        """How many of a crowd are on each node that has any."""
        found = self._crowds.get(crowd)
        if found is None:
            found = Counter(node for pod, node in self._pods.values() if self.includes(crowd, pod.metadata))
            if len(self._crowds) >= _MOST_KEPT:  # jobs come and go, and each may mean pods of its own
                self._crowds.clear()
            self._crowds[crowd] = found
        return found

    def _count(self, pod: Meta, node: str, by: int) -> None:
        for crowd, where in self._crowds.items():
            if self.includes(crowd, pod):
                change(where, node, by)


def change(counts: Counter[str], name: str, by: int) -> None:
    """Count; who is at zero is not there."""
    counts[name] += by
    if not counts[name]:
        del counts[name]


def _by_label(whos: Iterable[Who]) -> bool:
    return any(who.in_namespaces is not None for who in whos)
