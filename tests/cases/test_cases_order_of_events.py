"""cases.md 4.3: golden orders of events. Jobs of one whole node each that say exactly how long they run."""

from __future__ import annotations

import json

import pytest
from story import job, small, story, world

EXACT = {"cpu": 32, "lifetime": 0, "runtime": "5m", "expectedRuntime": "5m"}


def two(**fields):
    return job("a", "A", count=2, **EXACT | fields)


TWO_CLUSTERS = [{"name": name, "nodes": [{"name": f"{name}-n", "cpu": 32}]} for name in ("east", "west")]

AT_ONCE = """
    submitted a-0 · submitted a-1
    admitted a-0 · started a-0 · admitted a-1 · started a-1
    succeeded a-0 · succeeded a-1
"""


@pytest.mark.parametrize(
    "scenario, order",
    [
        pytest.param(world(nodes=2, jobs=[two()]), AT_ONCE, id="SIM-1 two nodes run two jobs side by side"),
        pytest.param(
            world(nodes=1, jobs=[two()]),
            """
            submitted a-0 · submitted a-1
            admitted a-0 · started a-0 · admitted a-1
            succeeded a-0
            started a-1
            succeeded a-1
            """,
            id="SIM-2 one node runs them one after the other",
        ),
        pytest.param(
            world(clusters=TWO_CLUSTERS, jobs=[two()]), AT_ONCE, id="SIM-3 two clusters are as good as two nodes"
        ),
        pytest.param(
            world(nodes=2, jobs=[two(), job("b", "A", after=["a"], **EXACT)]),
            """
            submitted a-0 · submitted a-1 · submitted b
            admitted a-0 · started a-0 · admitted a-1 · started a-1
            succeeded a-0 · succeeded a-1
            admitted b · started b
            succeeded b
            """,
            id="SIM-4 a dependent waits in line until both have succeeded",
        ),
        pytest.param(
            world(nodes=2, jobs=[two(), job("b", "B", at=30, **EXACT)]),
            """
            submitted a-0 · submitted a-1
            admitted a-0 · started a-0 · admitted a-1 · started a-1
            submitted b
            preempted a-1 · requeued a-1 · admitted b · started b · admitted a-1
            succeeded a-0
            started a-1
            succeeded b
            succeeded a-1
            """,
            id="SIM-5 one of two gives way, and runs again when the other is done",
        ),
    ],
)
def test_order_of_events(scenario, order):
    told = story(scenario)

    assert told.events() == [event for line in order.strip().splitlines() for event in line.strip().split(" · ")]


def test_sim_4_the_dependent_is_told_why_it_waits():
    told = story(world(nodes=2, jobs=[two(), job("b", "A", after=["a"], **EXACT)]))

    assert told.reasons("b") == ["DEPENDENCY"]
    assert told.starts() == {"a-0": 0, "a-1": 0, "b": 300}


def test_sim_5_times_and_rule():
    told = story(world(nodes=2, jobs=[two(), job("b", "B", at=30, **EXACT)]))

    assert [(eviction.job, eviction.by, eviction.rule) for eviction in told.evictions()] == [("a-1", "b", "fair-share")]
    assert [line["t"] for line in told.log if line["event"] in ("started", "succeeded")] == [
        0,
        0,
        30,
        300,
        300,
        330,
        600,
    ]


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(
            world(
                nodes=2,
                jobs=[
                    two(),
                    small("B", 4, at=30, cpu=16, runtime="7m"),
                    small("C", 6, at=60, cpu=6, runtime="4m", expectedRuntime="3m"),
                ],
                events=[{"at": 90, "removeNode": "n-1"}],
                until="1h",
            ),
            id="SIM-7 the same scenario tells the same story, to the byte",
        )
    ],
)
def test_the_same_story_twice(scenario):
    backwards = scenario | {"jobs": scenario["jobs"][::-1]}

    first, second, third = (story(text, estimates=True) for text in (scenario, scenario, backwards))

    assert json.dumps(first.log) == json.dumps(second.log) == json.dumps(third.log)
