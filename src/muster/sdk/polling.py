"""Waiting for jobs to run, or to be over: one is looked at until it is, then the next, which often is by then.

So many jobs cost little more than one: each is asked for once when it is so far, and only one of them in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic

from muster.sdk.shapes import JobDetail, Until

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0


class Polling:
    """How far the waiting is."""

    def __init__(
        self,
        jobs: str | Iterable[str],
        timeout_s: float | None,
        clock: Callable[[], float] = monotonic,
        *,
        until: Until = "over",
    ) -> None:
        self._names = [jobs] if isinstance(jobs, str) else list(jobs)
        self._clock = clock
        self._timeout_s = timeout_s
        self._until = None if timeout_s is None else clock() + timeout_s
        self._pause_s = FIRST_PAUSE_S
        self._may_run = until == "running"
        self.done: list[JobDetail] = []

    def next(self) -> str | None:
        """The job to look at now; None: there is nothing more to wait for."""
        return self._names[len(self.done)] if len(self.done) < len(self._names) else None

    def heard(self, job: JobDetail) -> float | None:
        """How it is; how long to wait before the next look, or None where there is nothing to wait for."""
        if job.is_over or (self._may_run and job.state == "running"):
            self.done.append(job)
            self._pause_s = FIRST_PAUSE_S
            return None
        left_s = float("inf") if self._until is None else self._until - self._clock()
        if left_s <= 0:
            raise TimeoutError(f"{job.id} is still {job.state} after {self._timeout_s:g} s")
        pause_s = min(self._pause_s, left_s)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        return pause_s
