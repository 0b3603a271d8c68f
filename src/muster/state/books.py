"""What a queue's events add up to: its line of jobs, its accounts, its charges."""

from __future__ import annotations

from typing import Any

from sortedcontainers import SortedKeyList

from muster.model.flow import Account
from muster.model.jobs import Job, Profile, Task, least_usage_of, resources_of, usage_of
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.resources import NOTHING, Resources
from muster.model.snapshot import Lane, QueueState

LaneKey = tuple[Profile, int, int]


def _lane_key(job: Job) -> LaneKey:
    return (job.profile, job.priority_class, job.priority)


def _age(job: Job) -> tuple[int, tuple[str, int, str]]:
    return (job.submit_ms, job.key)


class QueueBooks:
    """One queue as events left it. `state` is cached until something changes."""

    def __init__(self, queue: Queue, policy: Policy, now_ms: int) -> None:
        self.queue = queue
        self._policy = policy
        self._account = Account()
        self._fixed = Account()
        self._started = NOTHING
        self._demand = NOTHING
        self._charged = 0
        self._active_ms = now_ms
        self._jobs = 0
        self._lanes: dict[LaneKey, SortedKeyList[Job, Any]] = {}
        self._frozen_lanes: dict[LaneKey, Lane] = {}
        self._frozen: QueueState | None = None

    def state(self) -> QueueState:
        """The queue as a frozen value."""
        if self._frozen is None:
            for key, jobs in self._lanes.items():
                if key not in self._frozen_lanes:
                    self._frozen_lanes[key] = Lane(profile=key[0], jobs=tuple(jobs))
            self._frozen = QueueState(
                queue=self.queue,
                account=self._account,
                fixed=self._fixed,
                started=self._started,
                charged=self._charged,
                demand=self._demand,
                active_ms=self._active_ms,
                lanes=tuple(self._frozen_lanes.values()),
            )
        return self._frozen

    def fork(self) -> QueueBooks:
        """A copy that can go its own way."""
        other = object.__new__(QueueBooks)
        other.__dict__.update(self.__dict__)
        other._lanes = {key: SortedKeyList(jobs, key=_age) for key, jobs in self._lanes.items()}
        other._frozen_lanes = dict(self._frozen_lanes)
        return other

    def set_queue(self, queue: Queue) -> None:
        """The queue's settings changed."""
        self.queue = queue
        self._frozen = None

    def join(self, job: Job) -> None:
        """A job stands in line."""
        key = _lane_key(job)
        if key not in self._lanes:
            self._lanes[key] = SortedKeyList(key=_age)
        self._lanes[key].add(job)
        self._frozen_lanes.pop(key, None)
        self.ask(job.profile.most)

    def leave(self, job: Job) -> None:
        """A job left the line."""
        key = _lane_key(job)
        self._lanes[key].remove(job)
        self._frozen_lanes.pop(key, None)
        if not self._lanes[key]:
            del self._lanes[key]
        self.ask_no_more(job.profile.most)

    def ask(self, resources: Resources) -> None:
        """More is asked for."""
        self._demand = self._demand + resources
        self._frozen = None

    def ask_no_more(self, resources: Resources) -> None:
        """Less is asked for."""
        self._demand = self._demand - resources
        self._frozen = None

    def charge(self, amount: int) -> None:
        """The excess budget pays (or, below zero, gets back)."""
        self._charged += amount
        self._frozen = None

    def use(self, job: Job, tasks: tuple[Task, ...], now_ms: int, *, sign: int, whole: bool) -> None:
        """Tasks start (sign +1) or end (-1). `whole`: so does the job, and its min counts as fixed or no longer."""
        weights, half = self._policy.weights, self._policy.half_time_ms
        usage = self._account.usage + sign * usage_of(job.profile, tasks, weights)
        self._account = self._account.with_usage(usage, now_ms, half)
        resources = resources_of(job.profile, tasks)
        self._started = self._started + resources if sign > 0 else self._started - resources
        if whole:
            most = job.profile.most
            self._demand = self._demand + most if sign > 0 else self._demand - most
        if whole and job.lifetime_ms is None:
            fixed = self._fixed.usage + sign * least_usage_of(job.profile, weights)
            self._fixed = self._fixed.with_usage(fixed, now_ms, half)
        self._frozen = None

    def touch(self, now_ms: int, jobs: int) -> None:
        """The queue is in use; `jobs` of it came (or, below zero, went)."""
        self._active_ms = now_ms
        self._jobs += jobs
        self._frozen = None

    def idle_since_ms(self) -> int | None:
        """When its last job went; None while it has any."""
        return None if self._jobs else self._active_ms
