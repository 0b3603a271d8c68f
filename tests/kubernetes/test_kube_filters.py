"""Where we would bind a pod, Kubernetes' own scheduler would: both are asked about the same random worlds."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kube import a_client, kept, run
from kube_worlds import HERE, HOSTNAME, REQUIRED, THERE, World, a_volume, worlds
from kube_worlds import NAMESPACES as NAMES

from muster.kubernetes.access import from_kubeconfig
from muster.kubernetes.amounts import request_of
from muster.kubernetes.asks import ask_of
from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.dev.cluster import Cluster, Wanted
from muster.kubernetes.dev.programs import programs
from muster.kubernetes.kinds import CLAIMS, NAMESPACES, NODES, PODS, VOLUMES, Kind, Scope
from muster.kubernetes.neighbours import Neighbours
from muster.kubernetes.nodes import node_of
from muster.kubernetes.objects import Pod
from muster.kubernetes.selectors import constraint_of
from muster.kubernetes.volumes import Volumes
from muster.model.nodes import Node
from muster.model.resources import total

WORLDS = 300
REASONS = {
    *("", "nodeSelector", "affinity", "taint", "volumes", "room"),
    "spec.containers.ports.hostPort",
    f"spec.affinity.podAffinity.{REQUIRED}",
    f"spec.affinity.podAntiAffinity.{REQUIRED}",
    "spec.affinity.podAntiAffinity of other pods",
    "spec.topologySpreadConstraints",
}
PATIENCE_S = 300.0  # of a busy machine; about 30 s elsewhere


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with Kubernetes' own scheduler, and nobody else."""
    wanted = Wanted(hollow=None, has_controllers=False, has_scheduler=True)
    with Cluster(programs(), tmp_path_factory.mktemp("judged") / "cluster", wanted) as cluster:
        yield cluster


def test_every_node_that_we_would_bind_to_passes_the_filters_of_kubernetes(judged: Cluster) -> None:
    ours, theirs = run(opinions(judged.kubeconfig), PATIENCE_S)

    bound_wrongly = sorted(name for name, reason in ours.items() if not reason and not theirs[name])
    refused_in_vain = sorted(name for name, reason in ours.items() if reason and theirs[name])
    assert (bound_wrongly, refused_in_vain) == ([], [])
    # Everything must have decided about some, and many must have been bound, or nothing was tested.
    reasons = Counter(ours.values())
    assert reasons.keys() == REASONS
    assert reasons[""] > WORLDS


async def opinions(kubeconfig: Path) -> tuple[dict[str, str], dict[str, bool]]:
    """Of each world, why its candidate does not take its pod, as we say; and whether it does, as the scheduler says."""
    made = [world for seed in range(WORLDS) for world in worlds(seed)]
    async with a_client(from_kubeconfig([kubeconfig])) as client:
        await create(client, made)
        await scheduler_has_seen_it(client)
        judge = await Judge.of(client)
        async with kept(Cache(client, PODS, Scope(namespace=HERE))) as cache:
            asked = await together(create_one(client, PODS, world.asked) for world in made)
            ours = {world.name: judge.refusal(world, pod) for world, pod in zip(made, asked, strict=True)}
            keys = [pod.metadata.key for pod in asked]
            await cache.until(lambda pods: all(key in pods and is_decided(pods[key]) for key in keys))
            nodes = [cache.objects[key].spec.node_name for key in keys]
    assert all(node in ("", world.candidate) for world, node in zip(made, nodes, strict=True))
    return ours, {world.name: bool(node) for world, node in zip(made, nodes, strict=True)}


def is_decided(pod: Pod) -> bool:
    return bool(pod.spec.node_name) or any(
        each.type == "PodScheduled" and each.reason == "Unschedulable" for each in pod.status.conditions
    )


