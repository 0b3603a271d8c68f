"""What is true of every plan where nodes are in pools (design.md 5.1 to 5.3)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from worlds import POOLS, scenarios

from muster.engine import plan
from muster.model.plan import Plan, Start, Waiting
from muster.model.reasons import Reason
from muster.model.snapshot import Snapshot
from muster.sim.checker import check
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation


def turns_of(scenario: Scenario) -> list[tuple[Snapshot, Plan]]:
    """Every turn of a simulation."""
    turns: list[tuple[Snapshot, Plan]] = []
    simulation = Simulation(scenario, estimates=False)
    simulation.run.watch = lambda snapshot, made: turns.append((snapshot, made))
    for _ in simulation:
        pass
    return turns


def told(made: Plan) -> str:
    """All that a plan says."""
    return repr((tuple(made.actions), dict(made.verdicts), made.heads, made.wake_ms, made.waits_ms))


@given(scenarios(POOLS))
def test_property_pools_in_threads_decide_as_one_after_the_other(scenario: Scenario) -> None:
    for snapshot, made in turns_of(scenario):
        alone = replace(snapshot, columns=None)
        assert told(plan(alone, threads=1)) == told(plan(alone, threads=4)) == told(made)


@given(scenarios(POOLS))
def test_property_an_independent_checker_finds_no_fault_with_pools(scenario: Scenario) -> None:
    for snapshot, made in turns_of(scenario):
        assert check(snapshot, made) == []


@given(scenarios(POOLS))
def test_property_planned_again_at_the_same_moment_pools_have_nothing_to_do(scenario: Scenario) -> None:
    simulation = Simulation(scenario, estimates=False)
    for tick in simulation:
        waiting = [it for it in tick.moment.plan.verdicts.values() if isinstance(it, Waiting)]
        if not any(it.reason is Reason.RATE_LIMIT for it in waiting):
            assert plan(simulation.state.freeze(tick.moment.now_ms)).actions == ()


@given(scenarios(POOLS))
def test_property_skipping_turns_that_decide_nothing_changes_nothing_in_pools(scenario: Scenario) -> None:
    def log(*, skips_turns: bool) -> list[str]:
        simulation = Simulation(scenario, estimates=False, skips_turns=skips_turns)
        return [repr(event) for tick in simulation for event in tick.moment.events]

    assert log(skips_turns=True) == log(skips_turns=False)


@given(scenarios(POOLS))
def test_property_a_gang_starts_inside_one_pool(scenario: Scenario) -> None:
    for snapshot, made in turns_of(scenario):
        for action in made.actions:
            if isinstance(action, Start):
                assert len({snapshot.fleet.pool_of(task.node) for task in action.tasks}) == 1
