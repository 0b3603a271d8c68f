"""What is true of every plan where there are pools, which come, change and go (design.md 5.1 to 5.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from story import story
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


def _jobs(name: str, queue: str, pool: str, latest: int, *, stated: bool) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Jobs that run for some seconds, which they say or not."""

    def made(of: list[tuple[int, int, int, int]]) -> list[dict[str, Any]]:
        common = {"queue": queue, "pool": pool, "lifetime": 0}
        return [
            {"name": f"{name}-{n}", "at": at, "cpu": cpu, "memory": f"{memory}Gi", "runtime": runs, **common}
            | ({"expectedRuntime": runs} if stated else {})
            for n, (cpu, memory, runs, at) in enumerate(of)
        ]

    one = st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(1, 40), st.integers(0, latest))
    return st.lists(one, min_size=1, max_size=8).map(made)


@given(
    own=_jobs("own", "h", "p", 0, stated=True),
    guests=_jobs("guest", "g", "default", 40, stated=False),
    reservations=st.integers(1, 3),
)
def test_property_where_nobody_gives_way_lending_delays_no_home_job(
    own: list[dict[str, Any]], guests: list[dict[str, Any]], reservations: int
) -> None:
    """On one machine: on several, who borrows may change which of them the next job takes."""

    def starts(*, shares: bool) -> dict[str, float]:
        pool = {"name": "p", "nodeSelector": {"p": "yes"}, "disablePreemption": True, "disableSharing": not shares}
        node = {"name": "n", "cpu": 8, "memory": "8Gi", "labels": {"p": "yes"}}
        told = story(
            {
                "config": {"overShare": "off", "reservations": reservations},
                "clusters": [{"name": "east", "nodes": [node]}],
                "pools": [pool],
                "jobs": [*own, *guests],
                "until": 600,
            }
        )
        return {name: at for name, at in told.starts().items() if name.startswith("own")}

    alone, beside = starts(shares=False), starts(shares=True)

    assert {name: at for name, at in beside.items() if at > alone[name]} == {}
    assert beside.keys() == alone.keys()
