"""Jobs that move between clusters, whatever happens: only who may, only where it is worth it, and not for ever."""

from __future__ import annotations

from hypothesis import given
from worlds import MOVES, scenarios

from muster.model.plan import Move
from muster.sim.checker import check
from muster.sim.lines import dumps, lines
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation


@given(scenarios(MOVES))
def test_property_an_independent_checker_finds_no_fault_with_moves(scenario: Scenario) -> None:
    simulation = Simulation(scenario, estimates=False)
    problems: list[str] = []
    simulation.run.watch = lambda snapshot, made: problems.extend(check(snapshot, made))
    for _ in simulation:
        assert problems == []


@given(scenarios(MOVES))
def test_property_at_a_frozen_clock_nobody_moves_twice(scenario: Scenario) -> None:
    simulation = Simulation(scenario, estimates=False)
    for tick in simulation:
        again = simulation.run.step(tick.moment.now_ms).plan
        moved = {action.job for action in tick.moment.plan.actions if isinstance(action, Move)}
        assert not moved & {action.job for action in again.actions if isinstance(action, Move)}


@given(scenarios(MOVES))
def test_property_turns_that_move_nobody_may_be_skipped(scenario: Scenario) -> None:
    def told(*, skips_turns: bool) -> list[str]:
        simulation = Simulation(scenario, skips_turns=skips_turns, estimates=False)
        return [dumps(line) for tick in simulation for line in lines(tick)]

    assert told(skips_turns=True) == told(skips_turns=False)
