"""Queues: make, change, look."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query

from muster.documents.jobs.known import DEFAULT_CLASS
from muster.model import events as ev
from muster.model.queues import User
from muster.model.resources import MICRO
from muster.server.api.amounts import amounts_of
from muster.server.api.doors import Admin, Asking, Desk, must
from muster.server.api.errors import Error, Problem, Refused, not_found
from muster.server.api.selecting import cancel_all, unfinished
from muster.server.api.shapes import ClassBody, ClassView, QueueBody, QueueView, UserBody, UserView
from muster.server.board import Shown
from muster.server.finding import CLASS, queue_of, queue_thing, user_thing
from muster.server.service import PATIENCE_S, Service
from muster.store.rows import JobQuery, Thing

router = APIRouter(prefix="/api/v1", tags=["queues"])

NamePath = Annotated[str, Path(max_length=253, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]


@router.get("/queues")
def queues(desk: Desk, who: Asking) -> list[QueueView]:
    """All queues that whoever asks may see, with what they hold and how many wait."""
    shown = desk.turns.board.queues()
    return [_view(desk, shown[name]) for name in sorted(shown) if who.may("view", name)]


@router.get("/queues/{name}", responses={404: {"model": Error}})
def queue(name: NamePath, desk: Desk, who: Asking) -> QueueView:
    """One queue."""
    must(who, "view", name)
    return _known(desk, name)


@router.put("/queues/{name}", responses={422: {"model": Error}})
def put_queue(name: NamePath, body: QueueBody, desk: Desk, who: Admin) -> QueueView:
    """Make a queue, or replace the settings of one."""
    weight, quota = _weight(body), amounts_of(body.quota, "quota")
    made = queue_of(Thing(kind="queue", name=name, body=body.model_dump(by_alias=True) | {"quota": {}}))
    made = replace(made, weight=weight, quota=quota)
    desk.set_queue(who, made)
    return _known(desk, name)


@router.delete("/queues/{name}", status_code=204, responses={404: {"model": Error}, 409: {"model": Error}})
def delete_queue(
    name: NamePath,
    desk: Desk,
    who: Admin,
    cancel: Annotated[bool, Query(description="Cancel its jobs first.")] = False,
) -> None:
    """Make an end of a queue, and of what is remembered of its use. One with jobs that are not over stays: they must
    end, or be cancelled, first. Jobs that are over stay as long as others."""
    if name not in desk.world.queues:
        raise not_found("queue", name)
    if cancel:
        cancel_all(desk, who, unfinished(desk, JobQuery(queue=name)))
    left = desk.delete_queue(who, name)
    if left:
        allowed = "only without jobs that are not over: cancel them first, or delete it with cancel=true"
        problem = Problem(field="name", value=name, allowed=allowed)
        raise Refused(409, f"queue {name!r} has {left} jobs that are not over: it can be deleted {allowed}", [problem])


@router.get("/users")
def users(desk: Desk, _who: Admin) -> list[UserView]:
    """All users with a quota."""
    return [UserView(name=thing.name, **thing.body) for thing in desk.store.things("user")]


@router.put("/users/{name}", responses={422: {"model": Error}})
def put_user(name: NamePath, body: UserBody, desk: Desk, who: Admin) -> UserView:
    """Say what all jobs of a user together may hold."""
    made = User(name=name, quota=amounts_of(body.quota, "quota"))
    thing = user_thing(made)
    desk.change([ev.UserSet(user=made)], who, "user", {"user": name}, things=[thing]).result(PATIENCE_S)
    return UserView(name=name, **thing.body)


@router.get("/priority-classes")
def classes(desk: Desk, _who: Asking) -> list[ClassView]:
    """The priority classes that jobs may name, the most urgent first."""
    return [ClassView(name=name, value=value) for name, value in sorted(desk.classes.items(), key=lambda it: -it[1])]


@router.put("/priority-classes/{name}", responses={422: {"model": Error}})
def put_class(name: NamePath, body: ClassBody, desk: Desk, who: Admin) -> ClassView:
    """Make a priority class, or change one; jobs that were submitted keep the value of then."""
    if name == DEFAULT_CLASS and body.value != 0:
        problem = Problem(field="value", value=str(body.value), allowed="0: the default class has no other value")
        raise Refused(422, f"value: {body.value} is not allowed: {problem.allowed}", [problem])
    thing = Thing(kind=CLASS, name=name, body={"value": body.value})
    desk.change([], who, "priority class", {"class": name, "value": body.value}, things=[thing]).result(PATIENCE_S)
    desk.classes[name] = body.value
    return ClassView(name=name, value=body.value)


def _weight(body: QueueBody) -> int:
    weight = round(body.weight * MICRO)
    if weight < 1:
        problem = Problem(field="weight", value=str(body.weight), allowed="0.000001 or more")
        raise Refused(422, f"weight: {body.weight} is not allowed: 0.000001 or more", [problem])
    return weight


def _known(desk: Service, name: str) -> QueueView:
    shown = desk.turns.board.queues()
    if name not in shown:
        raise not_found("queue", name)
    return _view(desk, shown[name])


def _view(desk: Service, shown: Shown) -> QueueView:
    body = queue_thing(shown.queue).body
    return QueueView(
        name=shown.queue.name,
        **body,
        jobs=_jobs(desk, shown),
        holds=shown.holds.to_text(),
        share=shown.share,
        entitled=shown.entitled,
    )


def _jobs(desk: Service, shown: Shown) -> dict[str, int]:
    """How many jobs are in each state; those that no turn has seen yet are queued."""
    jobs, name = dict(shown.jobs), shown.queue.name
    coming = desk.room.alive(name) - sum(jobs.values())
    if coming > 0:
        jobs["queued"] = jobs.get("queued", 0) + coming
    return jobs | desk.room.over(name)
