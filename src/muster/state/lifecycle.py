"""What follows when tasks end without the job being done (kube-arbitrator-gang.md; design.md 3).

A job that keeps at least its min in every group goes on, narrower. Below min the whole attempt is over, and all of
the job starts again, unless more attempts ended in this way than it is forgiven (muster.model.retries).
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.model import events as ev
from muster.model.jobs import Job, Running, Task
from muster.model.plan import Resize
from muster.model.retries import COUNTED, FAILED
from muster.state.records import Record


def after_losing(run: Running, gone: Iterable[Task], cause: str, record: Record) -> list[ev.Event]:
    """The events that follow when these tasks of a running job are gone. Cause: preempted, drained, lost or failed."""
    lost = set(gone)
    left = tuple(task for task in run.tasks if task not in lost)
    if _keeps_its_min(run, left):
        return _narrower(run, left)
    return [after_ending(run.job, run.attempt, cause, record)]


def after_ending(job: Job, attempt: int, cause: str, record: Record, message: str = "") -> ev.Event:
    """What follows for a job whose attempt is over. `record`: as it was before; `message`: what is known besides."""
    refusal = job.retries.refusal(cause, record.times(cause) + 1) if cause in COUNTED else None
    if refusal is None:
        return ev.JobRequeued(job=job.id, attempt=attempt, cause=cause)
    if cause == FAILED and not job.retries.failed:  # that what nobody asked for is not done goes without saying
        refusal = message or cause
    elif message:
        refusal = f"{message} ({refusal})"
    return ev.JobFailed(job=job.id, attempt=attempt, cause=refusal, ended_by=cause)


def resized(run: Running, action: Resize) -> list[ev.Event]:
    """What follows from a planned change of width; nothing if the attempt it was planned for is over."""
    if run.attempt != action.attempt:
        return []
    tasks = tuple(task for task in run.tasks if task.group == action.group and task not in action.removed)
    tasks += action.added
    return [ev.JobResized(job=run.job.id, group=action.group, before=action.before, after=len(tasks), tasks=tasks)]


def _keeps_its_min(run: Running, left: tuple[Task, ...]) -> bool:
    groups = run.job.profile.groups
    return bool(left) and all(sum(task.group == group.name for task in left) >= group.min for group in groups)


def _narrower(run: Running, left: tuple[Task, ...]) -> list[ev.Event]:
    resized: list[ev.Event] = []
    for group in run.job.profile.groups:
        before = tuple(task for task in run.tasks if task.group == group.name)
        after = tuple(task for task in left if task.group == group.name)
        if len(after) < len(before):
            resized.append(
                ev.JobResized(job=run.job.id, group=group.name, before=len(before), after=len(after), tasks=after)
            )
    return resized
