"""Turns that are decided at a glance do what whole turns do, and leave to those what is out of the ordinary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from worlds import JobBuilder, World, a_job, a_world

from muster.engine import plan
from muster.engine.glance import glance
from muster.model.after import After
from muster.model.events import ForeignPlaced, JobSucceeded, NodeCordoned, QueueChanged
from muster.model.order import NAMED
from muster.model.plan import Action, Admit, Promise, Start
from muster.model.resources import Resources


def a_job_of(cpu: int, *, said_s: int, runs_s: int = 0, queue: str = "a") -> JobBuilder:
    """A job that is said to run so long, and does unless it is told otherwise."""
    return a_job(queue).cpu(cpu).runs(seconds=runs_s or said_s).expects(seconds=said_s)


def a_machine(**policy: Any) -> World:
    """One node of 8 cores, half of which is taken for 100 s, as one thinks; and promised to nobody yet."""
    world = a_world(**{"over_share": None, **policy}).with_node(cpu=8)
    world.with_jobs(a_job_of(4, said_s=100, runs_s=60).named("half")).turn()
    return world


def a_promise(**policy: Any) -> World:
    """The same, and one who wants six cores is promised them for then."""
    world = a_machine(**policy)
    world.with_jobs(a_job_of(6, said_s=50).named("most")).turn()
    return world


def told(actions: Iterable[Action]) -> list[str]:
    """What is done, shortly."""
    said = []
    for action in actions:
        match action:
            case Start(job=job):
                said.append(f"{job} starts")
            case Admit(job=job, reservation=reservation) | Promise(job=job, reservation=reservation):
                assert reservation is not None
                said.append(f"{job} at {reservation.start_ms // 1000}")
            case _:
                said.append(repr(action))
    return said


def ended(world: World, job: str, *, seconds: int) -> World:
    """The job ended at that second, sooner than one thought; the turn is still to be taken."""
    return world.at(seconds=seconds).happens(JobSucceeded(job=job, attempt=1))


Told = Callable[[], World]

DECIDED: dict[str, tuple[Told, list[str]]] = {
    "who fits beside others starts": (lambda: a_machine().with_jobs(a_job_of(2, said_s=9)), ["a-0 starts"]),
    "who does not fit is promised room, and nobody takes it": (
        lambda: a_machine().with_jobs(a_job_of(5, said_s=9), a_job_of(4, said_s=200)),
        ["a-0 at 100"],
    ),
    "who is gone by the promised moment passes": (
        lambda: a_promise().with_jobs(a_job_of(4, said_s=101), a_job_of(3, said_s=100)),
        ["a-1 starts"],
    ),
    "who finds room beside the promise passes": (
        lambda: a_promise().with_jobs(a_job_of(3, said_s=101), a_job_of(2, said_s=500)),
        ["a-1 starts"],
    ),
    "nobody starts who finds no room, now or then": (
        lambda: a_promise().with_jobs(a_job_of(5, said_s=1), a_job_of(3, said_s=500)),
        [],
    ),
    "of one queue the most urgent comes first": (
        lambda: a_promise().with_jobs(a_job_of(3, said_s=9), a_job_of(3, said_s=8).of(priority=1)),
        ["a-1 starts"],
    ),
    "of several queues the hungriest comes first": (
        lambda: a_promise().with_jobs(
            a_job_of(2, said_s=9), a_job_of(3, said_s=9, queue="b"), a_job_of(1, said_s=9, queue="b")
        ),
        ["b-0 starts", "b-1 starts"],
    ),
    "of queues that are alike the first by name": (
        lambda: a_promise().with_jobs(*(a_job_of(2, said_s=9, queue=queue) for queue in "bcd")),
        ["b-0 starts", "c-0 starts"],
    ),
    "of jobs of one moment the first by number": (
        lambda: a_promise().with_jobs(
            a_job_of(3, said_s=9).of(number=2), a_job_of(2, said_s=9).of(number=1), a_job_of(1, said_s=9).of(number=3)
        ),
        ["a-1 starts", "a-2 starts"],
    ),
    "who was promised room starts when someone ends early, and the next is promised some": (
        lambda: ended(a_promise(), "half", seconds=50).with_jobs(
            a_job_of(5, said_s=9, queue="b"), a_job_of(1, said_s=60), a_job_of(2, said_s=50)
        ),
        ["most starts", "b-0 at 100", "a-0 starts"],
    ),
    "who was promised room has it sooner when someone ends early": (
        lambda: ended(
            a_machine().with_jobs(a_job_of(3, said_s=200).named("less"), a_job_of(6, said_s=9).named("most")).then(),
            "less",
            seconds=10,
        ),
        ["most at 100"],
    ),
    "who has waited for very long is promised room before the hungriest": (
        lambda: ended(
            a_promise(aging_after_ms=10_000).with_jobs(a_job_of(7, said_s=9, queue="b")).then(), "half", seconds=50
        ).with_jobs(a_job_of(3, said_s=9, queue="c")),
        ["most starts", "b-0 at 100"],
    ),
    "nobody waits, and nobody is promised anything": (lambda: a_machine(), []),
}


@pytest.mark.parametrize("world, does", DECIDED.values(), ids=DECIDED)
def test_a_glance_decides_what_a_whole_turn_does(world: Told, does: list[str]) -> None:
    now = world()
    seen, whole = glance(now.state.freeze(now.now_ms), 0), plan(now.snapshot())
    assert seen is not None
    assert told(seen.actions) == told(whole.actions) == does
    assert list(seen.actions) == list(whole.actions)
    assert seen.is_at_rest
    waits = any(isinstance(action, Admit) for action in seen.actions) or "most" in now.state.pending
    assert seen.wake_ms == (whole.wake_ms if waits else None)  # a whole turn looks again for who starts in it


LEFT: dict[str, Told] = {
    "another node": lambda: a_promise().with_node(cpu=1),
    "a cordoned node": lambda: a_promise().happens(NodeCordoned(node="n-0", cordoned=True)),
    "a node with devices": lambda: a_world(over_share=None).with_node(cpu=8, gpu=1).with_jobs(a_job_of(1, said_s=9)),
    "someone whose end nobody knows": lambda: a_machine().with_jobs(a_job("a").cpu(1)).then(),
    "someone who is overdue": lambda: a_machine().with_jobs(a_job_of(1, said_s=5, runs_s=50)).then().at(seconds=7),
    "a lifetime": lambda: a_promise().with_jobs(a_job_of(1, said_s=9).lifetime(minutes=1)),
    "another class": lambda: a_promise().with_jobs(a_job_of(1, said_s=9).of(priority_class=5)),
    "a gang": lambda: a_promise().with_jobs(a_job_of(1, said_s=9).tasks(2)),
    "an elastic job": lambda: a_promise().with_jobs(a_job_of(1, said_s=9).tasks(1, most=2)),
    "a whole node": lambda: a_promise().with_jobs(a_job_of(1, said_s=9).whole_node()),
    "who may not be on every node": lambda: a_promise().with_jobs(a_job_of(1, said_s=9).on(zone="a")),
    "who never fits": lambda: a_promise().with_jobs(a_job_of(9, said_s=9)),
    "who finds no room for as long as pods of others are there": lambda: (
        a_machine()
        .happens(ForeignPlaced(id="f", node="n-0", amounts=Resources.of({"cpu": 3000})))
        .with_jobs(a_job_of(6, said_s=9))
    ),
    "who waits for others": lambda: a_promise().with_jobs(a_job_of(1, said_s=9).of(after=(After("half"),))),
    "a quota": lambda: a_promise().with_queues("q", quota={"cpu": 4000}),
    "a budget": lambda: a_promise().with_queues("q", excess_budget=1),
    "a cordoned queue": lambda: a_promise().happens(QueueChanged(queue="a", changes={"cordoned": True})),
    "a user with a quota": lambda: a_promise().with_user("u", cpu=4),
    "several reservations": lambda: a_promise(reservations=2),
    "another order than that of arrival": lambda: a_promise(order=NAMED["shortest"]),
    "a limit to starts": lambda: a_promise(starts_per_turn=1),
    "shares that limit": lambda: a_promise(over_share=1_200_000),
}


@pytest.mark.parametrize("world", LEFT.values(), ids=LEFT)
def test_a_glance_leaves_to_a_whole_turn(world: Told) -> None:
    now = world()
    assert glance(now.state.freeze(now.now_ms), 0) is None
