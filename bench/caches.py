"""What the caches of a Kubernetes scheduler cost: how fast lists and watches are read, and how much memory they hold.

Pages and lines are as an API server sends them, with all that is skipped (managed fields, environments, probes,
images), and go through the client's own reading into caches. They are made as they are read, so that what is measured
is not the wire's memory but the caches'.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from time import process_time
from typing import Any

import msgspec

from bench.measuring import at_least, below, table
from bench.worlds import SCALE
from muster.kubernetes.access import Access
from muster.kubernetes.answers import Heard, Page, read_lines, read_page
from muster.kubernetes.cache import Cache
from muster.kubernetes.client import PAGE, Client
from muster.kubernetes.credentials import Given
from muster.kubernetes.kinds import EVERYTHING, NODES, PODS, Kind, Scope

PODS_HELD, NODES_HELD = int(100_000 * SCALE), int(10_000 * SCALE)
EVENTS, AT_ONCE = int(100_000 * SCALE), 20
MOST_MB = 1500
LEAST_PODS, LEAST_EVENTS = 50_000, 25_000  # a second of one core

Made = Callable[[int, int], dict[str, Any]]


def caches() -> str:
    """100,000 pods and 10,000 nodes, listed and then changed."""
    return asyncio.run(_caches())


async def _caches() -> str:
    gc.collect()
    before_mb = _resident_mb()
    nodes = Canned(_node, NODES_HELD, 0)
    pods = Canned(_pod, PODS_HELD, EVENTS)
    node_cache, pod_cache = Cache(nodes, NODES), Cache(pods, PODS)
    await _played(node_cache)
    await _played(pod_cache)
    if len(pod_cache.objects) != PODS_HELD or len(node_cache.objects) != NODES_HELD:
        sys.exit(f"bench: {len(pod_cache.objects):,} pods and {len(node_cache.objects):,} nodes are held")
    gc.collect()
    held_mb, most_mb = _resident_mb() - before_mb, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    each = held_mb * 1e6 / (PODS_HELD + NODES_HELD)
    rows = [
        ("nodes, listed", f"{NODES_HELD:,}", nodes.list_rate, nodes.list_size),
        ("pods, listed", f"{PODS_HELD:,}", pods.list_rate, pods.list_size),
        ("pods, changed by a watch", f"{EVENTS:,}", pods.watch_rate, pods.watch_size),
    ]
    return "\n".join(
        [
            f"Objects as an API server sends them, read into the caches of a scheduler; pages of {PAGE}, and {AT_ONCE} "
            "lines of a watch at once. CPU time of one core, without what making the bytes takes.",
            "",
            *table(
                ("what", "objects", "read a second", "bytes each on the wire"),
                [(what, count, f"{rate:,.0f}", f"{size:,.0f}") for what, count, rate, size in rows],
            ),
            "",
            f"Both caches hold {held_mb:,.0f} MB, {each:,.0f} bytes for each object; "
            f"the process never held more than {most_mb:,.0f} MB.",
            "",
            below("Memory of a process with both", MOST_MB, most_mb, " MB"),
            at_least("Pods listed a second", LEAST_PODS, pods.list_rate),
            at_least("Changes of a watch a second", LEAST_EVENTS, pods.watch_rate),
        ]
    )


async def _played(cache: Cache[Any]) -> None:
    """Run it until its watch has nothing more to say."""
    with suppress(_Over):
        await cache.run()


class _Over(Exception):
    """All that was to be told is told."""


class Canned(Client):
    """A client of a server that sends what is made for it. The time and the bytes of reading are counted."""

    def __init__(self, made: Made, objects: int, events: int) -> None:
        super().__init__(Access(server="https://bench", credentials=Given()))
        self._made, self._objects, self._events = made, objects, events
        self._making_s = self._bytes = 0.0
        self.list_rate = self.list_size = self.watch_rate = self.watch_size = 0.0

    async def pages(self, kind: Kind[Any], scope: Scope = EVERYTHING, *, size: int = PAGE) -> AsyncIterator[Page[Any]]:
        """The list."""
        assert scope == EVERYTHING
        began = self._begun()
        for first in range(0, self._objects, size):
            page = self._encoded(lambda first=first: self._page(first, size))
            yield read_page(kind, page)
        took_s = process_time() - began - self._making_s
        self.list_rate, self.list_size = self._objects / took_s, self._bytes / self._objects

    async def watch(self, kind: Kind[Any], version: str, scope: Scope = EVERYTHING) -> AsyncIterator[Heard[Any]]:
        """Each object once more, changed."""
        assert scope == EVERYTHING
        began = self._begun()
        for first in range(0, self._events, AT_ONCE):
            lines = self._encoded(lambda first=first: b"\n".join(self._lines(first)))
            yield read_lines(kind, lines.split(b"\n"), version)
        took_s = process_time() - began - self._making_s
        if self._events:
            self.watch_rate, self.watch_size = self._events / took_s, self._bytes / self._events
        raise _Over

    def _begun(self) -> float:
        self._making_s = self._bytes = 0.0
        return process_time()

    def _encoded(self, make: Callable[[], bytes]) -> bytes:
        began = process_time()
        content = make()
        self._making_s += process_time() - began
        self._bytes += len(content)
        return content

    def _page(self, first: int, size: int) -> bytes:
        items = [self._made(number, 1) for number in range(first, min(first + size, self._objects))]
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items})

    def _lines(self, first: int) -> Iterator[bytes]:
        for number in range(first, first + AT_ONCE):
            changed = self._made(number % self._objects, 2 + number)
            yield msgspec.json.encode({"type": "MODIFIED", "object": changed})


def _resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


# --- what a server sends -----------------------------------------------------------------------

_TIME = "2026-11-01T08:00:00Z"


def _meta(name: str, number: int, version: int, **more: Any) -> dict[str, Any]:
    fields = {f"f:{part}": {".": {}, "f:name": {}, "f:value": {}} for part in ("env", "image", "resources", "ports")}
    managed = [
        {"manager": who, "operation": "Update", "apiVersion": "v1", "time": _TIME, "fieldsType": "FieldsV1"}
        | {"fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": fields, "f:status": fields}}
        for who in ("kube-controller-manager", "kubelet")
    ]
    uid = f"{number:08x}-1c2d-4e5f-8a9b-{number:012x}"
    meta = {"name": name, "uid": uid, "resourceVersion": str(version), "creationTimestamp": _TIME}
    return {**meta, **more, "managedFields": managed}


def _pod(number: int, version: int) -> dict[str, Any]:
    job = f"train-{number // 8}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"{number // 8:036x}", "controller": True}
    labels = {"app": job, "muster.dev/queue": f"team-{number % 50}", "batch.kubernetes.io/job-name": job}
    labels["batch.kubernetes.io/controller-uid"] = owner["uid"]
    amounts = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    token = {"name": f"kube-api-access-{number:05x}", "mountPath": "/var/run/secrets", "readOnly": True}
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}
    container = {
        "name": "main",
        "image": "registry.example/team/train:2026.11",
        "command": ["python", "-m", "train", "--config", "/etc/train/config.yaml"],
        "env": [{"name": f"SETTING_{each}", "value": f"value-{each}"} for each in range(20)],
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": [token],
        "livenessProbe": probe,
        "readinessProbe": probe,
    }
    tolerated = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    term = {"matchExpressions": [{"key": "gpu.model", "operator": "In", "values": ["a100", "h100"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": _TIME} for kind in kinds]
    return {
        "metadata": _meta(
            f"{job}-{number % 8}-{number:05x}", number, version, namespace=f"team-{number % 50}", labels=labels
        )
        | {"ownerReferences": [owner], "finalizers": ["batch.kubernetes.io/job-tracking"]},
        "spec": {
            "volumes": [
                {"name": token["name"], "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
            ],
            "containers": [container],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "nodeName": f"node-{number % max(NODES_HELD, 1)}",
            "schedulerName": "muster",
            "nodeSelector": {"pool": f"pool-{number % 5}"},
            "affinity": {"nodeAffinity": required},
            "tolerations": tolerated,
            "priority": 1000,
            "priorityClassName": "batch",
        },
        "status": {"phase": "Running", "conditions": conditions, "startTime": _TIME, "podIP": "10.1.2.3"},
    }


def _node(number: int, version: int) -> dict[str, Any]:
    name = f"node-{number}"
    labels = {f"example.com/label-{each}": f"value-{number % (each + 2)}" for each in range(15)}
    labels |= {"kubernetes.io/hostname": name, "pool": f"pool-{number % 5}"}
    amounts = {"cpu": "128", "memory": "1056763060Ki", "pods": "110", "nvidia.com/gpu": "8"}
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    images = [{"names": [f"registry.example/image-{each}@sha256:{each:064x}"], "sizeBytes": each} for each in range(50)]
    return {
        "metadata": _meta(name, number, version, labels=labels),
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"cloud:///{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": _TIME} for kind in kinds],
            "images": images,
        },
    }
