"""No decision knows how long unfinished jobs will really run."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model import events as ev
from muster.model.jobs import Job
from muster.model.order import NAMED
from muster.model.policy import FairBy, Policy
from muster.model.resources import GPU
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.simulate import Simulation
from muster.sim.traces.loading import on_machine
from muster.sim.traces.shaping import Machine

MACHINE = Machine(3, 4, GPU)


def a_log(seed: int, *, states_times: bool) -> list[ScriptJob]:
    """Two dozen jobs that come in a quarter of an hour."""
    chance, entries = Random(seed), []
    for number in range(24):
        run_ms = chance.choice([5, 30, 60, 300, 900]) * 1000
        job = Job(
            id=f"j{number}",
            queue=chance.choice("abc"),
            profile=MACHINE.profile(chance.choice([1, 1, 2, 4, 8])),
            submit_ms=chance.randrange(0, 900) * 1000,
            lifetime_ms=chance.choice([None, 0, 60_000]),
            expected_ms=chance.choice([60, 600, 1200]) * 1000 if states_times else None,
        )
        entries.append(ScriptJob(job=job, runtime_ms=run_ms))
    return sorted(entries, key=lambda entry: (entry.job.submit_ms, entry.job.key))


def decided(scenario: Scenario) -> list[tuple[int, object]]:
    """All actions up to the end, with their moments."""
    told: list[tuple[int, object]] = []
    for tick in Simulation(scenario, estimates=False):
        told += [(tick.moment.now_ms, action) for action in tick.moment.plan.actions]
    return told


def over_by(scenario: Scenario, moment_ms: int) -> set[str]:
    """Who is over by a moment."""
    ticks = Simulation(replace(scenario, until_ms=moment_ms), estimates=False)
    return {event.job for tick in ticks for event in tick.moment.events if isinstance(event, ev.JobSucceeded)}


@pytest.mark.parametrize(
    "policy",
    [
        *(pytest.param(Policy(over_share=None, order=order), id=f"order {name}") for name, order in NAMED.items()),
        pytest.param(Policy(over_share=None, short_first=1000, fair_by=FairBy.FLOW), id="queues of short jobs first"),
    ],
)
@settings(max_examples=3)
@given(seed=st.integers(0, 10_000), moment_s=st.integers(60, 900), states_times=st.booleans())
def test_property_other_run_times_of_unfinished_jobs_change_no_decision(
    policy: Policy, seed: int, moment_s: int, states_times: bool
) -> None:
    entries, moment_ms = a_log(seed, states_times=states_times), moment_s * 1000
    around = Scenario(policy=policy)
    scenario = on_machine(MACHINE, entries, around)
    over, chance = over_by(scenario, moment_ms), Random(seed + 1)

    def otherwise(entry: ScriptJob) -> ScriptJob:
        if entry.job.id in over:
            return entry
        at_least_ms = max(moment_ms - entry.job.submit_ms, 0)  # no attempt of it was done before, nor is now
        return replace(entry, runtime_ms=at_least_ms + chance.randrange(1, 10**6))

    other = on_machine(MACHINE, [otherwise(entry) for entry in entries], around)

    until = {"until_ms": moment_ms}
    assert decided(replace(scenario, **until)) == decided(replace(other, **until))
