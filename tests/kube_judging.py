"""Random worlds in a cluster with the scheduler of Kubernetes: made, seen by it, and decided about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from kube import kept
from kube_worlds import HERE, HOSTNAME, REQUIRED, THERE, World, a_volume
from kube_worlds import NAMESPACES as NAMES

from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.kinds import CLAIMS, NAMESPACES, NODES, PODS, VOLUMES, Kind, Scope
from muster.kubernetes.objects import Pod


async def together(stories: Iterable[Any]) -> list[Any]:
    return await asyncio.gather(*stories)


async def create_one(client: Client, kind: Kind[Any], shape: dict[str, Any]) -> Any:
    return await client.create(kind, shape, shape["metadata"].get("namespace", ""))


async def create_namespaces(client: Client) -> None:
    for name, labels in NAMES.items():
        await create_one(client, NAMESPACES, {"metadata": {"name": name, "labels": labels}})


async def create(client: Client, made: Sequence[World]) -> None:
    """Everything but the pods that are asked about."""
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


async def where_kubernetes_binds(client: Client, made: Sequence[World]) -> tuple[list[Pod], list[str]]:
    """The pods that are asked about, as they were made; and where Kubernetes' own scheduler bound each, if anywhere."""
    async with kept(Cache(client, PODS, Scope(namespace=HERE))) as cache:
        asked = await together(create_one(client, PODS, world.asked) for world in made)
        keys = [pod.metadata.key for pod in asked]
        await cache.until(lambda pods: all(key in pods and is_decided(pods[key]) for key in keys))
        nodes = [cache.objects[key].spec.node_name for key in keys]
    assert all(node in ("", world.candidate) for world, node in zip(made, nodes, strict=True))
    return asked, nodes


def is_decided(pod: Pod) -> bool:
    return bool(pod.spec.node_name) or any(
        each.type == "PodScheduled" and each.reason == "Unschedulable" for each in pod.status.conditions
    )
