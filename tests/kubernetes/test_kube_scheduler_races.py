"""What happens between deciding and binding: others are quicker, pods and nodes go, and the server forgets."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from cutting import Cutting
from kube import PATIENCE_S, run
from scheduling import CPU, Space, access_to, scheduler, space

from muster.kubernetes.dev.cluster import Cluster
from muster.kubernetes.errors import NotFound
from muster.kubernetes.kinds import NODES, PODS
from muster.kubernetes.orders import Bind, HandOver, Orders
from muster.kubernetes.scheduler import Scheduler

NAMES = ("node-0", "node-1")


def a_node(name: str) -> dict[str, Any]:
    has = {"cpu": str(CPU), "memory": "64Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True", "reason": "Hollow"}]
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": has, "capacity": has, "conditions": conditions},
    }


@asynccontextmanager
async def two_nodes(cluster: Cluster) -> AsyncIterator[Space]:
    """A namespace in a cluster that has two nodes meanwhile."""
    async with space(cluster) as here:
        for name in NAMES:
            await here.client.create(NODES, a_node(name))
        try:
            yield here
        finally:
            for name in NAMES:
                with suppress(NotFound):  # the test may have ended while it was gone
                    await here.client.delete(NODES, name)


class Held:
    """A scheduler whose first binds are decided on and not sent until `go`; it lives on meanwhile."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.binds: dict[str, Bind] = {}
        self._has_decided, self._may_go = threading.Event(), threading.Event()
        self._take_turn = scheduler.world.take_turn
        scheduler.world.take_turn = self._held_turn  # type: ignore[method-assign]

    def _held_turn(self, now_ms: int, hand_over: HandOver) -> None:
        orders = Orders()
        self._take_turn(now_ms, orders.add)
        if orders.binds and not self._has_decided.is_set():
            self.binds = {bind.key[1]: bind for bind in orders.binds}
            self._has_decided.set()
            assert self._may_go.wait(PATIENCE_S)
        hand_over(orders)

    async def decided(self, *names: str) -> dict[str, str]:
        """Wait until it has decided where these go."""
        assert await asyncio.to_thread(self._has_decided.wait, PATIENCE_S)
        assert set(self.binds) == set(names)
        return {name: self.binds[name].node for name in names}

    def go(self) -> None:
        """Have them sent."""
        self._may_go.set()


@asynccontextmanager
async def held(cluster: Cluster) -> AsyncIterator[Held]:
    async with scheduler(access_to(cluster)) as running:
        holding = Held(running)
        try:
            yield holding
        finally:
            holding.go()


async def bind(here: Space, name: str, node: str) -> None:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    await here.client.act(PODS, name, "binding", body, here.name)


def other(node: str) -> str:
    return next(name for name in NAMES if name != node)


@pytest.fixture(scope="module")
def nodeless(forgetful: Cluster) -> Cluster:
    """Nobody else does anything with its pods and nodes."""
    return forgetful


def test_a_pod_that_somebody_else_bound_meanwhile_stays_there_and_its_gang_is_whole(nodeless: Cluster) -> None:
    async def story() -> None:
        async with two_nodes(nodeless) as here, held(nodeless) as holding:
            names = await here.gang("train", 3)
            decided = await holding.decided(*names)
            await bind(here, "train-0", other(decided["train-0"]))
            holding.go()
            bound = await here.are_bound(*names)
            assert bound == decided | {"train-0": other(decided["train-0"])}
            # What it gave up is free again, and what was taken is not: both nodes can be filled, and no more.
            for number in range(6):
                await here.pod(f"p{number}")
            await here.when(lambda pods: sum(bool(pod.spec.node_name) for pod in pods.values()) == 2 * CPU)
            await here.says(next(name for name in (f"p{number}" for number in range(6)) if name not in here.bound()))
            assert await here.held() == dict.fromkeys(NAMES, CPU * 1000)

    run(story())


