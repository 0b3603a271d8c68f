"""Kubernetes for tests: one cluster for a whole run, small ones for tests that break theirs, and ways to wait."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from muster.kubernetes.access import Access, from_kubeconfig
from muster.kubernetes.cache import Cache, Change
from muster.kubernetes.client import Client
from muster.kubernetes.dev.pki import Authority
from muster.kubernetes.dev.programs import programs
from muster.kubernetes.kinds import PODS, Kind, Scope
from muster.kubernetes.objects import Plain, Pod

PATIENCE_S = 240.0  # with a machine that has other things to do
OPTIONS = [
    *("--nodes", "4", "--gpus", "8", "--cpu", "16", "--memory", "64Gi"),
    # Kubernetes' own PodGroups, which are off by default in this release
    *("--runtime-config", "scheduling.k8s.io/v1alpha2=true", "--feature-gates", "GenericWorkload=true"),
]
MUSTER = [sys.executable, "-m", "muster"]

CONFIG_MAPS = Kind(type=Plain, plural="configmaps", version="v1")

R = TypeVar("R")


class Shared:
    """The cluster of a run, as any of its workers sees it."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.authority = Authority(kubeconfig.parent / "pki")

    @property
    def access(self) -> Access:
        return from_kubeconfig([self.kubeconfig])


def shared_cluster(folder: Path) -> Shared:
    """The cluster of this run; the first worker that asks starts it, and it ends with the run."""
    programs()  # say at once what is missing
    worker = "PYTEST_XDIST_WORKER" in os.environ
    parent = os.getppid() if worker else os.getpid()
    said = folder / "dev-cluster.out"
    with (folder / "dev-cluster.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            with said.open("wb") as out:
                command = [*MUSTER, "dev-cluster", "up", *OPTIONS, "--parent", str(parent)]
                starting = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
            while starting.poll() is None and "Ctrl-C" not in said.read_text():
                time.sleep(0.05)
            starting.returncode = starting.returncode or 0  # it may outlive this worker, which must not wait for it
    found = re.search("KUBECONFIG=(.*)", said.read_text())
    if found is None:
        pytest.fail(f"the cluster of this run did not start:\n{said.read_text()}")
    return Shared(Path(found[1]))


def run(story: Coroutine[Any, Any, R], patience_s: float = PATIENCE_S) -> R:
    """Play an asynchronous story, within reason."""

    async def bounded() -> R:
        async with asyncio.timeout(patience_s):
            return await story

    return asyncio.run(bounded())


def a_client(access: Access, **options: Any) -> Client:
    """A client whose waits are the same every time."""
    return Client(access, random=Random(7), **options)


@asynccontextmanager
async def kept(cache: Cache[Any]) -> AsyncIterator[Cache[Any]]:
    """A cache that is kept true meanwhile, beginning when it is filled."""
    running = asyncio.ensure_future(cache.run())
    try:
        filling = asyncio.ensure_future(cache.filled())
        await asyncio.wait({running, filling}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield cache
    finally:
        running.cancel()


class Diary:
    """What a cache told, as words; and what its objects must be if that was the truth."""

    def __init__(self, cache: Cache[Any]) -> None:
        self.told: list[tuple[str, str]] = []
        self.objects: dict[tuple[str, str], Any] = {}
        cache.listen(self._hear)

    def _hear(self, change: Change[Any]) -> None:
        one = change.after or change.before
        key = one.metadata.key
        assert self.objects.get(key) == change.before, "a change begins where the last one ended"
        if change.after is None:
            del self.objects[key]
        else:
            self.objects[key] = change.after
        what = "gone" if change.after is None else "new" if change.before is None else "changed"
        self.told.append((what, one.metadata.name))


def a_pod(name: str, *command: str, node: str = "", **spec: Any) -> dict[str, Any]:
    """A pod with one container."""
    container: dict[str, Any] = {"name": "main", "image": "hollow"}
    if command:
        container["command"] = list(command)
    body: dict[str, Any] = {"containers": [container], "restartPolicy": "Never", "schedulerName": "nobody", **spec}
    if node:
        body["nodeName"] = node
    return {"metadata": {"name": name}, "spec": body}


def a_config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def pod_when(client: Client, namespace: str, name: str, holds: Any) -> Pod:
    """A pod as it is when something first holds of it."""

    def is_so(objects: Mapping[tuple[str, str], Pod]) -> bool:
        pod = objects.get((namespace, name))
        return pod is not None and holds(pod)

    async with kept(Cache(client, PODS, Scope(namespace=namespace))) as cache:
        await cache.until(is_so)
        return cache.objects[namespace, name]
