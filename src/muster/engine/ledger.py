"""What each queue and user holds while a turn goes on.

A ledger starts from the snapshot and follows every admission, start and eviction of the plan, so that each decision
sees the ones before it. It is kept in columns, which the filling kernel reads and writes as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.known import asks_planner
from muster.engine.columns.leads import Leads, Positions
from muster.engine.columns.profiles import ShapeTable
from muster.engine.columns.queue_accounts import Carried, mark_of, set_quota
from muster.engine.columns.queued_jobs import Roll
from muster.engine.kernels.filling import Books
from muster.engine.present import Flags
from muster.engine.shares import Shares
from muster.model.jobs import Job, Pending, Profile, Running, Task, resources_of, usage_of
from muster.model.policy import FairBy
from muster.model.resources import Resources, Weights
from muster.model.snapshot import QueueState, Snapshot


class _Accounts(NamedTuple):
    """What holdings are read from: the columns of a ledger, shares, and what profiles ask for."""

    columns: Books
    shares: Shares
    shapes: ShapeTable


class Holding:
    """What one queue holds. usage = started + pending, and flow counts both.

    Flows that decide whose turn it is are those of the last mark (eight in a half time) or of the queue's last change,
    so that between two marks time alone puts nobody before another.
    """

    __slots__ = ("_accounts", "budget_left", "number", "state")

    def __init__(self, accounts: _Accounts, state: QueueState, number: int) -> None:
        self._accounts = accounts
        self.state = state
        self.number = number
        budget = state.queue.excess_budget
        self.budget_left = None if budget is None else budget - state.charged

    def on(self, accounts: _Accounts) -> Holding:
        """The same in the accounts of another ledger."""
        other = Holding(accounts, self.state, self.number)
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
    def entitled(self) -> int:
        """Its entitled share."""
        return self._accounts.shares.entitled[self.state.queue.name]

    @property
    def nominal(self) -> int:
        """Its nominal share."""
        return int(self._accounts.columns.nominal[self.number])

    @property
    def flow(self) -> int:
        """What it has used lately, pending jobs included."""
        return int(self._accounts.columns.flow[self.number])

    @property
    def usage(self) -> int:
        """What it uses, pending jobs included."""
        return int(self._accounts.columns.usage[self.number])

    @property
    def started_usage(self) -> int:
        """What its started jobs use."""
        return int(self._accounts.columns.started_usage[self.number])

    @property
    def fixed_usage(self) -> int:
        """What its jobs without a lifetime use at their min."""
        return int(self._accounts.columns.fixed_usage[self.number])

    @property
    def fixed_flow(self) -> int:
        """What those have used lately."""
        return int(self._accounts.columns.fixed_flow[self.number])

    @property
    def fixed_limit(self) -> int:
        """How far that may go."""
        return int(self._accounts.columns.fixed_limit[self.number])

    @property
    def starts(self) -> int:
        """How many of its jobs this turn has started."""
        return int(self._accounts.columns.starts[self.number])

    @property
    def held(self) -> Resources:
        """What its started and pending jobs hold."""
        return self._accounts.shapes.resources_of(self._accounts.columns.held[self.number])

    def started_of(self, resource: str) -> int:
        """How much of a resource its started jobs hold."""
        place = self._accounts.shapes.resources.get(resource)
        return 0 if place is None else int(self._accounts.columns.started[self.number, place])

    def flow_with(self, usage: int) -> int:
        """Flow if a job of this usage were admitted."""
        return max(self.flow, self.usage + usage)

    def fixed_flow_with(self, usage: int) -> int:
        """Flow of the jobs without a lifetime if another one were admitted."""
        return max(self.fixed_flow, self.fixed_usage + usage)


class Holdings(Mapping[str, Holding]):
    """What each queue holds, by name; made for those who are asked for."""

    def __init__(self, accounts: _Accounts, states: Sequence[QueueState], carried: Carried) -> None:
        self._accounts = accounts
        self._states = states
        self._place_of, self._numbers = carried.place_of, carried.numbers
        self._made: dict[str, Holding] = {}

    def on(self, accounts: _Accounts) -> Holdings:
        """The same in the accounts of another ledger."""
        other = object.__new__(Holdings)
        other.__dict__.update(self.__dict__)
        other._accounts, other._made = accounts, {name: holding.on(accounts) for name, holding in self._made.items()}
        return other

    def __getitem__(self, name: str) -> Holding:
        holding = self._made.get(name)
        if holding is None:
            place = self._place_of[name]
            holding = self._made[name] = Holding(self._accounts, self._states[place], self._numbers[place])
        return holding

    def __iter__(self) -> Iterator[str]:
        return iter(self._place_of)

    def __len__(self) -> int:
        return len(self._place_of)

    @property
    def numbers(self) -> list[int]:
        """The numbers of all queues, in the order of their names here and in a snapshot."""
        return self._numbers


class Ledger:
    """The holdings of all queues and users in a turn. Queues have the numbers of the roll."""

    def __init__(self, snapshot: Snapshot, shares: Shares, roll: Roll, shapes: ShapeTable) -> None:
        self.shares = shares
        self.shapes = shapes
        self.numbered = roll.queues.names  # queues by number
        self.weights: Weights = snapshot.policy.weights
        self._now_ms, self._half_time_ms = snapshot.now_ms, snapshot.policy.half_time_ms
        self._mark_ms = self._now_ms - self._now_ms % snapshot.policy.flow_step_ms
        self._users = roll.users
        self._evicted: set[str] = set()
        self.entering: Mapping[str, int] = {}  # by name, the service that is put down to queues that come into line
        self._entitled_to: dict[str, Ints] = {}
        self.quotas: dict[str, Mapping[str, int]] = {user.user.name: user.user.quota for user in snapshot.users}
        for name in self.quotas:
            self._users.number(name)
        self.columns = roll.carried.opened(
            self._now_ms, shares.usage, shares.divisor, snapshot.policy, max(len(self._users), 1)
        )
        self._open_users(snapshot)
        self._positions = self._open_positions(snapshot, roll)
        # Whether a rule may hold for anyone here that only the planner applies.
        self.asks_planner = (
            asks_planner(snapshot.policy)
            or roll.carried.asks_planner
            or roll.asks_planner
            or bool(self.columns.user_asks_planner.any())
        )
        self.queues = Holdings(_Accounts(self.columns, shares, shapes), snapshot.queues, roll.carried)
        for pending in snapshot.pending:
            self.admit(pending.job, pending.charge)
            holding = self.queues[pending.job.queue]
            if holding.budget_left is not None:  # the snapshot's `charged` has it already
                holding.budget_left += pending.charge

    @property
    def goes_by_service(self) -> bool:
        """Whether it goes by service whose turn it is, not by flow."""
        return self._positions is not None

    def fork(self) -> Ledger:
        """The same holdings, to go on by themselves."""
        other = object.__new__(Ledger)
        other.__dict__.update(self.__dict__)
        other._evicted = set(self._evicted)
        other.columns = Books(*(column.copy() for column in self.columns))
        other.queues = self.queues.on(_Accounts(other.columns, self.shares, self.shapes))
        return other

    def become(self, other: Ledger) -> None:
        """Be another ledger from now on, for all who know this one."""
        self.__dict__.update(other.__dict__)

    def _open_positions(self, snapshot: Snapshot, roll: Roll) -> Positions | None:
        """Where queues in line stand, if it goes by service whose turn it is."""
        if snapshot.policy.fair_by is not FairBy.SERVICE:
            return None
        asked, numbers = roll.queues_in_line(), roll.carried.numbers
        in_line = {number: state for number, state in zip(numbers, snapshot.queues, strict=True) if asked[number]}
        positions = Positions(snapshot.queues, in_line, self._now_ms, self.shares.usage, snapshot.policy)
        leads = positions.leads()
        self.entering = leads.entered
        self._write_leads(leads)
        return positions

    def _open_users(self, snapshot: Snapshot) -> None:
        books, shapes = self.columns, self.shapes
        books.quotas[0] = len(snapshot.users)
        for user in snapshot.users:
            number = self._users.number(user.user.name)
            books.user_has_quota[number] = bool(user.user.quota)
            books.user_asks_planner[number] = asks_planner(user.user)
            books.user_held[number] = shapes.row(user.started + user.raced)
            set_quota(books.user_quota[number], user.user.quota, shapes)

    @cached_property
    def entitled(self) -> Ints:
        """What each queue is entitled to, by number."""
        entitled = np.zeros(len(self.columns.flow), np.int64)
        entitled[self.queues.numbers] = list(self.shares.entitled.values())
        return entitled

    @cached_property
    def is_queue(self) -> Flags:
        """Which numbers are those of queues there are."""
        is_queue = np.zeros(len(self.columns.flow), np.bool_)
        is_queue[self.queues.numbers] = True
        return is_queue

    def entitled_to(self, resource: str) -> Ints:
        """By number, each queue's entitled part of one resource; shares do not change in a turn."""
        known = self._entitled_to.get(resource)
        if known is None:
            known = np.zeros(len(self.columns.flow), np.int64)
            known[self.queues.numbers] = [self.shares.entitled_to(resource)[name] for name in self.queues]
            self._entitled_to[resource] = known  # only now: pools that are decided beside this one look here too
        return known

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
        self.columns.flow[:] = self.settled()
        if self._positions is not None and (changed := self._changed()):
            self._write_leads(self._positions.leads(changed))

    def _changed(self) -> set[str]:
        """The queues whose usage this turn has changed."""
        return {self.numbered[number] for number in self.columns.starts.nonzero()[0].tolist()} | self._evicted

    def _write_leads(self, leads: Leads) -> None:
        self.columns.memory[0] = leads.memory
        for number, lead in leads.by_number.items():
            self.columns.lead[number] = lead

    def settled(self) -> Ints:
        """The flow of each queue, by number, as it is once the books are settled."""
        flows = self.columns.flow.copy()
        for holding in (self.queues[name] for name in self._changed()):
            number = holding.number
            flow = max(holding.state.account.flow_at(self._now_ms, self._half_time_ms), holding.started_usage)
            flows[number] = max(flow, holding.usage)
        return flows

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
        flow = account.flow_at(mark_of(account, self._mark_ms), self._half_time_ms)
        books.flow[queue] = max(flow, holding.usage)
        books.fixed_flow[queue] = max(fixed.flow_at(self._now_ms, self._half_time_ms), holding.fixed_usage)

    def start(self, job: Job, tasks: tuple[Task, ...]) -> None:
        """An admitted job starts with these tasks, at least its min."""
        amounts, usage = self._of(job.profile, tasks), usage_of(job.profile, tasks, self.weights)
        self._hold(job, amounts - self._least(job.profile), usage - self.least_usage(job))
        self._count_started(job.queue, amounts, usage)
        queue = self.queues[job.queue].number
        self.columns.starts[queue] += 1
        self.columns.last_start[queue] = self._now_ms

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

    def _release_whole(self, job: Job, charge: int) -> None:
        """The job is no longer admitted: its charge comes back, and limits no longer count it (design.md 4.4)."""
        holding = self.queues[job.queue]
        if holding.budget_left is not None:
            holding.budget_left += charge
        if job.lifetime_ms is None:
            books, queue, gone = self.columns, holding.number, self.least_usage(job)
            books.fixed_usage[queue] -= gone
            books.fixed_flow[queue] = max(books.fixed_flow[queue] - gone, books.fixed_usage[queue])
