"""Who must give way so that a blocked head can start (design.md 4.6).

Two rights: a queue below its entitled share, and below its entitled part of the resource that blocks it, may
take from queues above theirs that have had more lately; and inside one queue a head may take from strictly lower
(class, priority).
Only what has outlived its lifetime goes, or tasks above min, which never had one. We look for one eviction
unit that is enough, the cheapest among equals; failing that, for a set from which none can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from muster.model.jobs import Job, Running, Task, resources_of, usage_of
from muster.model.plan import Rule
from muster.model.policy import Policy
from muster.model.resources import Resources
from oracle.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is evicted together: one task above min, or a whole job."""

    run: Running
    tasks: tuple[Task, ...]
    whole: bool
    rule: Rule

    @property
    def resources(self) -> Resources:
        """What its going frees."""
        return resources_of(self.run.job.profile, self.tasks)


Fits = Callable[[list[Unit]], bool]


class Claims:
    """What one blocked head may take from whom; follows the units chosen so far."""

    def __init__(self, head: Job, blocked_by: str, ledger: Ledger, now_ms: int, policy: Policy) -> None:
        self.head = head
        self.policy = policy
        self.resource = blocked_by
        self.ledger = ledger
        self.now_ms = now_ms
        queue = ledger.queues[head.queue]
        self.entitled = ledger.shares.entitled_to(blocked_by)
        holds, entitled, ask = queue.started.get(blocked_by), self.entitled[head.queue], head.profile.least
        self.is_below = queue.started_usage < queue.entitled and holds < entitled
        self.is_below &= holds == 0 or holds + ask.get(blocked_by) <= entitled
        self._may_take_from: dict[str, bool] = {}
        self._taken: dict[str, Resources] = {}

    def right_over(self, run: Running) -> Rule | None:
        """By which rule the head could take from this job at all, its age apart."""
        if run.job.priority_class > self.head.priority_class:
            return None
        if self.has_passed(run):
            return Rule.RESERVATION
        if run.job.queue == self.head.queue:
            return Rule.PRIORITY if run.job.rank < self.head.rank else None
        return Rule.FAIR_SHARE if self._may_take(run.job.queue) else None

    def has_passed(self, run: Running) -> bool:
        """Whether this job overtook the head's reservation; or has a lifetime and no known end, and started when the
        head, a gang, had waited past `agingAfter`. Not a gang that came before it."""
        if self.head.id in run.overtook:
            return True
        if not self.head.profile.is_gang or run.job.known_ms is not None or run.job.lifetime_ms is None:
            return False
        if run.job.profile.is_gang and run.job.submit_ms <= self.head.submit_ms:
            return False
        return run.started_ms - self.head.submit_ms >= self.policy.aging_after_ms

    def _may_take(self, queue: str) -> bool:
        if queue not in self._may_take_from:
            self._may_take_from[queue] = self._has_right_over(queue)
        return self._may_take_from[queue]

    def _has_right_over(self, queue: str) -> bool:
        """Whether the head's queue may take from another one, before anything is taken."""
        if not self.policy.preempts_for_shares or not self.is_below:
            return False
        return self.over(queue) > 0 and not self._would_overtake(queue)

    def over(self, queue: str) -> int:
        """How far a queue holds more than its entitled part of the blocking resource."""
        return self.ledger.queues[queue].started.get(self.resource) - self._gone(queue) - self.entitled[queue]

    def _would_overtake(self, queue: str) -> bool:
        """Whether the head's queue would hold more of the resource per weight than the other one does now."""
        mine, theirs = self.ledger.queues[self.head.queue], self.ledger.queues[queue]
        with_head = mine.started.get(self.resource) + self.head.profile.least.get(self.resource)
        return with_head * theirs.weight > theirs.started.get(self.resource) * mine.weight

    def allows(self, unit: Unit) -> bool:
        """Whether its queue keeps its entitled part without this unit too."""
        if unit.rule is not Rule.FAIR_SHARE:
            return True
        freed = unit.resources.get(self.resource)
        return freed > 0 and self.over(unit.run.job.queue) >= freed

    def take(self, unit: Unit) -> None:
        """Count the unit as gone."""
        queue = unit.run.job.queue
        self._taken[queue] = self._taken.get(queue, Resources({})) + unit.resources

    def _gone(self, queue: str) -> int:
        return self._taken[queue].get(self.resource) if queue in self._taken else 0

    def _within_reach(self, running: Mapping[str, list[Running]]) -> Iterator[Running]:
        """Those of its own queue, of queues it may take from, and who overtook it; most queues need one look."""
        for queue, runs in running.items():
            if queue == self.head.queue or self._may_take(queue):
                yield from runs
            else:
                yield from (run for run in runs if self.has_passed(run))

    def units(self, running: Mapping[str, list[Running]]) -> list[Unit]:
        """Every unit the head may take of those (by queue) that may give way, in the order in which they go."""
        found: list[Unit] = []
        for run in self._within_reach(running):
            rule = self.right_over(run)
            if rule is None or self.head.id in run.preempted_by:
                continue
            found += [Unit(run=run, tasks=(task,), whole=False, rule=rule) for task in run.surplus()]
            if run.is_expired(self.now_ms):
                found.append(Unit(run=run, tasks=run.tasks, whole=True, rule=rule))
        # Highest id first among equals: the same ids cannot be negated, so sort twice.
        found.sort(key=lambda unit: unit.run.job.key, reverse=True)
        found.sort(key=lambda unit: (*self.tier(unit), -unit.run.started_ms, unit.whole))
        return found

    def cost(self, unit: Unit) -> tuple[int, int]:
        """The usage and minutes that are thrown away (none by a task above min), then the usage that ends."""
        usage = usage_of(unit.run.job.profile, unit.tasks, self.ledger.weights)
        minutes = (self.now_ms - unit.run.started_ms) // 60_000 if unit.whole else 0
        return (usage * minutes, usage)

    def tier(self, unit: Unit) -> tuple[bool, int, str, int, int]:
        """Whose jobs go first: reservation's overtakers, the queue furthest over, lowest class, lowest priority."""
        job = unit.run.job
        return (
            unit.rule is not Rule.RESERVATION,
            -self.over(job.queue) if unit.rule is Rule.FAIR_SHARE else 0,
            job.queue if unit.rule is Rule.FAIR_SHARE else "",
            job.priority_class,
            job.priority,
        )


