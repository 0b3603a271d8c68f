"""What is true of every plan where there are pools, which come, change and go (design.md 5.1 to 5.3)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from worlds import POOLS, scenarios

from muster.sim.checker import check
from muster.sim.lines import lines
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation


def broken_rules(scenario: Scenario) -> list[str]:
    """What the checker says of every turn."""
    problems: list[str] = []
    simulation = Simulation(scenario, estimates=False)
    simulation.run.watch = lambda snapshot, plan: problems.extend(check(snapshot, plan))
    for _ in simulation:
        pass
    return problems


@given(scenarios(POOLS))
def test_property_pools_keep_every_rule(scenario: Scenario) -> None:
    assert broken_rules(scenario) == []


@given(scenarios(replace(POOLS, width="on")))
def test_property_elastic_jobs_in_pools_keep_every_rule(scenario: Scenario) -> None:
    assert broken_rules(scenario) == []


@given(scenarios(POOLS))
def test_property_turns_that_cannot_decide_anything_may_be_skipped(scenario: Scenario) -> None:
    def told(*, skips_turns: bool) -> list[object]:
        simulation = Simulation(scenario, skips_turns=skips_turns, estimates=False)
        return [line for tick in simulation for line in lines(tick)]

    assert told(skips_turns=True) == told(skips_turns=False)
