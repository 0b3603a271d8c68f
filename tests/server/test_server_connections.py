"""Connections that break: between the SDK and the server, and between an agent and the server, both through one proxy.

It cuts, delays and half-closes at seeded random pieces. Every job whose submission was acknowledged ends exactly once.
"""

from __future__ import annotations

import asyncio
import gc
import json
import select
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cutting import TROUBLES, Cutting
from ledger import Ledger
from serving import PATIENCE_S, Site

from muster.agent.calling import Caller
from muster.agent.protocol import NodeReport, Report, Stop
from muster.agent.simulated import Ledger as AttemptLedger
from muster.agent.simulated import Simulated
from muster.sdk.client import Client

PEOPLE, BATCHES, JOBS = 3, 12, 4
CLIENTS_KEEP_S = 5  # httpx, and so our own SDK and agents


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as running:
        running.queue("a")
        yield running


def test_whatever_breaks_on_the_way_every_job_ends_exactly_once(site: Site) -> None:
    with Cutting(site.url, Random(7)) as proxy:
        agent = site.agent(nodes="4xcpu=4,memory=8Gi", seconds=0.02, url=proxy.url)
        with ThreadPoolExecutor(PEOPLE) as people:
            told = list(people.map(lambda number: _submit_all(proxy, site.token, number), range(PEOPLE)))
        acknowledged = [job_id for ids in told for job_id in ids]
        jobs = site.wait(acknowledged)
        assert agent.is_alive

    assert set(proxy.met) == set(TROUBLES), "the proxy was not troublesome enough to prove anything"
    assert {job["state"] for job in jobs} == {"succeeded"}
    assert site.ask("GET", "/queues/a")["jobs"] == {"succeeded": PEOPLE * BATCHES * JOBS}  # and none came in twice
    Ledger.read(site.ledger()).check_each_once(acknowledged)


def test_an_agent_that_says_only_that_attempts_go_on_need_not_wait_for_the_store(site: Site) -> None:
    hello = {"session": "s", "hello": True, "nodes": [{"name": "n", "amounts": {"cpu": "4"}}]}
    got = site.ask("POST", "/agents/lab/call", hello).get("number", 0)
    (job,) = site.submit({"queue": "a", "cpu": 1, "command": ["true"]})
    told = site.ask("POST", "/agents/lab/call", {"session": "s", "got": got, "wait_s": PATIENCE_S / 2})
    assert [lease["job"] for lease in told["leases"]] == [job]
    attempt = {"job": job, "attempt": 1}

    with closing(sqlite3.connect(site.folder / "muster.db", isolation_level=None)) as store:
        store.execute("BEGIN IMMEDIATE")  # nobody else can write
        running = {"session": "s", "got": told["number"], "reports": [{**attempt, "stage": "running"}]}
        got = site.ask("POST", "/agents/lab/call", running).get("number", 0)
        store.execute("ROLLBACK")

    ended = [{**attempt, "stage": "ended", "result": "succeeded"}]
    site.ask("POST", "/agents/lab/call", {"session": "s", "got": got, "reports": ended})
    assert site.job(job)["state"] == "succeeded"  # that it ended is durable once it is answered


def test_an_agent_that_counts_its_calls_hears_what_to_start_before_what_ended_is_durable(site: Site) -> None:
    hello = {"session": "s", "number": 1, "hello": True, "nodes": [{"name": "n", "amounts": {"cpu": "1"}}]}
    got = site.ask("POST", "/agents/lab/call", hello)
    assert got["heard"] == 1
    (job,) = site.submit({"queue": "a", "cpu": 1, "command": ["true"]})
    waiting = {"session": "s", "got": got["number"], "number": 2, "wait_s": PATIENCE_S / 2}
    told = site.ask("POST", "/agents/lab/call", waiting)
    assert [lease["job"] for lease in told["leases"]] == [job]

    with closing(sqlite3.connect(site.folder / "muster.db", isolation_level=None)) as store:
        store.execute("BEGIN IMMEDIATE")  # nobody else can write
        ended = [{"job": job, "attempt": 1, "stage": "ended", "result": "succeeded"}]
        got = site.ask(
            "POST", "/agents/lab/call", {**waiting, "got": told["number"], "number": 3, "reports": ended, "wait_s": 0}
        )
        assert got["heard"] < 3  # it must be kept until it was heard
        store.execute("ROLLBACK")

    got = site.ask("POST", "/agents/lab/call", {**waiting, "got": got["number"], "number": 4})
    assert got["heard"] == 3
    assert site.job(job)["state"] == "succeeded"


