"""Where a waiting job stands: who is ahead of it and why, and its queue's share of the fleet."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from muster.engine.columns.leads import Leads, Positions
from muster.engine.columns.queue_accounts import last_start_of
from muster.engine.columns.views import floor_of
from muster.engine.shares import shares
from muster.model.jobs import Job, least_usage_of
from muster.model.order import Order
from muster.model.plan import Plan
from muster.model.policy import FairBy
from muster.model.reasons import Reason
from muster.model.resources import MICRO
from muster.model.snapshot import QueueState, Snapshot

MOST_RIVALS = 3
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """Who goes first in the job's own queue: how many, the first of them, and what puts that one before the job."""

    count: int
    first: str = ""
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """Another queue with jobs in line. `due` is what progressive filling compares, per weight: what it was served, in
    hours of usage, or the flow it would have with its first job."""

    queue: str
    head: str
    priority_class: int
    due: float
    is_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A queue's share of the fleet, in parts of 1. `weight` and `divisor` as people write weights, `due` as rivals
    have it, `by` what that is."""

    queue: str
    usage: float
    flow: float
    nominal: float
    entitled: float
    weight: float
    divisor: float
    due: float
    by: FairBy


def ahead_in_queue(snapshot: Snapshot, job: Job) -> Ahead:
    """Who stands before the job in its own queue."""
    state = _queue(snapshot, job.queue)
    place, own = snapshot.place, snapshot.place(job)
    before = [other for lane in state.lanes for other in lane.jobs if place(other) < own]
    if not before:
        return Ahead(count=0)
    first = min(before, key=place)
    return Ahead(count=len(before), first=first.id, because=_because(snapshot.policy.order, first, job))


def _because(order: Order, first: Job, job: Job) -> str:
    """Why one job of a queue goes before another."""
    if first.priority_class != job.priority_class:
        return f"class {first.priority_class} before {job.priority_class}"
    if first.priority != job.priority:
        return f"priority {first.priority} before {job.priority}"
    if not order.is_by_arrival:
        return "the order of this scheduler puts it first"
    is_earlier = (first.submit_ms, first.number) != (job.submit_ms, job.number)
    return "submitted earlier" if is_earlier else "its name comes first"


def rivals(snapshot: Snapshot, plan: Plan, job: Job) -> tuple[Rival, ...]:
    """Other queues with jobs in line, those that go before the job first; a few of them."""
    hunger = _Hunger(snapshot)
    own = hunger.of(_queue(snapshot, job.queue), job)
    never = {name for name, reason in plan.reasons() if reason in (Reason.NEVER_FITS, Reason.NO_NODES)}
    found = []
    for state in snapshot.queues:
        head = _head(snapshot, state, never)
        if state.queue.name == job.queue or head is None or state.queue.cordoned:
            continue
        theirs = hunger.of(state, head)
        found.append(
            (
                theirs,
                Rival(
                    queue=state.queue.name,
                    head=head.id,
                    priority_class=head.priority_class,
                    due=float(theirs[1]),
                    is_first=theirs < own,
                ),
            )
        )
    return tuple(rival for _, rival in sorted(found, key=lambda one: one[0])[:MOST_RIVALS])


def _head(snapshot: Snapshot, state: QueueState, never: set[str]) -> Job | None:
    """The first job of a queue that is in anybody's way."""
    firsts = (next((job for job in lane.jobs if job.id not in never), None) for lane in state.lanes)
    return min((job for job in firsts if job is not None), key=snapshot.place, default=None)


class _Hunger:
    """The order of progressive filling (design.md 4.3)."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._policy = snapshot, snapshot.policy
        self._leads: Leads | None = None
        if snapshot.policy.fair_by is FairBy.SERVICE:
            in_line = {number: state for number, state in enumerate(snapshot.queues) if state.lanes}
            usage = snapshot.policy.weights.usage(floor_of(snapshot).capacity())
            self._leads = Positions(snapshot.queues, in_line, snapshot.now_ms, usage, snapshot.policy).leads()
            self._number = {state.queue.name: number for number, state in in_line.items()}

    def of(self, state: QueueState, head: Job) -> tuple[int, Fraction, Fraction, int, str]:
        """Class, what is due and usage with the head, both per weight, by service the last start, name."""
        usage = state.account.usage + least_usage_of(head.profile, self._policy.weights)
        last_start = 0
        if self._leads is None:
            due = max(state.account.flow_at(self._snapshot.now_ms, self._policy.half_time_ms), usage)
        else:
            lead = self._leads.by_number.get(self._number.get(state.queue.name, -1), 0)
            due, last_start = state.account.usage * self._leads.memory + lead, last_start_of(state)
        weight, habit = state.queue.weight, state.habit
        due_per, usage_per = (self._policy.per_weight(it, weight, habit) for it in (due, usage))
        if self._leads is not None:
            due_per *= Fraction(self._leads.unit_ms, HOUR_MS)
        return -head.priority_class, due_per, usage_per, last_start, state.queue.name


def share_of(snapshot: Snapshot, job: Job) -> Share:
    """The share of the job's queue, by every measure."""
    state, divided = _queue(snapshot, job.queue), shares(snapshot)
    name, whole = state.queue.name, max(divided.usage, 1)
    flow = state.account.flow_at(snapshot.now_ms, snapshot.policy.half_time_ms)
    return Share(
        queue=name,
        usage=state.account.usage / whole,
        flow=flow / whole,
        nominal=divided.nominal[name] / whole,
        entitled=divided.entitled[name] / whole,
        weight=state.queue.weight / MICRO,
        divisor=divided.divisor / MICRO,
        due=float(_Hunger(snapshot).of(state, job)[1]),
        by=snapshot.policy.fair_by,
    )


def _queue(snapshot: Snapshot, name: str) -> QueueState:
    return next(state for state in snapshot.queues if state.queue.name == name)
