"""A queue that is deleted leaves nothing behind: one made again under its name is a new one."""

from __future__ import annotations

import pytest
from worlds import World, a_job, a_world

from muster.model import events as ev
from muster.model.budgets import Budget
from muster.model.queues import Queue


def used() -> World:
    """Queue a had the whole node until now, and b waits for it; then a's job is cancelled."""
    world = a_world(over_share=None).with_node("n", cpu=4).with_queues("a", "b")
    world.with_jobs(a_job("a").named("first").cpu(4).lasts(seconds=600)).turn()
    return world.at(seconds=60).happens(ev.JobCancelled(job="first"))


@pytest.mark.parametrize(
    "events, first",
    [
        pytest.param([], "b", id="who used much lately comes second"),
        pytest.param(
            [ev.QueueDeleted(queue="a"), ev.QueueSet(queue=Queue(name="a"))], "a", id="a queue made again used nothing"
        ),
    ],
)
def test_what_a_queue_used_goes_with_it(events: list[ev.Event], first: str) -> None:
    world = used().happens(*events)

    world.with_jobs(*(a_job(queue).named(queue).cpu(4).lasts(seconds=600) for queue in "ab")).turn()

    assert list(world.state.running) == [first]


def test_a_queue_that_got_a_job_meanwhile_stays() -> None:
    world = a_world(over_share=None).with_node("n", cpu=4).with_queues("a", "b")
    world.with_jobs(a_job("a").named("late").cpu(8).lasts(seconds=1))

    world.happens(ev.QueueDeleted(queue="a"), ev.QueueDeleted(queue="b"), ev.QueueDeleted(queue="never was")).turn()

    assert list(world.state.books) == ["a"]
    assert [it.queue.name for it in world.snapshot().queues] == ["a"]


def test_a_copy_of_the_world_keeps_a_queue_that_the_world_gave_up() -> None:
    world = used()
    copied = world.state.fork()

    world.happens(ev.QueueDeleted(queue="a"))

    assert (list(world.state.books), list(copied.books)) == (["b"], ["a", "b"])
    assert world.state.forgets_queue_ms() is not None


def test_a_budget_goes_with_its_job_and_none_is_made_for_who_is_over() -> None:
    world = a_world(over_share=None).with_node("n", cpu=4).with_queues("a")
    world.with_jobs(a_job("a").named("j").cpu(1).lasts(seconds=600)).turn()
    budget = Budget(job="j", group="task", min_available=1)
    world.happens(ev.BudgetSet(budget=budget))
    assert world.snapshot().budgets == (budget,)

    world.happens(ev.BudgetGone(job="j", group="task"), ev.BudgetGone(job="j", group="task"))
    assert world.snapshot().budgets == ()
    world.happens(ev.BudgetSet(budget=budget), ev.JobCancelled(job="j"), ev.BudgetSet(budget=budget))
    assert world.snapshot().budgets == ()


def test_who_runs_is_not_held_back() -> None:
    world = a_world(over_share=None).with_node("n", cpu=4).with_queues("a")
    world.with_jobs(a_job("a").named("j").cpu(4).lasts(seconds=600)).turn()

    world.happens(ev.JobChanged(job="j", changes={"held_by": "ana"}))

    assert world.state.running["j"].job.held_by == ""
