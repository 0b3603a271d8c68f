"""Builders for tests of the store: valid rows of which a test says only what matters."""

from __future__ import annotations

from muster.store.rows import JobChange, JobRow, LeaseRow, NewEvent
from muster.store.store import Batch


def a_job(id, **what):
    given = {"queue": "q", "job_set": "", "user": "ann", "state": "queued", "submit_ms": 1, "spec": {"cpu": 1}}
    return JobRow(id=id, **given | what)


def a_lease(job, **what):
    given = {"attempt": 1, "cluster": "c", "name": f"{job}-1", "state": "leased", "spec": {"image": "i"}}
    return LeaseRow(job=job, **given | what)


def happened(*jobs, kind="noted", **what):
    """Events of that kind, one for each job."""
    return [NewEvent(kind=kind, job=job, body={}, **what) for job in jobs]


def submitted(*jobs, at_ms=1, **more):
    """A batch that brings jobs (or ids of ordinary ones)."""
    rows = [a_job(job, submit_ms=at_ms) if isinstance(job, str) else job for job in jobs]
    events = [
        NewEvent(kind="submitted", job=row.id, queue=row.queue, job_set=row.job_set, body={"user": row.user})
        for row in rows
    ]
    return Batch(at_ms=at_ms, events=events, jobs=rows, **more)


def finished(*jobs, at_ms, state="succeeded"):
    """A batch that ends jobs."""
    return Batch(
        at_ms=at_ms,
        events=happened(*jobs, kind=state),
        changes=[JobChange(id=job, state=state, end_ms=at_ms) for job in jobs],
    )


def everything(store):
    """All that a store answers, to be compared with what it answers later."""
    pages, cursor, more = [], None, True
    while more:
        page = store.jobs(after=cursor, limit=3)
        pages += page.rows
        cursor, more = page.next, page.next is not None
    return {
        "events": store.events(store.oldest_seq() - 1, 1_000_000),
        "jobs": pages,
        "unfinished": list(store.unfinished()),
        "leases": store.leases(),
        "things": store.things("queue"),
        "turns": store.turns(),
        "audit": store.audit(),
        "last": store.last_seq(),
        "oldest": store.oldest_seq(),
        "counts": store.count_jobs(),
    }
