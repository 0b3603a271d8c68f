"""What a queue's events add up to: its line of jobs, its accounts, its charges."""

from __future__ import annotations

from functools import partial

from muster.engine.roll import Roll
from muster.model.flow import Account
from muster.model.jobs import Job, Task, least_usage_of, resources_of, usage_of
from muster.model.made import Made
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.resources import NOTHING, Resources
from muster.model.snapshot import Lane, QueueState


class QueueBooks:
    """One queue as events left it. `state` is cached until something changes."""

    def __init__(self, queue: Queue, policy: Policy, roll: Roll, now_ms: int) -> None:
        self.queue = queue
        self._roll = roll
        self._policy = policy
        self._account = Account()
        self._fixed = Account()
        self._started = NOTHING
        self._demand = NOTHING
        self._charged = 0
        self._active_ms = now_ms
        self._jobs = 0
        self._changes = 0
        self._frozen: QueueState | None = None

    def state(self) -> QueueState:
        """The queue as a frozen value."""
        if self._frozen is None:
            self._frozen = QueueState(
                queue=self.queue,
                account=self._account,
                fixed=self._fixed,
                started=self._started,
                charged=self._charged,
                demand=self._demand,
                active_ms=self._active_ms,
                lanes=Made(partial(self._lanes, self._changes)),
            )
        return self._frozen

    def _lanes(self, changes: int) -> tuple[Lane, ...]:
        """The lanes as they were after so many changes."""
        if changes != self._changes:
            raise LookupError(f"the line of {self.queue.name} has moved on: look at a snapshot before the world does")
        return self._roll.lanes_of(self.queue.name)

    def fork(self, roll: Roll) -> QueueBooks:
        """A copy that can go its own way, with its jobs on another roll."""
        other = object.__new__(QueueBooks)
        other.__dict__.update(self.__dict__)
        other._roll, other._frozen = roll, None
        return other

    def set_queue(self, queue: Queue) -> None:
        """The queue's settings changed."""
        self.queue = queue
        self._frozen = None

    def join(self, job: Job) -> None:
        """A job stands in line."""
        self._changes += 1
        self._roll.add(job)
        self.ask(job.profile.most)

    def leave(self, job: Job) -> None:
        """A job left the line."""
        self._changes += 1
        self._roll.remove(job.id)
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
