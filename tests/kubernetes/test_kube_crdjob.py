"""The example of a controller of one's own, as its README runs it: beside our scheduler, on a real API server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import yaml
from kube import kept, run
from scheduling import CRDS, Space, access_to, scheduler, space

from muster.kubernetes.cache import Cache
from muster.kubernetes.dev.cluster import Cluster
from muster.kubernetes.errors import AlreadyExists
from muster.kubernetes.groups import SCHEDULING_SPECS, SchedulingSpec
from muster.kubernetes.kinds import PODS, Kind, Scope
from muster.kubernetes.objects import Meta, Pod

EXAMPLE = Path(__file__).parents[2] / "examples" / "crdjob"


class Status(msgspec.Struct, frozen=True):
    """How a CRDJob is."""

    phase: str = ""
    restarts: int = 0


class CRDJob(msgspec.Struct, frozen=True):
    """A CRDJob, as its users see it."""

    metadata: Meta
    status: Status = Status()


CRDJOBS = Kind(type=CRDJob, plural="crdjobs", version="v1", group="example.muster.dev")


@contextmanager
def controller(cluster: Cluster) -> Iterator[None]:
    """The controller, as a process of its own."""
    command = [sys.executable, str(EXAMPLE / "controller.py"), "--kubeconfig", str(cluster.kubeconfig)]
    with (cluster.folder / "logs" / "crdjob.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def controlled(cluster: Cluster) -> AsyncIterator[Space]:
    """A namespace in which CRDJobs are looked after and scheduled."""
    async with space(cluster) as here:
        kind = yaml.safe_load((EXAMPLE / "crdjobs.yaml").read_text())
        with suppress(AlreadyExists):
            await here.client.create(CRDS, kind)
        async with kept(Cache(here.client, CRDS)) as crds:
            await crds.until(lambda there: there["", kind["metadata"]["name"]].is_served)
        with controller(cluster):
            async with scheduler(access_to(cluster)):
                yield here


async def submit(here: Space, *command: str, name: str = "train", **spec: Any) -> CRDJob:
    """The job of the example, with another command."""
    job = yaml.safe_load((EXAMPLE / "train.yaml").read_text())
    job["spec"] |= spec
    job["spec"]["template"]["spec"]["containers"][0]["command"] = list(command)
    job["metadata"]["name"] = name
    return await here.client.create(CRDJOBS, job, here.name)


async def status_when(here: Space, name: str, holds: Callable[[Status], bool]) -> Status:
    async with kept(Cache(here.client, CRDJOBS, Scope(namespace=here.name))) as jobs:
        await jobs.until(lambda there: holds(there[here.name, name].status))
        return jobs.objects[here.name, name].status


def owners(of: Pod | SchedulingSpec) -> list[tuple[str, bool]]:
    """Whom Kubernetes deletes it with."""
    return [(owner.uid, owner.controller) for owner in of.metadata.owner_references]


def test_a_crdjob_starts_whole_or_not_at_all_is_done_and_owns_what_was_made_for_it(schedulable: Cluster) -> None:
    async def story() -> str:
        async with controlled(schedulable) as here:
            await here.pod("blocker", 3)
            await here.are_bound("blocker")
            job = await submit(here, "sleep", "0.5")
            said = await here.says("train-3")
            assert set(here.bound()) == {"blocker"}
            await here.client.delete(PODS, "blocker", here.name, grace_s=0)
            names = [f"train-{index}" for index in range(4)]
            await here.are_bound(*names)
            assert (await status_when(here, "train", lambda status: status.phase == "Succeeded")).restarts == 0
            spec = await here.client.get(SCHEDULING_SPECS, "train", here.name)
            made = [spec, *(here.pods.objects[here.name, name] for name in names)]
            assert [owners(each) for each in made] == [[(job.metadata.uid, True)]] * 5
            return said.reason

    assert run(story()) in ("RESERVED", "GANG_DOES_NOT_FIT")


def test_a_crdjob_that_loses_a_pod_starts_again_whole_and_one_that_always_fails_has_failed(
    schedulable: Cluster,
) -> None:
    async def story() -> Status:
        async with controlled(schedulable) as here:
            await submit(here, "sleep", "infinity", replicas=2)
            await here.are_bound("train-0", "train-1")
            first = here.pods.objects[here.name, "train-0"].metadata.uid
            await here.when(lambda pods: pods["train-1"].status.phase == "Running")  # its kubelet has had its say
            failed = {"status": {"phase": "Failed"}}
            await here.client.patch(PODS, "train-1", failed, here.name, subresource="status")
            await here.when(lambda pods: "train-0" in pods and pods["train-0"].metadata.uid != first)
            await here.are_bound("train-0", "train-1")
            await here.client.delete(CRDJOBS, "train", here.name)
            await submit(here, "false", name="hopeless", replicas=1, retries=1)
            return await status_when(here, "hopeless", lambda status: status.phase == "Failed")

    assert run(story()).restarts == 2
