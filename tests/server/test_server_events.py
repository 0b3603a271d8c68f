"""The stream of events: in order, by queue, job set or job, resumed where it broke off, 410 where that is too old."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from serving import Site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as running:
        for queue in ("a", "b"):
            running.queue(queue)
        running.agent()
        ids = running.submit(
            {"name": "one", "queue": "a", "cpu": 1, "jobSet": "s"},
            {"name": "two", "queue": "b", "cpu": 1, "jobSet": "s"},
            {"name": "three", "queue": "b", "cpu": 1},
        )
        running.wait(ids)
        yield running


def read(site: Site, **asked: object) -> list[tuple[int, dict[str, object]]]:
    """The events there are, each with its number."""
    assert site._client is not None
    params = {"after": "0", "follow": "false", **{name: str(value) for name, value in asked.items()}}
    found = []
    data: dict[str, object] = {}
    for line in site._client.get("/events", params=params).text.splitlines():
        if line.startswith("data: "):
            data = json.loads(line.removeprefix("data: "))
        if line.startswith("id: "):
            found.append((int(line.removeprefix("id: ")), data))
    return found


def test_events_come_in_order_and_without_gaps(site: Site) -> None:
    numbers = [number for number, _ in read(site)]

    assert numbers == list(range(1, len(numbers) + 1))
    assert [event["event"] for _, event in read(site)][:3] == ["submitted"] * 3


@pytest.mark.parametrize(
    "which, jobs",
    [
        pytest.param({"queue": "a"}, {"one"}, id="of a queue"),
        pytest.param({"jobSet": "s"}, {"one", "two"}, id="of a job set"),
        pytest.param({}, {"one", "two", "three"}, id="all"),
    ],
)
def test_only_what_was_asked_for_is_told(site: Site, which: dict[str, str], jobs: set[str]) -> None:
    told = {str(event["job"]).rpartition("-")[0] for _, event in read(site, **which)}

    assert told == jobs


def test_the_events_of_one_job_tell_its_whole_way(site: Site) -> None:
    (job,) = {event["job"] for _, event in read(site, queue="a")}

    assert [event["event"] for _, event in read(site, job=job)] == ["submitted", "started", "succeeded"]


def test_whoever_goes_on_after_a_number_misses_nothing(site: Site) -> None:
    everything = read(site)

    for number, _ in everything:
        assert read(site, after=number) == everything[number:]


def test_a_cursor_older_than_what_is_kept_is_answered_with_410(tmp_path: Path) -> None:
    with Site(tmp_path, "", "--keep", "0.2s") as site:
        site.queue("a")
        site.agent()
        site.submit({"name": "x", "queue": "a", "cpu": 1})
        # until it is over and forgotten, and so are its events: how it ends may be gone before anyone can look
        site.wait_until(lambda: not site.ask("GET", "/jobs")["jobs"] and not read(site))

        error = site.ask("GET", "/events?after=1", status=410)["error"]
        assert "begin again" in error["message"]
        assert read(site) == []  # 0 is the oldest that is kept, whichever that is


def test_those_who_follow_hold_nobody_up_and_all_hear_of_what_happens(site: Site) -> None:
    follower = httpx2.Client(
        base_url=site.url, headers={"Authorization": f"Bearer {site.token}"}, limits=httpx2.Limits(max_connections=200)
    )
    with follower, ExitStack() as streams:
        many = [streams.enter_context(follower.stream("GET", "/api/v1/events", timeout=60)) for _ in range(100)]
        began = time.monotonic()
        first, *_ = [site.submit({"name": "heard", "queue": "a", "cpu": 999})[0] for _ in range(4)]
        assert time.monotonic() - began < 5  # were each to keep a thread waiting, each of these would take ten
        for stream in many:
            assert first in next(line for line in stream.iter_lines() if line.startswith("data: "))
