"""The books of all queues as a turn opens them, carried forward from one turn to the next.

Most queues are as they were a moment ago, and open as they did then. Only those that changed are read again; of the
others, flows are worked out anew when time has passed a mark, and nominal shares when capacity or the sum of weights
is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from operator import is_not
from typing import Protocol

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.known import asks_planner
from muster.engine.columns.numbering import Numbers
from muster.engine.columns.profiles import ShapeTable
from muster.engine.columns.wants import Known
from muster.engine.kernels.filling import Books
from muster.model.flow import Account
from muster.model.jobs import NEVER_MS
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.resources import MICRO
from muster.model.snapshot import QueueState, Snapshot

UNLIMITED = NEVER_MS
_NEVER = -(1 << 60)


class NumbersQueues(Protocol):
    """Who gives queues their numbers."""

    @property
    def queues(self) -> Numbers[str]:
        """Names and numbers."""

    def queue_number(self, name: str) -> int:
        """The number of a queue, a new one if it had none."""


class Carried:
    """Columns of queues, by their number on the roll, as the last turn opened them. Nobody else writes them."""

    def __init__(self) -> None:
        self._states: tuple[QueueState, ...] = ()
        self._policy: Policy | None = None
        self._books: Books | None = None
        self._numbers: list[int] = []
        self.place_of: dict[str, int] = {}  # of each queue among the snapshot's
        self._mark_ms = -1
        self._shared: tuple[int, int] = (-1, -1)  # usage of all there is, and the sum of weights
        self._fading: dict[int, QueueState] = {}  # queues whose flow at the last mark was above their usage
        self._fixed_fading: dict[int, QueueState] = {}  # the same of their jobs without a lifetime
        self._active_ms = self._weight = np.zeros(0, np.int64)  # of those that are not cordoned
        self._has_demand = np.zeros(0, np.bool_)
        self.known = Known()  # what they wanted
        self.asks_planner = False  # whether a rule may hold for any that only the planner applies

    @property
    def numbers(self) -> list[int]:
        """The number of each of the snapshot's queues."""
        return self._numbers

    def catch_up(self, snapshot: Snapshot, roll: NumbersQueues, shapes: ShapeTable) -> None:
        """Read what changed since the last turn, time and shares apart."""
        states, books = snapshot.queues, self._books
        changed = self._changed(states)
        shape = (len(roll.queues), len(shapes.resources))
        is_known = books is not None and books.started.shape == shape and snapshot.policy is self._policy
        if changed is None or not is_known:
            self._begin(snapshot, roll, shapes)
            changed = list(range(len(states)))
            for state, number in zip(states, self._numbers, strict=True):
                self._set_up(state.queue, number, shapes)
        for place in changed:
            self._read(states[place], self._numbers[place], place, shapes, snapshot.policy)
        self._states = states

    def _changed(self, states: tuple[QueueState, ...]) -> list[int] | None:
        """The places of queues that hold or want something else; None if queues came, went, or were changed."""
        if len(states) != len(self._states):
            return None
        changed = list(compress(range(len(states)), map(is_not, self._states, states)))
        if any(self._states[place].queue is not states[place].queue for place in changed):
            return None
        return changed

    def _begin(self, snapshot: Snapshot, roll: NumbersQueues, shapes: ShapeTable) -> None:
        """Blank columns for these queues, which are numbered."""
        names = [state.queue.name for state in snapshot.queues]
        self._numbers = [roll.queue_number(name) for name in names]
        self.place_of = {name: place for place, name in enumerate(names)}
        self._books = books = blank_books(len(roll.queues), len(shapes.resources), 1)
        for order, name in enumerate(sorted(names)):
            books.name_order[self._numbers[self.place_of[name]]] = order
        self._policy, self.asks_planner = snapshot.policy, False
        self._mark_ms, self._shared = -1, (-1, -1)
        self._fading, self._fixed_fading = {}, {}
        self._active_ms, self._has_demand = np.zeros(len(names), np.int64), np.zeros(len(names), np.bool_)
        self._weight = np.array([it.queue.weight * (not it.queue.cordoned) for it in snapshot.queues], np.int64)

    def _set_up(self, queue: Queue, number: int, shapes: ShapeTable) -> None:
        """What was said about a queue."""
        books = self._books
        assert books is not None
        books.weight[number], books.cordoned[number] = queue.weight, queue.cordoned
        books.has_budget[number] = queue.excess_budget is not None
        set_quota(books.quota[number], queue.quota, shapes)
        books.asks_planner[number] = asks = asks_planner(queue)
        self.asks_planner |= asks

    def _read(self, state: QueueState, number: int, place: int, shapes: ShapeTable, policy: Policy) -> None:
        """What a queue holds and wants."""
        books, account, fixed = self._books, state.account, state.fixed
        assert books is not None
        self._active_ms[place], self._has_demand[place] = state.active_ms, bool(state.demand)
        books.turn_weight[number] = policy.turn_weight(state.queue.weight, state.habit)
        books.usage[number] = books.started_usage[number] = account.usage
        books.last_start[number] = last_start_of(state)
        self._set_flow(number, state, policy)
        books.started[number] = shapes.row(state.started)
        books.held[number] = shapes.row(state.started + state.raced) if state.raced else books.started[number]
        books.fixed_usage[number] = books.fixed_flow[number] = fixed.usage
        if policy.over_share is not None and fixed.flow > fixed.usage:  # or nobody asks
            self._fixed_fading[number] = state
        else:
            self._fixed_fading.pop(number, None)

    # -- what everyone has a part in ---------------------------------------------------------------------

    def divisor(self, snapshot: Snapshot) -> int:
        """The weights of living queues together (muster.engine.shares.counts_as_living)."""
        is_recent = self._active_ms > snapshot.now_ms - snapshot.policy.share_memory_ms
        return int(self._weight[is_recent | self._has_demand].sum())

    def _share(self, usage: int, divisor: int, policy: Policy) -> None:
        """Nominal shares, and what limits follow from them, if all there is or the sum of weights changed.

        In columns of their own: what an earlier turn has to say may be asked for still.
        """
        books = self._books
        if self._shared == (usage, divisor) or books is None:
            return
        nominal, fixed_limit = np.zeros_like(books.nominal), np.full_like(books.fixed_limit, UNLIMITED)
        for weight in set(books.weight.tolist()):
            is_so = books.weight == weight
            nominal[is_so] = usage * weight // divisor if divisor else usage
            fixed_limit[is_so] = _fixed_limit(weight, usage, divisor, policy)
        self._books = books._replace(nominal=nominal, fixed_limit=fixed_limit)
        self._shared = (usage, divisor)

    # -- flows -------------------------------------------------------------------------------------------

    def _set_flow(self, number: int, state: QueueState, policy: Policy) -> None:
        """The flow as of the last mark."""
        assert self._books is not None
        account = state.account
        flow = account.flow_at(mark_of(account, self._mark_ms), policy.half_time_ms)
        self._books.flow[number] = flow
        if flow > account.usage:
            self._fading[number] = state
        else:  # and so it is at every later mark
            self._fading.pop(number, None)

    def _fade(self, now_ms: int, policy: Policy) -> None:
        """Flows as of now, or of the last mark."""
        assert self._books is not None
        mark_ms = now_ms - now_ms % policy.flow_step_ms
        if mark_ms != self._mark_ms:
            went_back, self._mark_ms = mark_ms < self._mark_ms, mark_ms
            known = dict(zip(self._numbers, self._states, strict=True)) if went_back else dict(self._fading)
            for number, state in known.items():
                self._set_flow(number, state, policy)
        for number, state in self._fixed_fading.items():
            self._books.fixed_flow[number] = state.fixed.flow_at(now_ms, policy.half_time_ms)

    # -- opening -----------------------------------------------------------------------------------------

    def opened(self, now_ms: int, usage: int, divisor: int, policy: Policy, users: int) -> Books:
        """The books as they are now, for a turn to write. Of all there is the usage, of living queues the weights."""
        self._share(usage, divisor, policy)
        self._fade(now_ms, policy)
        books = self._books
        assert books is not None
        width = books.started.shape[1]
        return Books(
            weight=books.weight,
            turn_weight=books.turn_weight.copy(),
            name_order=books.name_order,
            lead=np.zeros(len(books.flow), np.int64),
            last_start=books.last_start.copy(),
            memory=np.zeros(1, np.int64),
            cordoned=books.cordoned,
            asks_planner=books.asks_planner,
            flow=books.flow.copy(),
            usage=books.usage.copy(),
            started_usage=books.started_usage.copy(),
            started=books.started.copy(),
            held=books.held.copy(),
            quota=books.quota,
            fixed_flow=books.fixed_flow.copy(),
            fixed_usage=books.fixed_usage.copy(),
            fixed_limit=books.fixed_limit,
            nominal=books.nominal,
            has_budget=books.has_budget,
            starts=np.zeros(len(books.flow), np.int64),
            user_held=np.zeros((users, width), np.int64),
            user_quota=np.full((users, width), UNLIMITED, np.int64),
            user_has_quota=np.zeros(users, np.int64),
            user_asks_planner=np.zeros(users, np.int64),
            quotas=np.zeros(1, np.int64),
        )


