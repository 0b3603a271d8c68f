"""Whether the reasons that a plan gives are true: each is held against the books as the plan leaves them.

Inside a turn queues only come to hold more, and nodes to have less room, until something is evicted or returned.
So what was a reason at any moment of the turn is still one at its end; where that is not so, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from muster.model import quantity
from muster.model.errors import InvalidValue
from muster.model.jobs import Job, Profile
from muster.model.plan import Evict, Plan, Resize, Waiting
from muster.model.pools import called
from muster.model.queues import MINUTE_MS
from muster.model.reasons import Fact, Reason
from muster.model.resources import MICRO, NOTHING, Resources, format_amount
from muster.sim.checker.fitting import is_countable, may_start, may_start_in
from muster.sim.checker.replay import Replay
from muster.sim.checker.world import World

_ROUNDING = 0.0001  # shares are told with four digits
_OTHERS = "others"  # the head of a queue that was not asked, since nobody may overtake
_ON_HELD = (Reason.HELD, Reason.DEPENDENCY)
_ON_ADMITTED = (Reason.RESERVED, Reason.NO_NODES, Reason.NO_ROOM, Reason.GANG_DOES_NOT_FIT, Reason.WOULD_DELAY)


class Truth:
    """What can be known of a turn's end. Answers about room are remembered per profile."""

    def __init__(self, world: World, plan: Plan, replay: Replay) -> None:
        self.world = world
        self.plan = plan
        self.replay = replay
        self.books = replay.books
        self.has_evicted = any(
            isinstance(action, Evict) or (isinstance(action, Resize) and action.removed) for action in plan.actions
        )
        self.is_withheld = any(window.in_force(world.now_ms) for window in world.policy.calendar)
        self.has_released = self.has_evicted or bool(replay.returned)
        self.pending = set(replay.admitted) | (set(world.pending) - replay.returned)
        self._now: dict[Profile, bool] = {}
        self._lent = replay.lent

    def problems(self, name: str, waiting: Waiting) -> Iterator[str]:
        """What is not true about the reason the job got."""
        if name in self.world.held or waiting.reason in _ON_HELD:
            yield from self._dependency(name, waiting)
            return
        job = self.world.startable(name)
        if job is None:
            return
        if job.id in self.pending and waiting.reason not in _ON_ADMITTED:
            yield f"{name}: is pending, but its reason is {waiting.reason.name}"
        elif self._must_be_admitted(job, waiting):
            yield f"{name}: has a reservation, but is not pending"
        else:
            yield from self._reason(job, waiting)

    def _must_be_admitted(self, job: Job, waiting: Waiting) -> bool:
        """Whether it has a promise without being pending; so has everyone where the order may change."""
        is_reserved = waiting.reason is Reason.RESERVED
        return is_reserved and job.id not in self.pending and self.world.policy.order.is_by_arrival

    def _reason(self, job: Job, waiting: Waiting) -> Iterator[str]:
        match waiting.reason:
            case Reason.NEVER_FITS:
                yield from self._never_fits(job, waiting)
            case Reason.NO_NODES:
                yield from self._no_nodes(job, waiting)
            case Reason.NO_ROOM | Reason.GANG_DOES_NOT_FIT:
                yield from self._no_room(job, waiting.reason)
            case Reason.WOULD_DELAY:
                yield from self._would_delay(job, waiting)
            case Reason.RESERVED:
                yield from self._reserved(job, waiting)
            case Reason.JUST_EVICTED:
                if job.id not in self.world.snapshot.evicted:
                    yield f"{job.id}: was not evicted at this moment"
            case Reason.BEHIND:
                yield from self._behind(job, waiting)
            case Reason.QUEUE_CORDONED:
                if not self.world.queues[job.queue].queue.cordoned:
                    yield f"{job.id}: queue {job.queue} is not cordoned"
            case Reason.RATE_LIMIT:
                yield from self._rate_limit(job, waiting)
            case Reason.QUOTA:
                holding = self.books.queues[job.queue]
                if holding.is_exact:
                    yield from self._quota(job, waiting, holding.held, holding.queue.quota)
            case Reason.USER_QUOTA:
                if not self.has_released:
                    held = self.books.users.get(job.user, NOTHING)
                    yield from self._quota(job, waiting, held, self.books.quotas.get(job.user, {}))
            case Reason.OVER_SHARE:
                yield from self._over_share(job, waiting)
            case Reason.BUDGET:
                yield from self._budget(job, waiting)
            case _:
                pass

    # -- others ----------------------------------------------------------------------------------------

    def _dependency(self, name: str, waiting: Waiting) -> Iterator[str]:
        held = self.world.held.get(name)
        if held is None:
            yield f"{name}: waits for no other job, but its reason is {waiting.reason.name}"
            return
        if held.job.held_by:
            if waiting.reason is not Reason.HELD or waiting.facts.get("by") != held.job.held_by:
                yield f"{name}: is held by {held.job.held_by}, but says {waiting}"
            return
        named = [need.told for need in held.waits_for]
        if waiting.reason is not Reason.DEPENDENCY or waiting.facts.get("after") != named:
            yield f"{name}: waits for {named}, but says {waiting}"

    def _behind(self, job: Job, waiting: Waiting) -> Iterator[str]:
        head = self.plan.heads.get(job.queue)
        if waiting.facts.get("head") != (head or _OTHERS):
            yield f"{job.id}: says it is behind {waiting.facts.get('head')}, but the head was {head}"
        elif head is None and self.world.policy.backfill:
            yield f"{job.id}: is behind others, but its queue was never looked at"
        elif head is not None:
            first = self.world.queued.get(head)
            if first is None or first.queue != job.queue or head not in self.plan.verdicts:
                yield f"{job.id}: is behind {head}, which is no job of its queue that was looked at"
            elif self.world.place(first) >= self.world.place(job) and not self._may_be_passed(first, job):
                yield f"{job.id}: is behind {head}, which does not come before it"

    def _may_be_passed(self, first: Job, job: Job) -> bool:
        """Whether another job may be looked at before one that stands before it: an aged one, or where there are GPU
        jobs, which come first, and it asks for none."""
        if self.world.is_aged(first):
            return True
        gives_way = self.world.policy.gpu_first and not job.profile.asks_gpu
        return gives_way and any(other.profile.asks_gpu for other in self.world.queued.values())

    def _would_delay(self, job: Job, waiting: Waiting) -> Iterator[str]:
        reserved = waiting.facts.get("reserved")
        promised = set(self.world.pending) | set(self.replay.admitted) | self.replay.reserved
        if not isinstance(reserved, list) or not reserved or not set(reserved) <= promised - {job.id}:
            yield f"{job.id}: would delay {reserved}, but only {sorted(promised)} could have a promise"

    def _reserved(self, job: Job, waiting: Waiting) -> Iterator[str]:
        start_ms, cluster = waiting.estimate_ms, waiting.facts.get("cluster")
        if start_ms is None or start_ms < self.world.now_ms or waiting.facts.get("start") != start_ms / 1000:
            yield f"{job.id}: its reservation starts at {waiting.facts.get('start')} s, its estimate is {start_ms} ms"
        if cluster not in self.world.candidates(job.profile):
            yield f"{job.id}: is reserved on {cluster}, which is not a candidate"

    # -- room ------------------------------------------------------------------------------------------

    def _never_fits(self, job: Job, waiting: Waiting) -> Iterator[str]:
        groups = {group.name for group in job.profile.groups}
        if waiting.facts.get("group") not in groups:
            yield f"{job.id}: never fits because of group {waiting.facts.get('group')}, which it does not have"
        elif self.books.ever.surely(job.profile):
            yield f"{job.id}: would fit an empty cluster, but its reason is NEVER_FITS"
        elif lacking := self.world.without_nodes(job.profile):
            yield f"{job.id}: there are no nodes for it in {lacking}, but its reason is NEVER_FITS"

    def _no_nodes(self, job: Job, waiting: Waiting) -> Iterator[str]:
        lacking, is_bare = self.world.without_nodes(job.profile), self.world.is_bare(job.profile)
        if waiting.facts.get("clusters") != lacking or (self.world.candidates(job.profile) and not lacking):
            yield f"{job.id}: there are no nodes for it in {lacking}, but it says {dict(waiting.facts)}"
        elif not is_bare and self.books.ever.surely(job.profile):
            yield f"{job.id}: would fit an empty cluster, but its reason is NO_NODES"
        elif not self.has_evicted and not self.is_withheld and is_countable(job.profile):
            yield from self._would_borrow(job)

    def _no_room(self, job: Job, reason: Reason) -> Iterator[str]:
        is_alone = job.profile.tasks_min == 1
        if is_alone != (reason is Reason.NO_ROOM):
            yield f"{job.id}: must start {job.profile.tasks_min} tasks, but its reason is {reason.name}"
        elif self.world.is_bare(job.profile):
            yield f"{job.id}: its pool has no nodes for it, but its reason is {reason.name}"
        elif (
            not self.has_evicted
            and not self.is_withheld
            and is_countable(job.profile)
            and self._may_start_now(job.profile)
        ):
            yield f"{job.id}: would fit, but its reason is {reason.name}"
        elif not self.has_evicted and not self.is_withheld and is_countable(job.profile):
            yield from self._would_borrow(job)

    def _would_borrow(self, job: Job) -> Iterator[str]:
        """Pools in which a job could start that found no room at home.

        Where a limit may have closed its queue nobody may have looked; pools from which someone was sent away rest.
        """
        if self.world.snapshot.evicted or self._has_limits(job.queue):
            return
        for place in self.world.places(job.profile, abroad=True):
            is_abroad = place[1] != self.world.pools.home(job.profile)
            if not is_abroad or not self._lent.may_borrow(self.books.nodes, place, job.profile):
                continue
            if may_start_in(self.world, place, job.profile, lambda node: self._lent.book(self.books.nodes, node)):
                yield f"{job.id}: finds no room, but pool {called(place[1])} would lend it some"

    def _has_limits(self, name: str) -> bool:
        policy, queue = self.world.policy, self.world.queues[name].queue
        rates = (policy.over_share, policy.starts_per_turn, policy.starts_per_queue, queue.excess_budget)
        return any(limit is not None for limit in rates) or bool(queue.quota or self.books.quotas or queue.cordoned)

    def _may_start_now(self, profile: Profile) -> bool:
        if profile not in self._now:
            self._now[profile] = may_start(self.world, profile, lambda node: self.books.nodes[node.name])
        return self._now[profile]

    # -- limits ----------------------------------------------------------------------------------------

    def _rate_limit(self, job: Job, waiting: Waiting) -> Iterator[str]:
        policy = self.world.policy
        counts = (
            (self.books.starts, policy.starts_per_turn),
            (self.books.queues[job.queue].starts, policy.starts_per_queue),
        )
        stated = (waiting.facts.get("started"), waiting.facts.get("limit"))
        if not any(limit is not None and limit <= count and stated == (count, limit) for count, limit in counts):
            yield f"{job.id}: the turn has not reached the limit it names: {dict(waiting.facts)}"

    def _quota(self, job: Job, waiting: Waiting, held: Resources, quotas: Mapping[str, int]) -> Iterator[str]:
        name = str(waiting.facts.get("resource"))
        would, quota = held.get(name) + job.profile.least.get(name), quotas.get(name)
        if quota is None or not job.profile.least.get(name) or would <= quota:
            yield f"{job.id}: {would} of {name} is not over a quota of {quota}, but its reason is {waiting.reason.name}"
            return
        said, end = _quantity(waiting.facts.get("would")), quantity.parse(format_amount(name, would))
        if waiting.facts.get("quota") != format_amount(name, quota) or said is None or not said <= end:
            yield f"{job.id}: would hold {would} of {name} (quota {quota}), not what it says: {dict(waiting.facts)}"

    def _over_share(self, job: Job, waiting: Waiting) -> Iterator[str]:
        holding, shares = self.books.queues[job.queue], self.books.shares
        if not holding.is_exact:
            return
        most, flow = shares.most_fixed(holding.queue, self.world.policy.over_share), self.books.fixed_flow_with(job)
        if job.lifetime_ms is not None or most is None or flow <= most:
            yield f"{job.id}: would bring queue {job.queue} to {flow}, which is not over its limit {most}"
            return
        share, limit = waiting.facts.get("share"), waiting.facts.get("limit")
        if not _is_between(limit, most / shares.whole, most / shares.whole):
            yield f"{job.id}: its limit is {most / shares.whole:.4f}, not {limit}"
        if not _is_between(share, most / shares.whole, flow / shares.whole):
            yield f"{job.id}: its share is up to {flow / shares.whole:.4f}, not {share}"

    def _budget(self, job: Job, waiting: Waiting) -> Iterator[str]:
        holding = self.books.queues[job.queue]
        if not holding.is_exact:
            return
        cost, left = self.books.charge_for(job) / MICRO / MINUTE_MS, holding.budget_left
        if left is None or cost <= left / MICRO / MINUTE_MS:
            yield f"{job.id}: costs {cost}, which queue {job.queue} can pay ({left})"
            return
        if not _is_between(waiting.facts.get("cost"), cost, cost):
            yield f"{job.id}: its cost is {cost}, not {waiting.facts.get('cost')}"
        if not _is_between(waiting.facts.get("left"), left / MICRO / MINUTE_MS, cost):
            yield f"{job.id}: its budget is down to {left / MICRO / MINUTE_MS}, not {waiting.facts.get('left')}"


def _is_between(fact: Fact, least: float, most: float) -> bool:
    """Whether a fact is a number from `least` to `most`, as far as rounding lets one tell."""
    return isinstance(fact, int | float) and least - _ROUNDING <= fact <= most + _ROUNDING


def _quantity(fact: Fact) -> Fraction | None:
    try:
        return quantity.parse(fact)
    except InvalidValue:
        return None
