"""`config.order` of a scenario."""

from __future__ import annotations

import pytest

from muster.model.order import NAMED, Order
from muster.model.policy import FairBy
from muster.sim.scenario.loader import parse
from muster.sim.scenario.problems import ScenarioError
from muster.sim.simulate import Simulation

THREE = """
config: {order: %s, overShare: off}
clusters: [{name: c, nodes: [{name: n, cpu: 4}]}]
jobs:
  - {name: first, cpu: 4, runtime: 10m, expectedRuntime: 10m}
  - {name: long, cpu: 4, runtime: 30m, expectedRuntime: 30m, at: 1m}
  - {name: short, cpu: 4, runtime: 1m, expectedRuntime: 1m, at: 2m}
"""


@pytest.mark.parametrize(
    "text, order",
    [
        *(pytest.param(name, order, id=f"by name: {name}") for name, order in NAMED.items()),
        pytest.param(
            "{expected: 0.5, size: -1, waited: 2.125, attained: 2, patience: 1h, atLeast: 10s}",
            Order(expected=500, size=-1000, waited=2125, attained=2000, patience_ms=3_600_000, floor_ms=10_000),
            id="by exponents",
        ),
    ],
)
def test_an_order_is_read(text: str, order: Order) -> None:
    assert parse(THREE % text).policy.order == order


@pytest.mark.parametrize(
    "text, words",
    [
        pytest.param(
            "fastest", "one of arrival, shortest, smallest, slowdown, wfp3, leastAttained", id="no such order"
        ),
        pytest.param("{expected: 21}", "config.order.expected", id="exponent too large"),
        pytest.param("{expected: 0.0001}", "at most three decimals", id="exponent too fine"),
        pytest.param("{speed: 1}", "config.order.speed", id="no such exponent"),
    ],
)
def test_a_wrong_order_is_refused(text: str, words: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse(THREE % text)

    assert words in str(refused.value)


@pytest.mark.parametrize(
    "order, second",
    [
        pytest.param("arrival", "long", id="first come, first served"),
        pytest.param("shortest", "short", id="the shorter one goes first"),
    ],
)
def test_the_order_decides_who_starts_next(order: str, second: str) -> None:
    starts = [
        action.job
        for tick in Simulation(parse(THREE % order), estimates=False)
        for action in tick.moment.plan.actions
        if type(action).__name__ == "Start"
    ]

    assert starts[:2] == ["first", second]


@pytest.mark.parametrize("text, thousandths", [("0", 0), ("0.5", 500), ("1", 1000), ("0.125", 125)])
def test_how_much_queues_of_short_jobs_come_first_is_read(text: str, thousandths: int) -> None:
    assert parse((THREE % "arrival").replace("overShare: off", f"shortFirst: {text}")).policy.short_first == thousandths


@pytest.mark.parametrize(
    "text, fair_by",
    [
        pytest.param("backfill: on", FairBy.SERVICE, id="by service unless it says otherwise"),
        pytest.param("fairBy: flow", FairBy.FLOW, id="by flow"),
        pytest.param("shortFirst: 0.5", FairBy.FLOW, id="queues of short jobs come first by flow"),
    ],
)
def test_by_what_turns_go_is_read(text: str, fair_by: FairBy) -> None:
    assert parse((THREE % "arrival").replace("overShare: off", text)).policy.fair_by is fair_by


@pytest.mark.parametrize(
    "text, said",
    [
        pytest.param("fairBy: luck", "config.fairBy: 'luck' is not allowed: one of service, flow", id="no such thing"),
        pytest.param(
            "fairBy: service, shortFirst: 0.5",
            "config.shortFirst: compares flows: leave out fairBy, or say flow",
            id="short jobs first by service",
        ),
    ],
)
def test_a_wrong_way_to_find_whose_turn_it_is_is_refused(text: str, said: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse((THREE % "arrival").replace("overShare: off", text))

    assert said in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("1.5", id="above 1"),
        pytest.param("-0.1", id="below 0"),
        pytest.param("0.0001", id="too fine"),
        pytest.param("yes", id="not a number"),
    ],
)
def test_a_wrong_part_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse((THREE % "arrival").replace("overShare: off", f"shortFirst: {text}"))

    assert "config.shortFirst" in str(refused.value)
    assert "a number from 0 to 1 with at most three decimals" in str(refused.value)
