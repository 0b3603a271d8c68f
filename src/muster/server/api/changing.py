"""What of a job may be changed after it was submitted: its values, and its disruption budgets."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from muster.model import events as ev
from muster.model.budgets import Budget
from muster.model.jobs import Job
from muster.server.access import Who
from muster.server.api.doors import Asking, Desk, must
from muster.server.api.errors import Error, Problem, Refused, not_found
from muster.server.api.shapes import Body, JobPatch, Shape
from muster.server.news import News
from muster.server.service import PATIENCE_S, Service

router = APIRouter(prefix="/api/v1", tags=["jobs"])


class BudgetBody(Body):
    """At least so many tasks of a group are to stay while the job runs; a job of one group need not name it."""

    group: str = ""
    min_available: Annotated[int, Field(ge=0, le=2**31 - 1)]


class BudgetView(Shape):
    """A disruption budget."""

    job: str
    queue: str
    group: str
    min_available: int


def changes_of(desk: Service, body: JobPatch) -> dict[str, Any]:
    """The fields of model.jobs.Job that are given; refuses names that mean nothing here."""
    changes: dict[str, Any] = {}
    if body.priority is not None:
        changes["priority"] = body.priority
    if body.priority_class is not None:
        if body.priority_class not in desk.classes:
            _refuse("priorityClass", body.priority_class, f"a priority class of this server: {', '.join(desk.classes)}")
        changes["priority_class"] = desk.classes[body.priority_class]
    if body.level is not None:
        if body.level not in desk.levels:
            _refuse("level", body.level, f"a level of this server: {', '.join(desk.levels)}")
        changes["level"] = desk.levels[body.level]
    if body.freezing_window is not None:
        changes["freezing_ms"] = round(body.freezing_window * 1000)
    return changes


@router.get("/budgets")
def budgets(desk: Desk, who: Asking) -> list[BudgetView]:
    """All disruption budgets of jobs that whoever asks may see."""
    with desk.world.lock:
        state = desk.world.state
        found = [(it, job.queue) for it in state.protection.budgets() if (job := state.find(it.job)) is not None]
    seen = [(it, queue) for it, queue in found if who.may("view", queue)]
    return [_view(it, queue) for it, queue in sorted(seen, key=lambda one: (one[0].job, one[0].group))]


@router.put("/jobs/{job_id}/budget", responses={404: {"model": Error}, 409: {"model": Error}})
def put_budget(job_id: str, body: BudgetBody, desk: Desk, who: Asking) -> BudgetView:
    """Say how many tasks of a job's group are to stay: victims are looked for elsewhere first (docs/adr/0022)."""
    job = _job(desk, job_id, who)
    group = _group(job, body.group)
    most = job.profile.group(group).max
    if body.min_available > most:
        _refuse("minAvailable", str(body.min_available), f"from 0 to {most}, the most tasks that group {group} has")
    budget = Budget(job=job_id, group=group, min_available=body.min_available)
    told = {"job": job_id, "group": group, "minAvailable": body.min_available}
    desk.change([ev.BudgetSet(budget=budget)], who, "budget", told).result(PATIENCE_S)
    return _view(budget, job.queue)


@router.delete("/jobs/{job_id}/budget", status_code=204, responses={404: {"model": Error}, 409: {"model": Error}})
def delete_budget(
    job_id: str,
    desk: Desk,
    who: Asking,
    group: Annotated[str, Query(max_length=253, description="The group; a job of one group need not name it")] = "",
) -> None:
    """Take a disruption budget away."""
    named = _group(_job(desk, job_id, who), group)
    with desk.world.lock:
        is_there = any((it.job, it.group) == (job_id, named) for it in desk.world.state.protection.budgets())
    if not is_there:
        raise not_found("budget", f"{job_id}/{named}")
    gone = ev.BudgetGone(job=job_id, group=named)
    desk.change([gone], who, "budget removed", {"job": job_id, "group": named}).result(PATIENCE_S)


def as_it_is(desk: Service, job_id: str) -> Job | None:
    """A job that is not over, as the last turn left it; None where there is none, or no turn has seen it yet."""
    with desk.world.lock:
        return desk.world.state.find(job_id)


def level_name(desk: Service, level: int) -> str:
    """What a level is called here."""
    return next((name for name, value in desk.levels.items() if value == level), str(level))


def _job(desk: Service, job_id: str, who: Who) -> Job:
    """A job that is not over, which whoever asks may change."""
    row = desk.store.job(job_id)
    if row is None:
        raise not_found("job", job_id)
    must(who, "submit", row.queue)
    job = as_it_is(desk, job_id)
    if job is None and row.end_ms is None:  # a turn is about to hear of it
        desk.turns.put(News(), is_durable=True).result(PATIENCE_S)
        job = as_it_is(desk, job_id)
    if job is None:
        raise Refused(409, f"{job_id} is {row.state}: nothing of it can be changed any more")
    return job


def _group(job: Job, name: str) -> str:
    groups = sorted(group.name for group in job.profile.groups)
    if not name and len(groups) == 1:
        return groups[0]
    if name not in groups:
        _refuse("group", name, f"a group of {job.id}: {', '.join(groups)}")
    return name


def _view(budget: Budget, queue: str) -> BudgetView:
    return BudgetView(job=budget.job, queue=queue, group=budget.group, min_available=budget.min_available)


def _refuse(field: str, value: str, allowed: str) -> None:
    raise Refused(
        422, f"{field}: {value!r} is not allowed: {allowed}", [Problem(field=field, value=value, allowed=allowed)]
    )
