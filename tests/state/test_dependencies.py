"""Jobs come after others: they start, or end, when those have ended. Told by scenarios."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from story import Story, job, story, world

from muster.model import events as ev
from muster.sim.scenario.loader import parse
from muster.sim.simulate import Simulation
from muster.sim.summary import Summary

ENDS: dict[str, list[dict[str, Any]]] = {
    "succeeded": [],
    "failed": [{"at": 5, "failTask": "a/main-0"}],
    "cancelled": [{"at": 5, "cancel": "a"}],
}
FAILS = ENDS["failed"]


def causes(told: Story) -> dict[str, str]:
    """Why jobs were cancelled."""
    return {line["job"]: line.get("cause", "") for line in told.log if line["event"] == "cancelled"}


def after(when: str, name: str = "a") -> dict[str, str]:
    return {"job": name, "when": when}


@pytest.mark.parametrize(
    "when, end, starts, cause",
    [
        pytest.param("ok", "succeeded", 10, None, id="ok: it succeeded"),
        pytest.param("ok", "failed", None, "it was to start after a succeeded, but a failed", id="ok: it failed"),
        pytest.param(
            "ok", "cancelled", None, "it was to start after a succeeded, but a was cancelled", id="ok: it was cancelled"
        ),
        pytest.param("any", "succeeded", 10, None, id="any: it succeeded"),
        pytest.param("any", "failed", 5, None, id="any: it failed"),
        pytest.param("any", "cancelled", 5, None, id="any: it was cancelled"),
        pytest.param(
            "failed", "succeeded", None, "it was to start after a failed, but a succeeded", id="failed: it succeeded"
        ),
        pytest.param("failed", "failed", 5, None, id="failed: it failed"),
        pytest.param(
            "failed",
            "cancelled",
            None,
            "it was to start after a failed, but a was cancelled",
            id="failed: one that was cancelled has not",
        ),
    ],
)
@pytest.mark.parametrize("at", [pytest.param(0, id="in time"), pytest.param(60, id="submitted after the end")])
def test_how_the_other_job_must_end(at: int, when: str, end: str, starts: int | None, cause: str | None) -> None:
    told = story(world(jobs=[job("a", runtime=10), job("b", at=at, after=[after(when)])], events=ENDS[end], until=100))

    assert told.starts().get("b") == (None if starts is None else max(starts, at))
    assert causes(told).get("b") == cause
    assert told.reasons("b") == (["DEPENDENCY"] if at == 0 else [])


def test_a_chain_ends_at_one_moment_whoever_is_in_it() -> None:
    chain = [job(f"c{number}", after=[f"c{number - 1}" if number else "a"]) for number in range(2000)]
    told = story(world(jobs=[job("a", runtime=10), *chain, job("last", after=[after("any", "c1999")])], events=FAILS))

    assert told.events("cancelled", at=5) == [f"cancelled c{number}" for number in range(2000)]
    assert causes(told)["c1999"] == "it was to start after c1998 succeeded, but c1998 was cancelled"
    assert told.starts() == {"a": 0, "last": 5}


def test_those_that_end_together_do_so_by_name_in_whichever_order_they_came() -> None:
    waiting = [job(name, after=[after("failed")]) for name in "dbc"]
    scenario = parse(yaml.safe_dump(world(jobs=[job("a", runtime=10), *waiting])))
    for jobs in (scenario.jobs, scenario.jobs[::-1]):
        happened = [event for tick in Simulation(replace(scenario, jobs=jobs)) for event in tick.moment.events]
        assert [event.job for event in happened if isinstance(event, ev.JobCancelled)] == ["b", "c", "d"]


@pytest.mark.parametrize(
    "needs, starts, cancelled",
    [
        pytest.param([after("failed"), "b"], 20, None, id="when the last one has ended as it had to"),
        pytest.param([after("any"), after("failed", "b")], None, 20, id="not when one of them did not"),
        pytest.param(["a", "b"], None, 5, id="nor is the other one waited for"),
        pytest.param([after("any", "all"), after("any")], 30, None, id="all jobs of an array"),
        pytest.param(["all", after("any", "all-1")], 30, None, id="one of them once more, on terms that are weaker"),
        pytest.param(["all", after("failed", "all-1")], None, 30, id="on terms that exclude each other"),
    ],
)
def test_several(needs: list[Any], starts: int | None, cancelled: int | None) -> None:
    jobs = [job("a", runtime=10), job("b", runtime=20), job("all", count=3, runtime=30), job("last", after=needs)]
    told = story(world(jobs=jobs, events=FAILS, until=100))

    assert told.starts().get("last") == starts
    ended = [line["t"] for line in told.log if line["event"] == "cancelled" and line["job"] == "last"]
    assert ended == ([] if cancelled is None else [cancelled])


def test_an_attempt_that_is_tried_again_is_no_end() -> None:
    jobs = [job("a", runtime=10, retries=1), job("b", after=[after("failed")]), job("c", after=["a"])]
    told = story(world(jobs=jobs, events=FAILS, until=100))

    assert told.starts() == {"a": 0, "c": 15}
    assert causes(told) == {"b": "it was to start after a failed, but a succeeded"}


def test_a_job_that_gives_way_once_too_often_ends_those_that_come_after_it() -> None:
    told = story(
        world(
            nodes=[{"name": "n", "cpu": 1}],
            priorityClasses={"high": 1000},
            jobs=[
                job("a", runtime=60, retries={"preempted": 0}),
                job("b", after=["a"]),
                job("c", after=[after("failed")]),
                job("urgent", at=10, runtime=10, priorityClass="high"),
            ],
            until=100,
        )
    )

    assert told.events("preempted", "failed", "cancelled", "started", at=10) == [
        "preempted a",
        "failed a",
        "cancelled b",
        "started urgent",
    ]
    assert told.starts() == {"a": 0, "urgent": 10, "c": 20}


def test_a_job_that_is_held_back_ends_with_what_it_comes_after() -> None:
    events = [{"at": 1, "hold": "b"}, {"at": 1, "hold": "c"}, *FAILS, {"at": 20, "release": "c"}]
    jobs = [job("a", runtime=10), job("b", after=["a"]), job("c", after=[after("failed")])]
    told = story(world(jobs=jobs, events=events, until=100))

    assert told.events("cancelled", at=5) == ["cancelled b"]
    assert told.starts() == {"a": 0, "c": 20}


def test_who_waits_says_for_whom_and_how_these_must_end() -> None:
    needs = ["a", after("any", "b"), after("failed", "c")]
    told = story(world(jobs=[*(job(name, runtime=99) for name in "abc"), job("d", after=needs)], until=10))

    assert told.facts("d") == {"after": ["a", "b (any)", "c (failed)"]}


def test_what_was_fulfilled_is_not_asked_for_again_when_nobody_remembers_it() -> None:
    jobs = [job("a", runtime=10), job("b", runtime=60), job("c", runtime=60, after=["a", "b"], retries=1)]
    simulation = story(world(jobs=jobs, until=20)).simulation
    run, state = simulation.run, simulation.state

    state.jobs.forget("a")
    run.expect(60_000, ev.JobSucceeded(job="b", attempt=1))
    run.step(60_000)
    assert state.running.keys() == {"c"}
    run.expect(70_000, ev.TaskFailed(job="c", group="main", index=0))
    run.step(70_000)
    assert state.running["c"].attempt == 2


def test_a_copy_of_the_world_goes_its_own_way() -> None:
    simulation = story(world(jobs=[job("a", runtime=60), job("b", after=["a"])], until=20)).simulation
    ahead = simulation.run.ahead(lambda _: 10_000)
    ahead.step(60_000)

    assert "b" in ahead.state.running
    assert "b" in simulation.state.held
    simulation.run.expect(30_000, ev.JobCancelled(job="a"))
    simulation.run.step(30_000)
    assert "b" in ahead.state.running
    assert simulation.state.jobs["b"].phase.value == "cancelled"


def test_the_summary_says_why_jobs_ended() -> None:
    scenario = world(jobs=[job("a", runtime=10, retries=0), job("b", after=["a"]), job("c", runtime=1)], events=FAILS)
    simulation = Simulation(parse(yaml.safe_dump(scenario)))
    summary = Summary(simulation)
    for tick in simulation:
        summary.add(tick)

    assert {name: told["lastVerdict"] for name, told in summary.totals()["jobs"].items()} == {
        "a": {"verdict": "failed", "cause": "failed"},
        "b": {"verdict": "cancelled", "cause": "it was to start after a succeeded, but a failed"},
        "c": {"verdict": "succeeded"},
    }
