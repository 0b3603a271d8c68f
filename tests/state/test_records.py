"""Every job has a record, though nothing is kept of those that stand in line for the first time."""

from __future__ import annotations

import pytest
from worlds import a_job, a_world

from muster.model import events as ev
from muster.model.after import After
from muster.model.retries import Retries
from muster.state.records import Phase, Record


def test_a_record_follows_its_job() -> None:
    world = (
        a_world(reservations=0)
        .with_node(cpu=1)
        .with_jobs(a_job("q").named("a").cpu(1).runs(minutes=1).of(retries=Retries(failed=1)))
    )
    world.with_jobs(a_job("q").named("b").cpu(1), a_job("q").named("c").cpu(1).of(after=(After("a"),)))
    jobs = world.state.jobs
    assert dict(jobs) == dict.fromkeys("abc", Record())
    world.turn()
    assert jobs["a"] == Record(Phase.RUNNING, attempts=1)
    world.happens(ev.TaskFailed(job="a", group="task", index=0))
    assert jobs["a"] == Record(Phase.QUEUED, attempts=1, failures=1)
    world.turn()
    world.at(minutes=2).happens(ev.JobCancelled(job="b"))
    assert jobs["a"] == Record(Phase.SUCCEEDED, attempts=2, failures=1)
    assert jobs["b"] == Record(Phase.CANCELLED, attempts=1)
    assert len(jobs) == 3


def test_nothing_is_known_of_a_job_that_never_came() -> None:
    jobs = a_world().state.jobs
    assert "a" not in jobs
    with pytest.raises(KeyError):
        jobs["a"]


def test_a_job_that_is_submitted_again_begins_anew() -> None:
    world = a_world().with_node(cpu=1).with_jobs(a_job("q").named("a").cpu(1))
    world.turn()
    world.happens(ev.JobCancelled(job="a"))
    assert world.state.jobs["a"] == Record(Phase.CANCELLED, attempts=1)
    world.with_jobs(a_job("q").named("a").cpu(1))
    assert world.state.jobs["a"] == Record()


def test_the_records_of_a_fork_go_their_own_way() -> None:
    world = a_world().with_node(cpu=1).with_jobs(a_job("q").named("a").cpu(1))
    fork = world.state.fork()
    world.turn()
    assert fork.jobs["a"] == Record()
    assert world.state.jobs["a"].phase is Phase.RUNNING
