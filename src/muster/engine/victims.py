"""Who must give way so that a blocked head can start (design.md 4.6).

Three rights: a job may take from those who overtook it, its reservation or, if it is a gang, after it had waited for
very long (ADR 0050); a queue below its entitled share may take what keeps it within its entitled part of the resource
that blocks the head, from queues above theirs that stay above (whoever takes more has it taken back); and inside one
queue a head may take from strictly lower (class, priority).
Only what has outlived its lifetime goes, or tasks above min, which never had one. We look for one eviction
unit that is enough, the cheapest among equals; failing that, for a set from which none can be left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from typing import Protocol

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.queued_jobs import Roll
from muster.engine.ends import Passed, Rights
from muster.engine.giving import Reach
from muster.engine.ledger import Ledger
from muster.engine.stays import Stays
from muster.model.jobs import Job, Running, Task, resources_of, usage_of
from muster.model.plan import Rule
from muster.model.policy import Policy
from muster.model.queues import MINUTE_MS
from muster.model.resources import Resources


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
MustGo = Callable[[Sequence[Unit]], list[bool]]


class Trial(Protocol):
    """Whether the head has room if units were gone (muster.engine.without)."""

    def fits(self, units: list[Unit]) -> bool:
        """Whether it could start."""

    def each_alone(self, units: Sequence[Unit]) -> list[Unit]:
        """Those of the units in the place of which alone it has room, promises apart."""

    def room_after(self, units: Sequence[Unit], *, at_once: bool = False) -> int | None:
        """After how many of them there could be room; None if never."""

    def who_must_go(self, units: Sequence[Unit]) -> list[bool]:
        """Without which of them there is no room, as far as a count tells."""

    def who_matters(self, units: Sequence[Unit]) -> list[bool]:
        """Which of them could change where it goes, each by itself."""


def passed_by(head: Job, policy: Policy) -> Passed | None:
    """Who passes a job that waits, if it is a gang."""
    from_ms = policy.overtaken_from_ms(head)
    return None if from_ms is None else Passed(came_ms=head.submit_ms, from_ms=from_ms)


class Claims:
    """What one blocked head may take from whom; follows the units chosen so far."""

    def __init__(self, head: Job, blocked_by: Callable[[], str], ledger: Ledger, now_ms: int, policy: Policy) -> None:
        self.head = head
        self.ledger = ledger
        self.now_ms = now_ms
        self.passed = passed_by(head, policy)
        self._for_shares = policy.preempts_for_shares
        self._blocked_by = blocked_by
        self._taken: dict[str, Resources] = {}

    @cached_property
    def resource(self) -> str:
        """The resource that blocks the head; worked out only where a share is in question."""
        return self._blocked_by()

    @cached_property
    def entitled(self) -> Mapping[str, int]:
        """Each queue's entitled part of it."""
        return self.ledger.shares.entitled_to(self.resource)

    @cached_property
    def is_below(self) -> bool:
        """Whether the head's queue has less than it is entitled to, and no more with the head; one that holds nothing
        counts as such, however large its head."""
        queue, ask = self.ledger.queues[self.head.queue], self.head.profile.least.get(self.resource)
        holds, entitled = queue.started_of(self.resource), self.entitled[self.head.queue]
        return queue.started_usage < queue.entitled and holds < entitled and (not holds or holds + ask <= entitled)

    def right_over(self, run: Running) -> Rule | None:
        """By which rule the head could take from this job at all, its age apart."""
        if run.job.priority_class > self.head.priority_class:
            return None
        if self.head.id in run.overtook or self._was_passed_by(run):
            return Rule.RESERVATION
        if run.job.queue == self.head.queue:
            return Rule.PRIORITY if run.job.rank < self.head.rank else None
        return Rule.FAIR_SHARE if self._may_take(run.job.queue) else None

    def _was_passed_by(self, run: Running) -> bool:
        """Whether the head is a gang that had waited for very long when this job started, no gang or come later."""
        passed, job = self.passed, run.job
        if passed is None or job.known_ms is not None or job.lifetime_ms is None:
            return False
        may = not job.profile.is_gang or job.submit_ms > passed.came_ms
        return may and run.started_ms >= passed.from_ms

    def _may_take(self, queue: str) -> bool:
        return queue in self._may_take_from

    @cached_property
    def _may_take_from(self) -> set[str]:
        """The queues that the head's queue may take from, before anything is taken."""
        queue = self.ledger.queues[self.head.queue]
        # the cheapest question first: the last one needs the resource that is short
        if not self._for_shares or queue.started_usage >= queue.entitled or not self.is_below:
            return set()
        others = (self._all_over > 0) & self.ledger.is_queue
        others[queue.number] = False
        names = [self.ledger.numbered[number] for number in np.flatnonzero(others).tolist()]
        return {name for name in names if not self._would_overtake(name)}

    @cached_property
    def _all_over(self) -> Ints:
        """By number, how far each queue holds more than its entitled part, before anything is taken."""
        place, entitled = self.ledger.shapes.resources.get(self.resource), self.ledger.entitled_to(self.resource)
        over: Ints = -entitled if place is None else self.ledger.columns.started[:, place] - entitled
        return over

    def over(self, queue: str) -> int:
        """How far a queue holds more than its entitled part of the blocking resource."""
        return self.ledger.queues[queue].started_of(self.resource) - self._gone(queue) - self.entitled[queue]

    def _would_overtake(self, queue: str) -> bool:
        """Whether the head's queue would hold more of the resource per weight than the other one does now."""
        mine, theirs = self.ledger.queues[self.head.queue], self.ledger.queues[queue]
        with_head = mine.started_of(self.resource) + self.head.profile.least.get(self.resource)
        return with_head * theirs.weight > theirs.started_of(self.resource) * mine.weight

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

    def rights(self, roll: Roll) -> Rights:
        """From whom the head could take at all, their age apart."""
        others = [name in self._may_take_from for name in roll.queues.names]
        own = roll.queues[self.head.queue]
        reach = np.array(others, np.bool_)
        return Rights(queues=reach, own=own, rank=self.head.rank, passed=self.passed)

    def _within_reach(self, stays: Stays) -> Iterator[Running]:
        """Those of its own queue, of queues it may take from, and who overtook it; most queues need one look."""
        givers, names = stays.givers, stays.roll.queues.names
        for number in np.flatnonzero(givers.many).tolist():
            lowest = (int(givers.lowest_class[number]), int(givers.lowest_priority[number]))
            is_own = names[number] == self.head.queue
            if lowest < self.head.rank if is_own else self._may_take(names[number]):
                yield from stays.giving_of(names[number])
        for row, jobs in stays.overtook().items():
            if self.head.id in jobs:
                yield from stays.giving_in(row)
        if self.passed is not None:
            yield from (stays.run(row) for row in stays.giving_past(self.passed).tolist())

    def reach(self, stays: Stays) -> list[Reach]:
        """The queues with attempts the head may take, those furthest over first, its own last."""
        givers, roll, found = stays.givers, stays.roll, []
        for name in self._may_take_from:
            number = roll.queues[name]
            if givers.many[number]:
                found.append(Reach(queue=name, rule=Rule.FAIR_SHARE, spare=int(self._all_over[number])))
        found.sort(key=lambda reach: (-reach.spare, reach.queue))
        own = roll.queues[self.head.queue]
        lowest = (int(givers.lowest_class[own]), int(givers.lowest_priority[own]))
        if givers.many[own] and lowest < self.head.rank:
            found.append(Reach(queue=self.head.queue, rule=Rule.PRIORITY))
        return found

    @property
    def has_share_in_question(self) -> bool:
        """Whether the head may take from other queues, so that it is known what blocks it."""
        return bool(self._may_take_from)

    def is_overtaken(self, stays: Stays) -> bool:
        """Whether the head has a right over those who overtook it."""
        if self.passed is not None and len(stays.giving_past(self.passed)):
            return True
        return any(self.head.id in jobs for jobs in stays.overtook().values())

    def units(self, stays: Stays) -> list[Unit]:
        """Every unit the head may take of those that may give way, in the order in which they go."""
        found: list[Unit] = []
        for run in {run.job.id: run for run in self._within_reach(stays)}.values():
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
        minutes = (self.now_ms - unit.run.started_ms) // MINUTE_MS if unit.whole else 0
        return (usage * minutes, usage)

    def tier(self, unit: Unit) -> tuple[bool, int, str, int, int]:
        """Whose jobs go first: who overtook the head, the queue furthest over, lowest class, lowest priority."""
        job, is_by_share = unit.run.job, unit.rule is Rule.FAIR_SHARE
        return (
            unit.rule is not Rule.RESERVATION,
            -self.over(job.queue) if is_by_share else 0,
            job.queue if is_by_share else "",
            job.priority_class,
            job.priority,
        )


