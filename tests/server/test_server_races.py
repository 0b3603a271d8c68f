"""Races over clusters with agents: decided when the job is admitted, so exactly one of them ever runs it."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Site

CLUSTERS = ("east", "west")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as running:
        running.queue("a")
        for cluster in CLUSTERS:
            running.agent(cluster, nodes="2xcpu=2,memory=8Gi", seconds=0.05)
        yield running


def raced(name: str, **more: Any) -> dict[str, Any]:
    clusters = more.pop("clusters", {"east": {"priority": 80}, "west": {"priority": 20}})
    return {"name": name, "queue": "a", "cpu": 1, "race": {"clusters": clusters}, **more}


def begun(site: Site) -> Counter[str]:
    """How often each job was begun, by the agents' own ledgers."""
    lines = [
        json.loads(line)
        for cluster in CLUSTERS
        for line in site.ledger(cluster).read_text(encoding="utf-8").splitlines()
    ]
    return Counter(job for what, job, *_ in lines if what == "began")


def test_the_preferred_cluster_wins_while_it_has_room_and_then_the_other(site: Site) -> None:
    jobs = site.submit(*(raced(f"r{number}", command=["sleep", "600"]) for number in range(6)))
    ran = site.wait(jobs, "running")

    assert Counter(job["cluster"] for job in ran) == {"east": 4, "west": 2}
    assert begun(site) == dict.fromkeys(jobs, 1)


def test_whoever_is_killed_a_race_has_exactly_one_winner(site: Site) -> None:
    chance = random.Random(7)
    jobs: list[str] = []
    for number in range(4):
        jobs += site.submit(*(raced(f"r{number}-{place}") for place in range(10)))
        if chance.random() < 0.75:
            site.server.end(signal.SIGKILL)
            site.start()
    site.server.end(signal.SIGKILL)
    site.start()

    assert {job["state"] for job in site.wait(jobs)} == {"succeeded"}
    assert begun(site) == dict.fromkeys(jobs, 1)


@pytest.mark.parametrize(
    "clusters, problem",
    [
        pytest.param({"south": {}}, "a cluster of this server: east, west", id="a cluster that nobody knows"),
        pytest.param({"east": {"cpu": 2}, "west": {}}, "all copies ask for the same", id="copies that differ"),
    ],
)
def test_a_race_that_cannot_be_held_is_refused(site: Site, clusters: dict[str, Any], problem: str) -> None:
    error = site.ask("POST", "/jobs", {"jobs": [raced("r", clusters=clusters)]}, status=422)["error"]

    assert error["problems"][0]["field"].startswith("jobs[0].race.clusters.")
    assert problem in error["message"]
