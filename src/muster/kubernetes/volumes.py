"""Where the volumes of a pod let it go.

A claim that is bound ties its pod to the nodes that its volume can be reached from. One that waits for its first
consumer has its volume made where that goes (provisioning.py). Of volumes that are there already none is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from muster.kubernetes.claims import Users, claim_name, claims_of
from muster.kubernetes.objects import Disks, Key, Pod, Volume
from muster.kubernetes.selectors import affinity_of, only_on
from muster.kubernetes.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from muster.model.labels import Expression, NodeAffinity, Term

_ONE_POD = "ReadWriteOncePod"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_ZONES = {  # labels of volumes, and the ones that replaced them on nodes
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_NOWHERE_IN_PARTICULAR = Term(expressions=tuple(Expression(key=key, operator="DoesNotExist") for key in sorted(_ZONES)))
_ALONE = ("iscsi", "rbd")  # who writes there is alone on a node; only looked at where pods name the disk themselves
_COUNTED = (
    *("aws_elastic_block_store", "gce_persistent_disk", "azure_disk"),
    *("cinder", "vsphere_volume", "portworx_volume"),
)
_IN_YAML = {each.name: each.encode_name for each in msgspec.structs.fields(Disks)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Volumes:
    """Claims and volumes as they are now. Whoever keeps these mappings may change them."""

    claims: Mapping[Key, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[Key, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[Key, StorageClass] = field(default_factory=dict)
    node_drivers: Mapping[Key, CsiNode] = field(default_factory=dict)
    drivers: Mapping[Key, CsiDriver] = field(default_factory=dict)
    selected: Mapping[Key, str] = field(default_factory=dict)  # where volumes of claims will be made
    users: Users = field(default_factory=Users)

    def for_one_pod(self, pod: Pod) -> list[Key]:
        """The claims of a pod that no other pod may use meanwhile."""
        found = ((key, self.claims.get(key)) for key in claims_of(pod))
        return [key for key, claim in found if claim is not None and _ONE_POD in claim.spec.access_modes]

    def has_limit(self, driver: str) -> bool:
        """Whether some node takes only so many volumes of this driver."""
        return any(
            each.name == driver and each.has_limit for node in self.node_drivers.values() for each in node.spec.drivers
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ties:
    """The nodes that all volumes of a pod can be reached from, or why nobody can tell."""

    affinities: tuple[NodeAffinity, ...] = ()
    provisions: tuple[Key, ...] = ()
    waits: str = ""
    unsupported: str = ""


FREE = Ties()


def ties_of(pod: Pod, known: Volumes | None) -> Ties:
    """Where its volumes let the pod go. Where nobody knows the claims there are, none is honoured."""
    affinities: list[NodeAffinity] = []
    provisions: list[Key] = []
    for index, volume in enumerate(pod.spec.volumes):
        ties = _ties_of(pod, volume, known, f"spec.volumes[{index}]")
        if ties.waits or ties.unsupported:
            return ties
        affinities += ties.affinities
        provisions += ties.provisions
    return Ties(affinities=tuple(affinities), provisions=tuple(provisions)) if affinities or provisions else FREE


def _ties_of(pod: Pod, volume: Volume, known: Volumes | None, path: str) -> Ties:
    if disk := _first_set(volume, (*_COUNTED, *_ALONE)):
        return Ties(unsupported=f"{path}.{disk}: how many a node has, and who shares them, is not counted")
    if volume.csi is not None and (known is None or known.has_limit(volume.csi.driver)):
        return Ties(unsupported=f"{path}.csi.driver: the volumes of {volume.csi.driver} on a node are not counted")
    if (name := claim_name(pod, volume)) is None:
        return FREE
    path = f"{path}.{'persistentVolumeClaim' if volume.ephemeral is None else 'ephemeral'}"
    if known is None:
        return Ties(unsupported=f"{path}: claims of volumes are not honoured")
    claim = known.claims.get((pod.metadata.namespace, name))
    if claim is None or claim.is_going:
        return Ties(waits=f"{path}: there is no claim {name}")
    if volume.ephemeral is not None and all(owner.uid != pod.metadata.uid for owner in claim.metadata.owner_references):
        return Ties(waits=f"{path}: the claim {name} belongs to another pod")
    if _ONE_POD in claim.spec.access_modes:
        for user in known.users.besides(pod, claim.metadata.key):
            return Ties(waits=f"{path}: the claim {name} is {_ONE_POD}, and {'/'.join(user)} uses it")
    return _ties_of_claim(claim, known, path)


def _ties_of_claim(claim: PersistentVolumeClaim, known: Volumes, path: str) -> Ties:
    name = claim.metadata.name
    if not claim.is_bound:
        storage = known.classes.get(("", claim.spec.storage_class_name))
        is_late = storage is not None and storage.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        if storage is not None and is_late and not claim.spec.volume_name:
            return _ties_of_first(claim, storage, known, path)
        return Ties(waits=f"{path}: the claim {name} is not bound")
    volume = known.volumes.get(("", claim.spec.volume_name))
    if volume is None:
        return Ties(waits=f"{path}: there is no volume {claim.spec.volume_name}")
    disk = _first_set(volume.spec, _COUNTED)
    driver = volume.spec.csi.driver if volume.spec.csi else ""
    if disk or (driver and known.has_limit(driver)):
        return Ties(unsupported=f"{path}: the volumes of {disk or driver} on a node are not counted")
    return Ties(affinities=tuple(_reach(volume)))


def _ties_of_first(claim: PersistentVolumeClaim, storage: StorageClass, known: Volumes, path: str) -> Ties:
    """A claim whose volume is made where its first pod goes."""
    key, provisioner = claim.metadata.key, storage.provisioner
    why = ""
    if provisioner in ("", _NO_PROVISIONER):
        why = "volumes that are there already are not chosen"
    elif ("", provisioner) in known.drivers and known.drivers["", provisioner].spec.storage_capacity:
        why = f"where {provisioner} has room left is not looked at"
    if why:
        return Ties(unsupported=f"{path}: the claim {key[1]} is {WAIT_FOR_FIRST_CONSUMER}, and {why}")
    affinities = []
    if storage.allowed_topologies:
        labels = (term.match_label_expressions for term in storage.allowed_topologies)
        terms = (tuple(Expression(key=it.key, operator="In", values=it.values) for it in each) for each in labels)
        affinities.append(NodeAffinity(terms=tuple(Term(expressions=each) for each in terms)))
    if node := claim.selected_node or known.selected.get(key, ""):
        affinities.append(only_on(node))
    return Ties(affinities=tuple(affinities), provisions=(key,))


def _reach(volume: PersistentVolume) -> Iterator[NodeAffinity]:
    """Demands on the nodes that a volume can be reached from; all of them hold."""
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        yield affinity_of(affinity.required)
    for key in sorted(_ZONES.keys() & volume.metadata.labels.keys()):
        zones = tuple(sorted({zone.strip() for zone in volume.metadata.labels[key].split("__")}))
        if "" not in zones:  # Kubernetes does not read it either
            yield NodeAffinity(terms=tuple(_in_zones(key, zones)))


def _in_zones(key: str, zones: tuple[str, ...]) -> Iterator[Term]:
    """Nodes in one of the zones, or of a cluster that has none."""
    yield _NOWHERE_IN_PARTICULAR
    yield Term(expressions=(Expression(key=key, operator="In", values=zones),))
    if _ZONES[key] != key:
        has_only_new = Expression(key=key, operator="DoesNotExist")
        yield Term(expressions=(has_only_new, Expression(key=_ZONES[key], operator="In", values=zones)))


def _first_set(disks: Disks, names: tuple[str, ...]) -> str:
    """The first of these fields that says something, as it is written in YAML."""
    return next((_IN_YAML[name] for name in names if getattr(disks, name) is not None), "")
