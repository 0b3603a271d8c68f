"""A controller of a kind of one's own whose pods are scheduled as a gang (kube-arbitrator-gang.md, "CRDJob").

Three things are all that gang scheduling asks of a controller: a SchedulingSpec and pods that have the same controller,
their CRDJob, and a `schedulerName` of Muster. The rest here is what every controller does: look at what there is,
work out what is missing, and do that until nothing is. Whatever it needs to know is in the cluster, so it may be killed
at any moment.

    python examples/crdjob/controller.py --kubeconfig FILE
"""

import argparse
import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from muster.kubernetes.access import access_here
from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.errors import AlreadyExists, Conflict, KubernetesError, NotFound
from muster.kubernetes.groups import SCHEDULING_SPECS
from muster.kubernetes.kinds import PODS, Kind, Scope
from muster.kubernetes.objects import Key, Meta, Pod, Read

LABEL = "example.muster.dev/crdjob"  # on its pods: the name of the job
ATTEMPT = "example.muster.dev/attempt"  # after how many restarts of the job the pod was made
RETRY_S = 1.0

log = logging.getLogger("crdjob")


class CRDJobSpec(Read, frozen=True):
    """What is asked for."""

    replicas: int = 1
    min_available: int | None = None
    priority_class_name: str = ""
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    retries: int = 3
    template: dict[str, Any] = msgspec.field(default_factory=dict)


class CRDJobStatus(Read, frozen=True, omit_defaults=False):
    """What became of it."""

    phase: str = ""
    running: int = 0
    succeeded: int = 0
    restarts: int = 0


class CRDJob(Read, frozen=True):
    """Pods that are one job."""

    metadata: Meta = Meta()
    spec: CRDJobSpec = CRDJobSpec()
    status: CRDJobStatus = CRDJobStatus()

    @property
    def least(self) -> int:
        """How many pods must be there at once."""
        return self.spec.replicas if self.spec.min_available is None else self.spec.min_available


CRDJOBS = Kind(type=CRDJob, plural="crdjobs", version="v1", group="example.muster.dev")


# --- what is to be done ------------------------------------------------------------------------


@dataclass(frozen=True)
class Todo:
    """What a look at a job and its pods finds missing."""

    status: CRDJobStatus
    make: list[str] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)


def todo(job: CRDJob, pods: list[Pod]) -> Todo:
    """Make pods that are missing; replace those that failed, and all of them if too few are left to go on."""
    staying = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    failed = [pod for pod in staying if pod.status.phase == "Failed"]
    succeeded = [pod for pod in staying if pod.status.phase == "Succeeded"]
    active = [pod for pod in staying if not pod.is_over]
    # Told by the pods themselves, so that nothing is counted twice, however often we look.
    restarts = max([job.status.restarts, *(attempt_of(pod) + 1 for pod in failed)])
    running = sum(pod.status.phase == "Running" for pod in active)
    phase = "Running" if running + len(succeeded) >= job.least else "Pending"
    if len(succeeded) == job.spec.replicas:
        phase = "Succeeded"
    if restarts > job.spec.retries:
        phase = "Failed"
    status = CRDJobStatus(phase=phase, running=running, succeeded=len(succeeded), restarts=restarts)
    if phase == "Failed":
        return Todo(status, delete=active)
    if phase == "Succeeded":
        return Todo(status)
    is_broken = bool(failed) and len(active) + len(succeeded) < job.least
    names = [f"{job.metadata.name}-{index}" for index in range(job.spec.replicas)]
    there = {pod.metadata.name for pod in pods}
    return Todo(
        status, make=[name for name in names if name not in there], delete=failed + active if is_broken else failed
    )


def attempt_of(pod: Pod) -> int:
    """After how many restarts the pod was made."""
    return int(pod.metadata.labels.get(ATTEMPT, "0"))


def owned_by(job: CRDJob) -> list[dict[str, Any]]:
    """What makes a SchedulingSpec and pods one job; they are deleted with it."""
    meta = job.metadata
    owner = {"apiVersion": CRDJOBS.api_version, "kind": "CRDJob", "name": meta.name, "uid": meta.uid}
    return [{**owner, "controller": True, "blockOwnerDeletion": True}]


