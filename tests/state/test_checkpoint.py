"""A record may begin in the middle: a world built of its checkpoint decides as the one that has been running."""

from __future__ import annotations

import io
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from worlds import EVERYTHING, POOLS, WIDTHS, a_job, a_world, scenarios

from muster.model import events as ev
from muster.model.budgets import EvictionLimit
from muster.model.habit import Habit
from muster.model.policy import FairBy
from muster.model.retries import Retries
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation
from muster.state.record import Record, Recorder, Replay
from muster.state.record.checkpoint import checkpoint
from muster.state.state import State


def recorded_from(scenario: Scenario, at_ms: int) -> bytes | None:
    """The record of what happens in a scenario from a moment on; None if nothing happens any more."""
    simulation = Simulation(scenario, estimates=False)
    file = io.BytesIO()
    recorder = None
    for tick in simulation:
        now_ms = tick.moment.now_ms
        if recorder is None and now_ms >= at_ms and not simulation.run.is_due(now_ms):
            recorder = Recorder(file, scenario.policy)
            for when_ms, event in checkpoint(simulation.state):
                recorder.happened(event, when_ms)
            simulation.run.listener = recorder
    if recorder is None:
        return None
    recorder.close()
    return file.getvalue()


@given(st.one_of(scenarios(EVERYTHING), scenarios(WIDTHS), scenarios(POOLS)), st.integers(0, 60))
def test_property_turns_recorded_from_the_middle_on_are_decided_alike(whole: Scenario, at_s: int) -> None:
    scenario = replace(whole, jobs=tuple(entry for entry in whole.jobs if entry.race is None))
    data = recorded_from(scenario, at_s * 1000)
    if data is None:
        return

    differing = [turn for turn in Replay(Record(io.BytesIO(data))) if turn.difference is not None]

    assert differing == []


def test_a_checkpoint_tells_what_no_event_of_that_time_does() -> None:
    world = a_world(over_share=None, short_first=500, fair_by=FairBy.FLOW).with_node("n", cpu=4).with_queues("a")
    world.with_jobs(a_job("a").named("tried").cpu(4).lasts(seconds=600).of(retries=Retries(failed=3))).turn()
    world.at(seconds=60).happens(ev.TaskFailed(job="tried", group="task", index=0)).turn()
    world.at(seconds=61).turn()

    built = State(world.state.policy)
    for at_ms, event in checkpoint(world.state):
        built.apply(event, at_ms)

    assert built.running["tried"] == world.state.running["tried"]
    assert built.jobs["tried"] == world.state.jobs["tried"]
    assert built.jobs["tried"].failures == 1
    assert built.books["a"].state().account == world.state.books["a"].state().account
    assert built.books["a"].state().habit == Habit(ends=1, mean_ms=60_000)
    assert built.freeze(70_000).queues == world.state.freeze(70_000).queues


def test_a_checkpoint_tells_limits_to_evictions_and_those_that_are_gone_are_gone() -> None:
    world = a_world(over_share=None)
    kept, gone = (EvictionLimit(name=name, allowed=1, covers=(("a", 2),)) for name in ("kept", "gone"))
    world.happens(*(ev.EvictionLimitSet(limit=limit) for limit in (kept, gone))).turn()
    world.happens(ev.EvictionLimitGone(limit="gone")).turn()

    built = State(world.state.policy)
    for at_ms, event in checkpoint(world.state):
        built.apply(event, at_ms)

    assert built.freeze(0).eviction_limits == (kept,)
