"""What a benchmark of binding does in a cluster: make nodes and pods, see them bound, and count what became of them."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import yaml

from muster.kubernetes.cache import Cache, Change
from muster.kubernetes.client import Client
from muster.kubernetes.dev.processes import Program
from muster.kubernetes.election import LEASES
from muster.kubernetes.errors import NotFound
from muster.kubernetes.groups import SCHEDULING_SPECS
from muster.kubernetes.kinds import NAMESPACES, NODES, PODS, Kind, Scope
from muster.kubernetes.objects import Meta, Plain, Read

NODES_THERE, NODE_CPU = 1_000, 16
GANG = 10
SPACE = "bench"
STUCK_S = 300.0  # without a bind: the first may wait for kernels to be compiled
LOOK_S, STEADY_S = 0.2, 1.0
MANIFESTS = Path(__file__).resolve().parent.parent / "deploy" / "kubernetes"
ACCOUNT, ACCOUNTS_SPACE = "muster-kube-scheduler", "kube-system"  # as the manifests name it; so is its lease
TOKEN_S = 3600


class _Where(Read, frozen=True):
    node_name: str = ""


class BenchPod(Read, frozen=True):
    """Of a pod, only where it is: watching should cost little beside what is measured."""

    metadata: Meta = Meta()
    spec: _Where = _Where()


class _Left(Read, frozen=True):
    remaining_item_count: int = 0


class _Some(Read, frozen=True):
    metadata: _Left = _Left()
    items: tuple[Plain, ...] = ()


WHERE = Kind(type=BenchPod, plural="pods", version="v1")
CRDS = Kind(
    type=Plain, plural="customresourcedefinitions", version="v1", group="apiextensions.k8s.io", is_namespaced=False
)
EVENTS = "/apis/events.k8s.io/v1"


class Sight:
    """Pods as a watch shows them: how many are bound, and when each was seen to be."""

    def __init__(self, cache: Cache[BenchPod]) -> None:
        self.cache = cache
        self.at: dict[str, float] = {}  # by name
        self._was_bound = asyncio.Event()
        cache.listen(self._hear)

    @property
    def bound(self) -> int:
        """So many, since the watch began."""
        return len(self.at)

    def _hear(self, change: Change[BenchPod]) -> None:
        if change.after is not None and change.after.spec.node_name:
            self.at.setdefault(change.after.metadata.name, monotonic())
            self._was_bound.set()

    async def have_bound(self, wanted: int, program: Program | None = None) -> None:
        """Wait until so many are bound; not for ever."""
        while self.bound < wanted:
            if program is not None:
                program.must_run()
            self._was_bound.clear()
            try:
                async with asyncio.timeout(STUCK_S):
                    await self._was_bound.wait()
            except TimeoutError:
                sys.exit(f"bench: {self.bound:,} of {wanted:,} pods are bound, and no more for {STUCK_S:.0f} s")


class Bench:
    """A cluster to bind pods in. `scheduler` is whom pods are made for."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._numbers = count()
        self.scheduler = ""

    async def prepare(self) -> None:
        """Nodes, a namespace, and the kind that makes gangs."""
        await self._client.create(NAMESPACES, {"metadata": {"name": SPACE}})
        await self._client.create(
            CRDS, yaml.safe_load((MANIFESTS / "schedulingspecs.yaml").read_text(encoding="utf-8"))
        )
        await _all(self._client.create(NODES, _node(number)) for number in range(NODES_THERE))
        while True:
            try:
                await self._client.list(SCHEDULING_SPECS)
                return
            except NotFound:
                await asyncio.sleep(LOOK_S)

    async def token(self) -> str:
        """Of the account that the manifests make for Muster's scheduler."""
        for body in yaml.safe_load_all((MANIFESTS / "scheduler-rbac.yaml").read_text(encoding="utf-8")):
            group, _, version = body["apiVersion"].rpartition("/")
            space = body["metadata"].get("namespace", "")
            plural = f"{body['kind'].lower()}s"
            kind = Kind(type=Plain, plural=plural, version=version, group=group, is_namespaced=bool(space))
            await self._client.create(kind, body, space)
        path = Kind(type=Plain, plural="serviceaccounts", version="v1").path(ACCOUNTS_SPACE, ACCOUNT, "token")
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        answer = await self._client.request("POST", path, body=asked | {"spec": {"expirationSeconds": TOKEN_S}})
        return str(msgspec.json.decode(answer)["status"]["token"])

    async def forget_leader(self) -> None:
        """Nobody has to wait for the lease of a scheduler that was killed."""
        with suppress(NotFound):
            await self._client.delete(LEASES, ACCOUNT, ACCOUNTS_SPACE)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Sight]:
        """See what happens meanwhile."""
        cache = Cache(self._client, WHERE, Scope(namespace=SPACE))
        sight = Sight(cache)
        watching = asyncio.ensure_future(cache.run())
        try:
            await cache.filled()
            yield sight
        finally:
            watching.cancel()

    async def make(self, pods: int) -> Sequence[str]:
        """Make pods; their names."""
        return await asyncio.gather(*(self._make_pod(()) for _ in range(pods)))

    async def make_gangs(self, pods: int) -> None:
        """Make pods that start ten together."""
        await _all(self._make_gang() for _ in range(pods // GANG))

    async def _make_gang(self) -> None:
        name = f"gang-{next(self._numbers)}"
        owner = {"apiVersion": "bench/v1", "kind": "Gang", "name": name, "uid": f"uid-{name}", "controller": True}
        meta = {"name": name, "ownerReferences": [owner]}
        spec = {"apiVersion": SCHEDULING_SPECS.api_version, "kind": "SchedulingSpec", "metadata": meta}
        await self._client.create(SCHEDULING_SPECS, spec | {"spec": {"minAvailable": GANG}}, SPACE)
        for _ in range(GANG):
            await self._make_pod([owner])

    async def _make_pod(self, owners: Iterable[object]) -> str:
        name = f"pod-{next(self._numbers)}"
        container = {"name": "main", "image": "hollow", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        spec = {"schedulerName": self.scheduler, "containers": [container]}
        await self._client.create(WHERE, {"metadata": {"name": name, "ownerReferences": owners}, "spec": spec}, SPACE)
        return name

    async def one_by_one(self, sight: Sight, pods: int, every_s: float) -> list[float]:
        """Make pods at a steady pace; of each, the seconds from before it was sent until it was seen bound, sorted."""
        before, began, made = sight.bound, monotonic(), {}
        for number in range(pods):
            await asyncio.sleep(max(began + number * every_s - monotonic(), 0))
            sent = monotonic()
            made[await self._make_pod(())] = sent
        await sight.have_bound(before + pods)
        return sorted(sight.at[name] - sent for name, sent in made.items())

    async def bind(self, sight: Sight, names: Sequence[str]) -> None:
        """Bind pods, one on each node and then again, as fast as a client can."""
        await _all(self._bind(name, number % NODES_THERE) for number, name in enumerate(names))
        await sight.have_bound(len(names))

    async def _bind(self, name: str, number: int) -> None:
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": f"node-{number}"}}
        await self._client.act(PODS, name, "binding", body, SPACE)

    async def check(self, sight: Sight) -> None:
        """Every pod is bound, where it was seen to be, and no node has more than it has room for."""
        there = await self._client.list(WHERE, Scope(namespace=SPACE))
        nodes = Counter(pod.spec.node_name for pod in there)
        moved = [
            pod.metadata.name
            for pod in there
            if sight.cache.objects[pod.metadata.key].spec.node_name != pod.spec.node_name
        ]
        if nodes[""] or moved or max(nodes.values()) > NODE_CPU or len(there) != sight.bound:
            sys.exit(f"bench: {nodes['']:,} pods are not bound, {moved} moved; most on a node: {nodes.most_common(1)}")

    async def events(self) -> int:
        """How many Events there are."""
        path = f"{EVENTS}/namespaces/{SPACE}/events"
        found = msgspec.json.decode(await self._client.request("GET", path, query={"limit": "1"}), type=_Some)
        return len(found.items) + found.metadata.remaining_item_count

    async def settled(self) -> None:
        """Wait until no more Events come."""
        last, since = -1, monotonic()
        while monotonic() - since < STEADY_S:
            now = await self.events()
            if now != last:
                last, since = now, monotonic()
            await asyncio.sleep(LOOK_S)

    async def clear(self) -> None:
        """Leave nothing but nodes."""
        paths = [PODS.path(SPACE), SCHEDULING_SPECS.path(SPACE), f"{EVENTS}/namespaces/{SPACE}/events"]
        for path in paths:
            at_once: dict[str, Any] = {"gracePeriodSeconds": 0}
            await self._client.request("DELETE", path, body=at_once)


async def _all(stories: Iterable[Coroutine[Any, Any, Any]]) -> None:
    await asyncio.gather(*stories)


def _node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    has = {"cpu": str(NODE_CPU), "memory": "64Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": has,
            "capacity": has,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Hollow"}],
        },
    }
