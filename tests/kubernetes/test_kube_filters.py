"""Where we would bind a pod, Kubernetes' own scheduler would: both are asked about the same random worlds."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from kube import a_client, run
from kube_judging import create, create_namespaces, scheduler_has_seen_it, where_kubernetes_binds
from kube_worlds import NAMESPACES as NAMES
from kube_worlds import REQUIRED, World, worlds

from muster.kubernetes.access import from_kubeconfig
from muster.kubernetes.amounts import request_of
from muster.kubernetes.asks import ask_of
from muster.kubernetes.client import Client
from muster.kubernetes.dev.cluster import Cluster
from muster.kubernetes.kinds import CLAIMS, NODES, PODS, VOLUMES
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
        await create_namespaces(client)
        await create(client, made)
        await scheduler_has_seen_it(client)
        judge = await Judge.of(client)
        asked, nodes = await where_kubernetes_binds(client, made)
    ours = {world.name: judge.refusal(world, pod) for world, pod in zip(made, asked, strict=True)}
    return ours, {world.name: bool(node) for world, node in zip(made, nodes, strict=True)}


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
