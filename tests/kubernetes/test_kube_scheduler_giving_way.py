"""Who gives way on a real API server: disruption budgets with their controller, evictions that end half way."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from kube import kept, run
from scheduling import CPU, CRDS, Space, access_to, refused, scheduler, scheduler_process, space

from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.dev.cluster import Cluster
from muster.kubernetes.disruptions import DISRUPTION_BUDGETS
from muster.kubernetes.errors import AlreadyExists
from muster.kubernetes.groups import PLUGIN_GROUPS
from muster.kubernetes.kinds import Kind, Scope
from muster.kubernetes.objects import Plain
from muster.kubernetes.why import why

CLASSES = Kind(type=Plain, plural="priorityclasses", version="v1", group="scheduling.k8s.io", is_namespaced=False)
WEB = {"app": "web"}
URGENT = "system-cluster-critical"


@asynccontextmanager
async def kept_up(here: Space, least: int) -> AsyncIterator[None]:
    """A budget that its controller has worked out, until the block ends."""
    spec = {"minAvailable": least, "selector": {"matchLabels": WEB}}
    await here.client.create(DISRUPTION_BUDGETS, {"metadata": {"name": "web"}, "spec": spec}, here.name)
    async with kept(Cache(here.client, DISRUPTION_BUDGETS, Scope(namespace=here.name))) as budgets:
        await budgets.until(lambda there: there[here.name, "web"].status.current_healthy == 2)
    yield
    await here.client.delete(DISRUPTION_BUDGETS, "web", here.name)


async def with_plugin_groups(client: Client) -> None:
    """Have the PodGroups of scheduler-plugins: they say for how long a gang may be half there."""
    names = {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    name = f"{PLUGIN_GROUPS.plural}.{PLUGIN_GROUPS.group}"
    # The group is protected: whoever makes a kind in it says where that was agreed on.
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/52"}
    spec = {
        "group": PLUGIN_GROUPS.group,
        "scope": "Namespaced",
        "names": names,
        "versions": [{"name": PLUGIN_GROUPS.version, "served": True, "storage": True, "schema": schema}],
    }
    with suppress(AlreadyExists):
        await client.create(CRDS, {"metadata": {"name": name, "annotations": approved}, "spec": spec})
    async with kept(Cache(client, CRDS)) as crds:
        await crds.until(lambda there: there["", name].is_served)


async def a_gang(here: Space, *names: str, timeout_s: int) -> None:
    spec = {"minMember": len(names), "scheduleTimeoutSeconds": timeout_s}
    body: dict[str, Any] = {"apiVersion": PLUGIN_GROUPS.api_version, "kind": "PodGroup"}
    await here.client.create(PLUGIN_GROUPS, {**body, "metadata": {"name": "train"}, "spec": spec}, here.name)
    for name in names:
        await here.pod(name, 3, labels={"scheduling.x-k8s.io/pod-group": "train"})


def test_no_more_pods_give_way_than_a_disruption_budget_allows(schedulable: Cluster) -> None:
    async def story() -> str:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            for name in ("low-0", "low-1"):
                await here.pod(name, 3, labels=WEB)
            await here.when(lambda pods: [it.status.phase for it in pods.values()] == ["Running"] * 2)
            async with kept_up(here, least=1):
                await here.pod("high-0", 3, priorityClassName=URGENT)
                await here.are_bound("high-0")
                await here.pod("high-1", 3, priorityClassName=URGENT)
                said = await here.says("high-1")
                assert sum(name.startswith("low") for name in here.bound()) == 1
                answer = await why(here.client, here.name, "high-1", int(time.time() * 1000))
                assert f"keep pods of lower priority: {here.name}/web lets 0 go now." in answer.text[-1]
            await here.are_bound("high-1")
            assert max((await here.held()).values()) <= CPU * 1000
            return said.reason

    assert run(story()) == "RESERVED"


def test_a_pod_whose_class_never_preempts_waits(schedulable: Cluster) -> None:
    async def story() -> str:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            meek = {"metadata": {"name": here.name}, "value": 1000, "preemptionPolicy": "Never"}
            await here.client.create(CLASSES, meek)
            for number in range(2):
                await here.pod(f"low-{number}", 3)
            await here.are_bound("low-0", "low-1")
            await here.pod("meek", 3, priorityClassName=here.name)
            said = await here.says("meek")
            answer = await why(here.client, here.name, "meek", int(time.time() * 1000))
            assert answer.text[-1].endswith("It never preempts.")
            assert set(here.bound()) == {"low-0", "low-1"}
            await here.client.delete(CLASSES, here.name)
            return said.reason

    assert run(story()) == "RESERVED"


def test_killed_when_half_of_a_gang_was_evicted_it_is_followed_by_one_that_evicts_the_rest(
    schedulable: Cluster,
) -> None:
    async def story() -> None:
        async with space(schedulable) as here:
            await with_plugin_groups(here.client)
            with scheduler_process(schedulable) as process:
                await a_gang(here, "train-0", "train-1", timeout_s=1)
                await here.are_bound("train-0", "train-1")
                async with refused(here, "eviction", "train-1"):
                    await here.pod("high", 3, priorityClassName=URGENT)
                    await here.when(lambda pods: "train-0" not in pods)
                    process.send_signal(signal.SIGKILL)
                    process.wait()
            assert "train-1" in here.bound()
            async with scheduler(access_to(schedulable), lease="after"):  # need not wait until that of the dead is over
                await here.are_bound("high")
                await here.when(lambda pods: "train-1" not in pods)

    run(story())
