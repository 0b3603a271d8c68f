"""What is done to many jobs at once: those that are named, all of a job set, or all of a queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from muster.model import events as ev
from muster.server.access import Who
from muster.server.api.changing import changes_of
from muster.server.api.doors import Asking, Desk, must, must_operate
from muster.server.api.errors import Error, Problem, Refused, not_found
from muster.server.api.shapes import Body, JobPatch, Shape
from muster.server.service import PATIENCE_S, Service
from muster.store.rows import JobQuery, JobRow

router = APIRouter(prefix="/api/v1", tags=["jobs"])

Unfinished = Literal["queued", "pending", "running"]
ALIVE: tuple[Unfinished, ...] = ("queued", "pending", "running")
WAITING: tuple[Unfinished, ...] = ("queued", "pending")

_TOLD = 100  # jobs that a line of the audit names
_PAGE = 1000


class Which(Body):
    """Which jobs: these; all of a job set (in one queue); or, with `all`, all of a queue. Of them those that are not
    over, and in one of these states if any are given."""

    jobs: Annotated[list[str], Field(default_factory=list, max_length=10_000)]
    job_set: str = ""
    queue: str = ""
    all: bool = False
    states: Annotated[list[Unfinished], Field(default_factory=list)]


class ChangeMany(Which, JobPatch):
    """Which jobs to change, and what of them."""


class Chosen(Shape):
    """The jobs to which it was done; those to which it could not be done are not among them."""

    jobs: list[str]


@router.post("/jobs/cancel", responses={404: {"model": Error}})
def cancel(body: Which, desk: Desk, who: Asking) -> Chosen:
    """Cancel jobs, whatever they are doing."""
    rows = _chosen(desk, body, ALIVE)
    for row in rows:
        must(who, "cancel", row.queue)
    return Chosen(jobs=cancel_all(desk, who, rows))


@router.post("/jobs/hold", responses={404: {"model": Error}})
def hold_all(body: Which, desk: Desk, who: Asking) -> Chosen:
    """Hold queued jobs back until they are released; those that run go on."""
    rows = _chosen(desk, body, WAITING)
    for row in rows:
        must(who, "cancel", row.queue)
    rows = [row for row in rows if not desk.notes.held(row.id)]
    _change(desk, who, "hold", [ev.JobChanged(job=row.id, changes={"held_by": who.name}) for row in rows])
    return Chosen(jobs=[row.id for row in rows if desk.notes.held(row.id)])


@router.post("/jobs/release", responses={404: {"model": Error}})
def release_all(body: Which, desk: Desk, who: Asking) -> Chosen:
    """Let jobs go that were held back."""
    rows = _chosen(desk, body, WAITING)
    for row in rows:
        must(who, "cancel", row.queue)
    held = [row.id for row in rows if desk.notes.held(row.id)]
    _change(desk, who, "release", [ev.JobChanged(job=name, changes={"held_by": ""}) for name in held])
    return Chosen(jobs=held)


@router.post("/jobs/preempt", responses={404: {"model": Error}})
def preempt_all(body: Which, desk: Desk, who: Asking) -> Chosen:
    """Stop running jobs and put them back into their queues; that counts as preempted (`retries.preempted`)."""
    rows = _chosen(desk, body, ("running",))
    for row in rows:
        must_operate(who, row.queue)
    stopped = [ev.JobRequeued(job=row.id, attempt=row.attempt, cause="preempted") for row in rows]
    _change(desk, who, "preempt", stopped)
    return Chosen(jobs=[row.id for row in rows])


@router.post("/jobs/change", responses={404: {"model": Error}})
def change_all(body: ChangeMany, desk: Desk, who: Asking) -> Chosen:
    """Change jobs, also while they run: priority, priority class, level, freezing window."""
    changes = changes_of(desk, body)
    if not changes:
        allowed = "at least one of priority, priorityClass, level, freezingWindow"
        raise Refused(422, f"body: {allowed}", [Problem(field="body", allowed=allowed)])
    rows = _chosen(desk, body, ALIVE)
    for row in rows:
        must(who, "submit", row.queue)
    _change(desk, who, "change", [ev.JobChanged(job=row.id, changes=changes) for row in rows])
    return Chosen(jobs=[row.id for row in rows])


def unfinished(desk: Service, query: JobQuery) -> list[JobRow]:
    """Jobs that match and are in one of the states that are asked for; if none are, that are not over."""
    rows: list[JobRow] = []
    after: int | None = None
    while True:
        page = desk.store.jobs(query if query.states else _alive(query), after=after, limit=_PAGE)
        rows += page.rows
        if page.next is None:
            return rows
        after = page.next


def cancel_all(desk: Service, who: Who, rows: Sequence[JobRow]) -> list[str]:
    """Cancel these; those that were."""
    alive = [row.id for row in rows if row.end_ms is None]
    _change(desk, who, "cancel", [ev.JobCancelled(job=name) for name in alive])
    now = desk.store.states_of(alive)
    return [name for name in alive if now.get(name) == "cancelled"]


def _alive(query: JobQuery) -> JobQuery:
    return JobQuery(queue=query.queue, job_set=query.job_set, states=ALIVE)


def _chosen(desk: Service, which: Which, possible: Sequence[Unfinished]) -> list[JobRow]:
    """The jobs that are meant, as far as they are in a state in which it is possible."""
    _check(desk, which)
    states = [state for state in possible if not which.states or state in which.states]
    if which.jobs:
        found = []
        for name in dict.fromkeys(which.jobs):
            row = desk.store.job(name)
            if row is None:
                raise not_found("job", name)
            found.append(row)
        return [row for row in found if row.state in states]
    return unfinished(desk, JobQuery(queue=which.queue, job_set=which.job_set, states=states)) if states else []


def _check(desk: Service, which: Which) -> None:
    if which.jobs and (which.job_set or which.queue or which.all):
        _refuse("jobs", ", ".join(which.jobs[:3]), "give either jobs or a job set, or a queue with all")
    if which.all and (which.job_set or not which.queue):
        _refuse("all", "true", "with a queue, and without a job set: all jobs of the queue are meant")
    if not (which.jobs or which.job_set or which.all):
        _refuse("jobs", "", "name at least one, or a jobSet, or a queue with all")
    if which.queue and which.queue not in desk.world.queues:
        raise not_found("queue", which.queue)


def _refuse(field: str, value: str, allowed: str) -> None:
    raise Refused(422, f"{field}: {allowed}", [Problem(field=field, value=value, allowed=allowed)])


def _change(
    desk: Service, who: Who, what: str, events: Sequence[ev.JobCancelled | ev.JobChanged | ev.JobRequeued]
) -> None:
    """Have it considered, with one line in the audit."""
    if events:
        body = {"jobs": [event.job for event in events[:_TOLD]], "many": len(events)}
        desk.change(events, who, what, body).result(PATIENCE_S)
