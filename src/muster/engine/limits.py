"""Which limit forbids admitting a job, if any (design.md 4.4).

Limits are the only thing that closes a queue. A quota closes it only for those who ask for what the
quota limits: GPU jobs at their quota do not hold back CPU jobs. A budget closes it for those it would pay for.
And a job that is above a limit all by itself closes the queue only for those just like it
(docs/adr/0011-quotas-close-what-they-limit.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from muster.engine.ledger import Holding, Ledger
from muster.model.jobs import Job, TaskGroup
from muster.model.plan import Waiting
from muster.model.policy import Policy
from muster.model.queues import MINUTE_MS
from muster.model.reasons import Facts, Reason
from muster.model.resources import MICRO, NOTHING, Resources, format_amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit that was hit, and whom in the queue it holds back (None = everybody).

    `alike`: only those with this job's profile, lifetime and user. `charged`: only those that a budget pays for, which
    have a lifetime other than 0.
    """

    waiting: Waiting
    user: str | None = None
    resource: str | None = None
    alike: Job | None = None
    charged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """By how much a job that waits would exceed the quota of its queue, or (`user`) of its user."""

    queue: str | None = None
    user: str | None = None
    amounts: Resources

    def is_of(self, job: Job) -> bool:
        """Whether what the job holds counts for that quota."""
        return job.queue == self.queue or (self.user is not None and job.user == self.user)


def lacks_of(job: Job, ledger: Ledger) -> list[Lack]:
    """What the job lacks of quotas; nothing if it alone is above one, which no one could change."""
    holding, least, found = ledger.queues[job.queue], job.profile.least, list[Lack]()
    owners = [(Lack(queue=job.queue, amounts=NOTHING), holding.state.queue.quota, holding.held)]
    if (of_user := ledger.held_by_user(job.user)) is not None:
        owners.append((Lack(user=job.user, amounts=NOTHING), ledger.quotas[job.user], of_user))
    for owner, quota, held in owners:
        over = {name: held.get(name) + least.get(name) - most for name, most in quota.items() if least.get(name)}
        if any(least.get(name) > quota[name] for name in over):
            return []
        if lacking := Resources.of({name: amount for name, amount in over.items() if amount > 0}):
            found.append(replace(owner, amounts=lacking))
    return found


def limit_on(job: Job, ledger: Ledger, policy: Policy, starts: int) -> Limit | None:
    """The first limit that forbids admitting the job now; `starts`: jobs this turn has started."""
    holding = ledger.queues[job.queue]
    if holding.state.queue.cordoned:
        return Limit(waiting=Waiting(reason=Reason.QUEUE_CORDONED, facts={"queue": job.queue}))
    return (
        _rate_limit(holding, policy, starts)
        or _over_share(job, holding, ledger)
        or _over_budget(job, holding, ledger)
        or _over_quota(job, holding, ledger, asks=job.profile.least)
    )


def standing_limit_on(job: Job, ledger: Ledger) -> Limit | None:
    """The limit that forbids an admitted job to start after all: someone cordoned its queue or lowered a quota."""
    holding = ledger.queues[job.queue]
    if holding.state.queue.cordoned:
        return Limit(waiting=Waiting(reason=Reason.QUEUE_CORDONED, facts={"queue": job.queue}))
    return _over_quota(job, holding, ledger, asks=NOTHING)


def charge_for(job: Job, holding: Holding, ledger: Ledger) -> int:
    """What admitting the job costs its queue's excess budget, in micro-units × ms."""
    usage = ledger.least_usage(job)
    if not job.declared_lifetime_ms or holding.flow_with(usage) <= holding.nominal:
        return 0
    return job.declared_lifetime_ms * usage


def widths_within_quota(job: Job, ledger: Ledger, *, is_admitted: bool) -> Mapping[str, int]:
    """The width each group may start with: its initial, as far as quotas allow beyond min."""
    if job.profile.is_rigid:
        return job.profile.least_widths
    holding, least = ledger.queues[job.queue], NOTHING if is_admitted else job.profile.least
    quotas = [(holding.state.queue.quota, holding.held + least)]
    if (of_user := ledger.held_by_user(job.user)) is not None:
        quotas.append((ledger.quotas[job.user], of_user + least))
    widths = {}
    for group in job.profile.groups:
        more = min([group.initial - group.min, *(_tasks_within(quota, holds, group) for quota, holds in quotas)])
        widths[group.name] = group.min + more
        quotas = [(quota, holds + group.request.resources * more) for quota, holds in quotas]
    return widths


