"""A simulation as lines of JSON: one per event, in order (scenario.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from muster.model import events as ev
from muster.model.jobs import Task
from muster.model.pools import called
from muster.sim.simulate import Notice, Tick
from muster.state.forecast import Estimate

Line = dict[str, Any]


def lines(tick: Tick) -> Iterator[Line]:
    """What one moment adds to the log: events, then news of those who wait."""
    t = tick.moment.now_ms / 1000
    for event in tick.moment.events:
        if (told := _told(event)) is not None:
            yield {"t": t, **told}
        if isinstance(event, ev.JobStarted) and event.borrowed is not None:
            yield {"t": t, **_borrowed(event, called(event.borrowed))}
    for notice in tick.notices:
        yield {"t": t, **_waiting(notice)}


def dumps(line: Line) -> str:
    """One line of the log."""
    return json.dumps(line, ensure_ascii=False)


def estimate_s(estimate: Estimate | None) -> float | None:
    """An estimated start in seconds."""
    return None if estimate is None else estimate.start_ms / 1000


def _waiting(notice: Notice) -> Line:
    facts = dict(notice.waiting.facts)
    if notice.estimate is not None:
        facts["assumed"] = notice.estimate.is_assumed
    return {
        "event": "waiting",
        "job": notice.job,
        "reason": notice.waiting.reason.name,
        "facts": facts,
        "estimate": estimate_s(notice.estimate),
    }


def _borrowed(event: ev.JobStarted, pool: str) -> Line:
    return {"event": "borrowed", "job": event.job, "attempt": event.attempt, "pool": pool}


def _told(event: ev.Event) -> Line | None:
    """The public form of an event; None for what the log does not tell."""
    match event:
        case ev.JobSubmitted(job=job):
            return {"event": "submitted", "job": job.id, "queue": job.queue}
        case ev.JobAdmitted(job=name, cluster=cluster, attempt=attempt):
            return {"event": "admitted", "job": name, "cluster": cluster, "attempt": attempt}
        case ev.JobStarted(job=name, cluster=cluster, attempt=attempt, tasks=tasks):
            return {
                "event": "started",
                "job": name,
                "cluster": cluster,
                "attempt": attempt,
                "tasks": _where(tasks),
            }
        case ev.JobPreempted(job=name, attempt=attempt, rule=rule, by=by, tasks=tasks):
            return {
                "event": "preempted",
                "job": name,
                "attempt": attempt,
                "rule": rule.value,
                "by": by,
                "tasks": [task.name for task in tasks],
            }
        case ev.JobResized(job=name, group=group, before=before, after=after, tasks=tasks):
            return {
                "event": "resized",
                "job": name,
                "group": group,
                "from": before,
                "to": after,
                "tasks": _where(tasks),
            }
        case ev.JobRequeued(job=name, attempt=attempt, cause=cause):
            return {"event": "requeued", "job": name, "attempt": attempt, "cause": cause}
        case ev.JobSucceeded(job=name, attempt=attempt):
            return {"event": "succeeded", "job": name, "attempt": attempt}
        case ev.JobFailed(job=name, attempt=attempt, cause=cause):
            return {"event": "failed", "job": name, "attempt": attempt, "cause": cause}
        case ev.JobCancelled(job=name):
            return {"event": "cancelled", "job": name}
        case ev.SubmittedTo(job=name, cluster=cluster, attempt=attempt):
            return {"event": "submitted_to", "job": name, "cluster": cluster, "attempt": attempt}
        case ev.CancelledAt(job=name, cluster=cluster, attempt=attempt):
            return {"event": "cancelled_at", "job": name, "cluster": cluster, "attempt": attempt}
        case ev.RaceWon(job=name, cluster=cluster, attempt=attempt):
            return {"event": "won", "job": name, "cluster": cluster, "attempt": attempt}
        case _:
            return None


def _where(tasks: tuple[Task, ...]) -> dict[str, str]:
    return {task.name: task.node for task in tasks}
