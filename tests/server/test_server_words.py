"""Words that no store takes, in paths, filters, headers, bodies and what agents say: they do no harm."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from serving import Site

from muster.server.api.app import application

HALF = "\ud800"
ODD = ["%00", "a%00b", "%ED%A0%80", "%FF", "9223372036854775808", "-9223372036854775809", "9" * 400, "1e400", "NaN"]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    db = ""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres")
        db = server.url(server.database())
    with Site(tmp_path_factory.mktemp(request.param), db) as running:
        running.queue("a")
        running.agent(seconds=0)
        yield running


def sent(site: Site, method: str, path: str, body: bytes = b"", *headers: str) -> int:
    """The status that a request of these very bytes gets."""
    host, port = site.url.removeprefix("http://").split(":")
    head = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {site.token}", "Connection: close"]
    head += [*headers, "Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall("\r\n".join(head).encode("latin-1") + body)
        return int(connection.recv(1 << 16).split(b" ")[1])


def turns_go_on(site: Site) -> bool:
    (job_id,) = site.submit({"name": "after", "queue": "a", "cpu": 1})
    return bool(site.wait([job_id])[0]["state"] == "succeeded")


def places() -> list[tuple[str, str]]:
    """Every path that can be read, and each of its filters."""
    found = []
    for path, methods in application(None).openapi()["paths"].items():  # type: ignore[arg-type]  # described, not started
        if "get" in methods:
            filters = [it["name"] for it in methods["get"].get("parameters", []) if it["in"] == "query"]
            found += [(path, name) for name in ["", *filters]]
    return found


def test_no_word_in_a_path_or_filter_is_a_fault_of_the_server(site: Site) -> None:
    (job_id,) = site.submit({"name": "first", "queue": "a", "cpu": 1})
    faults = []
    for path, name in places():
        for odd in ODD:
            asked = re.sub(r"\{[^}]*\}", odd if not name else job_id if "job" in path else "a", path)
            asked += f"?{name}={odd}" if name else ""
            if asked != path and sent(site, "GET", asked) >= 500:
                faults.append(asked[:120])
    assert faults == []


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("Idempotency-Key: \xff\xfe", id="a key that is no text"),
        pytest.param("Idempotency-Key: a\x00", id="a key with a null character"),
        pytest.param(f"Idempotency-Key: {'k' * 5000}", id="a key of 5,000 letters"),
        pytest.param("Last-Event-ID: 9223372036854775808", id="an event beyond 64 bits"),
        pytest.param("Last-Event-ID: \xb2", id="a digit of another script"),
    ],
)
def test_no_header_is_a_fault_of_the_server(site: Site, header: str) -> None:
    jobs = json.dumps([{"name": "x", "queue": "a", "cpu": 1}]).encode()

    assert sent(site, "POST", "/api/v1/jobs", jobs, header) < 500
    assert sent(site, "GET", "/api/v1/events?after=0&follow=false", b"", header) < 500


@pytest.mark.parametrize(
    "method, path, body",
    [
        pytest.param("PUT", "/queues/b", {"labels": {"team": "a\0"}}, id="a label of a queue"),
        pytest.param("PUT", "/queues/b", {"labels": {"a\0": "b"}}, id="the name of a label"),
        pytest.param("PUT", "/queues/b", {"owners": ["a\0"]}, id="an owner"),
        pytest.param("PUT", "/queues/b", {"labels": {"team": HALF}}, id="half of a character"),
        pytest.param("POST", "/tokens", {"name": "a\0"}, id="whose a token is"),
        pytest.param("POST", "/tokens", {"name": "a", "cluster": "a\0"}, id="the cluster of a token"),
        pytest.param("PUT", "/users/u", {"quota": {"cpu\0": 1}}, id="a resource"),
        pytest.param("POST", "/jobs", {"name": "a\0", "queue": "a", "cpu": 1}, id="the name of a job"),
        pytest.param("POST", "/jobs", {"name": "a", "queue": "a", "cpu": 1, "user": "b\0"}, id="the user of a job"),
        pytest.param("POST", "/jobs", {"name": "a", "queue": "a", "cpu": 1, "jobSet": "b\0"}, id="a job set"),
        pytest.param("POST", "/jobs", {"name": "a", "queue": "a", "cpu": 1, "env": {"A": "\0"}}, id="an environment"),
        pytest.param("POST", "/jobs", {"name": "a", "queue": "a", "cpu": 1, "command": [HALF]}, id="a command"),
        pytest.param("POST", "/jobs", {"name": "a", "queue": "a", "cpu": 1, "priority": 1 << 70}, id="a priority"),
        pytest.param("PUT", "/queues/b", {"weight": 1 << 70}, id="a weight"),
    ],
)
def test_a_body_that_no_store_takes_is_refused(site: Site, method: str, path: str, body: dict[str, Any]) -> None:
    status = sent(site, method, f"/api/v1{path}", json.dumps(body).encode())

    assert status == 422
    assert turns_go_on(site)


# --- agents -------------------------------------------------------------------------------------


def report(**said: Any) -> dict[str, Any]:
    return {
        "session": "s",
        "hello": True,
        "nodes": [],
        "reports": [{"job": "j", "attempt": 1, "stage": "ended"} | said],
    }


@pytest.mark.parametrize(
    "call",
    [
        pytest.param({"session": "s\0", "hello": True, "nodes": []}, id="its session"),
        pytest.param(report(job="j\0"), id="the name of a job"),
        pytest.param(report(result="failed", exit_code=1 << 70), id="an exit code beyond 64 bits"),
        pytest.param(report(attempt=1 << 70), id="an attempt beyond 64 bits"),
        pytest.param(report(failed=[{"group": "g\0", "index": 0}]), id="a group"),
        pytest.param(report(failed=[{"group": "g", "index": 1 << 70}]), id="the number of a task"),
        pytest.param({"session": "s", "number": 1 << 70}, id="the number of a call"),
        pytest.param(
            {"session": "s", "hello": True, "nodes": [{"name": "n", "amounts": {"cpu": 1}, "labels": {"a": "\0"}}]},
            id="a label of a node",
        ),
        pytest.param(
            {"session": "s", "hello": True, "nodes": [{"name": "n\0", "amounts": {"cpu": 1}}]}, id="the name of a node"
        ),
    ],
)
def test_what_no_agent_says_is_refused_and_turns_go_on(site: Site, call: dict[str, Any]) -> None:
    status = sent(site, "POST", "/api/v1/agents/strange/call", json.dumps(call).encode())

    assert status == 422
    assert turns_go_on(site)


def test_a_message_of_an_agent_is_kept_without_what_cannot_be_shown(site: Site) -> None:
    """A job can write its own end record: what it says there must stop nobody."""
    call: dict[str, Any] = {"session": "s", "hello": True, "nodes": [{"name": "other-1", "amounts": {"cpu": 1}}]}
    site.ask("POST", "/agents/other/call", call)
    (job_id,) = site.submit({"name": "mine", "queue": "a", "cpu": 1, "cluster": "other"})
    site.wait([job_id], "running")
    told = {"job": job_id, "attempt": 1, "stage": "ended", "result": "failed", "message": "x\0y" + "z" * 10_000}
    site.ask("POST", "/agents/other/call", {**call, "reports": [told]})

    (job,) = site.wait([job_id])
    assert job["reason"].startswith("x\ufffdyzz")
    assert len(job["reason"]) < 5_000
    assert turns_go_on(site)