def test_a_pod_that_was_made_anew_under_its_name_is_not_bound_by_what_was_decided_before(nodeless: Cluster) -> None:
    """The new one asks for a whole node, and there is none: it must wait, however free its name's place was."""

    async def story() -> str:
        async with two_nodes(nodeless) as here, held(nodeless) as holding:
            for name in "ab":
                await here.pod(name, cpu=2, nodeSelector={"kubernetes.io/hostname": f"node-{'ab'.index(name)}"})
            await holding.decided("a", "b")
            await here.client.delete(PODS, "a", here.name, grace_s=0)
            await here.pod("a", cpu=CPU, nodeSelector={"kubernetes.io/hostname": "node-1"})
            holding.go()
            await here.are_bound("b")
            waits = await here.says("a")
            assert await here.held() == {"node-1": 2000}
            return waits.reason

    assert run(story()) == "RESERVED"


def test_a_gang_of_which_a_pod_went_while_it_was_placed_is_completed_by_the_next_one(nodeless: Cluster) -> None:
    async def story() -> None:
        async with two_nodes(nodeless) as here, held(nodeless) as holding:
            names = await here.gang("train", 4, cpu=2)  # all there is
            await holding.decided(*names)
            owner = (await here.client.get(PODS, "train-2", here.name)).metadata.owner_references
            await here.client.delete(PODS, "train-2", here.name, grace_s=0)
            holding.go()
            await here.are_bound("train-0", "train-1", "train-3")
            await here.pod("train-2", cpu=2, owner=owner)
            await here.are_bound(*names)
            assert await here.held() == dict.fromkeys(NAMES, CPU * 1000)

    run(story())


def test_a_node_that_goes_while_pods_are_placed_on_it_takes_them_along_and_counts_them_when_it_is_back(
    nodeless: Cluster,
) -> None:
    async def story() -> None:
        async with two_nodes(nodeless) as here, held(nodeless) as holding:
            await here.pod("a", cpu=3, nodeSelector={"kubernetes.io/hostname": "node-0"})
            await holding.decided("a")
            await here.client.delete(NODES, "node-0")
            holding.go()
            await here.are_bound("a")  # nobody asks whether there is such a node
            await here.pod("b", cpu=3)
            await here.pod("c", cpu=3)
            await here.when(lambda pods: any(name in pods and pods[name].spec.node_name for name in "bc"))
            waiting = next(name for name in "bc" if name not in here.bound())
            await here.says(waiting)
            await here.client.create(NODES, a_node("node-0"))
            await here.pod("d")
            await here.are_bound("d")  # there is room for one core more on each; and for no three
            assert waiting not in here.bound()
            assert max((await here.held()).values()) <= CPU * 1000
            await here.client.delete(PODS, "a", here.name, grace_s=0)
            await here.are_bound(waiting)
            assert max((await here.held()).values()) <= CPU * 1000

    run(story())


def test_a_server_that_forgot_what_happened_meanwhile_is_asked_for_everything_again(
    nodeless: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Cut off, with all that it has watched compacted away: what was made, bound and deleted meanwhile is counted."""

    async def story() -> None:
        with Cutting(nodeless.url) as proxy:
            access = replace(access_to(nodeless), server=proxy.url)
            async with two_nodes(nodeless) as here, scheduler(access):
                await here.pod("a", cpu=4)
                where = (await here.are_bound("a"))["a"]
                with proxy.refusing():
                    await here.client.delete(PODS, "a", here.name, grace_s=0)
                    await here.pod("theirs", cpu=2, schedulerName="nobody")
                    await bind(here, "theirs", other(where))
                    names = await here.gang("train", 3, cpu=2)
                    await asyncio.to_thread(nodeless.compact)
                await here.are_bound(*names)
                assert await here.held() == {where: 4000, other(where): 4000}

    caplog.set_level(logging.INFO, "muster.kubernetes.cache")
    run(story())
    assert "pods: listing again" in caplog.text
