"""Where a waiting job stands: who is ahead of it and why, and its queue's share of the fleet."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from muster.engine.shares import shares
from muster.model.jobs import Job, least_usage_of
from muster.model.order import Order
from muster.model.plan import Plan
from muster.model.reasons import Reason
from muster.model.resources import MICRO
from muster.model.snapshot import QueueState, Snapshot

MOST_RIVALS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """Who goes first in the job's own queue: how many, the first of them, and what puts that one before the job."""

    count: int
    first: str = ""
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """Another queue with jobs in line. `flow_per_weight` with its first job, as progressive filling compares it."""

    queue: str
    head: str
    priority_class: int
    flow_per_weight: float
    is_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A queue's share of the fleet, in parts of 1. `weight` and `divisor` as people write weights."""

    queue: str
    usage: float
    flow: float
    nominal: float
    entitled: float
    weight: float
    divisor: float
    flow_per_weight: float


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
    own = _hunger(snapshot, _queue(snapshot, job.queue), job)
    never = {name for name, reason in plan.reasons() if reason is Reason.NEVER_FITS}
    found = []
    for state in snapshot.queues:
        head = _head(snapshot, state, never)
        if state.queue.name == job.queue or head is None or state.queue.cordoned:
            continue
        hunger = _hunger(snapshot, state, head)
        found.append(
            (
                hunger,
                Rival(
                    queue=state.queue.name,
                    head=head.id,
                    priority_class=head.priority_class,
                    flow_per_weight=float(hunger[1]),
                    is_first=hunger < own,
                ),
            )
        )
    return tuple(rival for _, rival in sorted(found, key=lambda one: one[0])[:MOST_RIVALS])


def _head(snapshot: Snapshot, state: QueueState, never: set[str]) -> Job | None:
    """The first job of a queue that is in anybody's way."""
    firsts = (next((job for job in lane.jobs if job.id not in never), None) for lane in state.lanes)
    return min((job for job in firsts if job is not None), key=snapshot.place, default=None)


def _hunger(snapshot: Snapshot, state: QueueState, head: Job) -> tuple[int, Fraction, Fraction, str]:
    """The order of progressive filling: class, flow and usage per weight with the head, name (design.md 4.3)."""
    usage = state.account.usage + least_usage_of(head.profile, snapshot.policy.weights)
    flow = max(state.account.flow_at(snapshot.now_ms, snapshot.policy.half_time_ms), usage)
    flow_per, usage_per = (snapshot.policy.per_weight(it, state.queue.weight, state.habit) for it in (flow, usage))
    return -head.priority_class, flow_per, usage_per, state.queue.name


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
        flow_per_weight=float(_hunger(snapshot, state, job)[1]),
    )


def _queue(snapshot: Snapshot, name: str) -> QueueState:
    return next(state for state in snapshot.queues if state.queue.name == name)