LOOKS = 16  # at units that might go for a head that only promises keep from starting


def victims(claims: Claims, units: list[Unit], trial: Trial, most: int, *, only_delays: bool) -> list[Unit] | None:
    """Those of the units to evict so that the head fits; None if nothing legal is enough.

    If only promises are in its way, it may be that nobody needs to go: no promise that rests on guesses keeps a queue
    from its share.
    """
    legal = [unit for unit in units if claims.allows(unit)]
    if only_delays:
        return [] if trial.fits([]) else _one_that_helps(claims, legal, trial)
    if trial.room_after(legal, at_once=True) is None:
        return None
    alone = _cheapest_first(claims, trial.each_alone(legal))
    return next(([unit] for unit in alone if trial.fits([unit])), None) or _several(claims, legal, trial, most)


def _one_that_helps(claims: Claims, legal: list[Unit], trial: Trial) -> list[Unit] | None:
    """One in the place of which the head could start, for which it does not do so beside promises as things are."""
    looks = list(islice(_cheapest_first(claims, legal), LOOKS))
    matters = trial.who_matters(looks)
    return next(([unit] for unit, does in zip(looks, matters, strict=True) if does and trial.fits([unit])), None)


def _cheapest_first(claims: Claims, units: list[Unit]) -> Iterator[Unit]:
    """Units in the order in which they go, of equals first those that throw away least."""
    for _, tier in groupby(units, key=claims.tier):
        yield from sorted(tier, key=claims.cost)


