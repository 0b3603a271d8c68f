"""Limits: what closes a queue, for whom, and what it costs (design.md 4.4)."""

from __future__ import annotations

import pytest
from worlds import a_job, a_world

from muster.model import events as ev
from muster.model.queues import MINUTE_MS
from muster.model.resources import MICRO


def outcome(world, *jobs):
    """job → "started" or its reason."""
    plan = world.with_jobs(*jobs).turn()
    told = {}
    for job in jobs:
        verdict = plan.verdicts.get(job.name)
        told[job.name] = (
            "behind" if verdict is None else "started" if type(verdict).__name__ == "Started" else verdict.reason.name
        )
    return told


@pytest.mark.parametrize(
    "first, second, expected",
    [
        pytest.param({"gpu": 2}, {"cpu": 1}, "started", id="a GPU job at its quota holds back no CPU job"),
        pytest.param({"gpu": 2}, {"gpu": 1}, "behind", id="but every other GPU job, even one that would fit"),
        pytest.param({"gpu": 9}, {"gpu": 1}, "started", id="a job above the whole quota holds back only its like"),
    ],
)
def test_a_quota_closes_its_queue_for_those_who_ask_for_it(first, second, expected):
    world = a_world().with_node("n", cpu=64, gpu=16).with_queues("q", quota={"nvidia.com/gpu": 2000})
    world.with_jobs(a_job("q").cpu(1).gpu(1)).turn()

    def asking(name, given):
        job = a_job("q").cpu(1).named(name)
        return job.gpu(given["gpu"]) if "gpu" in given else job

    told = outcome(world, asking("a-first", first), asking("b-second", second))

    assert told == {"a-first": "QUOTA", "b-second": expected}


def test_a_users_quota_holds_back_that_user_only():
    world = a_world().with_node("n", cpu=64).with_queues("q").with_user("u", cpu=2)
    jobs = [a_job("q").cpu(2).named(f"{user}-{index}").of(user=user) for user in "uv" for index in range(2)]

    assert outcome(world, *jobs) == {"u-0": "started", "u-1": "USER_QUOTA", "v-0": "started", "v-1": "started"}


def test_width_above_min_stays_within_the_quota():
    world = a_world().with_node("n", cpu=64).with_queues("q", quota={"cpu": 5000})

    world.with_jobs(a_job("q").cpu(2).tasks(1, 8).named("wide")).turn()

    assert len(world.state.running["wide"].tasks) == 2


@pytest.mark.parametrize(
    "queues, cpu, expected",
    [
        pytest.param(("q",), 100, "started", id="alone, the limit is the whole fleet"),
        pytest.param(("q", "r"), 60, "started", id="two queues: 1.2 x half the fleet is allowed"),
        pytest.param(("q", "r"), 61, "OVER_SHARE", id="two queues: a core more is not"),
        pytest.param(("q", "r", "s"), 40, "started", id="three queues: exactly 1.2 x a third, without rounding"),
        pytest.param(("q", "r", "s"), 41, "OVER_SHARE", id="three queues: a core more is not"),
    ],
)
def test_jobs_without_a_lifetime_leave_room_for_newcomers(queues, cpu, expected):
    world = a_world().with_node("n", cpu=100).with_queues(*queues)

    assert outcome(world, a_job("q").cpu(cpu).named("job")) == {"job": expected}


def test_an_unused_queue_is_forgotten_after_thirty_days():
    world = a_world().with_node("n", cpu=100).with_queues("q", "r")
    assert outcome(world, a_job("q").cpu(90).named("job")) == {"job": "OVER_SHARE"}

    world.at(hours=30 * 24).turn()

    assert "job" in world.started()


def test_the_excess_budget_is_charged_above_the_nominal_share_and_comes_back():
    budget = 600 * MICRO * MINUTE_MS
    world = a_world().with_node("n", cpu=100).with_queues("q", excess_budget=budget).with_queues("r")
    first = outcome(world, a_job("q").cpu(50).lifetime(minutes=60).named("within"))
    second = outcome(world, a_job("q").cpu(20).lifetime(minutes=30).named("above"))
    third = outcome(world, a_job("q").cpu(1).lifetime(minutes=1).named("broke"))

    assert (first, second, third) == ({"within": "started"}, {"above": "started"}, {"broke": "BUDGET"})
    assert world.snapshot().queues[0].charged == budget

    world.at(minutes=10).happens(ev.JobCancelled(job="above"))
    assert world.snapshot().queues[0].charged == 0


@pytest.mark.parametrize(
    "policy, started",
    [
        pytest.param({"starts_per_turn": 3}, {"a": 2, "b": 1}, id="three a turn, shared"),
        pytest.param({"starts_per_queue": 1}, {"a": 1, "b": 1}, id="one a turn for each queue"),
    ],
)
def test_rate_limits_end_a_turn_early_and_the_next_goes_on(policy, started):
    world = a_world(over_share=None, **policy).with_node("n", cpu=8).with_queues("a", "b")

    plan = world.with_jobs(*(a_job(queue).cpu(1) for queue in "ab" for _ in range(4))).turn()

    assert plan.placed_by_queue() == started
    assert plan.wake_ms == plan.now_ms + 1
