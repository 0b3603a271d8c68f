"""Work: jobs that run until so many task-hours are done, and are done sooner the wider they run (scenario.md).

Only the tasks of elastic groups work; an attempt that starts again begins at nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.model.jobs import Running


@dataclass(frozen=True, slots=True)
class Work:
    """How long an attempt runs if that depends on its width: task-milliseconds in all."""

    task_ms: int


@dataclass(slots=True)
class _Progress:
    attempt: int
    left: int  # task-ms
    since_ms: int
    width: int


class Works:
    """The attempts that work, and how far each is."""

    def __init__(self) -> None:
        self._progress: dict[str, _Progress] = {}

    def ends_ms(self, run: Running, work: Work, now_ms: int) -> int | None:
        """When the attempt is done if it stays as wide as it is from now on; None: never."""
        known = self._progress.get(run.job.id)
        if known is None or known.attempt != run.attempt:
            known = self._progress[run.job.id] = _Progress(run.attempt, work.task_ms, run.started_ms, 0)
        known.left = max(known.left - known.width * (now_ms - known.since_ms), 0)
        known.since_ms, known.width = now_ms, working(run)
        if not known.width:
            return None
        return now_ms - (-known.left // known.width)


def working(run: Running) -> int:
    """How many tasks of the attempt work."""
    elastic = {group.name for group in run.job.profile.groups if group.min < group.max}
    return sum(task.group in elastic for task in run.tasks)