def _several(claims: Claims, legal: list[Unit], trial: Trial, most: int) -> list[Unit] | None:
    chosen = list(islice(_in_turn(claims, legal), most))
    first = trial.room_after(chosen)
    for many in () if first is None else range(first, len(chosen) + 1):
        if trial.fits(merged(chosen[:many])):
            return minimal(chosen[:many], trial.fits, trial.who_must_go(chosen[:many]))
    return None


def _in_turn(claims: Claims, units: Iterable[Unit]) -> Iterator[Unit]:
    """Units in the order in which they go, counted as gone; the queue furthest over changes on the way."""
    lines: dict[tuple[Rule, str], deque[Unit]] = {}
    for unit in units:
        queue = unit.run.job.queue if unit.rule is Rule.FAIR_SHARE else ""
        lines.setdefault((unit.rule, queue), deque()).append(unit)
    while True:
        for line in lines.values():
            while line and not claims.allows(line[0]):
                line.popleft()  # nor will it be later: queues have less and less to spare
        line = min((line for line in lines.values() if line), key=lambda line: claims.tier(line[0]), default=deque())
        if not line:
            return
        claims.take(line[0])
        yield line.popleft()


def minimal(chosen: list[Unit], fits: Fits, must_go: Sequence[bool]) -> list[Unit]:
    """Without any unit the head can do without, the last chosen kept longest. Of some it is known that they must go."""
    needed = list(chosen)
    for unit in (unit for unit, must in zip(chosen, must_go, strict=True) if not must):
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
