"""Who may come in and what they may say: tokens, roles, bad input, limits; and that no secret is written down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from serving import Site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site"), "", "--most-queued", "50") as running:
        running.queue("a")
        running.queue("b", weight=2.5, quota={"cpu": "100", "gpu": 4})
        yield running


JOB = {"name": "x", "queue": "a", "cpu": 1}


def made(site: Site, **body: Any) -> dict[str, str]:
    """The header of someone with a new token."""
    token = site.ask("POST", "/tokens", {"name": "someone", **body}, status=201)["token"]
    return {"Authorization": f"Bearer {token}"}


def test_nobody_comes_in_without_a_token(site: Site) -> None:
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic YTpi"}):
        for method in ("GET", "POST"):
            answer = httpx2.request(method, f"{site.url}/api/v1/jobs", headers=headers)
            assert answer.status_code == 401
            assert "Authorization: Bearer TOKEN" in answer.json()["error"]["message"]
    assert httpx2.get(f"{site.url}/healthz").text == "ok\n"


@pytest.mark.parametrize(
    "rights, method, path, body, status",
    [
        pytest.param(["submit"], "POST", "/jobs", {"jobs": [JOB]}, 201, id="who may submit submits"),
        pytest.param(["view"], "POST", "/jobs", {"jobs": [JOB]}, 422, id="who may only look does not"),
        pytest.param(["submit"], "POST", "/jobs", {"jobs": [{**JOB, "queue": "b"}]}, 422, id="not to another queue"),
        pytest.param(["view"], "GET", "/queues/a", None, 200, id="who may look sees the queue"),
        pytest.param(["submit"], "GET", "/queues/a", None, 200, id="who may submit sees it too"),
        pytest.param(["submit"], "GET", "/queues/b", None, 403, id="nobody sees another queue"),
        pytest.param(["submit"], "PUT", "/queues/a", {"weight": 9}, 403, id="only an admin changes a queue"),
        pytest.param(["submit"], "POST", "/tokens", {"name": "me", "admin": True}, 403, id="or makes tokens"),
        pytest.param(["submit"], "POST", "/agents/lab/call", {"session": "s"}, 403, id="or speaks for a cluster"),
        pytest.param(["submit"], "PATCH", "/settings", {"paused": True}, 403, id="or pauses the server"),
    ],
)
def test_a_token_opens_what_it_is_for(
    site: Site, rights: list[str], method: str, path: str, body: Any, status: int
) -> None:
    headers = made(site, queues={"a": rights})

    site.ask(method, path, body, status=status, headers=headers)


def test_an_agents_token_speaks_for_its_cluster_only(site: Site) -> None:
    headers = made(site, cluster="lab")

    site.ask("POST", "/agents/lab/call", {"session": "s", "hello": True, "nodes": []}, headers=headers)
    site.ask("POST", "/agents/other/call", {"session": "s"}, status=403, headers=headers)
    site.ask("POST", "/jobs", {"jobs": [JOB]}, status=422, headers=headers)


def test_a_token_that_was_taken_back_opens_nothing(site: Site) -> None:
    answer = site.ask("POST", "/tokens", {"name": "gone", "admin": True}, status=201)
    headers = {"Authorization": f"Bearer {answer['token']}"}
    site.ask("GET", "/queues", headers=headers)
    site.ask("DELETE", f"/tokens/{answer['id']}", status=204)

    site.ask("GET", "/queues", status=401, headers=headers)


@pytest.mark.parametrize(
    "method, path, body, field, says",
    [
        pytest.param("POST", "/jobs", {"jobs": []}, "body", "one or more jobs", id="no jobs"),
        pytest.param("POST", "/jobs", [JOB], "body", "one or more jobs", id="a list is no submission"),
        pytest.param("POST", "/jobs", {"jobs": [{**JOB, "cpu": -1}]}, "jobs[0].cpu", "-1 is not allowed", id="-1 cpu"),
        pytest.param("POST", "/jobs", {"jobs": [JOB, {**JOB, "cpus": 1}]}, "jobs[1].cpus", "cpu", id="an unknown key"),
        pytest.param("POST", "/jobs", {"jobs": [{**JOB, "queue": "z"}]}, "jobs[0].queue", "a, b", id="no such queue"),
        pytest.param("PUT", "/queues/q", {"weight": 0}, "weight", "greater than 0", id="a weight of nothing"),
        pytest.param("PUT", "/queues/q", {"weigth": 1}, "weigth", "not permitted", id="a misspelt setting"),
        pytest.param("PUT", "/queues/q", {"quota": {"cpu": "x"}}, "quota.cpu", "quantity", id="a quota of x"),
        pytest.param("PUT", "/queues/no%20name", {}, "name", "match", id="a name with a space"),
        pytest.param("GET", "/jobs?limit=0", None, "limit", "greater than or equal to 1", id="no jobs at all"),
        pytest.param("GET", "/jobs?state=lost", None, "state", "'queued'", id="no such state"),
        pytest.param("POST", "/jobs/cancel", {}, "jobs", "at least one", id="nobody to cancel"),
        pytest.param("PATCH", "/settings", {"preemption": "maybe"}, "preemption", "'on'", id="maybe"),
        pytest.param("POST", "/agents/c/call", {"session": 1}, "body", "session", id="a session that is a number"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(
    site: Site, method: str, path: str, body: Any, field: str, says: str
) -> None:
    before = site.ask("GET", "/status")["lastEvent"]
    error = site.ask(method, path, body, status=422)["error"]

    assert error["problems"][0]["field"] == field
    assert says in error["problems"][0]["allowed"] + error["message"]
    assert site.ask("GET", "/status")["lastEvent"] == before


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("k" * 201, id="too long"),
        pytest.param("two words", id="a blank"),
        pytest.param("naïve".encode(), id="a letter of another alphabet"),
    ],
)
def test_a_key_of_a_submission_that_is_none_is_refused(site: Site, key: str | bytes) -> None:
    headers = [(b"Idempotency-Key", key.encode() if isinstance(key, str) else key)]
    error = site.ask("POST", "/jobs", {"jobs": [JOB]}, status=422, headers=headers)["error"]

    assert [problem["field"] for problem in error["problems"]] == ["Idempotency-Key"]
    assert "at most 200 letters, digits and ._:/-" in error["message"]


def test_what_is_not_json_is_said_to_be_so(site: Site) -> None:
    headers = {"Authorization": f"Bearer {site.token}"}
    for body in (b"", b"{", b"\xff\xfe", b"[" * 100_000):
        answer = httpx2.post(f"{site.url}/api/v1/jobs", content=body, headers=headers)
        assert answer.status_code == 422
        assert "JSON" in answer.json()["error"]["message"] or "one or more jobs" in answer.json()["error"]["message"]


def test_a_full_queue_answers_429_and_takes_nothing(site: Site) -> None:
    site.queue("full")
    site.submit(*({**JOB, "queue": "full"} for _ in range(49)))
    error = site.ask("POST", "/jobs", {"jobs": [{**JOB, "queue": "full"}] * 2}, status=429)["error"]

    assert "'full' has 49 jobs, and 50 is the most it takes" in error["message"]
    assert site.ask("GET", "/queues/full")["jobs"] == {"queued": 49}
    site.submit({**JOB, "queue": "full"})


def test_who_was_let_into_a_queue_that_is_full_by_now_hears_so_again(site: Site) -> None:
    site.queue("brim")
    jobs = {"jobs": [{**JOB, "queue": "brim"}] * 50}
    first = site.ask("POST", "/jobs", jobs, status=201, headers={"Idempotency-Key": "once"})

    assert site.ask("POST", "/jobs", jobs, status=201, headers={"Idempotency-Key": "once"}) == first
    site.ask("POST", "/jobs", jobs, status=429, headers={"Idempotency-Key": "another"})


def test_there_is_no_such_thing_is_said_with_its_name(site: Site) -> None:
    for path in ("/jobs/nobody", "/jobs/nobody/why", "/queues/nobody"):
        assert "'nobody'" in site.ask("GET", path, status=404)["error"]["message"]


@pytest.mark.parametrize(
    "method, path, status, says",
    [
        pytest.param(
            "GET", "/jobs/a%2Fb", 404, "/jobs/a/b: a path of /docs; a name in it has", id="a job with a slash"
        ),
        pytest.param("PUT", "/queues/a/b", 404, "and no '/'", id="a queue with a slash"),
        pytest.param("GET", "/job", 404, "there is nothing at /api/v1/job", id="a misspelt path"),
        pytest.param("DELETE", "/queues", 405, "DELETE is not allowed at /api/v1/queues: GET is", id="another method"),
        pytest.param("GET", "/jobs?qeue=a", 422, "one of after, jobSet, limit, queue, state", id="a misspelt filter"),
        pytest.param("GET", "/queues?name=a", 422, "no query parameters", id="a filter where there is none"),
    ],
)
def test_an_address_that_means_nothing_is_said_to_be_so(
    site: Site, method: str, path: str, status: int, says: str
) -> None:
    error = site.ask(method, path, {} if method == "PUT" else None, status=status)["error"]

    assert says in error["message"]
    assert error["problems"]


def test_an_agent_of_another_version_is_turned_away(site: Site) -> None:
    body = {"session": "s", "hello": True, "nodes": [], "version": "9.0"}

    assert "'9.0'" in site.ask("POST", "/agents/new/call", body, status=426)["error"]["message"]


def test_no_token_is_written_anywhere_but_where_it_belongs(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        site.queue("a")
        site.agent()
        made_token = site.ask("POST", "/tokens", {"name": "me", "admin": True}, status=201)["token"]
        site.wait(site.submit(JOB))
        site.ask("GET", "/tokens")
        answers = [
            httpx2.get(f"{site.url}{path}", headers={"Authorization": f"Bearer {site.token}"}).text
            for path in ("/api/v1/tokens", "/api/v1/audit", "/api/v1/turns", "/metrics", "/openapi.json")
        ]
        tokens = [site.token, made_token]
        site.server.end()

    written = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file() and path != site.token_file}
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    for token in tokens:
        assert [path for path, text in written.items() if token.encode() in text] == []
        assert all(token not in answer for answer in answers)
