"""The answer to `why`: its numbers are those of the world, and what it says would help does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from effort import a_part
from hypothesis import given
from worlds import EVERYTHING, JobBuilder, World, a_job, a_world, scenarios

from muster.engine import plan as decide
from muster.engine.shares import shares
from muster.model import events as ev
from muster.model.after import After
from muster.model.flow import Account
from muster.model.habit import Habit
from muster.model.plan import Start, Waiting
from muster.model.policy import FairBy
from muster.model.resources import CPU
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation
from muster.state.forecast import Estimate, forecast
from muster.state.why import Why, explain, paragraph
from muster.state.why.helping import with_job
from muster.state.why.words import clock, duration


def why(world: World, job: str) -> Why:
    """Take a turn, and ask about a job."""
    plan = world.turn()
    estimate = forecast(world.run, most_turns=100).get(job)
    answer = explain(world.state.freeze(world.now_ms), plan, job, estimate)
    assert answer is not None
    return answer


def a_full_node() -> World:
    """One node of 8 CPUs, of which a job of queue a holds 6 for ten minutes."""
    world = a_world(over_share=None).with_node(cpu=8).with_jobs(a_job("a").named("first").cpu(6).lasts(minutes=10))
    world.turn()
    return world


# --- what is said -------------------------------------------------------------------------------

_HELD = a_job("a").named("held").cpu(1).of(after=(After("first"),))
_PICKY = a_job("a").named("picky").cpu(4).on(zone="z")


@pytest.mark.parametrize(
    "jobs, asked, said",
    [
        pytest.param(
            [a_job("b").named("next").cpu(4)],
            "next",
            [
                "next (1 task of 4 cpu, queue b) has waited for 0s at 00:00:00.",
                "RESERVED: room on main is reserved for it from t = 600 s on.",
                "Of 1 node looked at for a task: 1 (8 cpu: n-0) lacks cpu: 2 free, 4 asked.",
                "Nobody is ahead of it.",
                "Queue b holds 0.0% of the fleet",
                "its nominal share is 50.0% (weight 1 of 2 in all)",
                "entitled to 50.0%",
                "It is expected to start at 00:10:00, when first has ended (00:10:00, as stated), if everyone runs",
                "tasks that ask for no more than 2 cpu",
                "1 more node like n-0",
                "It is looked at again when a node is added",
            ],
            id="a job that waits for room",
        ),
        pytest.param(
            [
                a_job("a").named(name).cpu(8).of(priority=rank)
                for name, rank in (("urgent", 3), ("second", 1), ("late", 0))
            ],
            "late",
            ["Ahead of it: 1 job of its queue before it, first second (priority 1 before 0); room is kept for urgent."],
            id="a job behind a more urgent one",
        ),
        pytest.param(
            [a_job("a").named("second").cpu(4), a_job("b").named("other").cpu(4)],
            "second",
            ["room is kept for other", "Ahead of it"],
            id="a job whose queue has had its share",
        ),
        pytest.param(
            [_PICKY],
            "picky",
            ["NEVER_FITS", "without the labels of its nodeSelector", "No start can be foretold."],
            id="labels nobody has",
        ),
        pytest.param(
            [_HELD],
            "held",
            ["DEPENDENCY: it starts after first.", "It is looked at again when a job ends."],
            id="a job that comes after another",
        ),
        pytest.param(
            [a_job("a").named("gang").cpu(2).tasks(3)],
            "gang",
            ["gang (3 tasks of 2 cpu, queue a)", "1 (8 cpu: n-0) has room now", "1 more node like n-0"],
            id="a gang of which one task fits",
        ),
    ],
)
def test_the_paragraph_says_it_with_numbers(jobs: list[JobBuilder], asked: str, said: list[str]) -> None:
    text = paragraph(why(a_full_node().with_jobs(*jobs), asked))

    for part in said:
        assert part in text, text


@pytest.mark.parametrize(
    "short_first, said",
    [
        pytest.param(0, "Nobody is ahead of it", id="not asked for"),
        pytest.param(1000, "queue b with other (flow per weight", id="the queue of short jobs is ahead"),
    ],
)
def test_queues_of_short_jobs_are_ahead_where_the_policy_says_so(short_first: int, said: str) -> None:
    world = (
        a_world(over_share=None, short_first=short_first, fair_by=FairBy.FLOW, reservations=0)
        .with_node(cpu=8)
        .with_queues("a", "b", "z")
    )
    world.with_jobs(a_job("z").named("first").cpu(8).lasts(minutes=10)).turn()
    for queue, seconds in (("a", 1000), ("b", 10)):
        habit = Habit(ends=1, mean_ms=seconds * 1000)
        world.happens(ev.QueueRecalled(queue=queue, account=Account(), fixed=Account(), active_ms=0, habit=habit))

    text = paragraph(why(world.with_jobs(a_job("a").named("own").cpu(4), a_job("b").named("other").cpu(4)), "own"))

    assert said in text, text


def test_a_queue_that_was_served_less_is_ahead() -> None:
    world = a_world(over_share=None, reservations=0).with_node(cpu=8)
    world.with_jobs(a_job("a").named("first").cpu(8).lasts(minutes=60)).turn()
    world.at(minutes=30).with_jobs(a_job("a").named("own").cpu(4), a_job("b").named("other").cpu(4)).turn()

    said = paragraph(why(world, "own"))

    assert "queue b with other (less served: 0 against " in said, said
    assert "in hours of usage per weight" in said


def test_a_guess_is_called_one() -> None:
    world = a_world().with_node(cpu=4).with_jobs(a_job("a").named("first").cpu(4), a_job("a").named("next").cpu(4))

    text = paragraph(why(world, "next"))

    assert "when first has ended (00:10:00, a guess); that rests on run times nobody stated" in text


def test_nodes_that_refuse_the_job_are_told_apart_from_those_that_are_full() -> None:
    world = a_world(over_share=None).with_node(cpu=4, count=3).with_node("big", cpu=64, cordoned=True)
    world.with_node("far", cluster="west", cpu=64)
    gpu = replace(a_job("a").named("j").cpu(6), clusters=(("main", 50),))

    lacks = {(lack.dimension, lack.count, lack.first) for lack in why(world.with_jobs(gpu), "j").lacks}

    assert lacks == {(CPU, 3, "n-0"), ("cordoned", 1, "big"), ("cluster", 1, "far")}


def test_nodes_of_other_pools_are_told_apart_and_more_of_its_own_would_help() -> None:
    world = a_world(over_share=None).with_pools("p", "q").with_pools("r", shares=False)
    for pool in ("p", "q", "r"):
        world.with_node(cpu=8, labels={pool: "yes"})
    world.with_jobs(a_job("b").cpu(8).of_pool("p"), a_job("b").cpu(4).of_pool("q")).turn()
    world.with_jobs(a_job("c").cpu(8).of_pool("q"), a_job("a").named("asked").cpu(4).of_pool("p"))

    said = paragraph(why(world, "asked"))

    assert "1 (8 cpu: n-0) lacks cpu: 0 free, 4 asked" in said
    assert "1 (8 cpu: n-1) is of pools that do not lend them while jobs of their own wait" in said
    assert "1 (8 cpu: n-2) is of pools it may not borrow from" in said
    assert "1 more node like n-0" in said


def test_a_queue_over_its_share_is_told_that_a_lifetime_would_help() -> None:
    world = a_world().with_node(cpu=8).with_queues("b", "c", "d")
    world.with_jobs(*(a_job("a").cpu(1) for _ in range(5)))

    first, behind = why(world, "a-2"), why(world, "a-4")

    assert first.waiting.reason.name == "OVER_SHARE"
    assert "lifetime" in {one.kind for one in first.helps}
    assert first.share.divisor == 4
    assert behind.waiting.reason.name == "BEHIND"
    assert "It is looked at again in the next turn and when a job ends, " in paragraph(behind)
    assert "What holds a-2 is OVER_SHARE: jobs without a lifetime would bring queue a to 37.5%" in paragraph(behind)


def test_a_cordoned_queue_and_a_quota_are_told_to_be_what_helps() -> None:
    world = a_world(over_share=None).with_node(cpu=8).with_queues("a", cordoned=True).with_queues("b", quota={CPU: 0})
    world.with_jobs(a_job("a").named("x").cpu(1), a_job("b").named("y").cpu(1))
    plan = world.turn()
    snapshot = world.state.freeze(0)

    answers = [explain(snapshot, plan, name) for name in ("x", "y")]

    assert [[one.kind for one in answer.helps] for answer in answers if answer] == [["uncordon"], ["quota"]]


def test_a_job_that_does_not_wait_has_no_why() -> None:
    world = a_full_node()
    plan = world.turn()

    assert explain(world.state.freeze(0), plan, "first") is None
    assert explain(world.state.freeze(0), plan, "nobody") is None


@pytest.mark.parametrize(
    "span_ms, text",
    [(0, "0s"), (1500, "1.5s"), (90_000, "90s"), (120_000, "2m"), (3_600_000, "1h"), (90_061_000, "1d 1h")],
)
def test_durations_are_told_in_at_most_two_units(span_ms: int, text: str) -> None:
    assert duration(span_ms) == text


def test_moments_are_told_as_tables_do() -> None:
    assert (clock(0), clock(90_061_500)) == ("00:00:00", "1d 01:01:01.500")


# --- properties ---------------------------------------------------------------------------------


@a_part(3)
@given(scenarios(replace(EVERYTHING, entries=8)))
def test_property_whoever_waits_is_explained_by_true_numbers(scenario: Scenario) -> None:
    simulation = Simulation(scenario, estimates=False)
    for number, tick in enumerate(simulation):
        if number % 5 or number > 20:
            continue
        snapshot, plan = simulation.state.freeze(tick.moment.now_ms), tick.moment.plan
        for job_id in sorted(simulation.state.waiting())[:3]:
            answer = explain(snapshot, plan, job_id)
            assert answer is not None
            text = paragraph(answer)
            assert text.startswith(f"{job_id} (")
            verdict = plan.verdicts.get(job_id)
            reason = verdict.reason.name if isinstance(verdict, Waiting) else "BEHIND"
            assert f" {reason}: " in text
            for group in answer.job.profile.groups:
                assert sum(lack.count for lack in answer.lacks if lack.group == group.name) == len(snapshot.nodes)
            divided = shares(snapshot)
            assert answer.share.nominal == divided.nominal[answer.job.queue] / max(divided.usage, 1)
            assert answer.share.entitled == divided.entitled[answer.job.queue] / max(divided.usage, 1)
            if any(one.kind == "lifetime" for one in answer.helps):
                changed = with_job(snapshot, answer.job, replace(answer.job, lifetime_ms=0))
                assert _starts(decide(changed), job_id)


def _starts(plan: Any, job_id: str) -> bool:
    return any(isinstance(action, Start) and action.job == job_id for action in plan.actions)


def test_explaining_changes_nothing() -> None:
    world = a_full_node().with_jobs(a_job("b").named("next").cpu(4))
    plan = world.turn()
    before = world.state.freeze(0)

    first, second = (explain(before, plan, "next", Estimate(start_ms=1, is_assumed=False)) for _ in range(2))

    assert first == second
    assert world.state.freeze(0) == before
    assert world.turn().is_empty
