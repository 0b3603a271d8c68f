"""The order of filling (design.md 4.3), as far as a plan shows it: oldest first in a lane, hungriest queue first."""

from __future__ import annotations

from collections.abc import Iterator

from muster.model.jobs import NEVER_MS, Job
from muster.model.plan import Action, Admit, Evict, Plan, Resize, Start, Waiting
from muster.model.reasons import Reason
from muster.model.resources import GPU
from muster.sim.checker.books import Books
from muster.sim.checker.world import World


def lane_problems(world: World, plan: Plan) -> Iterator[str]:
    """Jobs of a lane with one lifetime are alike: a younger one goes first only if it is sooner out of the way.

    Whose user has a quota may be stopped by that, and is not counted.
    """
    admitted = {action.job for action in plan.actions if isinstance(action, Admit | Start)}
    with_quota = {state.user.name for state in world.snapshot.users if state.user.quota}
    for state in world.snapshot.queues:
        for lane in state.lanes:
            passed: dict[int | None, Job] = {}  # of those that stay queued, by lifetime, the soonest out of the way
            for job in lane.jobs:
                older = passed.get(job.lifetime_ms)
                is_shorter = older is None or _bound_ms(world, job) < _bound_ms(world, older)
                if job.id in admitted and older is not None and not is_shorter:
                    yield f"{job.id}: is admitted while {older.id}, older and alike, stays queued"
                elif job.id not in admitted and job.user not in with_quota and is_shorter:
                    passed[job.lifetime_ms] = job


def _bound_ms(world: World, job: Job) -> int:
    """How long the job can be in the way of a promise."""
    bound_ms = world.policy.bound_ms(job)
    return NEVER_MS if bound_ms is None else bound_ms


class FillingOrder:
    """The heads that the plan admits, each until its turn comes.

    A turn that evicts or reserves may look again at a head it passed over, when a way has opened for it: there a plan
    does not show whose turn came first.
    """

    def __init__(self, world: World, plan: Plan) -> None:
        self._world = world
        self._has_pools = bool(world.snapshot.fleet.pools)
        admitted = {action.job for action in plan.actions if isinstance(action, Admit) or _is_at_home(world, action)}
        heads = (_head(world, queue) for queue in world.queues)
        waiting = (verdict for verdict in plan.verdicts.values() if isinstance(verdict, Waiting))
        looks_once = not (
            world.pending
            or any(isinstance(action, Evict | Resize) for action in plan.actions)
            or any(verdict.reason is Reason.RESERVED for verdict in waiting)
        )
        self._late = {it.job for it in plan.actions if isinstance(it, Start) and _gives_way(world, it)}
        self._to_come = {head.queue: head for head in heads if looks_once and head is not None and head.id in admitted}

    def problems(self, books: Books, job: Job) -> Iterator[str]:
        """Heads that should have been admitted before this job, and are only later."""
        if self._to_come.get(job.queue) is job:
            del self._to_come[job.queue]
        if self._world.is_aged(job):
            return
        for head in self._to_come.values():
            if head.queue == job.queue or self._world.is_aged(head) or not self._is_rival(head, job):
                continue
            if head.priority_class == job.priority_class and head.id in self._late:
                continue
            if head.priority_class > job.priority_class:
                yield f"{job.id}: is admitted before {head.id}, the head of {head.queue}, which is of a higher class"
            elif head.priority_class == job.priority_class and not self._has_pools and _is_hungrier(books, head, job):
                yield f"{job.id}: is admitted before {head.id}, although queue {head.queue} is hungrier"

    def _is_rival(self, head: Job, job: Job) -> bool:
        """Whether they are of one pool: pools decide side by side, each by the flows of the turn's beginning."""
        pools = self._world.pools
        return pools.home(head.profile) == pools.home(job.profile)


def _is_at_home(world: World, action: Action) -> bool:
    """Whether a job starts in its own pool; who borrows comes after all that start at home."""
    job = world.startable(action.job)
    if job is None or not isinstance(action, Start):
        return False
    return world.pools.holding(action.tasks) == {world.pools.home(job.profile)}


def _gives_way(world: World, start: Start) -> bool:
    """Whether it takes nodes with GPUs without asking for any: GPU jobs of its class come first."""
    job = world.startable(start.job)
    if job is None or job.profile.asks_gpu or not world.policy.gpu_first:
        return False
    return any(world.nodes[task.node].allocatable.get(GPU) for task in start.tasks if task.node in world.nodes)


def _head(world: World, queue: str) -> Job | None:
    lanes = world.queues[queue].lanes
    return min((lane.jobs[0] for lane in lanes if lane.jobs), key=world.place, default=None)


def _is_hungrier(books: Books, one: Job, other: Job) -> bool:
    """Whether one queue comes before the other: by service, if what is due says so beyond doubt; else by flow, then
    usage, each with the job and per weight, then the name."""
    left, right = books.queues[one.queue], books.queues[other.queue]
    if not (left.is_exact and right.is_exact):
        return False
    if books.service is not None:
        return books.due(one.queue) + books.service.close < books.due(other.queue)
    # a/b < c/d where a*d < c*b
    ours = (books.flow_with(one), left.usage + books.least_usage(one))
    theirs = (books.flow_with(other), right.usage + books.least_usage(other))
    weight, weight_other = books.turn_weight(one.queue), books.turn_weight(other.queue)
    return (*(amount * weight_other for amount in ours), one.queue) < (
        *(amount * weight for amount in theirs),
        other.queue,
    )
