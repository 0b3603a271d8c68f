"""What we read of Kubernetes objects: what decisions need, and nothing else.

An object on the wire is mostly managed fields, images and probes. A field that is not here costs nothing: it is skipped
while it is decoded. Values are frozen and, having no cycles, not looked at by Python's garbage collector.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

import msgspec

Key: TypeAlias = tuple[str, str]
"""Namespace and name."""


class Read(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True, omit_defaults=True):
    """What all of them have in common."""


class Owner(Read, frozen=True):
    """An OwnerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(Read, frozen=True):
    """ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[Owner, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return (self.namespace, self.name)

    @property
    def controller(self) -> Owner | None:
        """The owner that looks after it."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Plain(Read, frozen=True):
    """An object of which only its name matters."""

    metadata: Meta = Meta()


class Condition(Read, frozen=True):
    """One line of a status."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


# --- selectors ---------------------------------------------------------------------------------


class Requirement(Read, frozen=True):
    """`key operator values`, of labels or fields."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Read, frozen=True):
    """Which objects, by their labels."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class NodeSelectorTerm(Read, frozen=True):
    """All of these."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Read, frozen=True):
    """One of these."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


# --- pods --------------------------------------------------------------------------------------


class Asked(Read, frozen=True):
    """What a container asks for, as quantities."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class Port(Read, frozen=True):
    """A port of a container."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = "TCP"


class RestartRule(Read, frozen=True):
    """What happens when a container exits in a certain way."""

    action: str = ""


class Container(Read, frozen=True):
    """A container, or one that runs before the others; one of those that is always restarted is a sidecar."""

    name: str = ""
    resources: Asked = Asked()
    ports: tuple[Port, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()


class Toleration(Read, frozen=True):
    """A taint that is put up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeAffinity(Read, frozen=True):
    """Which nodes; preferences are not read."""

    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class PodAffinityTerm(Read, frozen=True):
    """Which pods to be close to, or far from, and what close means."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(Read, frozen=True):
    """Close to pods, or far from them; preferences are not read."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(Read, frozen=True):
    """Where a pod must be."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Spread(Read, frozen=True):
    """A TopologySpreadConstraint."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    match_label_keys: tuple[str, ...] = ()


class Claim(Read, frozen=True):
    """The volume that is claimed."""

    claim_name: str = ""


class Driver(Read, frozen=True):
    """Who looks after a volume."""

    driver: str = ""


class Disks(Read, frozen=True):
    """Disks that Kubernetes knew before there were drivers: a node has only so many, or lets one pod write."""

    aws_elastic_block_store: dict[str, object] | None = None
    gce_persistent_disk: dict[str, object] | None = None
    azure_disk: dict[str, object] | None = None
    cinder: dict[str, object] | None = None
    vsphere_volume: dict[str, object] | None = None
    portworx_volume: dict[str, object] | None = None
    iscsi: dict[str, object] | None = None
    rbd: dict[str, object] | None = None


class Volume(Disks, frozen=True):
    """A volume, if it can tie a pod to a place."""

    name: str = ""
    persistent_volume_claim: Claim | None = None
    ephemeral: dict[str, object] | None = None
    csi: Driver | None = None


class Gate(Read, frozen=True):
    """What keeps a pod from being scheduled."""

    name: str = ""


class SchedulingGroup(Read, frozen=True):
    """The PodGroup of Kubernetes' own that a pod belongs to."""

    pod_group_name: str = ""


class PodSpec(Read, frozen=True):
    """What a pod asks for."""

    node_name: str = ""
    scheduler_name: str = ""
    host_network: bool = False
    host_users: bool = True
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str | int | float] = {}
    resources: Asked | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[Spread, ...] = ()
    scheduling_gates: tuple[Gate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[Gate, ...] = ()
    termination_grace_period_seconds: int | None = None


class PodStatus(Read, frozen=True):
    """How a pod is."""

    phase: str = ""
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: datetime | None = None


class Pod(Read, frozen=True):
    """A pod as a scheduler sees it."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_over(self) -> bool:
        """It holds nothing any more."""
        return self.status.phase in ("Succeeded", "Failed")


# --- nodes -------------------------------------------------------------------------------------


class Taint(Read, frozen=True):
    """What keeps pods away from a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Read, frozen=True):
    """What was decided about a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Read, frozen=True):
    """What a node has, and how it is."""

    allocatable: dict[str, str | int | float] = {}
    capacity: dict[str, str | int | float] = {}
    conditions: tuple[Condition, ...] = ()


class Node(Read, frozen=True):
    """A node as a scheduler sees it."""

    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """Its kubelet says so, and has not fallen silent."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)