LOOKS = 16  # at units that might go for a head that only promises keep from starting


def victims(claims: Claims, units: list[Unit], fits: Fits, most: int, *, only_delays: bool) -> list[Unit] | None:
    """Those of the units to evict so that the head fits; None if nothing legal is enough.

    If only promises are in its way, it may be that nobody needs to go: no promise that rests on guesses keeps a queue
    from its share.
    """
    if only_delays:
        return [] if fits([]) else _one_that_is_enough(claims, units, fits, LOOKS)
    return _one_that_is_enough(claims, units, fits, len(units)) or _several(claims, units, fits, most)


def _one_that_is_enough(claims: Claims, units: list[Unit], fits: Fits, looks: int) -> list[Unit] | None:
    for _, tier in groupby(units, key=claims.tier):
        legal = [unit for unit in tier if claims.allows(unit)]
        for unit in sorted(legal, key=claims.cost):
            if not looks:
                return None
            looks -= 1
            if fits([unit]):
                return [unit]
    return None


def _several(claims: Claims, units: list[Unit], fits: Fits, most: int) -> list[Unit] | None:
    chosen: list[Unit] = []
    left = list(units)
    while not fits(merged(chosen)):
        unit = next(_next_legal(claims, left), None)
        if unit is None or len(chosen) >= most:
            return None
        left.remove(unit)
        chosen.append(unit)
        claims.take(unit)
    return minimal(chosen, fits)


def _next_legal(claims: Claims, left: list[Unit]) -> Iterator[Unit]:
    """Units in order; the queue furthest over changes as units go."""
    return (unit for unit in sorted(left, key=claims.tier) if claims.allows(unit))


def minimal(chosen: list[Unit], fits: Fits) -> list[Unit]:
    """Without any unit the head can do without, the last chosen kept longest."""
    needed = list(chosen)
    for unit in chosen:
        fewer = [other for other in needed if other is not unit]
        if fits(merged(fewer)):
            needed = fewer
    return merged(needed)


def merged(units: Iterable[Unit]) -> list[Unit]:
    """One unit per job that goes whole: it takes its tasks above min with it."""
    units = list(units)
    whole = {unit.run.job.id for unit in units if unit.whole}
    return [unit for unit in units if unit.whole or unit.run.job.id not in whole]


def by_run(units: Iterable[Unit]) -> list[Unit]:
    """The tasks of one job go together."""
    grouped: dict[str, Unit] = {}
    for unit in units:
        if (first := grouped.get(unit.run.job.id)) is not None:
            unit = Unit(run=unit.run, tasks=(*first.tasks, *unit.tasks), whole=unit.whole, rule=unit.rule)
        grouped[unit.run.job.id] = unit
    return list(grouped.values())