class Judge:
    """What we think: by the constraint, by the room, and by the pods around, which are those of the same world."""

    def __init__(self, nodes: dict[str, Node], pods: list[Pod], volumes: Volumes) -> None:
        self.nodes = nodes
        self.volumes = volumes
        self.there: dict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            self.there[pod.metadata.labels.get("world", "")].append(pod)

    @classmethod
    async def of(cls, client: Client) -> Judge:
        nodes = {node.metadata.name: node_of(node, "here") for node in await client.list(NODES)}
        volumes = Volumes(
            claims={each.metadata.key: each for each in await client.list(CLAIMS)},
            volumes={each.metadata.key: each for each in await client.list(VOLUMES)},
        )
        return cls(nodes, await client.list(PODS), volumes)

    def refusal(self, world: World, pod: Pod) -> str:
        """What keeps the pod off the candidate; empty if nothing does."""
        node, there = self.nodes[world.candidate], self.there[world.name]
        around = Neighbours(self.nodes)
        for name, labels in NAMES.items():
            around.relabel(name, labels)
        for each in there:
            around.put(each, each.spec.node_name)
        ask = ask_of(pod, around, self.volumes)
        assert (ask.waits, ask.unsupported, node.cordoned) == ("", "", False)
        alone = constraint_of(pod.spec).refuses(node.name, node.labels, node.taints)
        field = alone or around.refuses(pod, node).partition("[")[0]
        if ask.constraint.refuses(node.name, node.labels, node.taints) is not None:
            return field or "volumes"
        assert not field, "those who are asked one by one say the same"
        here = [each for each in there if each.spec.node_name == node.name and not each.is_over]
        room = node.empty().beside(total(request_of(each.spec).resources for each in here))
        return "" if room.fits(ask.request) else "room"


# --- making it so ------------------------------------------------------------------------------


async def together(stories: Iterable[Any]) -> list[Any]:
    return await asyncio.gather(*stories)


async def create_one(client: Client, kind: Kind[Any], shape: dict[str, Any]) -> Any:
    return await client.create(kind, shape, shape["metadata"].get("namespace", ""))


async def create(client: Client, made: list[World]) -> None:
    for name, labels in NAMES.items():
        await create_one(client, NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    await together(create_one(client, VOLUMES, world.volume) for world in made if world.volume)
    await together(create_one(client, CLAIMS, world.claim) for world in made if world.claim)
    await together(create_one(client, NODES, node) for world in made for node in world.nodes)
    there = [pod for world in made for pod in (*world.there, *world.leaving, *world.over)]
    await together(create_one(client, PODS, pod) for pod in there)
    await together(leave(client, pod) for world in made for pod in world.leaving)
    await together(end(client, pod) for world in made for pod in world.over)


async def leave(client: Client, pod: dict[str, Any]) -> None:
    """It is being deleted: there is no kubelet that would end it."""
    await client.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])


async def end(client: Client, pod: dict[str, Any]) -> None:
    done = {"status": {"phase": "Succeeded"}}
    await client.patch(PODS, pod["metadata"]["name"], done, pod["metadata"]["namespace"], subresource="status")


async def scheduler_has_seen_it(client: Client) -> None:
    """Whoever binds this pod has heard of the last namespace, volume, claim and node, and so of all before."""
    volume, claim = a_volume("last", HERE)
    node = {
        "metadata": {"name": "last", "labels": {HOSTNAME: "last"}},
        "status": {"allocatable": {"pods": "9"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    container = {"name": "main", "image": "hollow"}
    there = {
        "metadata": {"name": "last", "namespace": THERE, "labels": {"last": "yes"}},
        "spec": {"containers": [container], "nodeName": "last"},
    }
    beside = {
        "topologyKey": HOSTNAME,
        "labelSelector": {"matchLabels": {"last": "yes"}},
        "namespaceSelector": {"matchLabels": NAMES[THERE]},
    }
    pod = {
        "metadata": {"name": "last", "namespace": HERE},
        "spec": {
            "containers": [container],
            "affinity": {"podAffinity": {REQUIRED: [beside]}},
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "last"}}],
        },
    }
    for kind, shape in ((VOLUMES, volume), (CLAIMS, claim), (NODES, node), (PODS, there), (PODS, pod)):
        await create_one(client, kind, shape)
    async with kept(Cache(client, PODS, Scope(namespace=HERE, fields="metadata.name=last"))) as cache:
        await cache.until(lambda pods: any(each.spec.node_name for each in pods.values()))
