"""Orders on a real API server: evictions that a disruption budget refuses, by the real controller of disruptions, and
binds that come many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kube import Shared, a_client, a_pod, kept, pod_when, run

from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.disruptions import DISRUPTION_BUDGETS, gives_way
from muster.kubernetes.errors import BudgetForbids
from muster.kubernetes.hands import JUST_NOW_MS, MANY, Hands
from muster.kubernetes.kinds import PODS, Scope
from muster.kubernetes.objects import Pod
from muster.kubernetes.orders import Bind, Eviction, Orders

WEB = {"app": "web"}


class Refusals:
    """How often a budget refused what a client asked for."""

    def __init__(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self._count, self._news = 0, asyncio.Event()
        act = client.act

        async def counted(*args: Any) -> None:
            try:
                await act(*args)
            except BudgetForbids:
                self._count += 1
                self._news.set()
                raise

        monkeypatch.setattr(client, "act", counted)

    async def are(self, count: int) -> None:
        """Wait for so many."""
        while self._count < count:
            self._news.clear()
            await self._news.wait()


@asynccontextmanager
async def kept_up(client: Client, namespace: str) -> AsyncIterator[Pod]:
    """A pod that runs and that a budget does not let go."""
    made = a_pod("web", "sleep", "infinity", node="node-0")
    made["metadata"]["labels"] = WEB
    await client.create(PODS, made, namespace)
    spec = {"minAvailable": 1, "selector": {"matchLabels": WEB}}
    await client.create(DISRUPTION_BUDGETS, {"metadata": {"name": "web"}, "spec": spec}, namespace)
    async with kept(Cache(client, DISRUPTION_BUDGETS, Scope(namespace=namespace))) as budgets:
        await budgets.until(lambda there: there[namespace, "web"].status.current_healthy == 1)
    yield await client.get(PODS, "web", namespace)


@pytest.mark.parametrize(
    "is_done",
    [
        pytest.param(True, id="until the budget lets it go"),
        pytest.param(False, id="until its time is up, and then the pod stays"),
    ],
)
def test_a_refused_eviction_is_tried_again(
    shared: Shared, namespace: str, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    monkeypatch.setattr("muster.kubernetes.hands.BUDGET_S", 0.05)
    clock_ms = 0

    async def story() -> None:
        nonlocal clock_ms
        async with a_client(shared.access) as client, kept_up(client, namespace) as pod:
            refusals = Refusals(client, monkeypatch)
            settled: asyncio.Queue[bool] = asyncio.Queue()
            hands = Hands(client, lambda: clock_ms, lambda: True, lambda _, is_done: settled.put_nowait(is_done))
            eviction = Eviction(pod.metadata.uid, pod.metadata.key, "it gives way", until_ms=60_000)
            hands.carry_out(Orders(evictions=[eviction]))
            await refusals.are(3)
            assert gives_way(await client.get(PODS, "web", namespace))
            if is_done:
                await client.delete(DISRUPTION_BUDGETS, "web", namespace)
            else:
                clock_ms = 60_000
            assert await settled.get() is is_done
            if is_done:
                await pod_gone(client, namespace)
            else:
                await pod_when(client, namespace, "web", lambda it: it.metadata.deletion_timestamp is None)

    run(story())


@pytest.mark.parametrize(
    "binds, is_busy",
    [
        pytest.param(MANY, True, id="that were many, for more may follow"),
        pytest.param(MANY - 1, False, id="unless they were few"),
    ],
)
def test_it_is_busy_for_a_moment_after_binds(shared: Shared, namespace: str, binds: int, is_busy: bool) -> None:
    clock_ms = 0

    async def story() -> None:
        nonlocal clock_ms
        async with a_client(shared.access) as client:
            hands = Hands(client, lambda: clock_ms, lambda: True, lambda _, is_done: None)
            unknown = [Bind(f"uid-{number}", (namespace, f"gone-{number}"), "node-0") for number in range(binds)]
            hands.carry_out(Orders(binds=unknown))
            assert hands.is_busy()
            await hands.finish()
            clock_ms = JUST_NOW_MS - 1
            assert hands.is_busy() is is_busy
            clock_ms = JUST_NOW_MS
            assert not hands.is_busy()

    run(story())


async def pod_gone(client: Client, namespace: str) -> None:
    async with kept(Cache(client, PODS, Scope(namespace=namespace))) as pods:
        await pods.until(lambda there: not there)
