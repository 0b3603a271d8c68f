"""Moves between clusters by preference, told as small stories; every turn is held to the independent checker."""

from __future__ import annotations

import pytest
from story import story

CONFIG = {"overShare": "off", "moves": 10}
FAST_FIRST = {"fast": 100, "slow": 40}


def two_clusters(jobs, *, fast=1, slow=4, until=None, **config):
    clusters = [
        {"name": "fast", "nodes": [{"name": "f", "count": 1, "cpu": fast}]},
        {"name": "slow", "nodes": [{"name": "s", "count": 1, "cpu": slow}]},
    ]
    made = {"clusters": clusters, "config": {**CONFIG, **config}, "jobs": jobs}
    return story(made if until is None else {**made, "until": until})


def one(name, clusters, **fields):
    return {"name": name, "queue": "A", "cpu": 1, "lifetime": 0, "clusters": clusters, **fields}


def places(told):
    return {name: node for name, tasks in told.tasks().items() for node in tasks.values()}


@pytest.mark.parametrize(
    "second, config, expected",
    [
        pytest.param({}, {}, {"b": "f"}, id="where room is free, and it would rather be"),
        pytest.param({"clusters": {"fast": 45, "slow": 40}}, {}, {"b": "s"}, id="not for a few points"),
        pytest.param({"lifetime": "1h"}, {}, {"b": "s"}, id="not within its lifetime"),
        pytest.param({"lifetime": None}, {}, {"b": "s"}, id="nor if it has none"),
        pytest.param({}, {"moves": "off"}, {"b": "s"}, id="nobody where nobody is to move"),
        pytest.param({}, {"preemption": "off"}, {"b": "s"}, id="nor where nobody may be preempted"),
    ],
)
def test_a_job_moves(second, config, expected):
    fields = {key: value for key, value in {**one("b", FAST_FIRST, at=1), **second}.items() if value is not None}

    told = two_clusters([one("a", FAST_FIRST, runtime=100), fields], until=150, **config)

    assert places(told) == expected


def test_two_jobs_that_ask_for_the_same_change_places_if_both_together_gain():
    careless = one("careless", {"fast": 60, "slow": 55})
    eager = one("eager", {"fast": 100, "slow": 20}, at=1)

    told = two_clusters([careless, eager], until=100)

    assert places(told) == {"careless": "s", "eager": "f"}


def test_what_was_done_before_a_move_is_kept():
    runtime = {"work": "100s", "speed": {"fast": 1, "slow": 0.5}, "kept": True}
    jobs = [one("a", FAST_FIRST, runtime=100), one("b", FAST_FIRST, at=0, runtime=runtime)]

    told = two_clusters(jobs)

    (end,) = [line["t"] for line in told.log if line["event"] == "succeeded" and line["job"] == "b"]
    assert end == 150.0  # half as fast for 100 s, then as fast as can be


def test_whoever_has_moved_stays_for_a_while():
    jobs = [one("a", FAST_FIRST, runtime=100), one("b", FAST_FIRST, at=1), one("c", FAST_FIRST, at=2)]

    told = two_clusters(jobs, until=300)

    assert sum(line["event"] == "started" and line["job"] in "bc" for line in told.log) == 3