def _tasks_within(quota: Mapping[str, int], holds: Resources, group: TaskGroup) -> int:
    """How many more tasks of the group a quota has room for."""
    asks = group.request.resources
    rooms = [max(most - holds.get(name), 0) // asks.get(name) for name, most in quota.items() if asks.get(name)]
    return min(rooms, default=group.initial)


def _rate_limit(holding: Holding, policy: Policy, starts: int) -> Limit | None:
    for started, limit in ((starts, policy.starts_per_turn), (holding.starts, policy.starts_per_queue)):
        if limit is not None and started >= limit:
            return Limit(waiting=Waiting(reason=Reason.RATE_LIMIT, facts={"started": started, "limit": limit}))
    return None


def _over_share(job: Job, holding: Holding, ledger: Ledger) -> Limit | None:
    usage, limit = ledger.least_usage(job), holding.fixed_limit
    flow = holding.fixed_flow_with(usage)
    if job.lifetime_ms is not None or flow <= limit:
        return None
    return Limit(waiting=over_share(holding, flow, ledger), alike=job if usage > limit else None)


def over_share(holding: Holding, flow: int, ledger: Ledger) -> Waiting:
    """One more job without a lifetime would bring such jobs of the queue to this flow."""
    whole = ledger.shares.usage
    facts: Facts = {
        "queue": holding.name,
        "share": _part(flow, whole),
        "limit": _part(holding.fixed_limit, whole),
        "nominal": _part(holding.nominal, whole),
        "divisor": ledger.shares.divisor / MICRO,
    }
    return Waiting(reason=Reason.OVER_SHARE, facts=facts)


def _over_budget(job: Job, holding: Holding, ledger: Ledger) -> Limit | None:
    cost = charge_for(job, holding, ledger)
    if holding.budget_left is None or cost <= max(holding.budget_left, 0):  # what is free waits for no budget
        return None
    facts: Facts = {
        "queue": holding.name,
        "cost": cost / MICRO / MINUTE_MS,
        "left": holding.budget_left / MICRO / MINUTE_MS,
        "nominal": _part(holding.nominal, ledger.shares.usage),
    }
    alone = ledger.least_usage(job) > holding.nominal and cost > (holding.state.queue.excess_budget or 0)
    return Limit(waiting=Waiting(reason=Reason.BUDGET, facts=facts), alike=job if alone else None, charged=True)


def _over_quota(job: Job, holding: Holding, ledger: Ledger, *, asks: Resources) -> Limit | None:
    facts: dict[str, str]
    if not holding.state.queue.quota and job.user not in ledger.quotas:
        return None
    if over := first_over(holding.held + asks, holding.state.queue.quota, job.profile.least):
        facts = {"queue": holding.name, **over}
        name = over["resource"]
        alone = job.profile.least.get(name) > holding.state.queue.quota[name]
        waiting = Waiting(reason=Reason.QUOTA, facts=facts)
        return Limit(waiting=waiting, resource=name, alike=job if alone else None)
    of_user = ledger.held_by_user(job.user)
    if of_user is not None and (over := first_over(of_user + asks, ledger.quotas[job.user], job.profile.least)):
        facts = {"user": job.user, **over}
        name = over["resource"]
        alone = job.profile.least.get(name) > ledger.quotas[job.user][name]
        waiting = Waiting(reason=Reason.USER_QUOTA, facts=facts)
        return Limit(waiting=waiting, user=job.user, resource=name, alike=job if alone else None)
    return None


def first_over(would_hold: Resources, quota: Mapping[str, int], asked: Resources) -> dict[str, str] | None:
    """The first resource among those asked for of which a quota would be exceeded, as facts."""
    for name in sorted(quota):
        if asked.get(name) and would_hold.get(name) > quota[name]:
            return {
                "resource": name,
                "would": format_amount(name, would_hold.get(name)),
                "quota": format_amount(name, quota[name]),
            }
    return None


def _part(usage: int, whole: int) -> float:
    """A share of the fleet, for people; of a fleet without capacity everything is nothing."""
    return round(usage / whole, 4) if whole else 0.0
