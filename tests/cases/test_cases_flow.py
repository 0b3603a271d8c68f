"""cases.md 2.4: flow follows usage up at once and down by halves. Half time 20, in minutes."""

from __future__ import annotations

import pytest
from story import job, single, story, world

from muster.model.flow import Account

MINUTE = 60_000
HALF = 20 * MINUTE
UNIT = 1_000_000


@pytest.mark.parametrize(
    "flow, usage, minutes, then",
    [
        pytest.param(0, 10, 0, 10, id="FL-1 flow rises with usage at once"),
        pytest.param(100, 0, 20, 50, id="FL-2 half is forgotten after a half time"),
        pytest.param(100, 0, 40, 25, id="FL-2 three quarters after two"),
        pytest.param(5, 10, 0, 10, id="FL-4 never below usage"),
        pytest.param(5, 10, 7, 10, id="FL-4 never below usage, whenever one looks"),
        pytest.param(100, 40, 20, 70, id="FL-5 only what is above usage fades"),
        pytest.param(100, 0, 0, 100, id="FL-6 no time, no forgetting"),
    ],
)
def test_flow_after_some_time(flow, usage, minutes, then):
    account = Account(usage=0, flow=flow * UNIT).with_usage(usage * UNIT, 0, HALF)

    assert account.flow_at(minutes * MINUTE, HALF) == then * UNIT


@pytest.mark.parametrize("steps", [pytest.param((10, 20), id="FL-3 two steps of ten make one of twenty")])
def test_decay_does_not_depend_on_the_step(steps):
    whole = Account(flow=100 * UNIT).flow_at(20 * MINUTE, HALF)
    account = Account(flow=100 * UNIT)
    for minute in steps:
        account = account.with_usage(0, minute * MINUTE, HALF)

    assert account.flow == whole == 50 * UNIT


@pytest.mark.parametrize(
    "left_over, order",
    [
        pytest.param(
            "8m",
            ["a-0", "a-1", "a-2", "b-0", "b-1"],
            id="FL-7 within what it remembers a queue's next job costs nothing",
        ),
    ],
)
def test_memory_makes_the_next_job_free(left_over, order):
    """A remembers more than all its new jobs; B has as much in one job that still runs, so only ties decide."""
    told = story(
        world(
            nodes=[{"name": "n", "cpu": 32}],
            config={"halfTime": "1000h"},
            jobs=[
                job("before", "A", cpu=8, runtime=left_over, lifetime=0),
                job("beside", "B", cpu=8, lifetime=0),
                job("a", "A", count=3, at=left_over, cpu=1, lifetime=0),
                job("b", "B", count=2, at=left_over, cpu=1, lifetime=0),
            ],
            until=left_over,
        )
    )

    assert told.started(at=480) == order


@pytest.mark.parametrize(
    "fair_by, order",
    [
        pytest.param("flow", "b" * 15 + "a" * 16 + "b", id="FL-9 by flow whoever was idle goes first until flows meet"),
        pytest.param("service", "b" * 32, id="FL-9 by service the 640 core-minutes it was behind are 32 of its jobs"),
    ],
)
def test_an_idle_rival_goes_first(fair_by, order):
    """A had all 32 CPUs for 20 minutes and then nothing for a half time: its flow is 16."""
    told = story(
        world(
            nodes=[{"name": "n", "cpu": 32}],
            config={"fairBy": fair_by},
            jobs=[
                job("before", "A", cpu=32, runtime="20m", lifetime=0),
                single("A", 32, at="40m"),
                single("B", 32, at="40m"),
            ],
            until="40m",
        )
    )

    assert "".join(name[0] for name in told.started(at=2400)) == order
