"""Requests to a real API server: pages, refusals, and how busy it may be."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from cutting import Cutting
from kube import CONFIG_MAPS, Shared, a_client, a_config_map, a_pod, kept, pod_when, run

from muster.kubernetes import tls
from muster.kubernetes.access import Access, from_kubeconfig
from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.dev.cluster import Cluster, Wanted
from muster.kubernetes.dev.programs import programs
from muster.kubernetes.errors import (
    AlreadyExists,
    BudgetForbids,
    Conflict,
    Forbidden,
    Invalid,
    KubernetesError,
    NotFound,
    Unreachable,
)
from muster.kubernetes.kinds import NAMESPACES, NODES, PODS, Kind, Scope
from muster.kubernetes.objects import Meta, Plain

BINDINGS = Kind(
    type=Plain,
    plural="clusterrolebindings",
    version="v1",
    group="rbac.authorization.k8s.io",
    is_namespaced=False,
)
BUDGETS = Kind(type=Plain, plural="poddisruptionbudgets", version="v1", group="policy")


def test_a_list_comes_page_by_page_and_is_of_one_moment(shared: Shared, namespace: str) -> None:
    async def story() -> tuple[list[list[str]], set[str]]:
        async with a_client(shared.access) as client:
            await asyncio.gather(
                *(client.create(CONFIG_MAPS, a_config_map(f"n{number}"), namespace) for number in range(7))
            )
            names, versions = [], set()
            async for page in client.pages(CONFIG_MAPS, Scope(namespace=namespace, labels="!absent"), size=3):
                names.append([each.metadata.name for each in page.items if each.metadata.name.startswith("n")])
                versions.add(page.version)
                await client.create(CONFIG_MAPS, a_config_map(f"later-{len(names)}"), namespace)
            return names, versions

    names, versions = run(story())

    assert sorted(name for page in names for name in page) == [f"n{number}" for number in range(7)]
    assert len(names) >= 3
    assert len(versions) == 1


async def _conflict(client: Client, namespace: str) -> None:
    made = await client.create(CONFIG_MAPS, a_config_map("a"), namespace)
    await client.patch(CONFIG_MAPS, "a", {"data": {"k": "theirs"}}, namespace)
    ours = a_config_map("a", k="ours")
    ours["metadata"]["resourceVersion"] = made.metadata.resource_version
    await client.replace(CONFIG_MAPS, "a", ours, namespace)


async def _made_twice(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, a_config_map("a"), namespace)
    await client.create(CONFIG_MAPS, a_config_map("a"), namespace)


async def _other_uid(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, a_config_map("a"), namespace)
    await client.delete(CONFIG_MAPS, "a", namespace, uid="00000000-0000-0000-0000-000000000000")


async def _absent(client: Client, namespace: str) -> None:
    await client.get(CONFIG_MAPS, "absent", namespace)


async def _against_the_rules(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, a_config_map("Not A Name"), namespace)


async def _bound_twice(client: Client, namespace: str) -> None:
    await client.create(PODS, a_pod("p"), namespace)
    for node in ("node-0", "node-1"):
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        await client.act(PODS, "p", "binding", {"metadata": {"name": "p"}, "target": target}, namespace)


@pytest.mark.parametrize(
    "story, refusal",
    [
        pytest.param(_conflict, Conflict, id="a write that is based on an old version is a conflict"),
        pytest.param(_made_twice, AlreadyExists, id="what is there is not made again"),
        pytest.param(_other_uid, Conflict, id="another object of the same name is not deleted"),
        pytest.param(_absent, NotFound, id="what is not there is not found"),
        pytest.param(_against_the_rules, Invalid, id="an object that breaks a rule is invalid"),
        pytest.param(_bound_twice, Conflict, id="a pod is bound once"),
    ],
)
def test_refusals_are_typed(shared: Shared, namespace: str, story: Any, refusal: type[KubernetesError]) -> None:
    async def play() -> None:
        async with a_client(shared.access) as client:
            await story(client, namespace)

    with pytest.raises(refusal) as raised:
        run(play())
    assert type(raised.value) is refusal


def test_an_eviction_that_a_budget_forbids_is_told_and_not_tried_again_and_again(
    shared: Shared, namespace: str
) -> None:
    async def story() -> None:
        async with a_client(shared.access) as client:
            pod = a_pod("p", node="node-0")
            pod["metadata"]["labels"] = {"app": "p"}
            await client.create(PODS, pod, namespace)
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}}
            await client.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec}, namespace)
            await pod_when(client, namespace, "p", lambda pod: pod.status.phase == "Running")
            await client.act(PODS, "p", "eviction", {"metadata": {"name": "p"}}, namespace)

    with pytest.raises(BudgetForbids):
        run(story())


def test_who_may_not_is_told_so(shared: Shared, namespace: str, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "nobody"
    kubeconfig.write_text(shared.authority.kubeconfig(shared.access.server, "nobody"), encoding="utf-8")

    async def story() -> None:
        async with a_client(from_kubeconfig([kubeconfig])) as client:
            await client.list(NODES)

    with pytest.raises(Forbidden, match='User "nobody" cannot list resource "nodes"'):
        run(story())


async def _a_slow_write(access: Access, name: str, taken: asyncio.Event, may_end: asyncio.Event) -> int:
    """A config map of which the second half is sent later: until then the server is busy with it.

    The server's own writes, just after it started, use the same two places: a write that finds none asks again. It is
    `taken` when the server wants its body, which it says to those who wait for that.
    """
    assert access.ca is not None
    context = tls.context(access.ca(), await access.credentials.proof(), is_verified=True)
    text = msgspec.json.encode(a_config_map(name))

    async def body() -> AsyncIterator[bytes]:
        taken.set()
        yield text[:5]
        await may_end.wait()
        yield text[5:]

    url, headers = f"{access.server}/api/v1/namespaces/slow/configmaps", {"Content-Type": "application/json"}
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.post(url, data=body(), headers=headers, ssl=context, expect100=True) as answer:
                if taken.is_set():
                    return answer.status
                assert answer.status == 429


async def _turned_away(client: Client) -> float:
    """How many requests the server has answered with 429 so far, by its own metrics."""
    lines = (await client.request("GET", "/metrics")).decode().splitlines()
    told = [line for line in lines if line.startswith("apiserver_request_total{") and 'code="429"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in told)


def test_a_server_that_is_too_busy_is_asked_again_and_every_write_is_done_once(tmp_path: Path) -> None:
    """Two writes at a time are looked at, and two that take long are under way when sixty come at once. None is lost,
    and none is made twice."""
    flags = ("--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=2")
    wanted = Wanted(hollow=None, has_controllers=False, apiserver_flags=flags)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    robot = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "robot"}

    async def story(admin: Access, access: Access) -> tuple[int, list[int]]:
        async with a_client(admin) as client, a_client(access) as robots:  # the first is never turned away
            body = {"metadata": {"name": "robot"}, "roleRef": role, "subjects": [robot]}
            await client.create(BINDINGS, body)
            for name in ("busy", "slow"):
                await client.create(NAMESPACES, {"metadata": {"name": name}})
            may_end = asyncio.Event()
            taken = [asyncio.Event() for _ in range(2)]
            slow = [
                asyncio.ensure_future(_a_slow_write(access, f"s{number}", is_taken, may_end))
                for number, is_taken in enumerate(taken)
            ]
            async with asyncio.timeout(60):
                await asyncio.gather(*(is_taken.wait() for is_taken in taken))
            before = await _turned_away(client)
            writes = asyncio.gather(
                *(robots.create(CONFIG_MAPS, a_config_map(f"n{number}"), "busy") for number in range(60))
            )
            async with asyncio.timeout(60):
                while await _turned_away(client) == before:
                    pass
            may_end.set()
            await writes
            return len(await client.list(CONFIG_MAPS, Scope(namespace="busy"))), await asyncio.gather(*slow)

    with Cluster(programs(), tmp_path / "cluster", wanted) as cluster:
        kubeconfig = tmp_path / "robot"
        kubeconfig.write_text(cluster.authority.kubeconfig(cluster.url, "robot"), encoding="utf-8")
        there, slow = run(story(from_kubeconfig([cluster.kubeconfig]), from_kubeconfig([kubeconfig])))

    assert there == 60
    assert slow == [201, 201]


def test_a_server_that_is_not_there_is_unreachable_and_says_where(shared: Shared) -> None:
    async def story() -> None:
        access = Access(server="https://127.0.0.1:1", credentials=shared.access.credentials)
        async with a_client(access) as client:
            await client.list(NODES)

    with pytest.raises(Unreachable, match=r"https://127\.0\.0\.1:1"):
        run(story())


def test_no_more_requests_are_on_their_way_than_allowed(shared: Shared, namespace: str) -> None:
    async def story(access: Access) -> None:
        async with a_client(access, in_flight=3) as client:
            await asyncio.gather(
                *(client.create(CONFIG_MAPS, a_config_map(f"n{number}"), namespace) for number in range(50))
            )

    with Cutting(shared.access.server) as proxy:
        run(story(replace(shared.access, server=proxy.url)))

        assert proxy.served == 3, "each request on its way has a connection of its own"


def test_a_write_whose_answer_is_lost_is_unreachable_and_not_repeated(shared: Shared, namespace: str) -> None:
    async def story(proxy: Cutting) -> list[str]:
        async with a_client(replace(shared.access, server=proxy.url)) as client:
            await client.list(CONFIG_MAPS, Scope(namespace=namespace))  # so that there is a connection
            proxy.cut_next()
            with pytest.raises(Unreachable):
                await client.create(CONFIG_MAPS, {"metadata": {"generateName": "n-"}}, namespace)
            made = await client.list(CONFIG_MAPS, Scope(namespace=namespace))
            return [each.metadata.name[:2] for each in made if each.metadata.name.startswith("n-")]

    with Cutting(shared.access.server) as proxy:
        assert run(story(proxy)) == ["n-"]


class Numbers(msgspec.Struct, frozen=True):
    """A config map whose data are numbers, which its kind does not promise."""

    metadata: Meta
    data: dict[str, int] = {}


def test_an_object_that_cannot_be_read_is_left_out_and_said_so(
    shared: Shared, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = Kind(type=Numbers, plural="configmaps", version="v1")
    scope = Scope(namespace=namespace, fields="metadata.name!=kube-root-ca.crt")

    async def story() -> list[str]:
        async with a_client(shared.access) as client:
            await client.create(CONFIG_MAPS, a_config_map("fine"), namespace)
            await client.create(CONFIG_MAPS, a_config_map("strange", k="words"), namespace)
            async with kept(Cache(client, kind, scope)) as cache:
                await client.create(CONFIG_MAPS, a_config_map("stranger", k="words"), namespace)
                await client.create(CONFIG_MAPS, a_config_map("last"), namespace)
                await cache.until(lambda objects: (namespace, "last") in objects)
                return sorted(name for _, name in cache.objects)

    with caplog.at_level(logging.WARNING):
        assert run(story()) == ["fine", "last"]
    assert f"configmaps {namespace}/strange is left out" in caplog.text
    assert f"configmaps {namespace}/stranger is left out" in caplog.text


def test_a_watch_that_is_stopped_leaves_no_connection_behind(shared: Shared, namespace: str) -> None:
    """However long the server takes to say that it has heard of the end: the loop may end before."""

    async def story(proxy: Cutting, silences: ExitStack) -> None:
        async with (
            a_client(replace(shared.access, server=proxy.url)) as client,
            kept(Cache(client, CONFIG_MAPS, Scope(namespace=namespace))) as maps,
        ):
            await client.create(CONFIG_MAPS, a_config_map("told"), namespace)
            await maps.until(lambda there: (namespace, "told") in there)
            silences.enter_context(proxy.silent())

    gc.disable()  # it would close what we left open
    try:
        with Cutting(shared.access.server) as proxy, ExitStack() as silences:
            run(story(proxy, silences))
            assert proxy.have_all_left()
    finally:
        gc.enable()
