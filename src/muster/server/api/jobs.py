"""Jobs: submit, look, ask why, change one, hold it, release it, stop it."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response

from muster.model import events as ev
from muster.server.access import Who
from muster.server.api.changing import as_it_is, changes_of, level_name
from muster.server.api.describing import SUBMISSION
from muster.server.api.doors import Asking, Desk, must, must_operate, refuse_others, who_has
from muster.server.api.errors import Error, Problem, Refused, not_found
from muster.server.api.shapes import (
    LAST,
    JobDetail,
    JobPage,
    JobPatch,
    JobState,
    JobView,
    Lease,
    SubmitAnswer,
    Why,
)
from muster.server.room import Full
from muster.server.service import PATIENCE_S, Service
from muster.store.rows import JobQuery, JobRow, LeaseRow

router = APIRouter(prefix="/api/v1", tags=["jobs"])

KEY = re.compile(r"[A-Za-z0-9._:/-]*")
MOST_OF_KEY = 200


@router.post(
    "/jobs",
    status_code=201,
    response_model=SubmitAnswer,
    openapi_extra=SUBMISSION,
)
async def submit(
    request: Request,
    desk: Desk,
    who: Asking,
    idempotency_key: Annotated[str, Header(max_length=MOST_OF_KEY, pattern=f"^{KEY.pattern}$")] = "",
) -> Response:
    """Submit jobs: all of them, or none and every problem. Once answered they are durable.

    The same Idempotency-Key again is answered with the jobs of the first time.
    """
    decoded = await _body(request)
    given = decoded.get("jobs") if isinstance(decoded, dict) else None
    if not isinstance(decoded, dict) or not isinstance(given, list) or not given or set(decoded) != {"jobs"}:
        allowed = 'one or more jobs: {"jobs": [{…}, …]}, and nothing else'
        raise Refused(422, f"body: {allowed}", [Problem(field="body", allowed=allowed)])
    try:
        taken = await asyncio.to_thread(desk.submit, decoded, who, idempotency_key)
    except Full as err:
        raise Refused(429, f"{err}: try again later") from None
    made = {"jobs": [{"id": job_id, "name": name} for job_id, name in taken]}  # SubmitAnswer, a thousand times
    return Response(msgspec.json.encode(made), status_code=201, media_type="application/json")


async def submit_plainly(request: Request) -> Response:
    """What `submit` documents, without FastAPI: to find out what a request with one job needs took a third of it."""
    refuse_others(request, ())
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    desk: Service = request.app.state.service
    who = who_has(desk, token if token and scheme.lower() == "bearer" else None)
    key = request.headers.get("idempotency-key", "")
    if len(key) > MOST_OF_KEY or not KEY.fullmatch(key):
        allowed = f"at most {MOST_OF_KEY} letters, digits and ._:/-"
        problem = Problem(field="Idempotency-Key", value=repr(key)[:MOST_OF_KEY], allowed=allowed)
        raise Refused(422, f"Idempotency-Key: {problem.value} is not allowed: {allowed}", [problem])
    return await submit(request, desk, who, key)


async def _body(request: Request) -> Any:
    """What was sent, if it is JSON."""
    try:
        return msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise Refused(422, f"body: not JSON: {err}", [Problem(field="body", allowed=f"JSON: {err}")]) from None


@router.get("/jobs")
def jobs(
    desk: Desk,
    who: Asking,
    queue: str = "",
    jobSet: str = "",  # noqa: N803  # as it is called in job files
    user: str = "",
    state: JobState | None = None,
    text: Annotated[str, Query(max_length=253, description="part of an id, a job set or a user")] = "",
    after: Annotated[int | None, Query(ge=0, le=LAST, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> JobPage:
    """Jobs, the latest first."""
    if queue:
        must(who, "view", queue)
    query = JobQuery(queue=queue, job_set=jobSet, user=user, state=state or "", text=text)
    page = desk.store.jobs(query, after=after, limit=limit)
    seen = [row for row in page.rows if who.may("view", row.queue)]
    return JobPage(jobs=[JobView(**_view(row)) for row in seen], next=page.next)


@router.get("/jobs/{job_id}", responses={404: {"model": Error}})
def job(job_id: str, desk: Desk, who: Asking) -> JobDetail:
    """One job, with the file it was submitted as."""
    row = _job(desk, job_id)
    must(who, "view", row.queue)
    leases = [_lease(desk.leases.as_noted(lease)) for lease in desk.store.leases_of(job_id)]
    now = as_it_is(desk, job_id)
    told: dict[str, Any] = (
        {} if now is None else {"level": level_name(desk, now.level), "freezing_window": now.freezing_ms / 1000}
    )
    return JobDetail(**_view(row), spec=dict(row.spec), leases=leases, **told)


@router.get("/jobs/{job_id}/why", responses={404: {"model": Error}})
def why(job_id: str, desk: Desk, who: Asking) -> Why:
    """Why the job is not running, and when it will."""
    row = _job(desk, job_id)
    must(who, "view", row.queue)
    found = desk.answers.why(job_id)
    if found is None:
        return Why(job=job_id, text=_fate(row))
    return Why(
        job=job_id,
        text=found.text,
        reason=found.reason.name,
        facts=dict(found.facts),
        estimate=_seconds(found.estimate_ms),
        turn=found.turn,
        as_of=found.at_ms / 1000,
    )


@router.patch("/jobs/{job_id}", responses={404: {"model": Error}, 409: {"model": Error}})
def change(job_id: str, body: JobPatch, desk: Desk, who: Asking) -> JobView:
    """Change a job, also while it runs: its priority, priority class, level, freezing window."""
    row = _job(desk, job_id)
    must(who, "submit", row.queue)
    if row.end_ms is not None:
        raise Refused(409, f"{job_id} is {row.state}: nothing of it can be changed any more")
    changes = changes_of(desk, body)
    if changes:
        changed = ev.JobChanged(job=job_id, changes=changes)
        desk.change([changed], who, "change", {"job": job_id}).result(PATIENCE_S)
    return JobView(**_view(_job(desk, job_id)))


@router.post("/jobs/{job_id}/hold", responses={404: {"model": Error}, 409: {"model": Error}})
def hold(job_id: str, desk: Desk, who: Asking) -> JobView:
    """Hold a queued job back until it is released."""
    row = _queued(desk, job_id, who)
    held = ev.JobChanged(job=job_id, changes={"held_by": who.name})
    desk.change([held], who, "hold", {"job": job_id}).result(PATIENCE_S)
    return JobView(**_view(_job(desk, row.id)))


@router.post("/jobs/{job_id}/release", responses={404: {"model": Error}, 409: {"model": Error}})
def release(job_id: str, desk: Desk, who: Asking) -> JobView:
    """Let a job go that was held back."""
    row = _queued(desk, job_id, who)
    released = ev.JobChanged(job=job_id, changes={"held_by": ""})
    desk.change([released], who, "release", {"job": job_id}).result(PATIENCE_S)
    return JobView(**_view(_job(desk, row.id)))


@router.post("/jobs/{job_id}/preempt", responses={404: {"model": Error}, 409: {"model": Error}})
def preempt(job_id: str, desk: Desk, who: Asking) -> JobView:
    """Stop a running job and put it back into its queue; it counts as preempted (`retries.preempted`).

    For admins and owners of its queue.
    """
    row = _job(desk, job_id)
    must_operate(who, row.queue)
    if row.state != "running":
        raise Refused(409, f"{job_id} is {row.state}: only a running job can be preempted")
    stopped = ev.JobRequeued(job=job_id, attempt=row.attempt, cause="preempted")
    desk.change([stopped], who, "preempt", {"job": job_id}).result(PATIENCE_S)
    return JobView(**_view(_job(desk, job_id)))


def _queued(desk: Service, job_id: str, who: Who) -> JobRow:
    """A job that waits, which whoever asks may hold and release."""
    row = _job(desk, job_id)
    must(who, "cancel", row.queue)
    if row.state not in ("queued", "pending"):
        raise Refused(409, f"{job_id} is {row.state}: only a job that waits can be held and released")
    return row


def _job(desk: Service, job_id: str) -> JobRow:
    row = desk.store.job(job_id)
    if row is None:
        raise not_found("job", job_id)
    return row


def _view(row: JobRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "queue": row.queue,
        "job_set": row.job_set,
        "user": row.user,
        "state": row.state,
        "attempt": row.attempt,
        "priority": row.priority,
        "priority_class": row.priority_class,
        "submitted": row.submit_ms / 1000,
        "started": _seconds(row.start_ms),
        "ended": _seconds(row.end_ms),
        "failures": row.failures,
        "losses": row.losses,
        "preemptions": row.preemptions,
        "cluster": row.cluster,
        "reason": row.reason,
    }


def _lease(row: LeaseRow) -> Lease:
    nodes = list(dict.fromkeys(place["node"] for place in row.spec["places"]))
    return Lease(
        attempt=row.attempt,
        cluster=row.cluster,
        state=row.state,
        reason=row.reason,
        nodes=nodes,
        result=dict(row.result),
    )


def _seconds(moment_ms: int | None) -> float | None:
    return None if moment_ms is None else moment_ms / 1000


def _fate(row: JobRow) -> str:
    """What there is to say of a job that does not wait."""
    if row.state == "running":
        return f"{row.id} runs on {row.cluster} (attempt {row.attempt})."
    if row.end_ms is None:
        return f"{row.id} was submitted and is looked at in the next turn."
    because = f": {row.reason}" if row.reason else ""
    return f"{row.id} {row.state if row.state != 'cancelled' else 'was cancelled'}{because}."
