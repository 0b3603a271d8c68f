"""What the engine plans for whole worlds, bind after bind, passes the filters of Kubernetes' own scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
from kube import a_client, run
from kube_judging import (
    create,
    create_namespaces,
    create_one,
    scheduler_has_seen_it,
    together,
    where_kubernetes_binds,
)
from kube_worlds import World, crowded
from kubeworld import START_MS

from muster.kubernetes import world as ours
from muster.kubernetes.access import from_kubeconfig
from muster.kubernetes.cache import Change
from muster.kubernetes.client import Client
from muster.kubernetes.dev.cluster import Cluster
from muster.kubernetes.groups import GROUP_LABEL, PluginGroup
from muster.kubernetes.jobs import QUEUE_LABEL
from muster.kubernetes.kinds import CLAIMS, NAMESPACES, NODES, PODS, VOLUMES
from muster.kubernetes.objects import Pod
from muster.kubernetes.orders import Bind
from muster.model.policy import Policy

WORLDS = 200
PATIENCE_S = 300.0  # of a busy machine; about 20 s elsewhere


def test_every_bind_of_a_plan_passes_the_filters_of_kubernetes(judged: Cluster) -> None:
    """All worlds are planned as one cluster; then each bind is offered to the other scheduler, on a copy of its world
    where those before it are bound and every other node is cordoned.
    """
    copies, nodes = run(offered(judged.kubeconfig), PATIENCE_S)

    refused = [copy.name for copy, node in zip(copies, nodes, strict=True) if not node]
    assert refused == []
    # Much must have been bound, and much of it beside what was bound before, or nothing was tested.
    binds = Counter(copy.name.split("-")[0] for copy in copies)
    assert len(binds) > WORLDS / 2
    assert sum(count > 1 for count in binds.values()) > WORLDS / 4


async def offered(kubeconfig: Path) -> tuple[list[World], list[str]]:
    """A copy of its world for each bind that we planned, and where Kubernetes bound the same pod there."""
    base = [crowded(seed, f"w{seed}") for seed in range(WORLDS)]
    async with a_client(from_kubeconfig([kubeconfig])) as client:
        await create_namespaces(client)
        await create(client, base)
        binds = planned(await told(client, base))
        copies = [copy for seed, world in enumerate(base) for copy in copied(seed, world, binds)]
        await create(client, copies)
        await scheduler_has_seen_it(client)
        _, nodes = await where_kubernetes_binds(client, copies)
    return copies, nodes


async def told(client: Client, base: Sequence[World]) -> ours.World:
    """A world of ours that has heard of all that is there, and of all pods that wait."""
    world = ours.World(Policy(over_share=None))
    for kind, hear in (
        (NAMESPACES, world.surroundings.hear_namespace),
        (VOLUMES, world.surroundings.hear_volume),
        (CLAIMS, world.surroundings.hear_claim),
        (NODES, world.hear_node),
        (PODS, world.hear_pod),
    ):
        for each in await client.list(kind):  # type: ignore[var-annotated]
            hear(Change(None, each))
    for each in base:
        if each.together:
            group = {"metadata": {"name": each.name, "namespace": "one"}, "spec": {"minMember": each.together}}
            world.register.hear_plugin_group(Change(None, msgspec.convert(group, PluginGroup)))
    waiting = [for_us(each, index) for each in base for index in range(len(each.waiting))]
    for pod in await together(create_one(client, PODS, pod) for pod in waiting):
        world.hear_pod(Change(None, _without_age(pod)))
    return world


def _without_age(pod: Pod) -> Pod:
    """Whether a second ended while pods were made must not matter: they stand in line as they come here."""
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, creation_timestamp=None))


def for_us(world: World, index: int) -> dict[str, Any]:
    """One of the waiting pods, to be bound by us, together with others of its gang.

    Worlds are queues: a turn looks at no more than 100 kinds of pods of a queue.
    """
    pod = deepcopy(world.waiting[index])
    pod["metadata"]["labels"][QUEUE_LABEL] = world.name
    pod["spec"]["schedulerName"] = "muster"
    if index < world.together:
        pod["metadata"]["labels"][GROUP_LABEL] = world.name
    return pod


def planned(world: ours.World) -> list[Bind]:
    """All that our world binds, in order, turn by turn until there is nothing more that it can."""
    binds: list[Bind] = []
    now_ms = START_MS
    while True:
        now_ms += 1_000
        orders = world.turn(now_ms)
        assert not orders.evictions, "nobody is more urgent than another"
        if not orders.binds:
            return binds
        binds += orders.binds
        for bind in orders.binds:
            before = world.register.members[bind.uid].pod
            world.hear_pod(Change(before, _bound(before, bind.node)))


def _bound(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def copied(seed: int, world: World, binds: Sequence[Bind]) -> Iterator[World]:
    """For each bind of a world, the world as it was just before: the pods bound until then are there."""
    names = {pod["metadata"]["name"]: index for index, pod in enumerate(world.waiting)}
    numbers = {node["metadata"]["name"]: index for index, node in enumerate(world.nodes)}
    before: list[tuple[int, int]] = []
    for bind in binds:
        if bind.key[1] not in names:
            continue
        index, node = names[bind.key[1]], numbers[bind.node]
        copy = crowded(seed, f"{world.name}-{index}", node)
        for other, on in before:
            pod = copy.waiting[other]
            pod["spec"]["nodeName"] = copy.nodes[on]["metadata"]["name"]
            copy.there.append(pod)
        copy.asked = copy.waiting[index]
        before.append((index, node))
        yield copy
