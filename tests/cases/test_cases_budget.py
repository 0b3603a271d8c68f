"""cases.md 2.5: the over-share limit and the excess budget. Capacity 100, two queues, factor 1.2, budget 600."""

from __future__ import annotations

import pytest
from story import job, story, world

FLEET = {
    "nodes": [{"name": "n", "cpu": 100}],
    "queues": [{"name": "P", "excessBudget": 600}, {"name": "Q", "excessBudget": 600}],
}
OTHER = job("other", "P", cpu=1)


@pytest.mark.parametrize(
    "holds, size, waits, facts",
    [
        pytest.param(50, 10, None, {}, id="BU-1 up to 1.2 times its share is allowed"),
        pytest.param(55, 10, "OVER_SHARE", {"share": 0.65, "limit": 0.6}, id="BU-2 beyond that it waits"),
    ],
)
def test_over_share_limit(holds, size, waits, facts):
    told = story(
        world(**FLEET, jobs=[OTHER, job("before", "Q", cpu=holds), job("next", "Q", at=60, cpu=size)], until=120)
    )

    assert told.reason("next") == waits
    assert ("next" in told.running()) == (waits is None)
    assert facts.items() <= (told.facts("next") if waits else {}).items()


BUDGET = [
    OTHER,
    job("before", "Q", cpu=50),
    job("long", "Q", at="1m", cpu=20, lifetime="30m", runtime="10m"),
    job("tiny", "Q", at="2m", cpu=1, lifetime="1m", runtime="1m"),
    job("again", "Q", at="12m", cpu=20, lifetime="30m"),
]


@pytest.mark.parametrize(
    "name, starts, waits, facts",
    [
        pytest.param("long", 60, [], {}, id="BU-3 thirty minutes of 20 cost the whole budget"),
        pytest.param("tiny", 660, ["BUDGET"], {"cost": 1, "left": 0}, id="BU-4 then even one minute of 1 is too much"),
        pytest.param("again", 720, [], {}, id="BU-6 all 600 are back as soon as the job is done"),
    ],
)
def test_excess_budget(name, starts, waits, facts):
    told = story(world(**FLEET, jobs=BUDGET, until="20m"))

    assert told.starts()[name] == starts
    assert told.reasons(name) == waits
    assert facts.items() <= (told.facts(name) if waits else {}).items()


@pytest.mark.parametrize(
    "passes, fields",
    [
        pytest.param(True, {"lifetime": 0}, id="who may always be preempted costs nothing"),
        pytest.param(False, {"lifetime": "1m"}, id="who is safe for a minute would be charged as well"),
    ],
)
def test_whom_a_spent_budget_lets_pass(passes, fields):
    """The first of the queue waits for the budget; who stands behind it goes on if the budget does not pay for it."""
    told = story(world(**FLEET, jobs=[*BUDGET[:4], job("behind", "Q", at="3m", cpu=2, **fields)], until="5m"))

    assert told.reason("tiny") == "BUDGET"
    assert ("behind" in told.running()) == passes


def test_bu_6_the_whole_budget_comes_back_at_once():
    """The job that cost all 600 ends after 10 minutes; at that very moment the next one of 600 starts."""
    jobs = [*BUDGET[:3], job("again", "Q", at="5m", cpu=20, lifetime="30m")]

    told = story(world(**FLEET, jobs=jobs, until="20m"))

    assert told.reasons("again") == ["BUDGET"]
    assert told.starts()["again"] == 660


def test_what_is_free_waits_for_no_budget_even_an_overdrawn_one():
    told = story(
        world(
            **FLEET,
            jobs=[
                OTHER,
                job("before", "Q", cpu=50),
                job("long", "Q", at="1m", cpu=20, lifetime="30m"),
                job("free", "Q", at="3m", cpu=5, lifetime="0s"),
                job("dear", "Q", at=210, cpu=5, lifetime="1m"),
            ],
            events=[{"at": "2m", "setQueue": {"name": "Q", "excessBudget": 10}}],
            until="4m",
        )
    )

    assert "free" in told.running()
    assert told.reason("dear") == "BUDGET"
