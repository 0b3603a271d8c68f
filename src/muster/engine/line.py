"""The order in which one queue offers its jobs (design.md 4.3).

Class, priority, submit time, id. A profile that cannot start is set aside for the rest of the turn, and
the queue offers its next job of another profile; a limit closes it for all whom the limit holds back.
"""

from __future__ import annotations

from muster.engine.limits import Limit
from muster.model.jobs import NEVER_MS, Job, Profile
from muster.model.snapshot import Lane, QueueState


class Line:
    """The jobs of one queue that may still be offered in this turn."""

    def __init__(self, state: QueueState, profiles_deep: int) -> None:
        self._lanes: list[Lane] = [lane for lane in state.lanes if lane.jobs]
        self._next = [0] * len(self._lanes)
        self._profiles_deep = profiles_deep
        self._aside: dict[Profile, int] = {}  # profile → the shortest bound that did not fit
        self._limits: list[Limit] = []
        self._taken: set[str] = set()
        self._offer: Job | None = None
        self._is_stale = True

    def offer(self) -> Job | None:
        """The next job in order, None when the queue has no more to offer."""
        if self._is_stale:
            heads = [job for place in range(len(self._lanes)) if (job := self._head(place)) is not None]
            self._offer = min(heads, key=lambda job: job.order, default=None)
            self._is_stale = False
        return self._offer

    def take(self, job: Job) -> None:
        """The job was started or got a reservation: it is no longer offered."""
        self._taken.add(job.id)
        self._is_stale = True

    def set_aside(self, profile: Profile, bound_ms: int) -> None:
        """Jobs of this profile that would run as long or longer need not be tried again."""
        self._aside[profile] = min(bound_ms, self._aside.get(profile, bound_ms))
        self._is_stale = True

    def close(self, limit: Limit) -> None:
        """Offer no more jobs that the limit holds back."""
        self._limits.append(limit)
        self._is_stale = True

    def _head(self, place: int) -> Job | None:
        lane = self._lanes[place]
        bound_ms = NEVER_MS if lane.bound_ms is None else lane.bound_ms
        if bound_ms >= self._aside.get(lane.profile, bound_ms + 1):
            return None
        if lane.profile not in self._aside and len(self._aside) >= self._profiles_deep:
            return None
        for at in range(self._next[place], len(lane.jobs)):
            job = lane.jobs[at]
            if job.id not in self._taken and not any(limit.holds_back(job) for limit in self._limits):
                self._next[place] = at
                return job
        self._next[place] = len(lane.jobs)
        return None
