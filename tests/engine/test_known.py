"""Kernels and shortcuts answer only for what they know; any other field asks the planner (engine/columns/known.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import World, a_job, a_world

from muster.engine import turn
from muster.engine.columns import known
from muster.engine.columns.known import asks_planner
from muster.model.events import JobSubmitted, QueueSet, UserSet
from muster.model.jobs import Job
from muster.model.policy import Policy
from muster.model.queues import Queue, User
from muster.state.state import State

if TYPE_CHECKING:
    quick = dataclass
else:
    from muster.model.quick import dataclass as quick


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQueue(Queue):
    """A queue with fields that somebody just added."""

    new: int | None = None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser(User):
    """The same of a user."""

    new: int | None = None


@quick(frozen=True, slots=True, kw_only=True)
class NewJob(Job):
    """The same of a job."""

    new: int | None = None
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPolicy(Policy):
    """The same of a policy."""

    new: int | None = None


KINDS: tuple[type, ...] = (Queue, User, Job, Policy, NewQueue, NewUser, NewJob, NewPolicy)
UNKNOWN = [(kind, name) for kind in KINDS for name, _ in known._unknown_fields(kind)]


def made(kind: type, **given: Any) -> Any:
    """One with these fields, all others as they are by default."""
    needed: dict[str, Any] = {"name": "q"} if issubclass(kind, Queue | User) else {}
    if issubclass(kind, Job):
        job = a_job("q").cpu(1).named("j").built(0, 0).job
        needed = {"id": job.id, "queue": job.queue, "profile": job.profile}
    return kind(**needed, **given)


@st.composite
def things(draw: st.DrawFn) -> tuple[Any, bool]:
    """A queue, user, job or policy with one field set that no kernel knows; and whether that is its default."""
    kind, name = draw(st.sampled_from(UNKNOWN))
    value = draw(st.from_type(get_type_hints(kind)[name]))
    default = next(default for field, default in known._unknown_fields(kind) if field == name)
    return made(kind, **{name: value}), bool(value == default)


@given(things())
def test_property_any_value_but_its_default_asks_the_planner(given_thing: tuple[Any, bool]) -> None:
    thing, is_default = given_thing

    assert asks_planner(thing) is not is_default


@pytest.mark.parametrize("kind", KINDS[:4], ids=lambda kind: kind.__name__)
def test_what_kernels_are_said_to_know_is_there(kind: type):
    assert known._KNOWN[kind] <= {field.name for field in fields(kind)}


def test_a_field_without_a_default_always_asks():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Strict(Queue):
        needed: int

    assert asks_planner(Strict(name="q", needed=0))


# -- the planner is asked ----------------------------------------------------------------------------------


def a_queue(**given: Any) -> Callable[[World], None]:
    """The world has this queue."""

    def change(world: World) -> None:
        world.happens(QueueSet(queue=NewQueue(name="q", **given)))

    return change


def a_user(**given: Any) -> Callable[[World], None]:
    """The world has this user."""

    def change(world: World) -> None:
        world.happens(UserSet(user=NewUser(name="u", **given)))

    return change


def a_policy(**given: Any) -> Callable[[World], None]:
    """The world has this policy."""

    def change(world: World) -> None:
        policy = world.state.policy
        same = {field.name: getattr(policy, field.name) for field in fields(Policy)}
        world.state.policy = NewPolicy(**same, **given)

    return change


def nothing(_world: World) -> None:
    """The world is as it is."""


def a_new_job(name: str, **given: Any) -> NewJob:
    """A job of that kind."""
    plain = a_job("q").cpu(1).named(name).of(user="u").built(0, 0).job
    same = {field.name: getattr(plain, field.name) for field in fields(Job) if field.init}
    return NewJob(**same, **given)


def submit(world: World, job: NewJob) -> None:
    """The job comes, and runs for ever once it starts."""
    world.runtimes[job.id] = None
    world.happens(JobSubmitted(job=job))


@pytest.mark.parametrize(
    "change, of_job, expected",
    [
        pytest.param(nothing, {}, set(), id="nobody is asked where nothing is set"),
        pytest.param(a_queue(), {}, set(), id="nor where a queue's new field has its default"),
        pytest.param(a_queue(new=0), {}, {"a", "b"}, id="a new field of the queue"),
        pytest.param(a_queue(marks=("x",)), {}, {"a", "b"}, id="another one"),
        pytest.param(a_user(), {}, set(), id="a user whose new field has its default"),
        pytest.param(a_user(new=0), {}, {"a", "b"}, id="a new field of the user"),
        pytest.param(a_policy(), {}, set(), id="a policy whose new field has its default"),
        pytest.param(a_policy(new=0), {}, {"a", "b"}, id="a new field of the policy"),
        pytest.param(nothing, {"new": 0}, {"a"}, id="a new field of one job asks for that job"),
        pytest.param(nothing, {"is_new": True}, {"a"}, id="another one of it"),
    ],
)
def test_the_planner_is_asked_about_heads_with_a_field_that_kernels_do_not_know(change, of_job, expected, monkeypatch):
    world = a_world().with_node("n", cpu=64).with_queues("q")
    change(world)
    asked, limit_on = set(), turn.limit_on

    def asking(job, *rest):
        asked.add(job.id)
        return limit_on(job, *rest)

    monkeypatch.setattr(turn, "limit_on", asking)
    for name, of_this in (("a", of_job), ("b", {})):
        submit(world, a_new_job(name, **of_this))
    plan = world.turn()

    assert asked == expected
    assert plan.placed_by_queue() == {"q": 2}


def test_a_queued_job_keeps_the_fields_that_no_column_has():
    state, jobs = State(Policy()), [a_new_job("a", new=7), a_new_job("b", is_new=True), a_new_job("c")]
    state.apply(QueueSet(queue=Queue(name="q")), 0)
    for job in jobs:
        state.apply(JobSubmitted(job=job), 0)
    state.roll._made.clear()  # who has waited for long is made from its row

    assert state.find("a") == jobs[0]
    assert state.find("b") == jobs[1]


@pytest.mark.parametrize(
    "of_job, is_skipped", [pytest.param({}, True, id="alike"), pytest.param({"new": 1}, False, id="with a new field")]
)
def test_who_comes_behind_another_needs_a_turn_if_a_rule_may_hold_that_shortcuts_do_not_know(of_job, is_skipped):
    world = a_world().with_node("n", cpu=1).with_queues("q")
    for name in ("a", "b", "c"):
        submit(world, a_new_job(name))
    world.turn()
    world.state.has_news = False

    world.state.apply(JobSubmitted(job=replace(a_new_job("d", **of_job), submit_ms=0)), world.state.now_ms)

    assert world.state.has_news is not is_skipped
