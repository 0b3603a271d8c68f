"""Has the engine's kernels compiled before a scheduler leads: that takes up to half a minute, once on a machine.

A made-up cluster goes through what turns of real ones do. Nothing of it is carried out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from muster.engine.kernels.jit import WORTH_COMPILING, WORTH_LOADING
from muster.kubernetes.cache import Change
from muster.kubernetes.groups import GROUP_LABEL, PluginGroup
from muster.kubernetes.objects import Node, Pod
from muster.kubernetes.verdicts import verdicts
from muster.kubernetes.world import World
from muster.model.policy import Policy

MADE_MS = 1_800_000_000_000
TASKS_PER_NODE = 16  # reading a node takes about as long as placing some tasks


def is_worth_it(nodes: int, pods: int) -> bool:
    """Whether turns of such a cluster would use compiled kernels."""
    return TASKS_PER_NODE * nodes + pods >= WORTH_LOADING


def warm_up(policy: Policy) -> None:
    """Go through placing, waiting, gangs and giving way, with kernels that are compiled for it if they are not yet."""
    world = World(policy, ahead=WORTH_COMPILING)
    for number in range(4):
        world.hear_node(Change(None, _node(f"node-{number}")))
    for number in range(8):
        _ask(world, f"low-{number}", cpu="1")
    _turn(world, 0)
    world.register.hear_plugin_group(Change(None, msgspec.convert(_GROUP, PluginGroup)))
    for number, cpu in enumerate(("2", "2", "1")):
        _ask(world, f"gang-{number}", cpu=cpu, priority=10, labels={GROUP_LABEL: "gang"})
    _turn(world, 1)
    for number in range(4):  # more than there is room for: those above take the place of those below
        _ask(world, f"high-{number}", cpu="2", priority=100)
        _ask(world, f"device-{number}", cpu="1", priority=50, gpus="1")
    for second in range(2, 5):
        _turn(world, second)


def _turn(world: World, second: int) -> None:
    world.turn(MADE_MS + 1000 * second)
    list(verdicts(world))


_GROUP = {"metadata": {"name": "gang", "namespace": "made-up"}, "spec": {"minMember": 3}}


def _node(name: str) -> Node:
    has = {"cpu": "2", "memory": "8Gi", "pods": "16", "nvidia.com/gpu": "1"}
    status = {"allocatable": has, "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Node)


def _ask(
    world: World, name: str, *, cpu: str, priority: int = 0, gpus: str = "", labels: dict[str, str] | None = None
) -> None:
    meta = {
        "name": name,
        "namespace": "made-up",
        "uid": name,
        "creationTimestamp": "2027-01-01T00:00:00Z",
        "labels": labels or {},
    }
    requests: dict[str, Any] = {"cpu": cpu, "memory": "1Gi"}
    if gpus:
        requests["nvidia.com/gpu"] = gpus
    spec = {
        "schedulerName": "muster",
        "priority": priority,
        "containers": [{"name": "main", "resources": {"requests": requests}}],
    }
    pod = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
    world.hear_pod(Change(None, msgspec.convert(pod, Pod)))
