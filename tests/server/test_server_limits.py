"""What is too much is turned away: too many requests of one token or from one address, requests that are too long."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import Site

from muster.sdk.client import Client
from muster.sdk.errors import ApiError
from muster.server.rates import BURST_S, MOST_KNOWN, Rate


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site"), "", "--most-requests", "5", "--most-strangers", "2") as running:
        yield running


def _patient(site: Site, **more: float) -> Client:
    return Client(site.url, token=site.token, **more)


@pytest.fixture
def eager(site: Site) -> Iterator[httpx2.Client]:
    """Someone with a token of their own who does not care about limits."""
    with _patient(site) as admin:
        token = admin.make_token("eager", admin=True).token
    with httpx2.Client(base_url=site.url, headers={"Authorization": f"Bearer {token}"}) as client:
        yield client


def test_who_asks_too_often_is_told_the_limit_and_when_to_come_again(eager: httpx2.Client) -> None:
    while (answer := eager.get("/api/v1/queues")).status_code == 200:
        pass

    assert answer.status_code == 429
    assert "5 a second with one token are allowed" in answer.json()["error"]["message"]
    assert 1 <= int(answer.headers["Retry-After"]) <= BURST_S


def test_the_sdk_waits_as_told_and_gets_through(site: Site) -> None:
    with _patient(site) as client:
        assert [client.status().paused for _ in range(14)] == [False] * 14


def test_the_sdk_gives_up_when_its_patience_ends(site: Site) -> None:
    with _patient(site, patience_s=0.0) as client, pytest.raises(ApiError) as refused:
        _ask_for_ever(client)

    assert (refused.value.status, "with one token" in str(refused.value)) == (429, True)


def _ask_for_ever(client: Client) -> None:
    while True:
        client.status()


def test_other_tokens_agents_and_metrics_are_not_held_up_by_one_that_floods(site: Site, eager: httpx2.Client) -> None:
    with _patient(site) as admin:
        other = {"Authorization": f"Bearer {admin.make_token('patient', admin=True).token}"}
    with ThreadPoolExecutor(1) as people:
        flood = people.submit(lambda: [eager.get("/api/v1/queues").status_code for _ in range(200)])
        hello = {"session": "s", "hello": True, "nodes": []}
        answers = [
            eager.get("/api/v1/queues", headers=other),
            eager.get("/metrics"),
            eager.post("/api/v1/agents/other/call", json=hello),
        ]

    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert set(flood.result()) == {200, 429}


def test_guessing_tokens_is_limited_by_address_and_holds_up_nobody_with_a_token(site: Site) -> None:
    with httpx2.Client(base_url=site.url) as client:
        guesses = [client.get("/api/v1/queues", headers=_bearer(f"guess-{number}")) for number in range(40)]
        mine, well = client.get("/metrics", headers=_bearer(site.token)), client.get("/healthz")

    assert {answer.status_code for answer in guesses} == {401, 429}
    assert any("2 a second without a token that is known" in answer.text for answer in guesses)
    assert (mine.status_code, well.status_code) == (200, 200)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_an_agent_that_calls_too_often_waits_and_goes_on(tmp_path: Path) -> None:
    with Site(tmp_path, "", "--most-requests", "1") as site, _patient(site) as client:
        client.put_queue("a")
        agent = site.agent()
        sleeps = [["sleep", str(number / 10)] for number in range(10)]  # each end is told in a call of its own
        while "it answers 429" not in agent.log():
            client.submit([{"name": "x", "queue": "a", "cpu": 1, "command": command} for command in sleeps])
        client.submit([{"name": "y", "queue": "a", "cpu": 1}])

        site.wait_until(lambda: {job.state for job in client.jobs().jobs} == {"succeeded"})
        assert agent.is_alive


@pytest.mark.parametrize("path", ["/jobs", "/queues/a", "/agents/lab/call"])
@pytest.mark.parametrize("is_told", [True, False], ids=["the length is told", "the length is not told"])
def test_a_request_that_is_too_long_is_refused_wherever_it_goes(long: Site, path: str, is_told: bool) -> None:
    body = b'{"' + b" " * 5000 + b'"}'
    method = "PUT" if "queues" in path else "POST"
    headers = {"Authorization": f"Bearer {long.token}", "Content-Type": "application/json"}
    content = body if is_told else iter([body[:3000], body[3000:]])
    answer = httpx2.request(method, f"{long.url}/api/v1{path}", content=content, headers=headers)

    assert answer.status_code == 413
    assert "more than 4096 bytes is not allowed" in answer.json()["error"]["message"]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "server.yaml").write_text("limits: {mostBytes: 4096}\n", encoding="utf-8")
    with Site(folder, "", "--config", str(folder / "server.yaml")) as running:
        yield running


GAPS = st.lists(st.floats(0, 3, allow_nan=False), min_size=1, max_size=60)


@given(GAPS, st.sampled_from([0.5, 1.0, 4.0, 20.0]))
def test_no_span_of_time_lets_in_more_than_the_rate_and_a_burst(gaps: list[float], per_s: float) -> None:
    rate = Rate(per_s)
    let_in = [now for now in accumulate(gaps) if rate.wait_s("me", now) == 0]

    for first, begin in enumerate(let_in):
        for last, end in enumerate(let_in[first:]):
            assert last + 1 <= (end - begin) * per_s + max(BURST_S * per_s, 1) + 1e-6


@given(GAPS, st.sampled_from([0.5, 1.0, 4.0, 20.0]))
def test_who_waits_as_told_comes_in(gaps: list[float], per_s: float) -> None:
    rate, late = Rate(per_s), 0.0
    for now in accumulate(gaps):
        wait_s = rate.wait_s("me", now + late)
        if wait_s:
            late += wait_s
            assert rate.wait_s("me", now + late) == 0


def test_who_has_not_asked_for_long_is_forgotten_and_who_is_ahead_is_not() -> None:
    rate = Rate(1.0)
    for number in range(MOST_KNOWN - 1):
        rate.wait_s(f"early {number}", 0.0)
    assert [rate.wait_s("late", 100.0) for _ in range(3)] == [0, 0, 1]

    rate.wait_s("one more", 100.0)
    assert len(rate._until_s) == 2
    assert rate.wait_s("late", 100.0) == 1