def test_what_a_server_that_has_forgotten_the_agent_was_told_is_said_again_with_hello() -> None:
    async def story() -> tuple[list[dict[str, Any]], list[Report]]:
        calls: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        answers = iter(['{"number": 1, "heard": 1}', '{"again": true}', '{"number": 1, "heard": 3}'])

        writers: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            while (head := (await reader.readuntil(b"\r\n\r\n")).decode().lower()) and (answer := next(answers, None)):
                length = int(head.split("content-length:")[1].split()[0])
                calls.put_nowait(json.loads(await reader.readexactly(length)))
                writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n{answer}".encode())

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            machines = Waiting([], seconds=0, ledger=AttemptLedger(None))
            host, port = server.sockets[0].getsockname()
            calling = asyncio.ensure_future(Caller(f"http://{host}:{port}", "token", "lab", machines).run())
            heard = [await asyncio.wait_for(calls.get(), PATIENCE_S)]
            machines.stop([Stop(job="j", attempt=1, reason="cancelled")])  # ends at once
            heard += [await asyncio.wait_for(calls.get(), PATIENCE_S) for _ in range(2)]
            await asyncio.wait_for(machines.is_waiting.wait(), PATIENCE_S)
            calling.cancel()
            await asyncio.wait({calling})
            for writer in writers:  # or the next test that collects garbage finds their sockets
                writer.close()
                await writer.wait_closed()
            return heard, machines.has()

    (first, second, third), left = asyncio.run(story())

    assert "reports" not in first
    assert second["reports"] == third["reports"] != []
    assert third["hello"]
    assert left == []  # the third was heard


def test_an_agent_that_is_told_to_end_while_it_waits_for_work_leaves_nothing_behind(site: Site) -> None:
    async def story() -> list[str]:
        trouble: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: trouble.append(context["message"]))
        machines = Waiting([], seconds=0, ledger=AttemptLedger(None))
        calling = asyncio.ensure_future(Caller(site.url, site.token, "lab", machines).run())
        await asyncio.wait_for(machines.is_waiting.wait(), PATIENCE_S)
        calling.cancel()
        await asyncio.wait({calling})
        gc.collect()
        return [*trouble, *(str(task) for task in asyncio.all_tasks() - {asyncio.current_task()})]

    assert asyncio.run(story()) == []


def test_an_idle_connection_outlasts_the_clients(site: Site) -> None:
    """Else a request may be on its way to a server that has just closed the connection, and is lost."""
    with closing(HTTPConnection(site.url.removeprefix("http://"), timeout=PATIENCE_S)) as connection:
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        is_closed, _, _ = select.select([connection.sock], [], [], CLIENTS_KEEP_S + 1)

    assert not is_closed


class Waiting(Simulated):
    """Says when its caller has nothing more to tell and waits for work."""

    def __init__(self, nodes: list[NodeReport], *, seconds: float, ledger: AttemptLedger) -> None:
        super().__init__(nodes, seconds=seconds, ledger=ledger)
        self.is_waiting, self._calls = asyncio.Event(), 0

    def settle(self) -> None:
        super().settle()
        self._calls += 1
        if self._calls == 2:  # the first says hello
            self.is_waiting.set()


def _submit_all(proxy: Cutting, token: str, number: int) -> list[str]:
    """Everything that one person submits, as the SDK was told it is there."""
    with Client(proxy.url, token=token, patience_s=PATIENCE_S) as client:
        batches = [[{"name": f"p{number}-{place}", "queue": "a", "cpu": 1} for place in range(JOBS)]] * BATCHES
        return [job.id for batch in batches for job in client.submit(batch)]
