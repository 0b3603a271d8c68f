"""What people are told of an event: one flat line of JSON, the same in the log of a simulation and from a server."""

from __future__ import annotations

from typing import Any

from muster.model import events as ev
from muster.model.jobs import Task


def told(event: ev.Event) -> dict[str, Any] | None:
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
        case ev.JobCancelled(job=name, cause=cause):
            return {"event": "cancelled", "job": name, **({"cause": cause} if cause else {})}
        case ev.QueueDeleted(queue=queue):
            return {"event": "queue_deleted", "queue": queue}
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
