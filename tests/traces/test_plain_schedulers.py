"""The engine decides as plain schedulers do that were written apart from it, from the same textbook (evidence/)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import e2_backfill, e2_plain, e3_fairness, e3_plain
from muster.model.jobs import Job
from muster.model.resources import GPU
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.simulate import Simulation
from muster.sim.traces.loading import on_machine
from muster.sim.traces.shaping import Machine

PROCESSORS = 16
SECOND_MS = 1000


def starts(scenario: Scenario) -> list[int]:
    """When each job of a scenario starts, in seconds, in the order they came."""
    simulation, found = Simulation(scenario, estimates=False, tells_why=False), dict[str, int]()
    for tick in simulation:
        for event in tick.moment.events:
            if type(event).__name__ == "JobStarted":
                found[event.job] = tick.moment.now_ms // SECOND_MS
    return [found[entry.job.id] for entry in scenario.jobs]


@st.composite
def logs(draw: st.DrawFn) -> list[e2_plain.Plain]:
    """Jobs as they came: with round estimates, as people state them, so that many are expected to end together."""
    jobs, now = [], 0
    for gap in draw(st.lists(st.sampled_from([0, 0, 0, 5, 20]), min_size=10, max_size=40)):
        now += gap
        expected = draw(st.sampled_from([20, 40, 60]))
        size = draw(st.sampled_from([1, 2, 3, 5, 8, 13, PROCESSORS]))
        jobs.append(e2_plain.Plain(now, draw(st.integers(1, expected)), size, expected))
    return jobs


@pytest.mark.parametrize(
    "policy, order",
    [
        pytest.param("easy-fcfs", e2_plain.arrival, id="first come, first served"),
        pytest.param("easy-sjf", e2_plain.shortest, id="shortest first"),
        pytest.param("easy-wfp3", e2_plain.wfp3, id="WFP3, which changes with time"),
    ],
)
@given(jobs=logs())
def test_property_easy_backfilling_is_that_of_the_textbook(policy: str, order: e2_plain.Order, jobs: list) -> None:
    choices = e2_plain.Choices(head=order, backfill=order, counts_what_is_needed=False, order_every=600)
    plain = e2_plain.Easy(jobs, PROCESSORS, choices)
    plain.run()

    machine = Machine(1, PROCESSORS)
    entries = [
        ScriptJob(
            job=Job(
                id=f"j{number}",
                queue="all",
                profile=machine.profile(job.size),
                submit_ms=job.submit * SECOND_MS,
                expected_ms=job.expected * SECOND_MS,
            ),
            runtime_ms=job.run * SECOND_MS,
        )
        for number, job in enumerate(jobs)
    ]
    scenario = on_machine(machine, entries, Scenario(policy=e2_backfill.POLICIES[policy]))

    assert starts(scenario) == plain.start


@st.composite
def gangs(draw: st.DrawFn) -> list[e3_plain.Plain]:
    """Jobs as they came, wide enough for 64 nodes of 8 GPUs to be full."""
    jobs, now = [], 0
    for gap in draw(st.lists(st.integers(0, 5), min_size=20, max_size=60)):
        now += gap
        gpus = draw(st.sampled_from([1, 2, 4, 7, 8, 8, 12, 16, 64, 128]))
        jobs.append(e3_plain.Plain(now, draw(st.integers(1, 90)), gpus, "a"))
    return jobs


@pytest.mark.parametrize(
    "policy, rule",
    [
        pytest.param("fifo-strict", e3_plain.Rule(is_strict=True), id="nobody is passed over"),
        pytest.param("fifo-skip", e3_plain.Rule(), id="whoever fits starts"),
    ],
)
@given(jobs=gangs())
def test_property_gangs_start_as_a_plain_scheduler_starts_them(policy: str, rule: e3_plain.Rule, jobs: list) -> None:
    choices = e3_plain.Choices(shortest_of_a_second=False, lends_last_node=False, passed_over=None)
    plain = e3_plain.Replay(jobs, rule, choices)
    plain.run()

    machine = Machine(e3_plain.NODES, e3_plain.WHOLE, GPU)
    entries = [
        ScriptJob(
            job=Job(
                id=f"j{number}",
                queue="all",
                profile=machine.profile(job.gpus, whole_nodes=True),
                submit_ms=job.submit * SECOND_MS,
            ),
            runtime_ms=job.run * SECOND_MS,
        )
        for number, job in enumerate(jobs)
    ]
    scenario = on_machine(machine, entries, Scenario(policy=e3_fairness.POLICIES[policy][0]))

    assert starts(scenario) == plain.start
