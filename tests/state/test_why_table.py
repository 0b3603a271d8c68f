"""The table of a turn: what it says of everyone who waits, by queue and profile."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from worlds import EVERYTHING, POOLS, Knobs, World, a_job, a_world, scenarios

from muster.model.plan import Waiting
from muster.model.reasons import Reason
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation
from muster.state.why.table import Table, table_of


def told(world: World) -> Table:
    """Take a turn, and read its table."""
    plan = world.turn()
    return table_of(world.state, plan)


def lines(table: Table) -> list[tuple[str, str, str, int]]:
    return [(wait.queue, wait.asks, wait.reason.name, wait.jobs) for wait in table.waits]


def full() -> World:
    """A node of 4 cores that are all in use."""
    world = a_world(over_share=None, reservations=0).with_node(cpu=4).with_jobs(a_job("a").cpu(4).lasts(minutes=10))
    world.turn()
    return world


@pytest.mark.parametrize(
    "jobs, expected",
    [
        pytest.param(
            [a_job("a").cpu(1)] * 3,
            [("a", "1 task of 1 cpu", "NO_ROOM", 3)],
            id="jobs that ask for the same are one line",
        ),
        pytest.param(
            [a_job("a").cpu(1), a_job("a").cpu(2), a_job("b").cpu(1), a_job("b").cpu(1)],
            [
                ("a", "1 task of 1 cpu", "NO_ROOM", 1),
                ("a", "1 task of 2 cpu", "NO_ROOM", 1),
                ("b", "1 task of 1 cpu", "NO_ROOM", 2),
            ],
            id="another profile or another queue is another line",
        ),
        pytest.param(
            [a_job("a").cpu(9), a_job("a").cpu(9), a_job("a").cpu(1)],
            [("a", "1 task of 1 cpu", "NO_ROOM", 1), ("a", "1 task of 9 cpu", "NEVER_FITS", 2)],
            id="who never fits is a line of its own",
        ),
        pytest.param(
            [a_job("a").cpu(1).of(held_by="ann"), a_job("a").cpu(1).of(held_by="bob")],
            [("a", "", "HELD", 2)],
            id="those who are held back are only counted",
        ),
    ],
)
def test_a_line_for_each_queue_profile_and_reason(jobs: list, expected: list) -> None:
    assert sorted(lines(told(full().with_jobs(*jobs)))) == sorted(expected)


def test_a_user_at_their_quota_waits_for_that_and_others_for_room() -> None:
    world = full().with_user("u", cpu="500m").with_jobs(a_job("a").cpu(1).of(user="u"), a_job("a").cpu(1).of(user="v"))

    assert sorted(line[2] for line in lines(told(world))) == ["NO_ROOM", "USER_QUOTA"]


def test_a_cordoned_queue_has_one_line_for_its_head_and_one_for_all_behind() -> None:
    world = full().with_queues("c", cordoned=True)
    world.with_jobs(*(a_job("c").cpu(cores) for cores in (1, 2, 3, 3)))

    assert sorted(lines(told(world))) == [("c", "", "BEHIND", 3), ("c", "1 task of 1 cpu", "QUEUE_CORDONED", 1)]


def test_a_reservation_is_said_of_its_owner_alone() -> None:
    world = a_world(over_share=None).with_node(cpu=4).with_jobs(a_job("a").cpu(4).lasts(minutes=10))
    world.turn()
    table = told(world.with_jobs(*(a_job("a").cpu(4).named(f"wide-{number}").lasts(minutes=1) for number in range(3))))

    by_job = {wait.job: (wait.reason, wait.jobs) for wait in table.waits}
    assert by_job["wide-0"] == (Reason.RESERVED, 1)
    assert sum(wait.jobs for wait in table.waits) == 3
    assert table.verdict("wide-0", "a").estimate_ms == 600_000


def _check(scenario: Scenario) -> None:
    simulation = Simulation(scenario, estimates=False)
    for tick in simulation:
        state, plan = simulation.state, tick.moment.plan
        if not plan.verdicts:
            continue
        table = table_of(state, plan)
        assert table.counts().total() == len(state.waiting())
        expected: Counter[tuple[str, str]] = Counter()
        for job_id in state.waiting():
            job = state.find(job_id)
            assert job is not None
            said = plan.verdicts.get(job_id)
            verdict = said if isinstance(said, Waiting) else plan.behind(job.queue)
            if job_id not in state.held:
                assert table.verdict(job_id, job.queue) == verdict
            if verdict.reason is not Reason.BEHIND:
                expected[job.queue, verdict.reason.name] += 1
        counted: Counter[tuple[str, str]] = Counter()
        for wait in table.waits:
            counted[wait.queue, wait.reason.name] += wait.jobs
        assert all(counted[key] >= many for key, many in expected.items())


@settings(max_examples=40)
@given(scenarios(replace(EVERYTHING, width="on")))
def test_property_the_table_says_of_everyone_what_the_plan_said(scenario: Scenario) -> None:
    _check(scenario)


@settings(max_examples=25)
@given(scenarios(POOLS))
def test_property_so_it_does_where_jobs_borrow(scenario: Scenario) -> None:
    _check(scenario)


@settings(max_examples=20)
@given(scenarios(Knobs(queues=1, entries=30, late=False)))
def test_property_a_table_has_no_more_lines_than_the_turn_looked_at_jobs(scenario: Scenario) -> None:
    simulation = Simulation(scenario, estimates=False)
    for tick in simulation:
        plan = tick.moment.plan
        looked_at = sum(isinstance(it, Waiting) for it in plan.verdicts.values())
        assert len(table_of(simulation.state, plan).waits) <= looked_at + len(scenario.queues)
