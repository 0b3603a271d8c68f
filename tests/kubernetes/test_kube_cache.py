"""Caches stay true on a real API server, whatever happens to their watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from cutting import Cutting
from kube import CONFIG_MAPS, Diary, Shared, a_client, a_config_map, kept, run

from muster.kubernetes.access import Access, from_kubeconfig
from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.dev.cluster import Cluster
from muster.kubernetes.errors import Expired, Unreachable
from muster.kubernetes.kinds import NAMESPACES, Scope


def of(cluster: Cluster) -> Access:
    return from_kubeconfig([cluster.kubeconfig])


async def make(client: Client, namespace: str, *names: str) -> None:
    for name in names:
        await client.create(CONFIG_MAPS, a_config_map(name), namespace)


async def change(client: Client, namespace: str, name: str, value: str) -> None:
    await client.patch(CONFIG_MAPS, name, {"data": {"k": value}}, namespace)


async def new_namespace(client: Client) -> str:
    return (await client.create(NAMESPACES, {"metadata": {"generateName": "test-"}})).metadata.name


async def truth(client: Client, namespace: str) -> dict[tuple[str, str], Any]:
    return {each.metadata.key: each for each in await client.list(CONFIG_MAPS, Scope(namespace=namespace))}


async def hold_to_truth(client: Client, cache: Cache[Any], diary: Diary, namespace: str) -> None:
    """Wait until the cache holds what the server holds; what was told must lead to the same."""
    there = await truth(client, namespace)
    await cache.until(lambda objects: dict(objects) == there)
    assert diary.objects == there


@asynccontextmanager
async def watched_through(proxy: Cutting, access: Access, namespace: str) -> AsyncIterator[tuple[Cache[Any], Diary]]:
    """A cache whose connections can be cut."""
    async with a_client(replace(access, server=proxy.url)) as client:
        cache = Cache(client, CONFIG_MAPS, Scope(namespace=namespace), page=2)
        diary = Diary(cache)
        async with kept(cache):
            yield cache, diary


def test_a_cache_tells_what_appears_changes_and_goes(shared: Shared, namespace: str) -> None:
    async def story() -> list[tuple[str, str]]:
        async with a_client(shared.access) as client:
            await make(client, namespace, "a", "b", "c")
            cache = Cache(client, CONFIG_MAPS, Scope(namespace=namespace, fields="metadata.name!=kube-root-ca.crt"))
            diary = Diary(cache)
            async with kept(cache):
                await change(client, namespace, "b", "1")
                await client.delete(CONFIG_MAPS, "a", namespace)
                await make(client, namespace, "d")
                await cache.until(lambda objects: (namespace, "d") in objects)
            assert cache.lists == 1
            return diary.told

    told = run(story())

    assert sorted(told[:3]) == [("new", "a"), ("new", "b"), ("new", "c")]
    assert told[3:] == [("changed", "b"), ("gone", "a"), ("new", "d")]


def test_objects_of_any_length_are_heard_of(shared: Shared, namespace: str) -> None:
    """Far longer than what is read from a connection at once, or than what aiohttp takes for a line."""

    async def story() -> list[tuple[str, str]]:
        async with a_client(shared.access) as client, watched(client, namespace) as (cache, diary):
            for name, length in (("long", 900_000), ("short", 1)):
                await client.create(CONFIG_MAPS, a_config_map(name, k="x" * length), namespace)
            await cache.until(lambda objects: (namespace, "short") in objects)
            return [told for told in diary.told if told[1] in ("long", "short")]

    assert run(story()) == [("new", "long"), ("new", "short")]


def test_a_watch_that_is_cut_goes_on_where_it_was_without_another_list(breakable: Cluster) -> None:
    async def story() -> tuple[int, bool]:
        async with a_client(of(breakable)) as client:
            namespace = await new_namespace(client)
            await make(client, namespace, "a", "b", "c", "d", "e")
            with Cutting(breakable.url) as proxy:
                async with watched_through(proxy, of(breakable), namespace) as (cache, diary):
                    for number in range(5):
                        await change(client, namespace, "a", str(number))
                        await hold_to_truth(client, cache, diary, namespace)  # only a watch can have told
                        proxy.cut_all()
                        await client.delete(CONFIG_MAPS, "bcde"[number % 4], namespace)
                        await make(client, namespace, "bcde"[number % 4])
                        await hold_to_truth(client, cache, diary, namespace)
                    return cache.lists, cache.watches >= 6

    assert run(story()) == (1, True)


def test_property_random_cuts_and_delays_lose_and_invent_nothing(breakable: Cluster) -> None:
    """One in twelve pieces meets trouble; hundreds of writes later the cache is what the server is."""

    async def story() -> int:
        chance = Random(11)
        async with a_client(of(breakable)) as client:
            namespace = await new_namespace(client)
            with Cutting(breakable.url, Random(12), every=12) as proxy:
                async with watched_through(proxy, of(breakable), namespace) as (cache, diary):
                    there: set[str] = set()
                    for number in range(300):
                        name = f"n{chance.randrange(20)}"
                        if name not in there:
                            await make(client, namespace, name)
                            there.add(name)
                        elif chance.random() < 0.4:
                            await client.delete(CONFIG_MAPS, name, namespace)
                            there.discard(name)
                        else:
                            await change(client, namespace, name, str(number))
                    await hold_to_truth(client, cache, diary, namespace)
                    return proxy.met.total()

    assert run(story()) > 0


def test_an_api_server_that_restarts_is_waited_for_and_nothing_is_missed(breakable: Cluster) -> None:
    async def story() -> None:
        async with a_client(of(breakable)) as client:
            namespace = await new_namespace(client)
            await make(client, namespace, "kept", "changed", "lost", "replaced")
            async with watched(client, namespace) as (cache, diary):
                await change(client, namespace, "kept", "0")
                await hold_to_truth(client, cache, diary, namespace)
                diary.told.clear()
                await asyncio.to_thread(breakable.stop_apiserver)
                assert len(cache.objects) == 4, "it holds what it held"
                await asyncio.to_thread(breakable.start_apiserver)
                await change(client, namespace, "changed", "1")
                await client.delete(CONFIG_MAPS, "lost", namespace)
                await hold_to_truth(client, cache, diary, namespace)
                assert diary.told == [("changed", "changed"), ("gone", "lost")]

    run(story())


def test_a_server_that_hangs_is_given_up_in_time_and_its_watches_go_on_when_it_is_back(breakable: Cluster) -> None:
    async def story() -> tuple[int, int]:
        async with a_client(of(breakable)) as client, a_client(of(breakable), request_s=0.5) as hasty:
            namespace = await new_namespace(client)
            async with watched(client, namespace) as (cache, diary):
                await make(client, namespace, "before")
                await hold_to_truth(client, cache, diary, namespace)
                breakable.apiserver.pause()
                try:
                    with pytest.raises(Unreachable):
                        await hasty.get(NAMESPACES, namespace)
                finally:
                    breakable.apiserver.resume()
                await make(client, namespace, "after")
                await hold_to_truth(client, cache, diary, namespace)
                return cache.lists, cache.watches

    assert run(story()) == (1, 1)


def test_versions_that_were_compacted_while_nobody_watched_are_listed_again_and_compared(breakable: Cluster) -> None:
    """The server forgets where the watch was: after a restart with compaction there is no way but a list."""

    async def story() -> tuple[int, list[tuple[str, str]]]:
        async with a_client(of(breakable)) as client:
            namespace = await new_namespace(client)
            await make(client, namespace, "kept", "changed", "lost", "replaced")
            with Cutting(breakable.url) as proxy:
                async with watched_through(proxy, of(breakable), namespace) as (cache, diary):
                    diary.told.clear()
                    with proxy.refusing():
                        await change(client, namespace, "changed", "1")
                        await client.delete(CONFIG_MAPS, "lost", namespace)
                        await client.delete(CONFIG_MAPS, "replaced", namespace)
                        await make(client, namespace, "replaced", "fresh")
                        await asyncio.to_thread(breakable.stop_apiserver)
                        await asyncio.to_thread(breakable.compact)
                        await asyncio.to_thread(breakable.start_apiserver)
                    await hold_to_truth(client, cache, diary, namespace)
                    return cache.lists, diary.told

    lists, told = run(story())

    assert lists == 2
    assert told[0] == ("gone", "lost")
    assert sorted(told[1:]) == [("changed", "changed"), ("gone", "replaced"), ("new", "fresh"), ("new", "replaced")]
    assert told.index(("gone", "replaced")) < told.index(("new", "replaced"))


def test_compaction_under_a_server_without_a_memory_is_a_410_and_a_new_list(forgetful: Cluster) -> None:
    async def story() -> tuple[int, list[tuple[str, str]]]:
        async with a_client(of(forgetful)) as client:
            namespace = await new_namespace(client)
            await make(client, namespace, "a", "b")
            with Cutting(forgetful.url) as proxy:
                async with watched_through(proxy, of(forgetful), namespace) as (cache, diary):
                    diary.told.clear()
                    with proxy.refusing():
                        await client.delete(CONFIG_MAPS, "a", namespace)
                        await change(client, namespace, "b", "1")
                        await asyncio.to_thread(forgetful.compact)
                    await hold_to_truth(client, cache, diary, namespace)
                    return cache.lists, diary.told

    assert run(story()) == (2, [("gone", "a"), ("changed", "b")])


def test_a_list_whose_moment_is_forgotten_between_two_pages_is_begun_anew(forgetful: Cluster) -> None:
    async def story() -> None:
        async with a_client(of(forgetful)) as client:
            namespace = await new_namespace(client)
            await make(client, namespace, *"abcdef")
            pages = client.pages(CONFIG_MAPS, Scope(namespace=namespace), size=2)
            first = await anext(pages)
            assert [each.metadata.name for each in first.items] == ["a", "b"]
            await make(client, namespace, "g")
            await asyncio.to_thread(forgetful.compact)
            with pytest.raises(Expired):
                await anext(pages)
            cache = Cache(client, CONFIG_MAPS, Scope(namespace=namespace), page=2)
            async with kept(cache):
                assert sorted(name for _, name in cache.objects) == list("abcdefg")

    run(story())


def test_watches_that_the_server_ends_in_time_go_on_from_their_bookmarks(breakable: Cluster) -> None:
    """A quiet watch moves on with others' writes, so that it need not be begun from a version long forgotten."""

    async def story() -> None:
        async with a_client(of(breakable), watch_s=3.0) as client:
            quiet, busy = await new_namespace(client), await new_namespace(client)
            async with watched(client, quiet) as (cache, _):
                begun, version = cache.watches, cache.version
                for number in range(100_000):
                    await client.create(CONFIG_MAPS, a_config_map(f"n{number}"), busy)
                    if cache.watches > begun and cache.version != version:
                        break
                assert cache.watches > begun
                assert cache.version != version
                assert cache.lists == 1

    run(story())


@asynccontextmanager
async def watched(client: Client, namespace: str) -> AsyncIterator[tuple[Cache[Any], Diary]]:
    cache = Cache(client, CONFIG_MAPS, Scope(namespace=namespace))
    diary = Diary(cache)
    async with kept(cache):
        yield cache, diary
