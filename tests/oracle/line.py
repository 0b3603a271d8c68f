"""The order in which one queue offers its jobs (design.md 4.3).

Class, priority, score, submit time, id. A profile that cannot start is set aside for the rest of the turn, and
the queue offers its next job of another profile; a limit closes it for all whom the limit holds back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster.model.jobs import Job, Profile
from muster.model.order import Place
from muster.model.policy import Policy
from muster.model.snapshot import Lane, QueueState
from oracle.limits import Limit


class Line:
    """The jobs of one queue that may still be offered in this turn; not those who are `out`."""

    def __init__(self, state: QueueState, policy: Policy, now_ms: int, is_out: Callable[[Job], bool]) -> None:
        self._policy, self._now_ms = policy, now_ms
        self._is_out = is_out
        self._profiles_deep = policy.profiles_deep
        self._aside: dict[Profile, int] = {}  # profile → jobs in the way for this long or longer are set aside
        self._limits: list[Limit] = []
        self._lanes = [_LaneHead(lane) for lane in state.lanes if lane.jobs]
        self._of: dict[Profile, list[_LaneHead]] = {}
        for head in self._lanes:
            self._of.setdefault(head.lane.profile, []).append(head)
            self._move_on(head)

    def offer(self) -> Job | None:
        """The next job in order, None when the queue has no more to offer."""
        best: _LaneHead | None = None
        for head in self._lanes:
            if head.job is not None and (best is None or head.order < best.order):
                best = head
        return None if best is None else best.job

    def is_late(self, job: Job) -> bool:
        """Whether the job is offered after the others of its class."""
        return any(head.job is job and head.is_late for head in self._lanes)

    def come_late(self, job: Job) -> None:
        """Jobs of its lane are offered after the others of their class."""
        for head in self._lanes:
            head.is_late = head.is_late or head.job is job

    def lane_heads(self) -> Iterator[Job]:
        """The next job of each lane."""
        return (head.job for head in self._lanes if head.job is not None)

    def take(self, job: Job) -> None:
        """The job was started or got a reservation, and so is out."""
        for head in self._of[job.profile]:
            self._move_on(head)

    def set_aside(self, profile: Profile, bound_ms: int) -> None:
        """Jobs of this profile that may be in the way for as long or longer need not be tried again."""
        self._aside[profile] = min(bound_ms, self._aside.get(profile, bound_ms))
        is_deep = len(self._aside) >= self._profiles_deep
        for head in self._lanes if is_deep else self._of[profile]:
            self._move_on(head)

    def close(self, limit: Limit) -> None:
        """Offer no more jobs that the limit holds back."""
        self._limits.append(limit)
        for head in self._lanes:
            self._move_on(head)

    def _move_on(self, head: _LaneHead) -> None:
        """Find the first job of the lane that may still be offered. What is passed over stays so."""
        bound_ms = self._aside.get(head.lane.profile)
        if bound_ms == 0 or (bound_ms is None and len(self._aside) >= self._profiles_deep):
            head.job = None
            return
        jobs = head.lane.jobs
        while head.at < len(jobs):
            job = jobs[head.at]
            is_aside = bound_ms is not None and self._is_in_the_way(job, bound_ms)
            if not is_aside and not self._is_out(job) and not any(it.holds_back(job) for it in self._limits):
                head.job, head.place = job, self._policy.place(job, self._now_ms)
                return
            head.at += 1
        head.job = None

    def _is_in_the_way(self, job: Job, bound_ms: int) -> bool:
        """Whether the job may be in the way for that long or longer."""
        own_ms = self._policy.bound_ms(job)
        return own_ms is None or own_ms >= bound_ms


class _LaneHead:
    """How far a lane has been offered."""

    __slots__ = ("at", "is_late", "job", "lane", "place")

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.at = 0
        self.is_late = False
        self.job: Job | None = None
        self.place: Place

    @property
    def order(self) -> tuple[int, bool, Place]:
        """Where its next job stands."""
        return self.place[0], self.is_late, self.place
