"""What each queue and user holds while a turn goes on.

A ledger starts from the snapshot and follows every admission, start and eviction of the plan, so that
each decision sees the ones before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster.model.flow import Account
from muster.model.jobs import Job, Pending, Profile, Running, Task, least_usage_of, resources_of, usage_of
from muster.model.policy import FairBy
from muster.model.resources import Resources, Weights
from muster.model.snapshot import QueueState, Snapshot
from oracle.service import Service, last_start
from oracle.shares import Shares


@dataclass(slots=True, kw_only=True)
class Holding:
    """What one queue holds. usage = started + pending, and flow counts both.

    Flows that decide whose turn it is are those of the last mark (eight in a half time) or of the queue's last change,
    so that between two marks time alone puts nobody before another.
    """

    state: QueueState
    nominal: int
    entitled: int
    flow: int
    usage: int
    started_usage: int
    started: Resources
    held: Resources
    fixed_flow: int
    fixed_usage: int
    budget_left: int | None
    starts: int = 0
    lead: int = 0
    last_start: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.state.queue.name

    @property
    def weight(self) -> int:
        """The queue's weight."""
        return self.state.queue.weight

    def flow_with(self, usage: int) -> int:
        """Flow if a job of this usage were admitted."""
        return max(self.flow, self.usage + usage)

    def fixed_flow_with(self, usage: int) -> int:
        """Flow of the jobs without a lifetime if another one were admitted."""
        return max(self.fixed_flow, self.fixed_usage + usage)


class Ledger:
    """The holdings of all queues and users in a turn."""

    def __init__(self, snapshot: Snapshot, shares: Shares) -> None:
        self.shares = shares
        self.weights: Weights = snapshot.policy.weights
        self._least: dict[Profile, int] = {}
        self._changed: set[str] = set()
        self._now_ms, self._half_time_ms = snapshot.now_ms, snapshot.policy.half_time_ms
        self._mark_ms = self._now_ms - self._now_ms % snapshot.policy.flow_step_ms
        self.service = Service(snapshot, shares.usage) if snapshot.policy.fair_by is FairBy.SERVICE else None
        self.queues = {
            state.queue.name: self._holding(state)
            for state in sorted(snapshot.queues, key=lambda state: state.queue.name)
        }
        self._write_leads()
        self.quotas: dict[str, Mapping[str, int]] = {user.user.name: user.user.quota for user in snapshot.users}
        self.by_user: dict[str, Resources] = {user.user.name: user.started + user.raced for user in snapshot.users}
        for pending in snapshot.pending:
            self.admit(pending.job, pending.charge)
            holding = self.queues[pending.job.queue]
            if holding.budget_left is not None:  # the snapshot's `charged` has it already
                holding.budget_left += pending.charge

    def least_usage(self, job: Job) -> int:
        """Usage of the job at its min."""
        usage = self._least.get(job.profile)
        if usage is None:
            usage = self._least[job.profile] = least_usage_of(job.profile, self.weights)
        return usage

    def settle(self) -> None:
        """What the next turn would find: of queues that changed, flows are those of this very moment."""
        for holding in self.queues.values():
            if holding.name in self._changed:
                flow = holding.state.account.flow_at(self._now_ms, self._half_time_ms)
                flow = max(flow, holding.started_usage)
                holding.flow = max(flow, holding.usage)
        self._write_leads()

    def _write_leads(self) -> None:
        leads = {} if self.service is None else self.service.leads(self._changed)
        for name, lead in leads.items():
            self.queues[name].lead = lead

    def admit(self, job: Job, charge: int) -> None:
        """The job counts its min from now on."""
        self._hold(job, job.profile.least, self.least_usage(job))
        if job.lifetime_ms is None:
            holding = self.queues[job.queue]
            holding.fixed_usage += self.least_usage(job)
            holding.fixed_flow = max(holding.fixed_flow, holding.fixed_usage)
        if (left := self.queues[job.queue].budget_left) is not None:
            self.queues[job.queue].budget_left = left - charge

    def leave_line(self, pending: Pending) -> None:
        """A pending job went back to its queue."""
        self._release(pending.job, pending.job.profile.least, self.least_usage(pending.job))
        self._release_whole(pending.job, pending.charge)
        holding = self.queues[pending.job.queue]
        account, fixed = holding.state.account, holding.state.fixed
        # What never started leaves no flow.
        holding.flow = max(account.flow_at(_mark(account, self._mark_ms), self._half_time_ms), holding.usage)
        holding.fixed_flow = max(fixed.flow_at(self._now_ms, self._half_time_ms), holding.fixed_usage)

    def start(self, job: Job, tasks: tuple[Task, ...]) -> None:
        """An admitted job starts with these tasks, at least its min."""
        holding = self.queues[job.queue]
        resources, usage = resources_of(job.profile, tasks), usage_of(job.profile, tasks, self.weights)
        self._hold(job, resources - job.profile.least, usage - self.least_usage(job))
        holding.started = holding.started + resources
        holding.started_usage += usage
        holding.starts += 1
        holding.last_start = (1, self._now_ms)
        self._changed.add(job.queue)

    def evict(self, run: Running, tasks: tuple[Task, ...], *, whole: bool) -> None:
        """A running job loses these tasks."""
        holding = self.queues[run.job.queue]
        resources, usage = resources_of(run.job.profile, tasks), usage_of(run.job.profile, tasks, self.weights)
        self._release(run.job, resources, usage)
        holding.started = holding.started - resources
        holding.started_usage -= usage
        self._changed.add(run.job.queue)
        if whole:
            self._release_whole(run.job, run.charge)

    def _hold(self, job: Job, resources: Resources, usage: int) -> None:
        holding = self.queues[job.queue]
        holding.usage += usage
        holding.flow = max(holding.flow, holding.usage)
        holding.held = holding.held + resources
        if job.user in self.by_user:
            self.by_user[job.user] = self.by_user[job.user] + resources

    def _release(self, job: Job, resources: Resources, usage: int) -> None:
        holding = self.queues[job.queue]
        holding.usage -= usage
        holding.held = holding.held - resources
        if job.user in self.by_user:
            self.by_user[job.user] = self.by_user[job.user] - resources

    def _release_whole(self, job: Job, charge: int) -> None:
        """The job is no longer admitted: its charge comes back, and limits no longer count it (design.md 4.4)."""
        holding = self.queues[job.queue]
        if holding.budget_left is not None:
            holding.budget_left += charge
        if job.lifetime_ms is None:
            gone = self.least_usage(job)
            holding.fixed_usage -= gone
            holding.fixed_flow = max(holding.fixed_flow - gone, holding.fixed_usage)

    def _holding(self, state: QueueState) -> Holding:
        name, budget = state.queue.name, state.queue.excess_budget
        flow = state.account.flow_at(_mark(state.account, self._mark_ms), self._half_time_ms)
        return Holding(
            state=state,
            nominal=self.shares.nominal[name],
            entitled=self.shares.entitled[name],
            flow=flow,
            usage=state.account.usage,
            started_usage=state.account.usage,
            started=state.started,
            held=state.started + state.raced,
            fixed_flow=state.fixed.flow_at(self._now_ms, self._half_time_ms),
            fixed_usage=state.fixed.usage,
            budget_left=None if budget is None else budget - state.charged,
            last_start=last_start(state),
        )


def _mark(account: Account, mark_ms: int) -> int:
    """The last mark, or when usage last changed if that is later."""
    return max(mark_ms, account.as_of_ms)
