"""What became of every job so far.

A job that stands in line for the first time needs no record: that it is on the roll, or held, says it all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import chain

from muster.model.retries import COUNTED, FAILED, LOST, PREEMPTED


class Phase(Enum):
    """Where a job stands."""

    QUEUED = "queued"
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    __hash__ = object.__hash__  # records are looked up by it with every event

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)


@dataclass(frozen=True, slots=True)
class Record:
    """Where a job stands, how many attempts it had, and how many failed by themselves, were lost and were preempted."""

    phase: Phase = Phase.QUEUED
    attempts: int = 0
    failures: int = 0
    losses: int = 0
    preemptions: int = 0

    def times(self, cause: str) -> int:
        """How many of its attempts ended so."""
        return int(getattr(self, COUNTED[cause]))


_record = cache(Record)  # a million jobs share a few
_NEW = _record(Phase.QUEUED, 0, 0, 0, 0)


class Records(Mapping[str, Record]):
    """The records of all jobs; who waits for a first attempt is in one of the given `lines`."""

    def __init__(self, *lines: Collection[str]) -> None:
        self._lines = lines
        self._noted: dict[str, Record] = {}

    def fork(self, *lines: Collection[str]) -> Records:
        """A copy that can go its own way, with other lines."""
        other = Records(*lines)
        other._noted = dict(self._noted)
        return other

    def __getitem__(self, job_id: str) -> Record:
        record = self._noted.get(job_id)
        if record is None:
            if not self._waits_first(job_id):
                raise KeyError(job_id)
            return _NEW
        return record

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._noted or self._waits_first(job_id)

    def __iter__(self) -> Iterator[str]:
        first = (job_id for line in self._lines for job_id in line if job_id not in self._noted)
        return chain(self._noted, first)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def remembered(self) -> int:
        """How many have a record of their own."""
        return len(self._noted)

    def _waits_first(self, job_id: object) -> bool:
        return any(job_id in line for line in self._lines)

    def note(self, job_id: str, phase: Phase, *, attempts: int | None = None, ended_by: str = "") -> None:
        """The job stands elsewhere now; its attempts are so many (None: as before). `ended_by`: what one ended by."""
        old = self._noted.get(job_id, _NEW)
        record = _record(
            phase,
            old.attempts if attempts is None else attempts,
            old.failures + (ended_by == FAILED),
            old.losses + (ended_by == LOST),
            old.preemptions + (ended_by == PREEMPTED),
        )
        if record is _NEW:
            self._noted.pop(job_id, None)
        else:
            self._noted[job_id] = record

    def recall(self, job_id: str, *, attempts: int, failures: int, losses: int, preemptions: int) -> None:
        """The job stands in line again after so many attempts."""
        self._noted[job_id] = _record(Phase.QUEUED, attempts, failures, losses, preemptions)

    def forget(self, job_id: str) -> None:
        """The job begins anew."""
        self._noted.pop(job_id, None)
