"""The engine decides what the plain oracle decides, byte for byte, on every turn of random worlds."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from unittest import mock

import oracle
import pytest
from effort import a_part
from hypothesis import given
from worlds import EVERYTHING, EXACT, NEEDS, Knobs, scenarios

from muster.model.placement import PlacementRule
from muster.model.plan import Plan
from muster.model.policy import EVERYONE, Preemption
from muster.model.snapshot import Snapshot
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation

_COUNTING = [f"muster.engine.{module}" for module in ("kernels.hoping", "offers", "taking", "without")]


def told(plan: Plan) -> str:
    """A plan in full."""
    standing = (sorted(plan.standing.entered), sorted(plan.standing.closed))
    return repr(
        (plan.now_ms, plan.actions, sorted(plan.verdicts.items()), sorted(plan.heads.items()), plan.wake_ms, standing)
    )


def assert_same_plans(scenario: Scenario) -> None:
    """Every turn of a simulation, held against the oracle."""

    def compare(snapshot: Snapshot, made: Plan) -> None:
        assert told(made) == told(oracle.plan(snapshot))

    simulation = Simulation(scenario, estimates=False)
    simulation.run.watch = compare
    for _ in simulation:
        pass


@pytest.mark.hypothesis
@pytest.mark.parametrize("knobs", [pytest.param(EVERYTHING, id="everything"), pytest.param(EXACT, id="exact ends")])
def test_property_compiled_kernels_decide_as_the_oracle_does(knobs: Knobs) -> None:
    @given(scenarios(knobs))
    def decides(scenario: Scenario) -> None:
        assert_same_plans(scenario)

    with mock.patch.dict("os.environ", MUSTER_KERNELS="compiled"):
        decides()


@given(scenarios(EVERYTHING))
def test_property_the_engine_decides_as_the_oracle_does(scenario: Scenario) -> None:
    assert_same_plans(scenario)


@pytest.mark.parametrize("kernels", ["plain", "compiled"])
def test_property_so_it_is_where_not_every_cluster_honours_what_jobs_need(kernels: str) -> None:
    @given(scenarios(NEEDS))
    def decides(scenario: Scenario) -> None:
        assert_same_plans(scenario)

    with mock.patch.dict("os.environ", MUSTER_KERNELS=kernels):
        decides()


@pytest.mark.parametrize("kernels", ["plain", "compiled"])
@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.value) for rule in PlacementRule])
def test_property_the_engine_decides_as_the_oracle_does_by_every_rule_of_placement(
    rule: PlacementRule, kernels: str
) -> None:
    @a_part(2)
    @given(scenarios(replace(EVERYTHING, placement=(rule,))))
    def decides(scenario: Scenario) -> None:
        assert_same_plans(scenario)

    with mock.patch.dict("os.environ", MUSTER_KERNELS=kernels):
        decides()


@given(scenarios(EXACT))
def test_property_the_engine_decides_as_the_oracle_does_where_every_end_is_known(scenario: Scenario) -> None:
    assert_same_plans(scenario)


@given(scenarios(replace(EVERYTHING, orders="on")))
def test_property_the_engine_decides_as_the_oracle_does_whatever_the_order_inside_queues(scenario: Scenario) -> None:
    assert_same_plans(scenario)


@pytest.mark.parametrize("knobs", [pytest.param(EVERYTHING, id="everything"), pytest.param(EXACT, id="exact ends")])
def test_property_the_engine_decides_as_the_oracle_does_when_everyone_may_reserve(knobs: Knobs) -> None:
    @a_part(2)
    @given(scenarios(replace(knobs, reservations=(EVERYONE,))))
    def decides(scenario: Scenario) -> None:
        assert_same_plans(scenario)

    decides()


@a_part(2)
@given(scenarios(Knobs(nodes=10, queues=4, entries=40)))
def test_property_the_engine_decides_as_the_oracle_does_in_a_crowd(scenario: Scenario) -> None:
    assert_same_plans(scenario)


@a_part(2)
@given(scenarios(Knobs(queues=3, entries=30, preemption=(Preemption.ON, Preemption.DRY_RUN), searches=(1, 2, 3))))
def test_property_the_engine_decides_as_the_oracle_does_where_searches_run_out(scenario: Scenario) -> None:
    assert_same_plans(scenario)


@pytest.mark.parametrize("many", [pytest.param(3, id="nobody is listed"), pytest.param(1000, id="some are listed")])
def test_property_the_engine_decides_as_the_oracle_does_where_many_may_give_way(many: int) -> None:
    few = [f"{module}.FEW" for module in ("oracle.finder", *_COUNTING)]

    @a_part(4)
    @given(scenarios(Knobs(queues=3, entries=30, preemption=(Preemption.ON,), searches=(1, 2, 3))))
    def decides(scenario: Scenario) -> None:
        assert_same_plans(scenario)

    with ExitStack() as stack:
        for name in few:
            stack.enter_context(mock.patch(name, 2))
        stack.enter_context(mock.patch("muster.engine.offers.MANY", many))
        stack.enter_context(mock.patch.dict("os.environ", MUSTER_KERNELS="plain"))
        decides()


@a_part(2)
@given(scenarios(Knobs(queues=2, entries=24, depths=(1, 2, 3, 5))))
def test_property_the_engine_decides_as_the_oracle_does_where_a_turn_looks_at_few_profiles(scenario: Scenario) -> None:
    assert_same_plans(scenario)