def scheduling_spec(job: CRDJob) -> dict[str, Any]:
    """How its pods are to be scheduled."""
    spec: dict[str, Any] = {"minAvailable": job.least, "nodeSelector": job.spec.node_selector}
    if job.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    meta = {"name": job.metadata.name, "ownerReferences": owned_by(job)}
    return {"apiVersion": SCHEDULING_SPECS.api_version, "kind": "SchedulingSpec", "metadata": meta, "spec": spec}


def a_pod(job: CRDJob, name: str, attempt: int) -> dict[str, Any]:
    """One of its pods."""
    template = job.spec.template.get("metadata", {})
    labels = {**template.get("labels", {}), LABEL: job.metadata.name, ATTEMPT: str(attempt)}
    meta = {"annotations": template.get("annotations", {}), "labels": labels, "ownerReferences": owned_by(job)}
    spec = {"schedulerName": "muster", **job.spec.template.get("spec", {})}
    return {"metadata": {**meta, "name": name}, "spec": spec}


# --- doing it ----------------------------------------------------------------------------------


class Controller:
    """Looks at each job that may have changed, until what there is is what was asked for."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._jobs, self._pods = Cache(client, CRDJOBS), Cache(client, PODS, Scope(labels=LABEL))
        self._changed: set[Key] = set()
        self._news = asyncio.Event()
        for cache in (self._jobs, self._pods):
            cache.listen(lambda change: self._look_at(change.after or change.before))

    def _look_at(self, one: CRDJob | Pod) -> None:
        meta = one.metadata
        self._changed.add((meta.namespace, meta.labels.get(LABEL, meta.name) if isinstance(one, Pod) else meta.name))
        self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for cache in (self._jobs, self._pods):
                tasks.create_task(cache.run())
                await cache.filled()
            log.info("%d jobs", len(self._jobs.objects))
            while True:
                await self._news.wait()
                self._news.clear()
                changed, self._changed = self._changed, set()
                for key in sorted(changed):
                    tasks.create_task(self._reconcile(key))

    async def _reconcile(self, key: Key) -> None:
        job = self._jobs.objects.get(key)
        if job is None or job.metadata.deletion_timestamp is not None:
            return  # what it owns goes with it
        try:
            await self._do(job)
        except KubernetesError as err:
            log.warning("%s/%s: %s", *key, err)
            await asyncio.sleep(RETRY_S)
            self._look_at(job)

    async def _do(self, job: CRDJob) -> None:
        namespace, name = job.metadata.key
        mine = (pod for pod in self._pods.objects.values() if pod.metadata.namespace == namespace)
        pods = [pod for pod in mine if (owner := pod.metadata.controller) and owner.uid == job.metadata.uid]
        found = todo(job, pods)
        try:
            await self._client.create(SCHEDULING_SPECS, scheduling_spec(job), namespace)
        except AlreadyExists:
            await self._client.patch(SCHEDULING_SPECS, name, {"spec": scheduling_spec(job)["spec"]}, namespace)
        if found.status != job.status:  # before pods are made or deleted: they are counted by it
            log.info("%s/%s: %s", namespace, name, found.status)
            meta = {"resourceVersion": job.metadata.resource_version}
            await self._client.patch(
                CRDJOBS, name, {"metadata": meta, "status": found.status}, namespace, subresource="status"
            )
        for pod in found.delete:
            with suppress(NotFound, Conflict):  # it was gone already
                await self._client.delete(PODS, pod.metadata.name, namespace, uid=pod.metadata.uid)
        for missing in found.make:
            with suppress(AlreadyExists):  # made before, and not seen yet
                await self._client.create(PODS, a_pod(job, missing, found.status.restarts), namespace)


async def main() -> None:
    """Reach the cluster, and control."""
    parser = argparse.ArgumentParser(description="A controller of CRDJobs (README.md).")
    parser.add_argument("--kubeconfig", default="", help="how to reach the cluster; as kubectl, unless given")
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    async with Client(access_here(parser.parse_args().kubeconfig)) as client:
        await Controller(client).run()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
