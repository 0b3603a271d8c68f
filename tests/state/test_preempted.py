"""State remembers to whom a job gave way, until the job ends."""

from __future__ import annotations

from worlds import World, a_job, a_world

from muster.model.events import JobCancelled


def with_a_victim() -> World:
    """low gave way to urgent, which is gone again, so that low runs once more."""
    there = a_world(over_share=None).with_node(cpu=1)
    there.with_jobs(a_job("a").named("low").cpu(1)).turn()
    there.at(seconds=10).with_jobs(a_job("b").named("urgent").cpu(1).of(priority_class=5).lasts(seconds=30)).turn()
    there.at(seconds=60).turn()
    assert there.started() == {"low"}
    return there


def test_the_next_attempt_knows_to_whom_the_job_gave_way() -> None:
    there = with_a_victim()

    assert there.state.running["low"].preempted_by == ("urgent",)
    assert there.state.fork().running["low"].preempted_by == ("urgent",)


def test_it_is_known_in_columns_too_and_forgotten_with_the_job() -> None:
    there = with_a_victim()
    there.happens(JobCancelled(job="low"))
    there.with_jobs(a_job("a").named("low").cpu(1)).turn()

    assert there.state.running["low"].preempted_by == ()


def test_tasks_above_min_that_went_count_as_well() -> None:
    there = a_world(over_share=None, elastic_every_ms=None).with_node(cpu=3)
    there.with_jobs(a_job("a").named("wide").cpu(1).tasks(1, 3)).turn()
    there.at(seconds=10).with_jobs(a_job("b").named("urgent").cpu(1).of(priority_class=5)).turn()

    run = there.state.running["wide"]

    assert (len(run.tasks), run.preempted_by) == (2, ("urgent",))
