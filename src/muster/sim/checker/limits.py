"""Limits on admissions and starts (design.md 4.4): share, budget, quotas, rates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster.model.jobs import Job
from muster.model.plan import Action, Admit, Evict, Plan, Promise, Start, Waiting
from muster.model.policy import EVERYONE, Preemption
from muster.model.reasons import Reason
from muster.model.resources import Resources
from muster.sim.checker.books import Books
from muster.sim.checker.world import World


def admission_problems(books: Books, job: Job, charge: int) -> Iterator[str]:
    """The limits that forbid admitting the job now."""
    holding, queue = books.queues[job.queue], job.queue
    if holding.queue.cordoned:
        yield f"{job.id}: is admitted although queue {queue} is cordoned"
    most = books.shares.most_fixed(holding.queue, books.world.policy.over_share)
    flow = books.fixed_flow_with(job)
    if job.lifetime_ms is None and most is not None and flow > most and holding.is_exact:
        yield f"{job.id}: jobs without a lifetime would bring queue {queue} to {flow}, over its limit {most}"
    if holding.is_exact and charge != books.charge_for(job):
        yield f"{job.id}: is charged {charge}, not {books.charge_for(job)}"
    if holding.budget_left is not None and charge > max(holding.budget_left, 0):
        yield f"{job.id}: is charged {charge}; queue {queue} has {holding.budget_left} of its budget left"
    yield from quota_problems(books, job, job.profile.least, job.profile.least)


def start_problems(books: Books, job: Job, resources: Resources) -> Iterator[str]:
    """The limits that forbid starting the admitted job with so much, its min included."""
    if books.queues[job.queue].queue.cordoned:
        yield f"{job.id}: starts although queue {job.queue} is cordoned"
    if resources.covers(job.profile.least):
        yield from quota_problems(books, job, resources, resources - job.profile.least)


def quota_problems(books: Books, job: Job, asks: Resources, more: Resources) -> Iterator[str]:
    """The quotas of anything the job asks for that would be broken if so much more were held."""
    holding = books.queues[job.queue]
    for name, quota in _over(holding.held, asks, more, holding.queue.quota):
        yield f"{job.id}: queue {job.queue} would hold more {name} than its quota of {quota}"
    if job.user in books.users:
        for name, quota in _over(books.users[job.user], asks, more, books.quotas[job.user]):
            yield f"{job.id}: user {job.user} would hold more {name} than the quota of {quota}"


def _over(held: Resources, asks: Resources, more: Resources, quota: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for name, most in quota.items():
        if asks.get(name) and held.get(name) + more.get(name) > most:
            yield name, most


def rate_problems(books: Books, job: Job) -> Iterator[str]:
    """Whether one more queued job may start in this turn."""
    policy, starts = books.world.policy, books.queues[job.queue].starts
    if policy.starts_per_turn is not None and books.starts >= policy.starts_per_turn:
        yield f"{job.id}: is start {books.starts + 1} of the turn, which may have {policy.starts_per_turn}"
    if policy.starts_per_queue is not None and starts >= policy.starts_per_queue:
        yield f"{job.id}: is start {starts + 1} of queue {job.queue}, which may have {policy.starts_per_queue} a turn"


def eviction_rate_problems(world: World, plan: Plan) -> Iterator[str]:
    """How many evictions a turn may have at all."""
    evictions = sum(isinstance(action, Evict) for action in plan.actions)
    if evictions and world.policy.preemption is not Preemption.ON:
        yield f"{evictions} evictions although preemption is {world.policy.preemption.value}"
    if evictions > world.policy.evictions_per_turn:
        yield f"{evictions} evictions, more than {world.policy.evictions_per_turn} in one turn"


def reserved_problems(world: World, plan: Plan, admitted: Mapping[str, Admit | Start]) -> Iterator[str]:
    """Who is admitted starts or has a reservation; new ones come within their numbers (design.md 4.5), in which those
    that yield to them do not count.

    One for each profile, few for each kind in each cluster and pool. Those of jobs that were pending before may be more
    than policy now allows; new ones then wait. What one round of a turn promised a later one may have to withdraw, for
    someone left in between, or took it by right: who was admitted for it stays so, as after any turn, and may be
    promised room again beside whoever took its place. The numbers are looked at where nobody did.
    """
    withdrawn = {action.job for action in plan.actions if isinstance(action, Promise) and action.reservation is None}
    reserved: dict[str, str] = {}
    for name, verdict in plan.verdicts.items():
        if isinstance(verdict, Waiting) and verdict.reason is Reason.RESERVED and world.startable(name) is not None:
            reserved[name] = str(verdict.facts.get("cluster"))
    for name, admit in admitted.items():
        if isinstance(admit, Start):
            continue
        if admit.reservation is None or not (name in reserved or name in withdrawn):
            yield f"{name}: is admitted, but neither starts nor has a reservation"
    jobs = {name: job for name in reserved if (job := world.startable(name)) is not None}
    profiles = {name: job.profile for name, job in jobs.items()}
    homes = {name: world.pools.home(profile) for name, profile in profiles.items()}
    others = [*jobs.values(), *(it.job for it in world.pending.values())]
    if any(_may_take_promised(world, action, others) for action in plan.actions):
        return
    new = [name for name in reserved if name not in world.pending]
    for name in new:
        is_alone = world.policy.reservations < EVERYONE
        # Firmer ones that are as new may have come in a later round of the turn.
        binding = [
            other
            for other in reserved
            if not _yields_to(world, jobs[other], jobs[name])
            and not (other in new and _yields_to(world, jobs[name], jobs[other]))
        ]
        if is_alone and any(profiles[other] == profiles[name] for other in binding if other != name):
            yield f"{name}: another job of its profile has a reservation already"
        kind = [
            other
            for other in binding
            if (reserved[other], homes[other]) == (reserved[name], homes[name])
            and profiles[other].asks_gpu == profiles[name].asks_gpu
        ]
        if len(kind) > world.policy.reservations:
            yield f"{name}: is one of {len(kind)} reservations of its kind on {reserved[name]}"
        if len(binding) > world.policy.reservations_in_all:
            yield f"{name}: is one of {len(binding)} reservations, more than {world.policy.reservations_in_all} in all"


def _may_take_promised(world: World, action: Action, promised: Iterable[Job]) -> bool:
    """Whether someone left, or was given room that others may have been promised before."""
    job = world.startable(action.job) if isinstance(action, Start | Admit) else None
    if job is None:
        return isinstance(action, Evict)
    is_kept = isinstance(action, Start) and job.id in world.pending
    return is_kept or any(_yields_to(world, other, job) for other in promised)


def _yields_to(world: World, job: Job, other: Job) -> bool:
    return world.policy.hold(other, world.now_ms) > world.policy.hold(job, world.now_ms)
