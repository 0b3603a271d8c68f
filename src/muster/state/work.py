"""Work: jobs that run until so much is done, and are done sooner the faster they go (scenario.md).

How fast an attempt goes is its pace: by default as many task-hours an hour as it has working tasks, which are those of
elastic groups. After each start and each change of width it may stand still for a while. An attempt that starts again
begins at nothing, unless what was done is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muster.model.jobs import Running
from muster.model.resources import MICRO

Pace = Callable[[Running], int]
"""How fast an attempt goes as it is: micro-task-ms a millisecond."""


@dataclass(frozen=True, slots=True)
class Work:
    """How long an attempt runs if that depends on how it runs: task-milliseconds in all."""

    task_ms: int
    pace: Pace | None = None  # None: as fast as it is wide, or as it scales
    pause_ms: int = 0
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class ByCluster:
    """The pace of a job that goes faster in some clusters than in others, in micro-units; where none is given, at 1."""

    speeds: Mapping[str, int]

    def __call__(self, run: Running) -> int:
        return self.speeds.get(run.cluster, MICRO)


@dataclass(slots=True)
class _Progress:
    attempt: int
    left: int  # micro-task-ms
    since_ms: int  # from when on it works
    pace: int

    def advance(self, now_ms: int) -> None:
        """What was done until now is done."""
        self.left = max(self.left - self.pace * max(now_ms - self.since_ms, 0), 0)
        self.since_ms = max(now_ms, self.since_ms)


class Works:
    """The attempts that work, and how far each is."""

    def __init__(self) -> None:
        self._progress: dict[str, _Progress] = {}

    def ends_ms(self, run: Running, work: Work, now_ms: int) -> int | None:
        """When the attempt, which has just started or changed, is done if it stays as it is; None: never."""
        known = self._progress.get(run.job.id)
        if known is None or (known.attempt != run.attempt and not work.is_kept):
            known = self._progress[run.job.id] = _Progress(run.attempt, work.task_ms * MICRO, run.started_ms, 0)
        known.advance(now_ms)
        known.attempt, known.pace = run.attempt, (work.pace or scaled)(run)
        known.since_ms = now_ms + work.pause_ms
        if not known.pace:
            return None
        return known.since_ms - (-known.left // known.pace)

    def stop(self, job: str, now_ms: int) -> None:
        """The attempt is over before its work is."""
        if job in self._progress:
            self._progress[job].advance(now_ms)
            self._progress[job].pace = 0


def scaled(run: Running) -> int:
    """How fast its working tasks are together: as they scale, where that was stated."""
    pace = 0
    for group in run.job.profile.groups:
        if group.min < group.max:
            width = sum(task.group == group.name for task in run.tasks)
            pace += group.speeds[width - 1] if width and group.speeds else width * MICRO
    return pace
