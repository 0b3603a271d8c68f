"""Small random worlds for two schedulers: nodes, pods on them, and one pod to be placed, or several.

Worlds share a cluster and do not touch: every selector of a world names it, and every domain is its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

HOSTNAME = "kubernetes.io/hostname"
KEYS = ("zone", "rack", HOSTNAME)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
HERE, THERE = "one", "two"
NAMESPACES = {HERE: {"team": "one"}, THERE: {"team": "two"}}

Shape = dict[str, Any]


@dataclass(kw_only=True)
class World:
    """What is there, as manifests. Only `candidate` is not cordoned, so that a pod is bound there or not at all.

    Where several wait (`waiting`, of whom the first `together` are a gang) no node is, unless there is a candidate.
    """

    name: str
    candidate: str = ""
    nodes: list[Shape] = field(default_factory=list)
    volume: Shape | None = None
    claim: Shape | None = None
    there: list[Shape] = field(default_factory=list)
    leaving: list[Shape] = field(default_factory=list)
    over: list[Shape] = field(default_factory=list)
    asked: Shape = field(default_factory=dict)
    waiting: list[Shape] = field(default_factory=list)
    together: int = 0


def worlds(seed: int) -> list[World]:
    """One world for each node of a random one: the same, but for which node is the candidate."""
    count = Random(seed).randint(2, 4)
    return [_Making(Random(seed), f"w{seed}-{candidate}", count).world(candidate) for candidate in range(count)]


def crowded(seed: int, name: str, candidate: int | None = None) -> World:
    """A random world with several pods to be placed: of one seed the same, but for its name and its candidate."""
    random = Random(seed)
    return _Making(random, name, random.randint(2, 4)).crowded(candidate)


class _Making:
    def __init__(self, random: Random, name: str, count: int) -> None:
        self.random = random
        self.name = name
        self.count = count
        self.made = 0

    def world(self, candidate: int | None) -> World:
        world = World(name=self.name, candidate="" if candidate is None else f"{self.name}-n{candidate}")
        world.nodes = [self.node(number, cordoned=candidate not in (number, None)) for number in range(self.count)]
        names = [node["metadata"]["name"] for node in world.nodes]
        for _ in range(self.random.randint(0, 5)):
            pod = self.pod(self.chosen(HERE, HERE, THERE), likely=0.3)
            pod["spec"]["nodeName"] = self.chosen(*names)
            pod["spec"]["tolerations"] = [{"operator": "Exists"}]
            self.chosen(world.there, world.there, world.there, world.leaving, world.over).append(pod)
        world.asked = self.asking(likely=0.25)
        if self.happens(0.15):
            self.add_volume(world)
        return world

    def crowded(self, candidate: int | None) -> World:
        world = self.world(candidate)
        world.waiting = [world.asked, *(self.asking(likely=0.1) for _ in range(self.random.randint(1, 4)))]
        world.together = self.maybe(0.3, self.random.randint(2, len(world.waiting)), 0)
        return world

    def asking(self, *, likely: float) -> Shape:
        pod = self.pod(HERE, likely=likely)
        pod["spec"]["nodeSelector"] = {"world": self.name, **self.maybe(0.1, {"fast": "yes"}, {})}
        pod["spec"]["schedulerName"] = "default-scheduler"
        return pod

    # -- chance ----------------------------------------------------------------------------------------------

    def happens(self, likely: float) -> bool:
        return self.random.random() < likely

    def maybe(self, likely: float, this: Any, otherwise: Any = None) -> Any:
        return this if self.happens(likely) else otherwise

    def chosen(self, *those: Any) -> Any:
        return self.random.choice(those)

    # -- things ----------------------------------------------------------------------------------------------

    def node(self, number: int, *, cordoned: bool) -> Shape:
        name = f"{self.name}-n{number}"
        labels = {"world": self.name, HOSTNAME: name, **self.maybe(0.3, {"fast": "yes"}, {})}
        for key in ("zone", "rack"):
            if self.happens(0.85):
                labels[key] = f"{self.name}-{self.chosen('x', 'y', 'z')}"
        labels["cores"] = self.chosen("2", "4", "many")
        effects = ("NoSchedule", "NoExecute", "PreferNoSchedule")
        taints = [
            {"key": key, "value": self.chosen("", "v"), "effect": self.chosen(*effects)}
            for key in ("t1", "t2")
            if self.happens(0.15)
        ]
        has = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": self.chosen("2", "9", "9")}
        has |= self.maybe(0.5, {"nvidia.com/gpu": "2"}, {}) | self.maybe(0.5, {"example.com/thing": "3"}, {})
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {"unschedulable": cordoned, "taints": taints},
            "status": {
                "allocatable": has,
                "capacity": has,
                "conditions": [{"type": "Ready", "status": "True", "reason": "Hollow"}],
            },
        }

    def pod(self, namespace: str, *, likely: float) -> Shape:
        self.made += 1
        labels = {"world": self.name, "app": self.chosen("a", "b"), "version": self.chosen("1", "2")}
        labels["tier"] = self.chosen("front", "back")
        spec: Shape = {"containers": [self.container("main")], "restartPolicy": "Never", "affinity": {}}
        if self.happens(0.2):
            spec["containers"].append(self.container("beside"))
        if self.happens(0.3):
            spec["initContainers"] = [
                {**self.container(f"init-{index}"), **self.maybe(0.5, {"restartPolicy": "Always"}, {})}
                for index in range(self.random.randint(1, 3))
            ]
        if len(spec["containers"]) == 1 and "initContainers" not in spec and self.happens(0.2):
            spec["resources"] = {"requests": {"cpu": "2", "memory": self.chosen("4Gi", "7Gi")}}
        if self.happens(0.5):
            spec["tolerations"] = [self.toleration() for _ in range(2)]
        if self.happens(likely):
            self.add_ports(spec["containers"][0])
        if self.happens(likely):
            terms = [self.node_term() for _ in range(self.random.randint(1, 2))]
            spec["affinity"]["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
        for kind, probability in (("podAffinity", likely / 2), ("podAntiAffinity", likely)):
            if self.happens(probability):
                terms = [self.pod_term() for _ in range(self.chosen(1, 1, 2))]
                spec["affinity"][kind] = {REQUIRED: terms}
        if self.happens(likely + 0.15):
            keys = self.random.sample(KEYS, self.chosen(1, 1, 2))
            spec["topologySpreadConstraints"] = [self.spread(key) for key in keys]
        name = f"{self.name}-p{self.made}"
        return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}

    def container(self, name: str) -> Shape:
        asks = {"cpu": self.chosen("100m", "500m", "1500m"), "memory": self.chosen("500Mi", "2Gi")}
        asks |= self.maybe(0.1, {"nvidia.com/gpu": self.chosen("1", "2")}, {})
        asks |= self.maybe(0.1, {"example.com/thing": "1"}, {}) | self.maybe(0.2, {"ephemeral-storage": "3Gi"}, {})
        whole = {key: value for key, value in asks.items() if "/" in key}
        return {"name": name, "image": "hollow", "resources": {"requests": asks, "limits": whole}}

    def add_ports(self, container: Shape) -> None:
        container["ports"] = [
            {
                "containerPort": port,
                "hostPort": port,
                "protocol": self.chosen("TCP", "TCP", "UDP"),
                **self.chosen({}, {"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}),
            }
            for port in self.random.sample((80, 81), self.chosen(1, 1, 2))
        ]

    def toleration(self) -> Shape:
        key, effect = self.chosen("t1", "t2"), self.chosen({}, {"effect": "NoSchedule"}, {"effect": "NoExecute"})
        how = self.chosen({"operator": "Exists"}, {"operator": "Equal", "value": "v"}, {"value": ""})
        return {"key": key, **how, **effect}

    def node_term(self) -> Shape:
        demands: list[Shape] = [
            {"key": "fast", "operator": self.chosen("Exists", "DoesNotExist")},
            {"key": "cores", "operator": self.chosen("Gt", "Lt"), "values": ["3"]},
            {"key": "cores", "operator": self.chosen("In", "NotIn"), "values": ["2", "many"]},
            {"key": self.chosen("zone", "rack"), "operator": self.chosen("In", "NotIn"), "values": [f"{self.name}-x"]},
        ]
        name = f"{self.name}-n{self.random.randrange(self.count)}"
        by_name = {"key": "metadata.name", "operator": self.chosen("In", "NotIn"), "values": [name]}
        term: Shape = {"matchExpressions": self.random.sample(demands, self.chosen(0, 1, 1, 2))}
        return term | self.maybe(0.3, {"matchFields": [by_name]}, {})

    def selector(self) -> Shape:
        """Pods of this world, by their labels."""
        demand = self.chosen(
            {"key": "app", "operator": "In", "values": ["a"]},
            {"key": "app", "operator": "NotIn", "values": ["a"]},
            {"key": "version", "operator": "Exists"},
            {"key": "absent", "operator": "DoesNotExist"},
        )
        return {"matchLabels": {"world": self.name}, "matchExpressions": [demand]}

    def pod_term(self) -> Shape:
        where = self.chosen({}, {}, {"namespaces": [THERE]}, {"namespaceSelector": {"matchLabels": {"team": "two"}}})
        keys = self.chosen({}, {}, {}, {"matchLabelKeys": ["tier"]}, {"mismatchLabelKeys": ["tier"]})
        return {"topologyKey": self.chosen(*KEYS), "labelSelector": self.selector(), **where, **keys}

    def spread(self, key: str) -> Shape:
        more = self.maybe(0.3, {"minDomains": self.chosen(1, 2, 3)}, {})
        more |= self.maybe(0.5, {"nodeAffinityPolicy": self.chosen("Honor", "Ignore")}, {})
        more |= self.maybe(0.6, {"nodeTaintsPolicy": self.chosen("Honor", "Ignore")}, {})
        selector = {"matchLabels": {"world": self.name, **self.maybe(0.7, {"app": "a"}, {})}}
        more |= self.maybe(0.3, {"matchLabelKeys": ["version"]}, {})
        return {
            "topologyKey": key,
            "maxSkew": self.chosen(1, 1, 2),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
            **more,
        }

    def add_volume(self, world: World) -> None:
        """A bound claim of a volume that not all nodes can reach."""
        terms = [self.node_term() for _ in range(2)]
        for term in terms:
            term.pop("matchFields", None)  # volumes may not name nodes so
            term["matchExpressions"].append({"key": "world", "operator": "In", "values": [self.name]})
        world.volume, world.claim = a_volume(self.name, HERE, {"required": {"nodeSelectorTerms": terms}})
        world.asked["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": self.name}}]


def a_volume(name: str, namespace: str, affinity: Mapping[str, Any] | None = None) -> tuple[Shape, Shape]:
    """A volume and the claim that it is bound to; nobody has to look after them."""
    size = {"storage": "1Gi"}
    claim = {
        "metadata": {"name": name, "namespace": namespace, "annotations": BOUND},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": size},
            "volumeName": name,
            "storageClassName": "",
        },
    }
    spec: Shape = {"capacity": size, "accessModes": ["ReadWriteMany"], "nfs": {"server": "nfs", "path": "/"}}
    if affinity is not None:
        spec["nodeAffinity"] = affinity
    return {"metadata": {"name": name}, "spec": spec}, claim
