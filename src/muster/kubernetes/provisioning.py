"""Volumes that are made once their first pod has a node: we say which, and bind the pod when they are there.

The node is told to whoever makes volumes by an annotation of the claim (`volume.kubernetes.io/selected-node`), as
Kubernetes' own scheduler does. Whoever cannot make one there takes the annotation away: then the pod stands in line
again. While an annotation says so, no pod with that claim may go anywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster.kubernetes.batches import Member
from muster.kubernetes.cache import Change
from muster.kubernetes.claims import claims_of
from muster.kubernetes.objects import Key, Pod
from muster.kubernetes.orders import Selection
from muster.kubernetes.storage import PersistentVolumeClaim


class Provisioning:
    """Claims without a volume whose pods have a node. `selected`: which, from the moment that it was decided."""

    def __init__(self, claims: Mapping[Key, PersistentVolumeClaim]) -> None:
        self.selected: dict[Key, str] = {}
        self._claims = claims
        self._ordered: set[Key] = set()
        self._turned_down: set[Key] = set()

    def hear(self, change: Change[PersistentVolumeClaim]) -> None:
        """Whoever cannot make a volume there says so by taking our word off the claim."""
        before, after = change.before, change.after
        if before is None or before.metadata.key not in self._ordered or not before.selected_node:
            return
        if after is None or not (after.selected_node or after.is_bound):
            self._turned_down.add(before.metadata.key)

    def turn_down(self, claim: Key) -> None:
        """The API server would not have our word."""
        if claim in self._ordered:
            self._turned_down.add(claim)

    def put(self, pod: Pod, node: str) -> None:
        """A pod is on a node, or will be."""
        for key in claims_of(pod):
            claim = self._claims.get(key)
            if claim is not None and not claim.is_bound:
                self.selected.setdefault(key, node)

    def forget(self, claim: Key) -> None:
        """No pod with this claim has a node any more."""
        self.selected.pop(claim, None)
        self._ordered.discard(claim)
        self._turned_down.discard(claim)

    def refuses(self, members: Iterable[Member]) -> bool:
        """Whether pods would have one volume made on two nodes."""
        chosen: dict[Key, str] = {}
        for member in members:
            assert member.task is not None
            for claim in member.ask.provisions:
                first = chosen.setdefault(claim, self.selected.get(claim, member.task.node))
                if first != member.task.node:
                    return True
        return False

    def missing(self, member: Member) -> list[Key]:
        """The claims of a pod that have no volume yet."""
        found = ((key, self._claims.get(key)) for key in member.ask.provisions)
        return [key for key, claim in found if claim is None or not claim.is_bound]

    def is_turned_down(self, member: Member) -> bool:
        """Whether one of its volumes cannot be made on its node."""
        return any(key in self._turned_down for key in member.ask.provisions)

    def selections(self, member: Member) -> Iterator[Selection]:
        """What is still to be said about where its volumes are to be made."""
        for key in self.missing(member):
            claim = self._claims.get(key)
            if claim is not None and key not in self._ordered:
                self._ordered.add(key)
                if claim.selected_node != member.node:
                    yield Selection(claim.metadata.uid, key, member.node)