def blank_books(queues: int, resources: int, users: int) -> Books:
    """Books in which nothing is written."""
    return Books(
        weight=np.ones(queues, np.int64),
        turn_weight=np.ones(queues, np.int64),
        name_order=np.zeros(queues, np.int64),
        lead=np.zeros(queues, np.int64),
        last_start=np.zeros(queues, np.int64),
        memory=np.zeros(1, np.int64),
        cordoned=np.zeros(queues, np.int64),
        asks_planner=np.zeros(queues, np.int64),
        flow=np.zeros(queues, np.int64),
        usage=np.zeros(queues, np.int64),
        started_usage=np.zeros(queues, np.int64),
        started=np.zeros((queues, resources), np.int64),
        held=np.zeros((queues, resources), np.int64),
        quota=np.full((queues, resources), UNLIMITED, np.int64),
        fixed_flow=np.zeros(queues, np.int64),
        fixed_usage=np.zeros(queues, np.int64),
        fixed_limit=np.full(queues, UNLIMITED, np.int64),
        nominal=np.zeros(queues, np.int64),
        has_budget=np.zeros(queues, np.int64),
        starts=np.zeros(queues, np.int64),
        user_held=np.zeros((users, resources), np.int64),
        user_quota=np.full((users, resources), UNLIMITED, np.int64),
        user_has_quota=np.zeros(users, np.int64),
        user_asks_planner=np.zeros(users, np.int64),
        quotas=np.zeros(1, np.int64),
    )


def mark_of(account: Account, mark_ms: int) -> int:
    """The last mark, or when usage last changed if that is later."""
    return max(mark_ms, account.as_of_ms)


def last_start_of(state: QueueState) -> int:
    """When a queue last started a job; those that never did come before, the one that has stood longest first."""
    if state.last_start_ms is not None:
        return state.last_start_ms
    return _NEVER if state.stands_since_ms is None else 2 * _NEVER + state.stands_since_ms


def set_quota(row: Ints, quota: Mapping[str, int], shapes: ShapeTable) -> None:
    """Write a quota into the row of whoever has it."""
    for name, most in quota.items():
        if name in shapes.resources:
            row[shapes.resources[name]] = most


def _fixed_limit(weight: int, usage: int, divisor: int, policy: Policy) -> int:
    """How much flow jobs without a lifetime may reach: a multiple of the nominal share, rounded once."""
    if policy.over_share is None:
        return UNLIMITED
    limit = usage * weight * policy.over_share // (max(divisor, weight) * MICRO)
    return UNLIMITED if limit >= usage else limit
