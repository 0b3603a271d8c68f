"""A world of the Kubernetes scheduler without a cluster: objects are told to it as caches would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import msgspec

from muster.kubernetes.cache import Change
from muster.kubernetes.groups import NativeGroup, PluginGroup, PriorityClass, SchedulingSpec
from muster.kubernetes.objects import Node, Pod
from muster.kubernetes.orders import Bind, Orders
from muster.kubernetes.pools import Pool
from muster.kubernetes.storage import PersistentVolume, PersistentVolumeClaim
from muster.kubernetes.verdicts import verdicts
from muster.kubernetes.world import World
from muster.model.policy import Policy, Preemption

START_MS = 1_794_787_200_000  # as CREATED says
CREATED, LATER = "2026-11-16T00:00:00Z", "2027-11-16T00:00:00Z"


def owned_by(name: str, kind: str = "CRDJob") -> list[dict[str, Any]]:
    return [{"apiVersion": "x/v1", "kind": kind, "name": name, "uid": f"uid-of-{name}", "controller": True}]


class Told:
    """Tells a world what a cluster would; pods that it binds are bound at once, unless a test says otherwise."""

    def __init__(self, *nodes: str, cpu: int = 4, preemption: Preemption = Preemption.ON) -> None:
        self.world = World(Policy(over_share=None, preemption=preemption))
        self.now_ms = START_MS
        self.pods: dict[str, Pod] = {}
        self._uids = count(1)
        self.nodes: dict[str, Node] = {}
        self.pools: dict[str, Pool] = {}
        for name in nodes:
            self.node(name, cpu=cpu)

    # -- objects ---------------------------------------------------------------------------------------------

    def node(
        self, name: str, cpu: int = 4, gpus: int = 0, labels: dict[str, str] | None = None, *, kept_cpu: int = 0
    ) -> None:
        """A node; `kept_cpu` it has besides, for itself."""
        has = {"cpu": str(cpu), "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": has, "capacity": {**has, "cpu": str(cpu + kept_cpu)}, "conditions": ready}
        node = msgspec.convert({"metadata": {"name": name, "labels": labels or {}}, "status": status}, Node)
        self.world.hear_node(Change(self.nodes.get(name), node))
        self.nodes[name] = node

    def node_goes(self, name: str) -> None:
        self.world.hear_node(Change(self.nodes.pop(name), None))

    def pod(self, name: str, *, cpu: int = 1, scheduler: str = "muster", made: str = CREATED, **more: Any) -> Pod:
        meta = {
            "name": name,
            "namespace": "team",
            "uid": f"{name}-{next(self._uids)}",
            "creationTimestamp": made,
            "resourceVersion": "1",
            **more.pop("meta", {}),
        }
        asked = {"requests": {"cpu": str(cpu), **more.pop("requests", {})}}
        spec = {"schedulerName": scheduler, "containers": [{"name": "main", "resources": asked}], **more}
        pod = msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}, Pod)
        self._tell(name, pod)
        return pod

    def gang(self, name: str, *pods: str, **more: Any) -> None:
        """Pods with one controller."""
        for pod in pods:
            self.pod(pod, meta={"ownerReferences": owned_by(name)}, **more)

    def spec(self, name: str, least: int, **more: Any) -> None:
        """The SchedulingSpec of a controller."""
        meta = {"name": name, "namespace": "team", "ownerReferences": owned_by(name)}
        spec = {"metadata": meta, "spec": {"minAvailable": least, **more}}
        self.world.register.hear_spec(Change(None, msgspec.convert(spec, SchedulingSpec)))

    def plugin_group(self, name: str, least: int) -> None:
        group = {"metadata": {"name": name, "namespace": "team"}, "spec": {"minMember": least}}
        self.world.register.hear_plugin_group(Change(None, msgspec.convert(group, PluginGroup)))

    def native_group(self, name: str, policy: dict[str, Any]) -> None:
        group = {"metadata": {"name": name, "namespace": "team"}, "spec": {"schedulingPolicy": policy}}
        self.world.register.hear_native_group(Change(None, msgspec.convert(group, NativeGroup)))

    def priority_class(self, name: str, value: int, **more: Any) -> None:
        found = msgspec.convert({"metadata": {"name": name}, "value": value, **more}, PriorityClass)
        self.world.register.hear_class(Change(None, found))

    def pool(self, name: str, labels: dict[str, str] | None = None, **spec: Any) -> None:
        """A Pool of the nodes with these labels, or with a label of its name."""
        selector = {"matchLabels": {name: "true"} if labels is None else labels}
        before = self.pools.get(name)
        meta = {"name": name, "generation": before.metadata.generation + 1 if before else 1}
        self.pools[name] = msgspec.convert({"metadata": meta, "spec": {"nodeSelector": selector, **spec}}, Pool)
        self.world.pools.hear(Change(before, self.pools[name]))

    def pool_goes(self, name: str) -> None:
        self.world.pools.hear(Change(self.pools.pop(name), None))

    def volume(self, name: str, *, on: str, modes: Sequence[str] = ()) -> None:
        """A claim that is bound to a volume of one node."""
        bound = {"pv.kubernetes.io/bind-completed": "yes"}
        meta = {"name": name, "namespace": "team", "annotations": bound}
        claim = {"metadata": meta, "spec": {"volumeName": name, "accessModes": modes}, "status": {"phase": "Bound"}}
        here = {"key": "metadata.name", "operator": "In", "values": [on]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchFields": [here]}]}}
        volume = {"metadata": {"name": name}, "spec": {"nodeAffinity": affinity}}
        self.world.surroundings.hear_volume(Change(None, msgspec.convert(volume, PersistentVolume)))
        self.world.surroundings.hear_claim(Change(None, msgspec.convert(claim, PersistentVolumeClaim)))

    def _tell(self, name: str, after: Pod | None) -> None:
        self.world.hear_pod(Change(self.pods.get(name), after))
        if after is None:
            del self.pods[name]
        else:
            self.pods[name] = after

    def goes(self, *names: str) -> None:
        for name in names:
            self._tell(name, None)

    def ends(self, name: str) -> None:
        pod = self.pods[name]
        self._tell(name, msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Succeeded")))

    def becomes(self, name: str, status: dict[str, Any]) -> None:
        """The status of a pod is another."""
        pod = self.pods[name]
        self._tell(name, msgspec.structs.replace(pod, status=msgspec.convert(status, type(pod.status))))

    def is_bound(self, name: str, node: str, at: str = CREATED) -> None:
        pod = self.pods[name]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
        status = msgspec.convert({"phase": "Running", "conditions": [scheduled]}, type(pod.status))
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        self._tell(name, msgspec.structs.replace(pod, spec=spec, status=status))

    # -- turns -----------------------------------------------------------------------------------------------

    def orders(self, after_s: float = 0.1) -> Orders:
        """What a turn orders; nothing of it happens."""
        self.now_ms += int(after_s * 1000)
        return self.world.turn(self.now_ms)

    def turn(self, after_s: float = 0.1) -> dict[str, str]:
        """Whom a turn binds, and where. The cluster does so."""
        binds = self.orders(after_s).binds
        self.carry_out(binds)
        return named(binds)

    def carry_out(self, binds: Iterable[Bind]) -> None:
        for bind in binds:
            self.is_bound(bind.key[1], bind.node)

    def stands(self, pool: str, kind: str = "cpu") -> dict[str, str]:
        """What the status of a pool says of a resource, without what there is nothing of."""
        row = self.world.pools.statuses(self.world.state)[pool]["resources"][kind]
        return {column: amount for column, amount in row.items() if amount != "0"}

    def reasons(self) -> dict[str, str]:
        """Why pods wait."""
        return {member.pod.metadata.name: said.reason for member, said in verdicts(self.world)}


def named(binds: Iterable[Bind]) -> dict[str, str]:
    return {bind.key[1]: bind.node for bind in binds}
