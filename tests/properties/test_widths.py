"""How wide jobs run, whatever happens: within bounds, not too often, never on room that is not there (cases.md 7.8)."""

from __future__ import annotations

from effort import a_part
from hypothesis import given
from worlds import BENEFITS, WIDTHS, scenarios

from muster.model import events as ev
from muster.model.jobs import Running
from muster.model.plan import Resize
from muster.sim.checker import check
from muster.sim.lines import dumps, lines
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation

WORLDS = scenarios(WIDTHS) | scenarios(BENEFITS)


def width(run: Running, group: str) -> int:
    return sum(task.group == group for task in run.tasks)


@given(WORLDS)
def test_property_widths_stay_between_min_and_max(scenario: Scenario) -> None:
    simulation = Simulation(scenario, estimates=False)
    for _ in simulation:
        for run in simulation.state.running.values():
            for group in run.job.profile.groups:
                assert group.min <= width(run, group.name) <= group.max


@given(WORLDS)
def test_property_no_width_changes_more_often_than_its_freezing_window_allows(scenario: Scenario) -> None:
    """Preemption and loss ignore the window, but start a new one."""
    simulation = Simulation(scenario, estimates=False)
    changed: dict[tuple[str, int], int] = {}
    for tick in simulation:
        now_ms, planned = tick.moment.now_ms, {}
        for action in tick.moment.plan.actions:
            if isinstance(action, Resize):
                planned[action.job] = action.attempt
        for event in tick.moment.events:
            if isinstance(event, ev.JobResized) and event.job in simulation.state.running:
                run = simulation.state.running[event.job]
                last_ms = changed.get((event.job, run.attempt))
                if event.job in planned and last_ms is not None and last_ms != now_ms:
                    assert now_ms - last_ms >= run.job.freezing_ms
                changed[event.job, run.attempt] = now_ms


@given(WORLDS)
def test_property_an_independent_checker_finds_no_fault_with_widths(scenario: Scenario) -> None:
    simulation = Simulation(scenario, estimates=False)
    problems: list[str] = []
    simulation.run.watch = lambda snapshot, made: problems.extend(check(snapshot, made))
    for _ in simulation:
        assert problems == []


@given(WORLDS)
def test_property_at_a_frozen_clock_widths_come_to_rest(scenario: Scenario) -> None:
    """Who grows may bring its queue above its share, and so others a right: that takes a turn or two more."""
    simulation = Simulation(scenario, estimates=False)
    for tick in simulation:
        run, now_ms = simulation.run, tick.moment.now_ms
        assert any(not run.step(now_ms).plan.actions for _ in range(4))


@a_part(2)
@given(WORLDS)
def test_property_turns_that_change_no_width_may_be_skipped(scenario: Scenario) -> None:
    def told(*, skips_turns: bool) -> list[str]:
        simulation = Simulation(scenario, skips_turns=skips_turns, estimates=False)
        return [dumps(line) for tick in simulation for line in lines(tick)]

    assert told(skips_turns=True) == told(skips_turns=False)
