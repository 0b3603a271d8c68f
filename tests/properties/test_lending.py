"""What is true of every plan where there are pools, which come, change and go (design.md 5.1 to 5.3)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from worlds import POOLS, scenarios, turns_of

from muster.engine import plan
from muster.model.plan import Plan, Start, Waiting
from muster.model.reasons import Reason
from muster.sim.checker import check
from muster.sim.lines import lines
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation


@given(scenarios(POOLS))
def test_property_pools_keep_every_rule(scenario: Scenario) -> None:
    assert [it for snapshot, made in turns_of(scenario) for it in check(snapshot, made)] == []


@given(scenarios(replace(POOLS, width="on")))
def test_property_elastic_jobs_in_pools_keep_every_rule(scenario: Scenario) -> None:
    assert [it for snapshot, made in turns_of(scenario) for it in check(snapshot, made)] == []


@given(scenarios(POOLS))
def test_property_turns_that_cannot_decide_anything_may_be_skipped(scenario: Scenario) -> None:
    def log(*, skips_turns: bool) -> list[object]:
        simulation = Simulation(scenario, skips_turns=skips_turns, estimates=False)
        return [line for tick in simulation for line in lines(tick)]

    assert log(skips_turns=True) == log(skips_turns=False)


def told(made: Plan) -> str:
    """All that a plan says."""
    verdicts, heads = sorted(made.verdicts.items()), sorted(made.heads.items())
    return repr((tuple(made.actions), verdicts, heads, made.wake_ms, made.waits_ms))


@given(scenarios(POOLS))
def test_property_pools_in_threads_decide_as_one_after_the_other(scenario: Scenario) -> None:
    for snapshot, made in turns_of(scenario):
        alone = replace(snapshot, columns=None)
        assert told(plan(alone, threads=1)) == told(plan(alone, threads=4)) == told(made)


@given(scenarios(POOLS))
def test_property_planned_again_at_the_same_moment_pools_have_nothing_to_do(scenario: Scenario) -> None:
    simulation = Simulation(scenario, estimates=False)
    for tick in simulation:
        waiting = [it for it in tick.moment.plan.verdicts.values() if isinstance(it, Waiting)]
        if not any(it.reason is Reason.RATE_LIMIT for it in waiting):
            assert plan(simulation.state.freeze(tick.moment.now_ms)).actions == ()


@given(scenarios(POOLS))
def test_property_a_gang_starts_inside_one_pool(scenario: Scenario) -> None:
    for snapshot, made in turns_of(scenario):
        for action in made.actions:
            if isinstance(action, Start):
                assert len({snapshot.fleet.pool_of(task.node) for task in action.tasks}) == 1
