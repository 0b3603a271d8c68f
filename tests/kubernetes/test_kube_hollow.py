"""Hollow nodes behave as their users expect of real ones: pods run, fail, restart, have their grace; nodes get lost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from kube import Shared, a_client, a_pod, kept, pod_when, run

from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.dev.hollow import Hollow
from muster.kubernetes.dev.kubelet import SILENT, node_manifest
from muster.kubernetes.kinds import NODES, PODS, Kind, Scope
from muster.kubernetes.objects import Meta, Plain

JOBS = Kind(type=Plain, plural="jobs", version="v1", group="batch")


class Seen(msgspec.Struct, frozen=True):
    """A pod with all of its status."""

    metadata: Meta
    status: dict[str, Any]


SEEN_PODS = Kind(type=Seen, plural="pods", version="v1")


def outcome(pod: Seen) -> tuple[str, list[int], int]:
    """Its phase, its exit codes and how often it was started again."""
    containers = pod.status.get("containerStatuses", [])
    codes = [each["state"]["terminated"]["exitCode"] for each in containers if "terminated" in each["state"]]
    return pod.status["phase"], codes, sum(each["restartCount"] for each in containers)


async def seen_when(client: Client, namespace: str, name: str, holds: Any) -> Seen:
    async with kept(Cache(client, SEEN_PODS, Scope(namespace=namespace))) as cache:
        await cache.until(lambda pods: (namespace, name) in pods and holds(pods[namespace, name]))
        found: Seen = cache.objects[namespace, name]
        return found


def is_over(pod: Seen) -> bool:
    return pod.status["phase"] in ("Succeeded", "Failed")


@pytest.mark.parametrize(
    "pod, expected",
    [
        pytest.param(a_pod("p", "sleep", "0.2"), ("Succeeded", [0], 0), id="sleep ends well"),
        pytest.param(a_pod("p", "exit", "3"), ("Failed", [3], 0), id="exit 3 fails with 3"),
        pytest.param(
            a_pod("p", "sleep", "infinity", activeDeadlineSeconds=1),
            ("Failed", [137], 0),
            id="who runs past its deadline is killed",
        ),
        pytest.param(
            a_pod("p", "true", initContainers=[{"name": "first", "image": "x", "command": ["exit", "4"]}]),
            ("Failed", [], 0),
            id="nothing runs after an init container that fails",
        ),
        pytest.param(
            a_pod(
                "p",
                "true",
                initContainers=[
                    {"name": "side", "image": "x", "restartPolicy": "Always", "command": ["sleep", "infinity"]},
                    {"name": "first", "image": "x", "command": ["sleep", "0.1"]},
                ],
            ),
            ("Succeeded", [0], 0),
            id="a sidecar ends with the others",
        ),
        pytest.param(
            a_pod(
                "p",
                containers=[
                    {"name": "good", "image": "x", "command": ["true"]},
                    {"name": "bad", "image": "x", "command": ["sh", "-c", "sleep 0.2; exit 5"]},
                ],
            ),
            ("Failed", [0, 5], 0),
            id="one container that fails fails the pod",
        ),
    ],
)
def test_how_pods_end(shared: Shared, namespace: str, pod: dict[str, Any], expected: Any) -> None:
    async def story() -> Seen:
        async with a_client(shared.access) as client:
            await client.create(PODS, {**pod, "spec": {**pod["spec"], "nodeName": "node-0"}}, namespace)
            return await seen_when(client, namespace, "p", is_over)

    assert outcome(run(story())) == expected


def test_a_pod_that_must_always_run_is_started_again(shared: Shared, namespace: str) -> None:
    async def story() -> Seen:
        async with a_client(shared.access) as client:
            await client.create(PODS, a_pod("p", "false", node="node-0", restartPolicy="Always"), namespace)
            return await seen_when(client, namespace, "p", lambda pod: outcome(pod)[2] == 2)

    phase, _, restarts = outcome(run(story()))

    assert (phase, restarts) == ("Running", 2)


def test_a_pod_without_a_node_stays_pending_until_it_is_bound(shared: Shared, namespace: str) -> None:
    async def story() -> str:
        async with a_client(shared.access) as client:
            made = await client.create(PODS, a_pod("p", "sleep", "0.1"), namespace)
            target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
            await client.act(PODS, "p", "binding", {"metadata": {"name": "p"}, "target": target}, namespace)
            ended = await pod_when(client, namespace, "p", lambda pod: pod.is_over)
            assert made.spec.node_name == ""
            scheduled = [each.status for each in ended.status.conditions if each.type == "PodScheduled"]
            assert scheduled == ["True"], "what others say about a pod stays"
            return ended.spec.node_name

    assert run(story()) == "node-1"


def test_a_deleted_pod_is_told_to_end_and_is_then_removed(shared: Shared, namespace: str) -> None:
    async def story() -> list[str]:
        async with a_client(shared.access) as client:
            await client.create(PODS, a_pod("p", "sleep", "infinity", node="node-0"), namespace)
            phases: list[str] = []
            async with kept(Cache(client, SEEN_PODS, Scope(namespace=namespace))) as cache:
                cache.listen(lambda change: phases.append(change.after.status["phase"] if change.after else "gone"))
                await cache.until(lambda pods: pods[namespace, "p"].status["phase"] == "Running")
                await client.delete(PODS, "p", namespace)
                await cache.until(lambda pods: not pods)
            return phases

    phases = run(story())

    assert phases[-2:] == ["Failed", "gone"]
    assert "Succeeded" not in phases


def test_a_job_of_the_real_controller_completes(shared: Shared, namespace: str) -> None:
    pod = a_pod("x", "sleep", "0.1", node="node-2")
    spec = {"completions": 2, "parallelism": 2, "template": {"spec": pod["spec"]}}

    async def story() -> dict[str, Any]:
        async with a_client(shared.access) as client:
            seen = Kind(type=Seen, plural="jobs", version="v1", group="batch")
            await client.create(JOBS, {"metadata": {"name": "j"}, "spec": spec}, namespace)
            async with kept(Cache(client, seen, Scope(namespace=namespace))) as cache:
                await cache.until(lambda jobs: jobs[namespace, "j"].status.get("completionTime") is not None)
                status: dict[str, Any] = cache.objects[namespace, "j"].status
                return status

    assert run(story())["succeeded"] == 2


def test_a_silent_node_freezes_its_pods_and_goes_on_when_it_is_heard_again(shared: Shared, namespace: str) -> None:
    name = f"{namespace}-node"

    async def story() -> tuple[str, str]:
        async with a_client(shared.access) as client:
            node = node_manifest(name, Hollow(cpu="1"))
            await client.create(NODES, node)
            try:
                await client.patch(NODES, name, {"metadata": {"annotations": {SILENT: "true"}}})
                await client.create(PODS, a_pod("silent", "true", node=name), namespace)
                await client.create(PODS, a_pod("heard", "true", node="node-0"), namespace)
                await pod_when(client, namespace, "heard", lambda pod: pod.is_over)
                frozen = await client.get(PODS, "silent", namespace)
                await client.patch(NODES, name, {"metadata": {"annotations": {SILENT: None}}})
                ended = await pod_when(client, namespace, "silent", lambda pod: pod.is_over)
                return frozen.status.phase, ended.status.phase
            finally:
                await client.delete(NODES, name)

    assert run(story()) == ("Pending", "Succeeded")
