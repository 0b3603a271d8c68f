"""What is lived through in one go goes as it does turn by turn, to the last number that is told (ADR 0028)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.engine.kernels import entitling, flows
from muster.engine.shares import entitled_shares
from muster.model.fleet import Cluster
from muster.model.flow import POWERS, faded
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import Node, Request
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.resources import MICRO, Resources
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.simulate import Simulation
from muster.sim.straight import live_straight
from muster.sim.summary import Summary

SECOND_MS = 1000
MOST = (1 << 60) - 1


def a_profile(cpu: int, memory: int = 0) -> Profile:
    """One task."""
    amounts = {"cpu": cpu * 1000, **({"memory": memory << 30} if memory else {})}
    return Profile(groups=(TaskGroup(name="main", min=1, initial=1, max=1, request=Request.of(amounts)),))


def a_log(seed: int, jobs: int, **policy: Any) -> Scenario:
    """Jobs of a few queues on one machine that is too small for all at once; all say how long they run at most."""
    chance = random.Random(seed)
    cores, has_memory, horizon_s = chance.choice([4, 8, 16]), chance.random() < 0.3, chance.choice([20, 120, 600])
    queues = [Queue(name=name, weight=chance.choice([MICRO, MICRO, 2 * MICRO, MICRO // 3])) for name in "dcab"]
    queues = queues[: chance.randint(1, 4)]
    entries = []
    for number in range(jobs):
        runs_s = chance.choice([0, 1, 2, 5, 10, 30, 60, chance.randint(1, 300)])
        job = Job(
            id=f"j{chance.randint(0, 3)}-{number}",
            queue=chance.choice(queues).name,
            profile=a_profile(chance.choice([1, 1, 2, 3, cores // 2, cores]), has_memory * chance.randint(1, 4)),
            submit_ms=chance.choice([0, chance.randint(0, horizon_s), chance.randint(0, horizon_s)]) * SECOND_MS,
            number=chance.choice([0, 0, 0, 1]),
            priority=chance.choice([0, 0, 0, 0, 1]),
            expected_ms=max(runs_s + chance.choice([0, 0, 1, 20, 500]), 1) * SECOND_MS,
        )
        entries.append(ScriptJob(job=job, runtime_ms=runs_s * SECOND_MS))
    node = Node(name="n", cluster="east", allocatable=Resources({"cpu": cores * 1000, "memory": 8 << 30}))
    how = {
        "aging_after_ms": chance.choice([5, 30, 200, 86_400]) * SECOND_MS,
        "half_time_ms": chance.choice([20, 300, 1200]) * SECOND_MS,
        "share_memory_ms": chance.choice([30, 86_400]) * SECOND_MS,
        "turn_ms": chance.choice([1, 1, 5]) * SECOND_MS,
        **policy,
    }
    return Scenario(
        policy=Policy(over_share=None, **how),
        clusters=(Cluster(name="east"),),
        nodes=(node,),
        queues=tuple(queues),
        jobs=tuple(sorted(entries, key=lambda entry: (entry.job.submit_ms, entry.job.number, entry.job.key))),
    )


def totals_of(scenario: Scenario, **how: bool) -> dict[str, Any]:
    """What a simulation of it adds up to."""
    simulation = Simulation(scenario, tells_why=False, estimates=False, **how)
    summary = Summary(simulation)
    for tick in simulation:
        summary.add(tick)
    return summary.totals()


def straight_totals_of(scenario: Scenario) -> dict[str, Any] | None:
    """What it adds up to when it is lived through in one go."""
    outcome = live_straight(scenario)
    return None if outcome is None else Summary.of(outcome).totals()


@settings(max_examples=settings().max_examples * 4)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_property_lived_through_in_one_go_the_same_is_told_as_with_every_turn(seed: int, jobs: int) -> None:
    scenario = a_log(seed, jobs)

    assert straight_totals_of(scenario) == totals_of(scenario, skips_turns=False)


@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([4, 5, 6, 8]))
def test_property_where_queues_may_offer_few_profiles_it_is_the_same_or_left_to_the_simulation(
    seed: int, jobs: int, deep: int
) -> None:
    scenario = a_log(seed, jobs, profiles_deep=deep)
    straight = straight_totals_of(scenario)

    assert straight is None or straight == totals_of(scenario)


@pytest.mark.parametrize("many", [pytest.param(120, id="more lanes than there were"), pytest.param(1500, id="a crowd")])
def test_many_kinds_of_jobs_stand_in_line(many: int) -> None:
    scenario = a_log(7, many)
    entries = [
        replace(entry, job=replace(entry.job, submit_ms=0, priority=place % 100))
        for place, entry in enumerate(scenario.jobs)
    ]
    scenario = replace(scenario, jobs=tuple(sorted(entries, key=lambda entry: entry.job.key)))

    assert straight_totals_of(scenario) == totals_of(scenario)


def test_progress_is_told_until_all_have_ended() -> None:
    seen: list[int] = []

    live_straight(a_log(3, 500), seen.append)

    assert seen == sorted(seen)
    assert seen[-1] >= 497


def of_first(scenario: Scenario, **changes: Any) -> Scenario:
    """The first job is otherwise."""
    first, *others = scenario.jobs
    return replace(scenario, jobs=(replace(first, job=replace(first.job, **changes)), *others))


PLAIN = a_log(5, 20)


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(of_first(PLAIN, lifetime_ms=0), id="someone has a lifetime"),
        pytest.param(of_first(PLAIN, expected_ms=None), id="nobody knows when someone ends"),
        pytest.param(of_first(PLAIN, expected_ms=1), id="someone runs for longer than it says"),
        pytest.param(of_first(PLAIN, priority_class=1), id="someone is of another class"),
        pytest.param(of_first(PLAIN, profile=a_profile(1000)), id="someone never fits"),
        pytest.param(
            of_first(PLAIN, profile=replace(a_profile(1), groups=a_profile(1).groups * 2)), id="someone has two groups"
        ),
        pytest.param(a_log(0, 40, profiles_deep=1), id="a queue has offered as many profiles as it may"),
        pytest.param(replace(PLAIN, nodes=()), id="there is no machine"),
        pytest.param(replace(PLAIN, jobs=()), id="there are no jobs"),
        pytest.param(replace(PLAIN, until_ms=5), id="it is over before its end"),
        pytest.param(replace(PLAIN, rounds_ms=60_000), id="there are rounds"),
        pytest.param(replace(PLAIN, policy=replace(PLAIN.policy, reservations=0)), id="nobody is promised room"),
        pytest.param(replace(PLAIN, policy=replace(PLAIN.policy, over_share=MICRO)), id="there is a limit"),
        pytest.param(replace(PLAIN, policy=replace(PLAIN.policy, short_first=1)), id="queues of short jobs come first"),
        pytest.param(
            replace(PLAIN, queues=tuple(replace(it, quota={"cpu": 1000}) for it in PLAIN.queues)), id="there are quotas"
        ),
    ],
)
def test_what_is_out_of_the_ordinary_is_left_to_the_simulation(scenario: Scenario) -> None:
    assert live_straight(scenario) is None


# -- the kernels ---------------------------------------------------------------------------------------


@given(st.integers(0, MOST), st.integers(0, 10**12), st.integers(1, 2**31 - 1))
@example(1, 0, 1)
@example(MOST, 0, 1)
@example(MOST, 59, 1)
@example(3, 1, 1)
def test_property_flow_fades_in_words_as_it_does_in_numbers_of_any_size(amount: int, dt_ms: int, half_ms: int) -> None:
    nothing = np.zeros(1, np.int64)
    accounts = flows.Accounts(nothing, nothing, nothing, np.array(POWERS), np.array([half_ms]))

    assert flows.faded(amount, dt_ms, accounts) == faded(amount, dt_ms, half_ms)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 5)), min_size=1, max_size=12), st.integers(0, 3000))
def test_property_entitled_shares_are_those_of_every_turn(wants: list[tuple[int, int]], whole: int) -> None:
    names = [f"q{(7 * place) % len(wants)}-{place}" for place in range(len(wants))]
    demands, weights = (np.array(column, np.int64) for column in zip(*wants, strict=True))
    order, entitled = np.arange(len(wants)), np.zeros(len(wants), np.int64)
    by_name = np.argsort(np.argsort(np.array(names)))

    for _ in range(2):  # the second time the queues are in order already
        entitling.entitle(demands, weights, by_name, whole, order, entitled)

        expected = entitled_shares(
            dict(zip(names, demands.tolist(), strict=True)), dict(zip(names, weights.tolist(), strict=True)), whole
        )
        assert dict(zip(names, entitled.tolist(), strict=True)) == expected
