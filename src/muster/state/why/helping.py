"""What would start a waiting job at once: small changes, each tried out with the engine itself.

Only what really works is told. A change is made to a copy of the snapshot and a turn is taken on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from muster.engine import plan as decide
from muster.model.fleet import Fleet
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import DEVICE_MILLI, Node
from muster.model.plan import Plan, Start, Waiting
from muster.model.queues import Queue
from muster.model.reasons import Reason
from muster.model.resources import GPU, NOTHING, PODS, Resources
from muster.model.snapshot import Lane, NodeState, QueueState, Snapshot
from muster.state.why.nodes import FITS, Lack

MOST_QUEUED = 20_000  # jobs: with more, a dozen turns on a snapshot without its columns take too long to wait for
MOST_NODES = 64  # that are tried out at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Help:
    """A change with which the job would start at once.

    `kind`: nodes (`count` more like `like`), smaller (tasks that ask for no more than `amount` of `name`), runtime
    (stated, at most `amount` ms), lifetime (of 0), priority (at least `amount`); quota, budget or uncordon (its queue).
    """

    kind: str
    name: str = ""
    amount: int = 0
    count: int = 0
    like: str = ""


def helps(snapshot: Snapshot, plan: Plan, job: Job, waiting: Waiting, lacks: tuple[Lack, ...]) -> tuple[Help, ...]:
    """Every change we know of that would start the job at once; only the smallest number of nodes."""
    if sum(len(lane.jobs) for state in snapshot.queues for lane in state.lanes) > MOST_QUEUED:
        return ()
    works: dict[str, Help] = {}
    for help_, changed in _trials(snapshot, plan, job, waiting, lacks):
        if help_.kind not in works and _starts(changed, job):
            works[help_.kind] = help_
    return tuple(works.values())


def _starts(snapshot: Snapshot, job: Job) -> bool:
    return any(isinstance(action, Start) and action.job == job.id for action in decide(snapshot).actions)


Trial = tuple[Help, Snapshot]


def _trials(snapshot: Snapshot, plan: Plan, job: Job, waiting: Waiting, lacks: tuple[Lack, ...]) -> Iterator[Trial]:
    reason = waiting.reason
    yield from _queue_settings(snapshot, job, reason)
    if (gap_ms := _gap_ms(snapshot, plan)) and (job.known_ms is None or job.known_ms > gap_ms):
        stated = replace(job, expected_ms=gap_ms)
        yield Help(kind="runtime", amount=gap_ms), with_job(snapshot, job, stated)
    if job.lifetime_ms is None:
        yield Help(kind="lifetime"), with_job(snapshot, job, replace(job, lifetime_ms=0))
    yield from _priorities(snapshot, job)
    for lack in sorted(lacks, key=lambda lack: -lack.most):  # the least that must be given up
        smaller = _smaller(job.profile, lack)
        if smaller is not None:
            change = with_job(snapshot, job, replace(job, profile=smaller))
            yield Help(kind="smaller", name=lack.dimension, amount=lack.most), change
    yield from _more_nodes(snapshot, job)


def _queue_settings(snapshot: Snapshot, job: Job, reason: Reason) -> Iterator[Trial]:
    state = next(state for state in snapshot.queues if state.queue.name == job.queue)
    if reason is Reason.QUEUE_CORDONED:
        yield Help(kind="uncordon"), _with_queue(snapshot, state, replace(state.queue, cordoned=False))
    elif reason is Reason.QUOTA:
        yield Help(kind="quota"), _with_queue(snapshot, state, replace(state.queue, quota={}))
    elif reason is Reason.BUDGET:
        yield Help(kind="budget"), _with_queue(snapshot, state, replace(state.queue, excess_budget=None))


def _with_queue(snapshot: Snapshot, state: QueueState, queue: Queue) -> Snapshot:
    queues = tuple(replace(each, queue=queue) if each is state else each for each in snapshot.queues)
    return replace(snapshot, queues=queues, columns=None)


def _gap_ms(snapshot: Snapshot, plan: Plan) -> int | None:
    """How long it is until the first promised start."""
    starts = [
        verdict.estimate_ms - snapshot.now_ms
        for name in (name for name, reason in plan.reasons() if reason is Reason.RESERVED)
        if isinstance(verdict := plan.verdicts[name], Waiting) and verdict.estimate_ms is not None
    ]
    return min((gap_ms for gap_ms in starts if gap_ms > 0), default=None)


def _priorities(snapshot: Snapshot, job: Job) -> Iterator[Trial]:
    """Just above the first of its queue."""
    ranks = [
        each.priority
        for state in snapshot.queues
        if state.queue.name == job.queue
        for lane in state.lanes
        for each in lane.jobs[:1]
        if each.priority_class == job.priority_class
    ]
    if ranks and max(ranks) >= job.priority and len(ranks) > 1:
        priority = max(ranks) + 1
        yield Help(kind="priority", amount=priority), with_job(snapshot, job, replace(job, priority=priority))


def _smaller(profile: Profile, lack: Lack) -> Profile | None:
    """The profile with tasks that ask for no more of the resource than is free on some node of the kind."""
    if lack.dimension == FITS or not 0 < lack.most < lack.asked or lack.dimension == PODS:
        return None

    def cut(group: TaskGroup) -> TaskGroup:
        if group.name != lack.group:
            return group
        request, most = group.request, lack.most
        if lack.dimension == GPU:
            if request.gpu_milli != DEVICE_MILLI or most < DEVICE_MILLI:
                return group
            most -= most % DEVICE_MILLI
            request = replace(request, gpus=most // DEVICE_MILLI)
        amounts = {**dict(request.resources.items()), lack.dimension: most}
        return replace(group, request=replace(request, resources=Resources.of(amounts)))

    smaller = replace(profile, groups=tuple(map(cut, profile.groups)))
    return smaller if smaller != profile else None


def _more_nodes(snapshot: Snapshot, job: Job) -> Iterator[Trial]:
    """More nodes like the largest that the job's hardest group may use: 1, 2, 4 … until it starts."""
    fleet, group = snapshot.fleet.parts[snapshot.fleet.home(job.profile)], job.profile.groups[0]
    suits = [node for cluster in fleet.candidates(job.profile) for node in fleet.matching(cluster, group.constraint)]
    usage = snapshot.policy.weights.usage
    like = min(suits, key=lambda node: (-usage(node.allocatable), node.key), default=None)
    count = 1
    while like is not None and count <= min(2 * job.profile.tasks_min, MOST_NODES):
        yield Help(kind="nodes", count=count, like=like.name), _with_nodes(snapshot, like, count)
        count *= 2


