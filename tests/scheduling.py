"""Schedulers for tests: in this process, or as the command that users have."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import yaml
from kube import CONFIG_MAPS, MUSTER, a_client, a_config_map, a_pod, kept

from muster.kubernetes.access import Access, from_kubeconfig
from muster.kubernetes.asks import ask_of
from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.dev.cluster import Cluster
from muster.kubernetes.election import Election, Times
from muster.kubernetes.errors import AlreadyExists, Forbidden, Invalid, NotFound
from muster.kubernetes.groups import SCHEDULING_SPECS
from muster.kubernetes.kinds import NAMESPACES, PODS, Kind, Scope
from muster.kubernetes.objects import Condition, Meta, Plain, Pod
from muster.kubernetes.scheduler import Scheduler
from muster.kubernetes.telling import EVENTS
from muster.model.policy import Policy


class CrdStatus(msgspec.Struct, frozen=True):
    """How a kind of ours is."""

    conditions: tuple[Condition, ...] | None = None


class Crd(msgspec.Struct, frozen=True):
    """A kind of ours."""

    metadata: Meta
    status: CrdStatus = CrdStatus()

    @property
    def is_served(self) -> bool:
        return any(each.type == "Established" and each.status == "True" for each in self.status.conditions or ())


class Event(msgspec.Struct, frozen=True):
    """What an Event says."""

    metadata: Meta
    reason: str = ""
    note: str = ""
    type: str = ""
    regarding: dict[str, str] = {}


CRDS = Kind(
    type=Crd, plural="customresourcedefinitions", version="v1", group="apiextensions.k8s.io", is_namespaced=False
)
SEEN_EVENTS = Kind(type=Event, plural=EVENTS.plural, version=EVENTS.version, group=EVENTS.group)
POLICIES, BINDINGS = (
    Kind(type=Plain, plural=plural, version="v1", group="admissionregistration.k8s.io", is_namespaced=False)
    for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
)
LEASE = "kube-system"
MANIFESTS = Path(__file__).parent.parent / "deploy" / "kubernetes"
CPU = 4  # of each node


def access_to(cluster: Cluster) -> Access:
    return from_kubeconfig([cluster.kubeconfig])


async def with_crds(client: Client) -> None:
    """Have the kinds that Muster brings."""
    bodies = [yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text()) for name in ("schedulingspecs", "pools")]
    for body in bodies:
        with suppress(AlreadyExists):
            await client.create(CRDS, body)
    async with kept(Cache(client, CRDS)) as crds:
        await crds.until(lambda there: all(there["", body["metadata"]["name"]].is_served for body in bodies))


def a_scheduler(client: Client, name: str = "one", times: Times | None = None, lease: str = "muster-test") -> Scheduler:
    """A scheduler with the times that everybody gets: a busy machine must not cost it the lease."""
    return Scheduler(client, Election(client, LEASE, lease, name, times), Policy(over_share=None), name)


@asynccontextmanager
async def scheduler(
    access: Access, name: str = "one", times: Times | None = None, lease: str = "muster-test"
) -> AsyncIterator[Scheduler]:
    """A scheduler in this process, until the block ends; the lease is given back."""
    async with a_client(access) as client:
        running = a_scheduler(client, name, times, lease)
        task = asyncio.ensure_future(running.run())
        try:
            yield running
        finally:
            running.stop()
            await task


@contextmanager
def scheduler_process(cluster: Cluster, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`muster kube-scheduler`, killed at the end if it still runs."""
    lease = f"{LEASE}/muster-test"
    command = [*MUSTER, "kube-scheduler", "--kubeconfig", str(cluster.kubeconfig), "--lease", lease, *options]
    command += ["--lease-duration", "5"]  # for so long the next waits for one that was killed
    with (cluster.folder / "logs" / "kube-scheduler.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Space:
    """A namespace of a test, its pods as they are, and what a test does with them."""

    def __init__(self, client: Client, name: str, pods: Cache[Pod]) -> None:
        self.client, self.name, self.pods = client, name, pods

    async def pod(
        self,
        name: str,
        cpu: float = 1,
        *,
        owner: Any = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Pod:
        """A pod that runs until it is deleted, unless its spec says otherwise."""
        made = a_pod(name, "sleep", "infinity", **{"schedulerName": "muster", **spec})
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(cpu)}}
        made["metadata"] |= {"ownerReferences": owner or [], "labels": labels or {}, "annotations": annotations or {}}
        return await self.client.create(PODS, made, self.name)

    async def gang(self, name: str, size: int, cpu: float = 1, least: int | None = None, **spec: Any) -> list[str]:
        """Pods of one controller, with its SchedulingSpec; their names."""
        made = await self.client.create(CONFIG_MAPS, a_config_map(name), self.name)  # any kind may be a controller
        uid = made.metadata.uid
        owner = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": True}]
        meta = {"name": name, "ownerReferences": owner}
        body = {
            "apiVersion": SCHEDULING_SPECS.api_version,
            "kind": "SchedulingSpec",
            "metadata": meta,
            "spec": {"minAvailable": size if least is None else least},
        }
        await self.client.create(SCHEDULING_SPECS, body, self.name)
        names = [f"{name}-{index}" for index in range(size)]
        for pod in names:
            await self.pod(pod, cpu, owner=owner, **spec)
        return names

    async def when(self, holds: Any) -> None:
        """Wait until something holds of the pods of this namespace, by name."""
        await self.pods.until(lambda pods: holds({name: pod for (_, name), pod in pods.items()}))

    async def are_bound(self, *names: str) -> dict[str, str]:
        """Wait until these are bound; where."""
        await self.when(lambda pods: all(name in pods and pods[name].spec.node_name for name in names))
        return {name: self.pods.objects[self.name, name].spec.node_name for name in names}

    async def says(self, name: str) -> Condition:
        """Wait until a pod says why it waits."""
        await self.when(lambda pods: name in pods and waits(pods[name]) is not None)
        found = waits(self.pods.objects[self.name, name])
        assert found is not None
        return found

    def bound(self) -> dict[str, str]:
        """Which are bound now and not over, and where."""
        there = ((name, pod) for (_, name), pod in self.pods.objects.items() if not pod.is_over)
        return {name: pod.spec.node_name for name, pod in there if pod.spec.node_name}

    async def held(self) -> Mapping[str, int]:
        """Millicores that pods of all namespaces hold on each node."""
        held: Counter[str] = Counter()
        for pod in await self.client.list(PODS):
            if pod.spec.node_name and not pod.is_over:
                held[pod.spec.node_name] += ask_of(pod).request.resources.get("cpu")
        return held

    async def clear(self) -> None:
        """Leave the cluster as it was found."""
        for pod in list(self.pods.objects.values()):
            with suppress(NotFound):  # its controller was quicker
                await self.client.delete(PODS, pod.metadata.name, self.name, grace_s=0)
        await self.when(lambda pods: not pods)
        await self.client.delete(NAMESPACES, self.name)


