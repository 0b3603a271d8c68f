"""What we read of volumes: only what ties the pods that use them to nodes."""

from __future__ import annotations

from muster.kubernetes.objects import Disks, Driver, Meta, NodeSelector, Read

SELECTED_NODE = "volume.kubernetes.io/selected-node"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
_BOUND = "pv.kubernetes.io/bind-completed"
_LOST = "Lost"


class ClaimSpec(Read, frozen=True):
    """Which volume was found for a claim, or is to be."""

    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()


class ClaimStatus(Read, frozen=True):
    """How a claim is."""

    phase: str = ""


class PersistentVolumeClaim(Read, frozen=True):
    """A claim of a volume."""

    metadata: Meta = Meta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def is_bound(self) -> bool:
        """A volume is there for it, and that is final."""
        return bool(self.spec.volume_name) and _BOUND in self.metadata.annotations

    @property
    def selected_node(self) -> str:
        """Where its volume is to be made, if somebody decided that."""
        return self.metadata.annotations.get(SELECTED_NODE, "")

    @property
    def is_going(self) -> bool:
        """It is being deleted, or lost its volume."""
        return self.metadata.deletion_timestamp is not None or self.status.phase == _LOST


class VolumeNodeAffinity(Read, frozen=True):
    """Which nodes a volume can be reached from."""

    required: NodeSelector | None = None


class VolumeSpec(Disks, frozen=True):
    """What a volume is."""

    node_affinity: VolumeNodeAffinity | None = None
    csi: Driver | None = None


class PersistentVolume(Read, frozen=True):
    """A volume."""

    metadata: Meta = Meta()
    spec: VolumeSpec = VolumeSpec()


class TopologyLabel(Read, frozen=True):
    """One of these values of a label."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Read, frozen=True):
    """All of these."""

    match_label_expressions: tuple[TopologyLabel, ...] = ()


class StorageClass(Read, frozen=True):
    """Where volumes come from, and when."""

    metadata: Meta = Meta()
    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class Count(Read, frozen=True):
    """How many volumes of a driver a node can have."""

    count: int | None = None


class NodeDriver(Read, frozen=True):
    """A driver on a node."""

    name: str = ""
    allocatable: Count | None = None

    @property
    def has_limit(self) -> bool:
        """Whether it takes only so many volumes there."""
        return self.allocatable is not None and self.allocatable.count is not None


class CsiNodeSpec(Read, frozen=True):
    """The drivers of a node."""

    drivers: tuple[NodeDriver, ...] = ()


class CsiNode(Read, frozen=True):
    """What drivers say about a node."""

    metadata: Meta = Meta()
    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(Read, frozen=True):
    """What a driver wants of schedulers."""

    storage_capacity: bool = False


class CsiDriver(Read, frozen=True):
    """A driver of a cluster."""

    metadata: Meta = Meta()
    spec: CsiDriverSpec = CsiDriverSpec()
