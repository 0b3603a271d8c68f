"""Objects that say which pods start together: SchedulingSpecs, and the PodGroups of scheduler-plugins and Kubernetes.

Of each kind only what a scheduler asks: how many pods must start at once, and for how long to try.
"""

from __future__ import annotations

import msgspec

from muster.kubernetes.kinds import Kind
from muster.kubernetes.objects import Meta, Read

GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


class SchedulingTerms(Read, frozen=True):
    """SchedulingSpecTemplate (kube-arbitrator-gang.md)."""

    priority_class_name: str = ""
    priority: int | None = None
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    min_available: int = 0


class SchedulingSpec(Read, frozen=True):
    """How the pods with the same controller are to be scheduled."""

    metadata: Meta = Meta()
    spec: SchedulingTerms = SchedulingTerms()


class PluginGroupSpec(Read, frozen=True):
    """What a PodGroup of scheduler-plugins asks for."""

    min_member: int = 0
    schedule_timeout_seconds: int | None = None


class PluginGroup(Read, frozen=True):
    """A PodGroup of scheduler-plugins; pods name it by a label."""

    metadata: Meta = Meta()
    spec: PluginGroupSpec = PluginGroupSpec()


class GangPolicy(Read, frozen=True):
    """So many start together."""

    min_count: int = 0


class GroupPolicy(Read, frozen=True):
    """How a PodGroup is scheduled: as a gang, else each pod by itself."""

    gang: GangPolicy | None = None


class NativeGroupSpec(Read, frozen=True):
    """What a PodGroup of Kubernetes asks for."""

    scheduling_policy: GroupPolicy = GroupPolicy()


class NativeGroup(Read, frozen=True):
    """A PodGroup of Kubernetes' own; pods name it in their spec."""

    metadata: Meta = Meta()
    spec: NativeGroupSpec = NativeGroupSpec()


class PriorityClass(Read, frozen=True):
    """What a name of a priority is worth."""

    metadata: Meta = Meta()
    value: int = 0
    preemption_policy: str = ""


SCHEDULING_SPECS = Kind(type=SchedulingSpec, plural="schedulingspecs", version="v1alpha1", group="muster.dev")
PLUGIN_GROUPS = Kind(type=PluginGroup, plural="podgroups", version="v1alpha1", group="scheduling.x-k8s.io")
NATIVE_GROUPS = Kind(type=NativeGroup, plural="podgroups", version="v1alpha2", group="scheduling.k8s.io")
PRIORITY_CLASSES = Kind(
    type=PriorityClass, plural="priorityclasses", version="v1", group="scheduling.k8s.io", is_namespaced=False
)
