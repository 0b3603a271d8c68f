"""The kubelets of hollow nodes, all in one process: `python -m muster.kubernetes.dev.kubelet KUBECONFIG HOLLOW READY`.

Registers nodes, says every few seconds that they live, and lives the lives of their pods (lives.py). It serves every
node that has the label below, whoever made it. A node that is annotated as silent is not heard of any more: so a node
is lost.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import uvloop

from muster.kubernetes.access import from_kubeconfig
from muster.kubernetes.cache import Cache, Change
from muster.kubernetes.client import Client
from muster.kubernetes.dev.hollow import Hollow
from muster.kubernetes.dev.lives import HOLLOW_PODS, HollowPod, Life
from muster.kubernetes.errors import AlreadyExists, KubernetesError, NotFound
from muster.kubernetes.kinds import NODES, Kind, Scope
from muster.kubernetes.objects import Node, Plain

log = logging.getLogger(__name__)

HOLLOW = "muster.dev/hollow"
"""Label of nodes that the hollow kubelets serve: "true"."""

SILENT = "muster.dev/silent"
"""Annotation of a hollow node that is not heard of: "true"."""

LEASES = Kind(type=Plain, plural="leases", version="v1", group="coordination.k8s.io")
LEASE_NAMESPACE = "kube-node-lease"
_INFO = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "architecture")
NOT_READY = "node.kubernetes.io/not-ready"


def node_manifest(name: str, hollow: Hollow, labels: Mapping[str, str] | None = None) -> dict[str, object]:
    """A node as its kubelet would register it."""
    amounts = {"cpu": hollow.cpu, "memory": hollow.memory, "pods": str(hollow.pods), "ephemeral-storage": "1Ti"}
    if hollow.gpus:
        amounts["nvidia.com/gpu"] = str(hollow.gpus)
    named = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", HOLLOW: "true"}
    now = _now()
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "hollow"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**named, **hollow.labels, **(labels or {})}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
            "nodeInfo": {**dict.fromkeys(_INFO, ""), "kubeletVersion": "hollow", "operatingSystem": "linux"},
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
        },
    }


class Kubelets:
    """All hollow nodes and the pods on them."""

    def __init__(self, client: Client, hollow: Hollow) -> None:
        self._client, self._hollow = client, hollow
        self._nodes = Cache(client, NODES, Scope(labels=f"{HOLLOW}=true"))
        self._pods = Cache(client, HOLLOW_PODS, Scope(fields="spec.nodeName!="))
        self._lives: dict[str, Life] = {}
        self._addresses = 0
        self._pods.listen(self._hear)

    async def run(self, ready: Path) -> None:
        """Until cancelled; the file is made when all nodes can be used."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._nodes.run())
            await self._register()
            # Pods may be on nodes that were here before; whose they are must be known first.
            await self._nodes.filled()
            tasks.create_task(self._pods.run())
            tasks.create_task(self._beat())
            await self._nodes.until(self._are_usable)
            await self._pods.filled()
            ready.touch()

    async def _register(self) -> None:
        await asyncio.gather(*(self._register_one(f"node-{number}") for number in range(self._hollow.nodes)))

    async def _register_one(self, name: str) -> None:
        with suppress(AlreadyExists):
            await self._client.create(NODES, node_manifest(name, self._hollow))

    def _are_usable(self, nodes: Mapping[tuple[str, str], Node]) -> bool:
        """All are here, and the controllers (if any) have seen that they are ready."""
        names = [("", f"node-{number}") for number in range(self._hollow.nodes)]
        return all(
            name in nodes and not any(taint.key == NOT_READY for taint in nodes[name].spec.taints) for name in names
        )

    # -- nodes -----------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        while True:
            heard = [node for node in self._nodes.objects.values() if not _is_silent(node)]
            await asyncio.gather(*(self._renew(node) for node in heard))
            await asyncio.sleep(self._hollow.heartbeat_s)

    async def _renew(self, node: Node) -> None:
        name = node.metadata.name
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
        try:
            await self._client.patch(LEASES, name, {"spec": spec}, LEASE_NAMESPACE)
        except NotFound:
            await self._make_lease(node, spec)
        except KubernetesError as err:
            log.warning("the heartbeat of %s is late: %s", name, err)

    async def _make_lease(self, node: Node, spec: dict[str, object]) -> None:
        name, uid = node.metadata.name, node.metadata.uid
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        meta = {"name": name, "ownerReferences": [owner]}
        try:
            await self._client.create(LEASES, {"metadata": meta, "spec": spec}, LEASE_NAMESPACE)
        except KubernetesError as err:  # the namespace comes a moment after the server
            log.warning("the first heartbeat of %s is late: %s", name, err)

    # -- pods ------------------------------------------------------------------------------------------------

    def _hear(self, change: Change[HollowPod]) -> None:
        pod = change.after
        if pod is None:
            assert change.before is not None
            life = self._lives.pop(change.before.metadata.uid, None)
            if life is not None:
                life.end()
        elif pod.metadata.uid in self._lives:
            self._lives[pod.metadata.uid].told(pod)
        else:
            self._lives[pod.metadata.uid] = self._life(pod)

    def _life(self, pod: HollowPod) -> Life:
        self._addresses += 1
        number = self._addresses
        address = f"10.{1 + number // 65536 % 250}.{number // 256 % 256}.{number % 256}"
        return Life(self._client, pod, self._hollow, address, partial(_speaks, self._nodes, pod.spec.node_name))


async def _speaks(nodes: Cache[Node], name: str) -> None:
    """Wait while a node is silent, or not one of ours. A new one may be heard of after its first pod."""

    def is_heard(known: Mapping[tuple[str, str], Node]) -> bool:
        node = known.get(("", name))
        return node is not None and not _is_silent(node)

    await nodes.until(is_heard)


def _is_silent(node: Node) -> bool:
    return node.metadata.annotations.get(SILENT) == "true"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _main(kubeconfig: Path, hollow: Hollow, ready: Path) -> None:
    async with Client(from_kubeconfig([kubeconfig]), agent="muster-hollow-kubelet") as client:
        running = asyncio.ensure_future(Kubelets(client, hollow).run(ready))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        await running


def main() -> int:
    """Run until told to end."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    kubeconfig, asked, ready = map(Path, sys.argv[1:])
    hollow = msgspec.json.decode(asked.read_bytes(), type=Hollow)
    try:
        uvloop.run(_main(kubeconfig, hollow, ready))
    except asyncio.CancelledError:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
