"""What follows when tasks end without the job being done (kube-arbitrator-gang.md; design.md 3).

A job that keeps at least its min in every group goes on, narrower. Below min the whole attempt is over:
its own failure uses up a retry, a preempted or lost attempt does not.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.model import events as ev
from muster.model.jobs import Running, Task
from muster.model.plan import Resize


def after_losing(run: Running, gone: Iterable[Task], cause: str, *, retries_left: int) -> list[ev.Event]:
    """The events that follow when these tasks of a running job are gone. Cause: preempted, lost or failed."""
    lost = set(gone)
    left = tuple(task for task in run.tasks if task not in lost)
    if _keeps_its_min(run, left):
        return _narrower(run, left)
    if cause == "failed" and retries_left <= 0:
        return [ev.JobFailed(job=run.job.id, attempt=run.attempt, cause=cause)]
    return [ev.JobRequeued(job=run.job.id, attempt=run.attempt, cause=cause)]


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
