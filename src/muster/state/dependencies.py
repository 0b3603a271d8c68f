"""Who waits for whom: jobs that come after others, until these have ended as they must.

What was fulfilled is never asked for again: the job before may be forgotten, and the one after it may be tried again. A
job that can never start any more is `doomed`; whoever carries things out ends it, and with it those that come after it.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.model.after import After
from muster.model.jobs import Job
from muster.state.records import Records


@dataclass(slots=True)
class _Waiter:
    """A job that waits for so many ends."""

    job: str
    left: int


class Dependencies:
    """The jobs that wait for others. `doomed`: those that can never start, each with the reason."""

    def __init__(self) -> None:
        self.doomed: dict[str, str] = {}
        self._waiting: dict[str, _Waiter] = {}
        self._before: dict[str, list[tuple[After, _Waiter]]] = {}  # by the job that is to end first

    def fork(self) -> Dependencies:
        """A copy that can go its own way."""
        other = Dependencies()
        other.doomed = dict(self.doomed)
        other._waiting = {job: _Waiter(job, waiter.left) for job, waiter in self._waiting.items()}
        other._before = {
            name: [(need, other._waiting[waiter.job]) for need, waiter in waiters if self._is_waiting(waiter)]
            for name, waiters in self._before.items()
        }
        return other

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._waiting

    def enter(self, job: Job, jobs: Records) -> None:
        """A job is submitted; what became of others is in `jobs`."""
        waiter = _Waiter(job.id, 0)
        for need in job.after:
            end = _end_of(need.job, jobs)
            if end is None or not need.when.is_met_by(end):
                waiter.left += 1
                self._waiting[job.id] = waiter
            if end is None:
                self._before.setdefault(need.job, []).append((need, waiter))
            elif not need.when.is_met_by(end):
                self.doomed.setdefault(job.id, need.never(end))

    def waits_for(self, job: Job) -> tuple[After, ...]:
        """What a job that stands aside still waits for."""
        return tuple(need for need in job.after if need.job in self._before)

    def end(self, job_id: str, end: str) -> list[str]:
        """A job is over, and waits for nothing itself; who may stand in line now that waited for it, by name."""
        self._waiting.pop(job_id, None)
        self.doomed.pop(job_id, None)
        freed = []
        for need, waiter in sorted(self._before.pop(job_id, ()), key=lambda entry: entry[1].job):
            if not self._is_waiting(waiter):
                continue
            if not need.when.is_met_by(end):
                self.doomed.setdefault(waiter.job, need.never(end))
                continue
            waiter.left -= 1
            if not waiter.left:
                del self._waiting[waiter.job]
                freed.append(waiter.job)
        return freed

    def _is_waiting(self, waiter: _Waiter) -> bool:
        return self._waiting.get(waiter.job) is waiter


def must_wait(job: Job, jobs: Records) -> bool:
    """Whether a job that is about to be submitted cannot stand in line at once."""
    return any((end := _end_of(need.job, jobs)) is None or not need.when.is_met_by(end) for need in job.after)


def _end_of(job_id: str, jobs: Records) -> str | None:
    """How a job ended; None if it has not, or is still to come."""
    phase = jobs[job_id].phase if job_id in jobs else None
    return phase.value if phase is not None and phase.is_over else None
