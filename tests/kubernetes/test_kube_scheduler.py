"""The scheduler on a real API server, with real controllers: who is bound, who waits, and what it says of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from kube import a_pod, kept, run
from scheduling import CPU, MANIFESTS, Event, access_to, scheduler, space, told, waits

from muster.kubernetes.access import from_kubeconfig
from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.dev.cluster import Cluster
from muster.kubernetes.dev.hollow import Hollow
from muster.kubernetes.dev.kubelet import node_manifest
from muster.kubernetes.groups import NATIVE_GROUPS
from muster.kubernetes.kinds import CLAIMS, NODES, PODS, STORAGE_CLASSES, VOLUMES, Kind, Scope
from muster.kubernetes.objects import Meta, Plain
from muster.kubernetes.pools import POOLS


class JobStatus(msgspec.Struct, frozen=True):
    """How many pods of a Job succeeded."""

    succeeded: int = 0


class Job(msgspec.Struct, frozen=True):
    """A batch/v1 Job."""

    metadata: Meta
    status: JobStatus = JobStatus()


CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
JOBS = Kind(type=Job, plural="jobs", version="v1", group="batch")


@asynccontextmanager
async def another_node(client: Client, name: str) -> AsyncIterator[None]:
    await client.create(NODES, node_manifest(name, Hollow(cpu=str(CPU), memory="64Gi")))
    try:
        yield
    finally:
        await client.delete(NODES, name)


@pytest.mark.parametrize("name", ["muster", "ai-scheduler"])
def test_plain_pods_are_bound_and_run_and_their_events_say_so(schedulable: Cluster, name: str) -> None:
    async def story() -> Event:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            for pod in "abc":
                await here.pod(pod, schedulerName=name)
            await here.when(lambda pods: [it.status.phase for it in pods.values()] == ["Running"] * 3)
            assert max((await here.held()).values()) <= CPU * 1000
            return await told(here, "a", "Scheduled")

    event = run(story())

    assert event.type == "Normal"
    assert event.note.startswith("assigned test-")


def test_a_gang_of_three_on_room_for_two_waits_whole_and_starts_whole_when_room_comes(schedulable: Cluster) -> None:
    async def story() -> tuple[str, str]:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            names = await here.gang("train", 3, cpu=3)
            said = [await here.says(name) for name in names]
            assert here.bound() == {}
            event = await told(here, "train-0", said[0].reason)
            assert event.note == said[0].message
            async with another_node(here.client, "late"):
                places = await here.are_bound(*names)
                assert len(set(places.values())) == 3
                await here.when(lambda pods: all(it.status.phase == "Running" for it in pods.values()))
                for name in names:
                    await here.client.delete(PODS, name, here.name, grace_s=0)
                await here.when(lambda pods: not pods)
            return said[0].reason, said[0].message

    reason, message = run(story())

    assert reason == "NEVER_FITS"
    assert message.startswith("fits no cluster, even an empty one: 3 tasks must start together")


def test_a_native_pod_group_is_a_gang(schedulable: Cluster) -> None:
    async def story() -> None:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            meta = {"name": "train"}
            body = {
                "apiVersion": NATIVE_GROUPS.api_version,
                "kind": "PodGroup",
                "metadata": meta,
                "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
            }
            await here.pod("a", schedulingGroup={"podGroupName": "train"})
            assert (await here.says("a")).reason == "POD_GROUP_MISSING"
            await here.client.create(NATIVE_GROUPS, body, here.name)
            await here.when(lambda pods: _reason(pods["a"]) == "GANG_INCOMPLETE")
            await here.pod("b", schedulingGroup={"podGroupName": "train"})
            await here.are_bound("a", "b")

    run(story())


def _reason(pod: Any) -> str:
    found = waits(pod)
    return found.reason if found is not None else ""


def test_a_job_of_the_real_controller_is_done(schedulable: Cluster) -> None:
    async def story() -> None:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            pod = a_pod("", "sleep", "0.1", schedulerName="muster")["spec"]
            pod["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
            spec = {"completions": 6, "parallelism": 6, "template": {"spec": pod}}
            await here.client.create(JOBS, {"metadata": {"name": "six"}, "spec": spec}, here.name)
            async with kept(Cache(here.client, JOBS, Scope(namespace=here.name))) as jobs:
                await jobs.until(
                    lambda there: (here.name, "six") in there and there[here.name, "six"].status.succeeded == 6
                )
            await here.client.delete(JOBS, "six", here.name, propagation="Background")
            await here.when(lambda pods: not pods)

    run(story())


def test_pods_of_others_are_counted(schedulable: Cluster) -> None:
    async def story() -> None:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            for number in range(2):
                await here.pod(f"other-{number}", 3, schedulerName="nobody", nodeName=f"node-{number}")
            await here.pod("a", 2)
            await here.says("a")
            assert "a" not in here.bound()
            await here.client.delete(PODS, "other-1", here.name, grace_s=0)
            assert await here.are_bound("a") == {"a": "node-1"}

    run(story())


def test_a_more_urgent_pod_takes_the_place_of_another_which_is_evicted(schedulable: Cluster) -> None:
    async def story() -> tuple[str, str]:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            for name in ("low-0", "low-1"):
                await here.pod(name, 3)
            await here.are_bound("low-0", "low-1")
            await here.pod("high", 3, priorityClassName="system-cluster-critical")
            places = await here.are_bound("high")
            left = [name for name in here.bound() if name.startswith("low")]
            assert len(left) == 1
            assert max((await here.held()).values()) <= CPU * 1000
            gone = ({"low-0", "low-1"} - set(left)).pop()
            return places["high"], (await told(here, gone, "Preempted")).note

    _, note = run(story())

    assert note.startswith("it gives way to test-")


def test_what_is_not_honoured_is_said_and_never_bound(schedulable: Cluster) -> None:
    async def story() -> tuple[str, str]:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            await here.pod("a", tolerations=[{"key": "x", "operator": "Exists"}], volumes=[CLAIM])
            assert (await here.says("a")).reason == "VOLUME_MISSING"
            late = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
            await here.client.create(STORAGE_CLASSES, {"metadata": {"name": here.name}, **late})
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            claim = {"metadata": {"name": "data"}, "spec": {**spec, "storageClassName": here.name}}
            await here.client.create(CLAIMS, claim, here.name)
            await here.when(lambda pods: _reason(pods["a"]) == "UNSUPPORTED")
            await here.pod("b")
            await here.are_bound("b")
            assert "a" not in here.bound()
            return _reason(here.pods.objects[here.name, "a"]), (await here.says("a")).message

    reason, message = run(story())

    assert reason == "UNSUPPORTED"
    assert "WaitForFirstConsumer" in message


def test_a_pod_is_bound_where_its_volume_was_made_for_it(schedulable: Cluster) -> None:
    """The test makes the volume; the real controller binds the claim to it."""

    async def story() -> None:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            late = {"provisioner": "disks.example.dev", "volumeBindingMode": "WaitForFirstConsumer"}
            await here.client.create(STORAGE_CLASSES, {"metadata": {"name": here.name}, **late})
            amount = {"storage": "1Gi"}
            common = {"accessModes": ["ReadWriteOnce"], "storageClassName": here.name}
            claim = {"metadata": {"name": "data"}, "spec": {**common, "resources": {"requests": amount}}}
            made = await here.client.create(CLAIMS, claim, here.name)
            await here.pod("a", volumes=[CLAIM])
            async with kept(Cache(here.client, CLAIMS, Scope(namespace=here.name))) as claims:
                await claims.until(lambda there: bool(there[here.name, "data"].selected_node))
                node = claims.objects[here.name, "data"].selected_node
            assert here.bound() == {}
            on_it = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
            ref = {"namespace": here.name, "name": "data", "uid": made.metadata.uid}
            volume = {
                **common,
                "capacity": amount,
                "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **ref},
                "csi": {"driver": late["provisioner"], "volumeHandle": here.name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_it]}]}},
            }
            await here.client.create(VOLUMES, {"metadata": {"name": here.name}, "spec": volume})
            assert await here.are_bound("a") == {"a": node}
            await here.client.delete(VOLUMES, here.name)
            await here.client.delete(STORAGE_CLASSES, here.name)

    run(story())


def test_pods_that_keep_away_from_each_other_are_on_a_node_each(schedulable: Cluster) -> None:
    async def story() -> list[str]:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
            apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            for name in "abc":
                await here.pod(name, labels={"app": "web"}, affinity=apart)
            await here.when(lambda pods: sum(bool(pod.spec.node_name) for pod in pods.values()) == 2)
            await here.says(next(name for name in "abc" if name not in here.bound()))
            return sorted(here.bound().values())

    assert run(story()) == ["node-0", "node-1"]


def test_a_kar_scheduler_pod_waits_for_its_spec(schedulable: Cluster) -> None:
    async def story() -> None:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            await here.pod("alone", schedulerName="kar-scheduler")
            assert (await here.says("alone")).reason == "SCHEDULING_SPEC_MISSING"
            names = await here.gang("train", 2, schedulerName="kar-scheduler")
            await here.are_bound(*names)

    run(story())


def test_it_needs_no_more_rights_than_its_manifest_gives(schedulable: Cluster, tmp_path: Path) -> None:
    """Bind, evict, say why, write Events and lead: as the account of the manifest, on a server that knows RBAC."""

    async def apply(client: Client) -> None:
        for body in yaml.safe_load_all((MANIFESTS / "scheduler-rbac.yaml").read_text()):
            group, _, version = body["apiVersion"].rpartition("/")
            plural = f"{body['kind'].lower()}s"
            is_namespaced = "namespace" in body["metadata"]
            kind = Kind(type=Plain, plural=plural, version=version, group=group, is_namespaced=is_namespaced)
            await client.create(kind, body, body["metadata"].get("namespace", ""))

    async def story() -> None:
        account = "system:serviceaccount:kube-system:muster-kube-scheduler"
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(schedulable.authority.kubeconfig(schedulable.url, account))
        access = from_kubeconfig([kubeconfig])
        async with space(schedulable) as here:
            await apply(here.client)
            async with scheduler(access, lease="muster-kube-scheduler"):
                names = await here.gang("train", 2, cpu=3)
                await here.are_bound(*names)
                await here.pod("low", 3)
                assert (await told(here, "low", (await here.says("low")).reason)).type == "Warning"
                await here.pod("high", 3, priorityClassName="system-cluster-critical")
                await here.are_bound("high")
                await told(here, "high", "Scheduled")
                async with kept(Cache(here.client, POOLS)) as pools:
                    await pools.until(lambda there: ("", "default") in there and there["", "default"].status)

    run(story())
