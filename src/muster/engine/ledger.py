"""What each queue and user holds while a turn goes on.

A ledger starts from the snapshot and follows every admission, start and eviction of the plan, so that each decision
sees the ones before it. It is kept in columns, which the filling kernel reads and writes as well.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muster.engine.kernels.filling import Books
from muster.engine.roll import Roll
from muster.engine.shapes import Ints, ShapeTable
from muster.engine.shares import Shares
from muster.model.flow import Account
from muster.model.jobs import NEVER_MS, Job, Pending, Profile, Running, Task, resources_of, usage_of
from muster.model.policy import Policy
from muster.model.resources import MICRO, Resources, Weights
from muster.model.snapshot import QueueState, Snapshot

UNLIMITED = NEVER_MS


class Holding:
    """What one queue holds. usage = started + pending, and flow counts both; started_flow only what has started.

    Flows that decide whose turn it is are those of the last mark (eight in a half time) or of the queue's last change,
    so that between two marks time alone puts nobody before another.
    """

    __slots__ = ("_ledger", "budget_left", "entitled", "number", "state")

    def __init__(self, ledger: Ledger, state: QueueState, number: int) -> None:
        self._ledger = ledger
        self.state = state
        self.number = number
        self.entitled = ledger.shares.entitled[state.queue.name]
        budget = state.queue.excess_budget
        self.budget_left = None if budget is None else budget - state.charged

    def on(self, ledger: Ledger) -> Holding:
        """The same in another ledger."""
        other = Holding(ledger, self.state, self.number)
        other.budget_left = self.budget_left
        return other

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.state.queue.name

    @property
    def weight(self) -> int:
        """The queue's weight."""
        return self.state.queue.weight

    @property
    def nominal(self) -> int:
        """Its nominal share."""
        return int(self._ledger.columns.nominal[self.number])

    @property
    def flow(self) -> int:
        """What it has used lately, pending jobs included."""
        return int(self._ledger.columns.flow[self.number])

    @property
    def usage(self) -> int:
        """What it uses, pending jobs included."""
        return int(self._ledger.columns.usage[self.number])

    @property
    def started_usage(self) -> int:
        """What its started jobs use."""
        return int(self._ledger.columns.started_usage[self.number])

    @property
    def started_flow(self) -> int:
        """What its started jobs have used lately."""
        return int(self._ledger.columns.started_flow[self.number])

    @property
    def fixed_usage(self) -> int:
        """What its jobs without a lifetime use at their min."""
        return int(self._ledger.columns.fixed_usage[self.number])

    @property
    def fixed_flow(self) -> int:
        """What those have used lately."""
        return int(self._ledger.columns.fixed_flow[self.number])

    @property
    def fixed_limit(self) -> int:
        """How far that may go."""
        return int(self._ledger.columns.fixed_limit[self.number])

    @property
    def starts(self) -> int:
        """How many of its jobs this turn has started."""
        return int(self._ledger.columns.starts[self.number])

    @property
    def held(self) -> Resources:
        """What its started and pending jobs hold."""
        return self._ledger.shapes.resources_of(self._ledger.columns.held[self.number])

    def started_of(self, resource: str) -> int:
        """How much of a resource its started jobs hold."""
        place = self._ledger.shapes.resources.get(resource)
        return 0 if place is None else int(self._ledger.columns.started[self.number, place])

    def flow_with(self, usage: int) -> int:
        """Flow if a job of this usage were admitted."""
        return max(self.flow, self.usage + usage)

    def fixed_flow_with(self, usage: int) -> int:
        """Flow of the jobs without a lifetime if another one were admitted."""
        return max(self.fixed_flow, self.fixed_usage + usage)