def _with_nodes(snapshot: Snapshot, like: Node, count: int) -> Snapshot:
    new = [replace(like, name=f"{like.name}~{number}", cordoned=False) for number in range(count)]
    empty = {node.name: NodeState(empty=node.empty(), room=node.empty()) for node in new}
    fleet = snapshot.fleet
    fleet = Fleet(fleet.clusters.values(), [*fleet.nodes.values(), *new], [fleet.pool, *fleet.pools.values()])
    return replace(snapshot, fleet=fleet, nodes={**dict(snapshot.nodes), **empty}, columns=None)


def with_job(snapshot: Snapshot, old: Job, new: Job) -> Snapshot:
    """The snapshot as if a waiting job had been submitted otherwise."""
    queues = tuple(_with_job(state, old, new) if state.queue.name == old.queue else state for state in snapshot.queues)
    pending = tuple(replace(each, job=new) if each.job.id == old.id else each for each in snapshot.pending)
    return replace(snapshot, queues=queues, pending=pending, columns=None)


def _with_job(state: QueueState, old: Job, new: Job) -> QueueState:
    lanes = [replace(lane, jobs=tuple(job for job in lane.jobs if job.id != old.id)) for lane in state.lanes]
    is_queued = any(len(kept.jobs) < len(lane.jobs) for kept, lane in zip(lanes, state.lanes, strict=True))
    alone = [Lane(profile=new.profile, jobs=(new,))] if is_queued else []
    demand = state.demand - old.profile.most + new.profile.most if state.demand != NOTHING else state.demand
    return replace(state, lanes=tuple([lane for lane in lanes if lane.jobs] + alone), demand=demand)
