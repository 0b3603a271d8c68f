"""What else decides where pods may go: the pods around them, and their volumes.

Both change at any time, so what a waiting pod asks for is asked again when they did, if it minds (ADR 43). Before a
pod is bound its neighbours are asked once more, since those that were bound just before it are among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from muster.kubernetes.asks import Ask, ask_of
from muster.kubernetes.batches import Member
from muster.kubernetes.cache import Change, keep
from muster.kubernetes.claims import Users
from muster.kubernetes.jobs import Gang, Hold
from muster.kubernetes.neighbours import Neighbours, minds_neighbours
from muster.kubernetes.objects import Key, Plain, Pod
from muster.kubernetes.provisioning import Provisioning
from muster.kubernetes.storage import CsiDriver, CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass
from muster.kubernetes.volumes import Volumes
from muster.model.nodes import Node


class Surroundings:
    """Neighbours and volumes. `has_changed`: since waiting pods were asked last."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.has_changed = False
        self._kept_away = False
        self._nodes = nodes
        self._neighbours = Neighbours(nodes)
        self._claims: dict[Key, PersistentVolumeClaim] = {}
        self._volumes: dict[Key, PersistentVolume] = {}
        self._classes: dict[Key, StorageClass] = {}
        self._node_drivers: dict[Key, CsiNode] = {}
        self._drivers: dict[Key, CsiDriver] = {}
        self._users = Users()
        self.provisioning = Provisioning(self._claims)
        self._there = Volumes(
            claims=self._claims,
            volumes=self._volumes,
            classes=self._classes,
            node_drivers=self._node_drivers,
            drivers=self._drivers,
            selected=self.provisioning.selected,
            users=self._users,
        )

    # -- what caches tell ------------------------------------------------------------------------------------

    def hear_claim(self, change: Change[PersistentVolumeClaim]) -> None:
        """A claim appeared, changed or went."""
        self.provisioning.hear(change)
        keep(self._claims, change)
        self.has_changed = True

    def hear_volume(self, change: Change[PersistentVolume]) -> None:
        """A volume appeared, changed or went."""
        keep(self._volumes, change)
        self.has_changed = True

    def hear_class(self, change: Change[StorageClass]) -> None:
        """A StorageClass appeared, changed or went."""
        keep(self._classes, change)
        self.has_changed = True

    def hear_node_drivers(self, change: Change[CsiNode]) -> None:
        """What drivers say about a node."""
        keep(self._node_drivers, change)
        self.has_changed = True

    def hear_driver(self, change: Change[CsiDriver]) -> None:
        """A driver appeared, changed or went."""
        keep(self._drivers, change)
        self.has_changed = True

    def hear_namespace(self, change: Change[Plain]) -> None:
        """A namespace appeared, got other labels or went."""
        one = change.after or change.before
        assert one is not None
        self._neighbours.relabel(one.metadata.name, change.after.metadata.labels if change.after else {})
        self.has_changed = True

    # -- neighbours ------------------------------------------------------------------------------------------

    def put(self, pod: Pod, node: str) -> None:
        """A pod is on a node, or will be."""
        self._neighbours.put(pod, node)
        self._users.put(pod)
        self.provisioning.put(pod, node)
        self.has_changed = True

    def remove(self, pod: Pod) -> None:
        """A pod is on no node any more."""
        self._neighbours.remove(pod.metadata.key)
        for claim in self._users.remove(pod):
            self.provisioning.forget(claim)
        self.has_changed = True

    def refuses(self, members: Iterable[Member]) -> bool:
        """Whether one of these may not go where it is placed, now that those before it will be there."""
        members = [member for member in members if member.task is not None]
        if any(self._users.besides(it.pod, claim) for it in members for claim in self._there.for_one_pod(it.pod)):
            return True
        if self.provisioning.refuses(members):
            return True
        try:
            for member in members:
                assert member.task is not None
                if self._neighbours.refuses(member.pod, self._nodes[member.task.node]):
                    return True
                self._neighbours.put(member.pod, member.task.node)
            return False
        finally:
            for member in members:
                self._neighbours.remove(member.pod.metadata.key)

    def is_out_of_reach(self, member: Member) -> bool:
        """Whether a pod that has a node cannot reach its volumes there, now that they are made."""
        node = self._nodes.get(member.node)
        constraint = ask_of(member.pod, volumes=self._there).constraint
        return node is not None and constraint.refuses(node.name, node.labels, node.taints) is not None

    # -- asks ------------------------------------------------------------------------------------------------

    def ask(self, pod: Pod) -> Ask:
        """What a pod asks for as things are."""
        return ask_of(pod, self._neighbours, self._there)

    @property
    def concern_everybody(self) -> bool:
        """Whether pods may mind them that say nothing of it: others keep them away, or did when asked last."""
        return self._neighbours.keeps_away or self._kept_away

    def ask_again(self, minding: Iterable[Member]) -> Iterable[Gang]:
        """Ask waiting pods again if something has changed; the gangs that ask for something else now."""
        if not self.has_changed:
            return
        self.has_changed, self._kept_away = False, self._neighbours.keeps_away
        for member in minding:
            ask = self.ask(member.pod)
            if ask != member.ask:
                member.ask = ask
                yield member.gang

    def hold(self, unit: Sequence[Member]) -> Hold | None:
        """Why pods cannot start together although each could: some mind where the others go, or what they use."""
        claims = [claim for member in unit for claim in set(self._there.for_one_pod(member.pod))]
        if len(set(claims)) < len(claims):
            return Hold("UNSUPPORTED", "spec.volumes: pods that start together claim one ReadWriteOncePod volume")
        if self.keep_apart(unit):
            return None
        field = self._neighbours.among([member.pod for member in unit])
        return Hold("UNSUPPORTED", f"{field}: pods that start together must not mind each other")

    def keep_apart(self, unit: Sequence[Member]) -> bool:
        """See to it that pods that start together share no node where they may not; whether they mind nothing else."""
        apart = self._neighbours.apart([member.pod for member in unit])
        for member in unit:
            member.is_apart = apart is not None and member.pod.metadata.key in apart
        return apart is not None


def minds(pod: Pod) -> bool:
    """Whether it depends on more than itself where a pod may go."""
    return bool(minds_neighbours(pod)) or any(it.persistent_volume_claim or it.ephemeral for it in pod.spec.volumes)


def asks_for_the_same(before: Pod, after: Pod) -> bool:
    """Whether a pod asks for what it asked for before, bound meanwhile or not."""
    one, other = before.spec, after.spec
    return one == other or one == msgspec.structs.replace(other, node_name=one.node_name)


def looks_different(before: Pod, after: Pod) -> bool:
    """Whether those around a pod may care about what became of it where it is."""
    one, other = before.metadata, after.metadata
    return (
        not asks_for_the_same(before, after)
        or one.labels != other.labels
        or (one.deletion_timestamp is None) != (other.deletion_timestamp is None)
    )