async def told(here: Space, pod: str, reason: str) -> Event:
    """Wait for an Event about a pod."""

    def is_it(event: Event) -> bool:
        return event.regarding.get("name") == pod and event.reason == reason

    async with kept(Cache(here.client, SEEN_EVENTS, Scope(namespace=here.name))) as events:
        await events.until(lambda there: any(map(is_it, there.values())))
        return next(filter(is_it, events.objects.values()))


def waits(pod: Pod) -> Condition | None:
    """What its condition says, if it waits and says why."""
    return next((it for it in pod.status.conditions if it.type == "PodScheduled" and it.status == "False"), None)


@asynccontextmanager
async def space(cluster: Cluster) -> AsyncIterator[Space]:
    """A namespace, until the block ends; it leaves no pods."""
    async with a_client(access_to(cluster)) as client:
        await with_crds(client)
        made = await client.create(NAMESPACES, {"metadata": {"generateName": "test-"}})
        name = made.metadata.name
        async with kept(Cache(client, PODS, Scope(namespace=name))) as pods:
            found = Space(client, name, pods)
            try:
                yield found
            finally:
                await found.clear()


@asynccontextmanager
async def refused(here: Space, what: str, name: str) -> AsyncIterator[None]:
    """While the block runs, the API server refuses a subresource (binding, eviction) of pods of this name."""
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [f"pods/{what}"]}]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": f"object.metadata.name != '{name}'", "message": "not this one"}],
    }
    client = here.client
    await client.create(POLICIES, {"metadata": {"name": here.name}, "spec": spec})
    bound = {"policyName": here.name, "validationActions": ["Deny"]}
    await client.create(BINDINGS, {"metadata": {"name": here.name}, "spec": bound})
    await _is_refused(here, what, name)
    try:
        yield
    finally:
        await client.delete(BINDINGS, here.name)
        await client.delete(POLICIES, here.name)


async def _is_refused(here: Space, what: str, name: str) -> None:
    """Policies are taken up by and by: ask until this one is, without doing anything."""
    body: dict[str, Any] = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-0"}}
    if what == "eviction":
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = PODS.path(here.name, name, what)
    while True:
        try:
            await here.client.request("POST", path, body=body, query={"dryRun": "All"})
        except (Forbidden, Invalid):
            return
