"""Pods and the pods around them, written short."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from muster.kubernetes.asks import ask_of
from muster.kubernetes.neighbours import Neighbours
from muster.kubernetes.objects import Pod
from muster.kubernetes.selectors import constraint_of
from muster.model.nodes import Node
from muster.model.resources import NOTHING

NODES = {
    name: Node(name=name, cluster="here", allocatable=NOTHING, labels=labels)
    for name, labels in {
        "a": {"zone": "x", "host": "a"},
        "b": {"zone": "x", "host": "b"},
        "c": {"zone": "y", "host": "c", "fast": "yes"},
        "d": {},
    }.items()
}

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WEB_POD: dict[str, Any] = {"labels": {"app": "web"}}
WEB = "labelSelector: {matchLabels: {app: web}}"


def a_pod(name: str = "p", spec: str = "{}", **metadata: Any) -> Pod:
    shape = {"metadata": {"name": name, "namespace": "ns", **metadata}, "spec": yaml.safe_load(spec)}
    return msgspec.convert(shape, Pod)


def close(*terms: str) -> str:
    """Required pod affinity with these terms."""
    return f"affinity: {{podAffinity: {{{REQUIRED}: [{', '.join(f'{{{term}}}' for term in terms)}]}}}}"


def far(*terms: str) -> str:
    """Required pod anti-affinity with these terms."""
    return close(*terms).replace("podAffinity", "podAntiAffinity")


def spread(*terms: str) -> str:
    """Hard topology spread."""
    each = ", ".join(f"{{whenUnsatisfiable: DoNotSchedule, {term}}}" for term in terms)
    return f"topologySpreadConstraints: [{each}]"


def ports(*each: str, container: str = "containers", also: str = "") -> str:
    """A container with these ports."""
    return f"{container}: [{{name: a, {also} ports: [{', '.join(f'{{{port}}}' for port in each)}]}}]"


def neighbours(*there: tuple[str, Pod]) -> Neighbours:
    """Pods on nodes, whatever they are called."""
    found = Neighbours(NODES)
    for number, (node, pod) in enumerate(there):
        meta = msgspec.structs.replace(pod.metadata, name=f"there-{number}")
        found.put(msgspec.structs.replace(pod, metadata=meta), node)
    return found


def admitted(around: Neighbours, pod: Pod) -> str:
    """The nodes that the pod may go to, by its constraint; asked one by one, they say the same."""
    ask = ask_of(pod, around)
    assert ask.unsupported == ""
    nodes = [it for it in around.nodes.values() if ask.constraint.refuses(it.name, it.labels, it.taints) is None]
    own = constraint_of(pod.spec)
    alone = [it for it in around.nodes.values() if own.refuses(it.name, it.labels, it.taints) is None]
    assert [it for it in alone if not around.refuses(pod, it)] == nodes
    return "".join(it.name for it in nodes)


PLAIN = a_pod()
WEBS = a_pod(labels={"app": "web"})