class Ledger:
    """The holdings of all queues and users in a turn. Queues have the numbers of the roll."""

    def __init__(self, snapshot: Snapshot, shares: Shares, roll: Roll, shapes: ShapeTable) -> None:
        self.shares = shares
        self.shapes = shapes
        self.weights: Weights = snapshot.policy.weights
        self._now_ms, self._half_time_ms = snapshot.now_ms, snapshot.policy.half_time_ms
        self._mark_ms = self._now_ms - self._now_ms % snapshot.policy.flow_step_ms
        self._users = roll.users
        self._evicted: set[str] = set()
        self.quotas: dict[str, Mapping[str, int]] = {user.user.name: user.user.quota for user in snapshot.users}
        states = sorted(snapshot.queues, key=lambda state: state.queue.name)
        numbers = [roll.queue_number(state.queue.name) for state in states]
        for name in self.quotas:
            self._users.number(name)
        self.columns = self._opened(states, numbers, len(roll.queues), snapshot)
        self.queues = {
            state.queue.name: Holding(self, state, number) for state, number in zip(states, numbers, strict=True)
        }
        self.entitled = np.zeros(len(roll.queues), np.int64)  # by number
        for holding in self.queues.values():
            self.entitled[holding.number] = holding.entitled
        for pending in snapshot.pending:
            self.admit(pending.job, pending.charge)
            holding = self.queues[pending.job.queue]
            if holding.budget_left is not None:  # the snapshot's `charged` has it already
                holding.budget_left += pending.charge

    def fork(self) -> Ledger:
        """The same holdings, to go on by themselves."""
        other = object.__new__(Ledger)
        other.__dict__.update(self.__dict__)
        other._evicted = set(self._evicted)
        other.columns = Books(*(column.copy() for column in self.columns))
        other.queues = {name: holding.on(other) for name, holding in self.queues.items()}
        return other

    def become(self, other: Ledger) -> None:
        """Be another ledger from now on, for all who know this one."""
        self.__dict__.update(other.__dict__)

    def _opened(self, states: list[QueueState], numbers: list[int], many: int, snapshot: Snapshot) -> Books:
        shapes, width = self.shapes, len(self.shapes.resources)
        users = max(len(self._users), 1)
        books = Books(
            weight=np.ones(many, np.int64),
            name_order=np.zeros(many, np.int64),
            cordoned=np.zeros(many, np.int64),
            flow=np.zeros(many, np.int64),
            usage=np.zeros(many, np.int64),
            started_usage=np.zeros(many, np.int64),
            started_flow=np.zeros(many, np.int64),
            started=np.zeros((many, width), np.int64),
            held=np.zeros((many, width), np.int64),
            quota=np.full((many, width), UNLIMITED, np.int64),
            fixed_flow=np.zeros(many, np.int64),
            fixed_usage=np.zeros(many, np.int64),
            fixed_limit=np.full(many, UNLIMITED, np.int64),
            nominal=np.zeros(many, np.int64),
            has_budget=np.zeros(many, np.int64),
            starts=np.zeros(many, np.int64),
            user_held=np.zeros((users, width), np.int64),
            user_quota=np.full((users, width), UNLIMITED, np.int64),
            user_has_quota=np.zeros(users, np.int64),
        )
        for order, (state, number) in enumerate(zip(states, numbers, strict=True)):
            self._open(books, state, number, snapshot.policy)
            books.name_order[number] = order
        for user in snapshot.users:
            number = self._users.number(user.user.name)
            books.user_has_quota[number] = 1
            books.user_held[number] = shapes.row(user.started + user.raced)
            _set_quota(books.user_quota[number], user.user.quota, shapes)
        return books

    def _open(self, books: Books, state: QueueState, number: int, policy: Policy) -> None:
        flow = state.account.flow_at(_mark(state.account, self._mark_ms), self._half_time_ms)
        books.weight[number] = state.queue.weight
        books.cordoned[number] = state.queue.cordoned
        books.flow[number] = books.started_flow[number] = flow
        books.usage[number] = books.started_usage[number] = state.account.usage
        books.started[number] = self.shapes.row(state.started)
        books.held[number] = self.shapes.row(state.started + state.raced)
        books.fixed_flow[number] = state.fixed.flow_at(self._now_ms, self._half_time_ms)
        books.fixed_usage[number] = state.fixed.usage
        books.fixed_limit[number] = self._fixed_limit(state, policy)
        books.nominal[number] = self.shares.nominal[state.queue.name]
        books.has_budget[number] = state.queue.excess_budget is not None
        _set_quota(books.quota[number], state.queue.quota, self.shapes)

    def _fixed_limit(self, state: QueueState, policy: Policy) -> int:
        """How much flow jobs without a lifetime may reach: a multiple of the nominal share, rounded once."""
        if policy.over_share is None:
            return UNLIMITED
        weight, divisor = state.queue.weight, self.shares.divisor
        limit = self.shares.usage * weight * policy.over_share // (max(divisor, weight) * MICRO)
        return UNLIMITED if limit >= self.shares.usage else limit

    # -- reading ---------------------------------------------------------------------------------------

    def least_usage(self, job: Job) -> int:
        """Usage of the job at its min."""
        return int(self.shapes.usage[self.shapes.number(job.profile)])

    def held_by_user(self, user: str) -> Resources | None:
        """What the jobs of a user with a quota hold; None for others."""
        if user not in self.quotas:
            return None
        return self.shapes.resources_of(self.columns.user_held[self._users[user]])

    def user_number(self, user: str) -> int:
        """The number of a user with a quota; -1 for others."""
        return self._users[user] if user in self.quotas else -1

    def has_quota_for(self, job: Job, asks: Resources) -> bool:
        """Whether the job's queue and user may hold so much more."""
        books, more = self.columns, self.shapes.row(asks)
        queue, user = self.queues[job.queue].number, self.user_number(job.user)
        is_over = (more > 0) & (books.held[queue] + more > books.quota[queue])
        if user >= 0:
            is_over |= (more > 0) & (books.user_held[user] + more > books.user_quota[user])
        return not bool(is_over.any())

    # -- writing ---------------------------------------------------------------------------------------

    def settle(self) -> None:
        """What the next turn would find: of queues that changed, flows are those of this very moment."""
        books = self.columns
        for holding in self.queues.values():
            number = holding.number
            if books.starts[number] or holding.name in self._evicted:
                flow = holding.state.account.flow_at(self._now_ms, self._half_time_ms)
                books.started_flow[number] = max(flow, holding.started_usage)
                books.flow[number] = max(holding.started_flow, holding.usage)

    def admit(self, job: Job, charge: int) -> None:
        """The job counts its min from now on."""
        usage, holding = self.least_usage(job), self.queues[job.queue]
        self._hold(job, self._least(job.profile), usage)
        if job.lifetime_ms is None:
            books, queue = self.columns, holding.number
            books.fixed_usage[queue] += usage
            books.fixed_flow[queue] = max(books.fixed_flow[queue], books.fixed_usage[queue])
        if holding.budget_left is not None:
            holding.budget_left -= charge

    def leave_line(self, pending: Pending) -> None:
        """A pending job went back to its queue."""
        job, holding = pending.job, self.queues[pending.job.queue]
        self._hold(job, -self._least(job.profile), -self.least_usage(job))
        self._release_whole(job, pending.charge)
        books, queue = self.columns, holding.number
        account, fixed = holding.state.account, holding.state.fixed
        # What never started leaves no flow.
        flow = account.flow_at(_mark(account, self._mark_ms), self._half_time_ms)
        books.flow[queue] = max(flow, holding.usage)
        books.fixed_flow[queue] = max(fixed.flow_at(self._now_ms, self._half_time_ms), holding.fixed_usage)

    def start(self, job: Job, tasks: tuple[Task, ...]) -> None:
        """An admitted job starts with these tasks, at least its min."""
        amounts, usage = self._of(job.profile, tasks), usage_of(job.profile, tasks, self.weights)
        self._hold(job, amounts - self._least(job.profile), usage - self.least_usage(job))
        self._count_started(job.queue, amounts, usage)
        self.columns.starts[self.queues[job.queue].number] += 1

    def evict(self, run: Running, tasks: tuple[Task, ...], *, whole: bool) -> None:
        """A running job loses these tasks."""
        job = run.job
        amounts, usage = self._of(job.profile, tasks), usage_of(job.profile, tasks, self.weights)
        self._hold(job, -amounts, -usage)
        self._count_started(job.queue, -amounts, -usage)
        self._evicted.add(job.queue)
        if whole:
            self._release_whole(job, run.charge)

    def widen(self, job: Job, tasks: tuple[Task, ...]) -> None:
        """A running job gets these tasks on top."""
        amounts, usage = self._of(job.profile, tasks), usage_of(job.profile, tasks, self.weights)
        self._hold(job, amounts, usage)
        self._count_started(job.queue, amounts, usage)

    def _least(self, profile: Profile) -> Ints:
        least: Ints = self.shapes.least[self.shapes.number(profile)]
        return least

    def _of(self, profile: Profile, tasks: tuple[Task, ...]) -> Ints:
        return self.shapes.row(resources_of(profile, tasks))

    def _hold(self, job: Job, amounts: Ints, usage: int) -> None:
        """The queue and the user hold more, or less."""
        books, queue = self.columns, self.queues[job.queue].number
        books.usage[queue] += usage
        if usage > 0:
            books.flow[queue] = max(books.flow[queue], books.usage[queue])
        books.held[queue] += amounts
        if job.user in self.quotas:
            books.user_held[self._users[job.user]] += amounts

    def _count_started(self, queue: str, amounts: Ints, usage: int) -> None:
        books, number = self.columns, self.queues[queue].number
        books.started[number] += amounts
        books.started_usage[number] += usage
        if usage > 0:
            books.started_flow[number] = max(books.started_flow[number], books.started_usage[number])

    def _release_whole(self, job: Job, charge: int) -> None:
        """The job is no longer admitted: its charge comes back, and limits no longer count it (design.md 4.4)."""
        holding = self.queues[job.queue]
        if holding.budget_left is not None:
            holding.budget_left += charge
        if job.lifetime_ms is None:
            books, queue, gone = self.columns, holding.number, self.least_usage(job)
            books.fixed_usage[queue] -= gone
            books.fixed_flow[queue] = max(books.fixed_flow[queue] - gone, books.fixed_usage[queue])


def _set_quota(row: Ints, quota: Mapping[str, int], shapes: ShapeTable) -> None:
    for name, most in quota.items():
        if name in shapes.resources:
            row[shapes.resources[name]] = most


def _mark(account: Account, mark_ms: int) -> int:
    """The last mark, or when usage last changed if that is later."""
    return max(mark_ms, account.as_of_ms)
