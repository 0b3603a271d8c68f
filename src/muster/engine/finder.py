"""Where a job can start now, and at whose cost: on free room, as promised, or in the place of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from muster.engine.blanks import NO_CEILINGS
from muster.engine.columns.arrays import Ints
from muster.engine.elastic.width import Cut, Width
from muster.engine.horizon import Horizon
from muster.engine.kernels.filling import Offers
from muster.engine.ledger import Ledger
from muster.engine.limits import widths_within_quota
from muster.engine.lines import NOBODY_TAKES, Takers
from muster.engine.lower import Lower, Search
from muster.engine.offers import (
    are_many_or_odd,
    ceilings_of,
    has_room_without,
    leavers_of,
    leaving_in,
    offers_of,
    until_of,
)
from muster.engine.opening import Opened
from muster.engine.placement import Placer, Shortage, Tasks, nearest
from muster.engine.scarcity import Scarcity
from muster.engine.stays import BORROWER, Stays
from muster.engine.taking import Taken, Taking
from muster.engine.victims import Claims, Unit, by_run, passed_by, victims
from muster.engine.waiting import Blocked
from muster.engine.walls import Walls
from muster.engine.without import ByRight, Without, are_odd, is_room_left, span_without
from muster.model.jobs import NEVER_MS, Job, Pending, Profile, Reservation, Running, TaskGroup
from muster.model.policy import Preemption
from muster.model.resources import CPU, GPU
from muster.model.snapshot import Snapshot

Like = tuple[str, bool, Profile, int, int | None]
"""What a search for borrowers and lower classes depends on, promises apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a job can start now; `units` must give way for it, those who shrink give up `cuts`. `by_right`: whatever
    was promised on guesses; `is_in_place`: all rooms are as they will be then."""

    cluster: str
    tasks: Tasks
    units: tuple[Unit, ...] = ()
    cuts: tuple[Cut, ...] = ()
    by_right: bool = False
    is_in_place: bool = False


class Finder:
    """Looks for room on the horizon, which it replaces when others give way."""

    def __init__(self, snapshot: Snapshot, opened: Opened, ledger: Ledger, stays: Stays) -> None:
        self.policy = snapshot.policy
        self.now_ms = snapshot.now_ms
        self.fleet = snapshot.fleet
        self.ledger = ledger
        self.horizon = Horizon(snapshot, stays, ledger.shapes, opened.face, opened.measure)
        self.width = Width(snapshot, ledger, self.horizon)
        self._full: set[Profile] = set()
        self._short: dict[Profile, Shortage] = {}
        self._evicted = 0
        self._in_vain = 0
        self._scarcity = Scarcity(keeps_cores=self.policy.cores_per_gpu > 0)
        self._taking = Taking(ledger)
        self._walls = Walls(snapshot.eviction_limits, stays)
        self._lower = Lower(snapshot.budgets, self._walls)
        self._vain: set[Like] = set()
        self._offers: tuple[int, Ints | None, Offers | None] = (0, None, None)  # as of when

    def reopen(self) -> None:
        """A new round: other promises may stand in the way."""
        self._vain.clear()

    def gave_way(self, unit: Unit) -> None:
        """Someone gave way to a head."""
        self._walls.note_gone(unit)
        self.evicted(len(unit.tasks))

    def evicted(self, tasks: int) -> None:
        """Someone gave way, with so many tasks: profiles that found no room may find some."""
        self._evicted += 1
        self._scarcity.moved(tasks)
        self._full.clear()
        self._short.clear()
        self._vain.clear()

    def withheld(self) -> None:
        """More or less room is kept from everyone than before: nobody knows what that means for whom."""
        self._full.clear()
        self._vain.clear()
        self.grew()

    def grew(self) -> None:
        """Those who run took room: there is less of it for others."""
        self._scarcity.forget()
        self._short.clear()

    def note_full(self, profile: Profile) -> None:
        """There is no room for the profile, promised or not."""
        self._full.add(profile)

    def started(self, tasks: int) -> None:
        """Someone took room with so many tasks: what others lack is to be worked out anew."""
        self._scarcity.moved(tasks)
        self._short.clear()

    def find(self, job: Job, pending: Pending | None = None) -> Placed | Blocked:
        """Where the job can start now: on free room, else on its promised nodes, else by preemption."""
        clusters = self.fleet.candidates(job.profile)
        if not clusters:
            return Blocked(only_delays=False)
        if job.profile not in self._full:
            widths = widths_within_quota(job, self.ledger, is_admitted=pending is not None)
            spans = [self.horizon.span_beside_all(job)]
            if self.horizon.is_yielded_to(job):
                spans.append(self.horizon.span_from_now(job))
            for span in spans:
                for cluster in clusters:
                    found = Placer(span).place(job.profile, cluster, widths)
                    if found is not None:
                        return Placed(cluster=cluster, tasks=found)
        if pending is not None and (as_promised := self._as_promised(pending)):
            return as_promised
        if (shrunk := self._by_shrinking(job, clusters)) is not None:
            return shrunk
        blocked = self._why_not(job, clusters)
        evicting = self._by_preemption(job, clusters, blocked)
        if evicting is None:
            return blocked
        if self.policy.preemption is Preemption.ON:
            return evicting
        return replace(blocked, would_evict=evicting.units)

    def _by_shrinking(self, job: Job, clusters: tuple[str, ...]) -> Placed | None:
        """The job in the place of tasks above min, which others give up for it."""
        for cluster in clusters:
            if (found := self.width.room_for(job, cluster, self.horizon)) is not None:
                self.horizon = found.horizon
                return Placed(cluster=cluster, tasks=found.tasks, cuts=found.cuts)
        return None

    def by_quota(self, job: Job) -> Placed | None:
        """The job, which lacks quota, with what others of its queue or user give up of it by shrinking."""
        found = self.width.quota_for(job, self.fleet.candidates(job.profile), self.horizon)
        if found is None:
            return None
        cluster, made = found
        self.horizon = made.horizon
        return Placed(cluster=cluster, tasks=made.tasks, cuts=made.cuts)

    def _why_not(self, job: Job, clusters: tuple[str, ...]) -> Blocked:
        """Whether only promises are in the way. A profile for which there is no room at all is not tried again."""
        if job.profile in self._full:
            return Blocked(only_delays=False)
        only_delays = self._only_delays(job, clusters)
        if not only_delays:
            self._full.add(job.profile)
        return Blocked(only_delays=only_delays)

    def shortage(self, profile: Profile) -> Shortage:
        """What the profile, for which there is no room, lacks where it lacks least."""
        known = self._short.get(profile)
        if known is None:
            placer, clusters = Placer(self.horizon.span_regardless()), self.fleet.candidates(profile)
            known = nearest(profile, [placer.shortage(profile, cluster) for cluster in clusters])
            self._short[profile] = known
        return known

    def may_anyone_give_way(self) -> bool:
        """Whether anyone may still be evicted in this turn."""
        if self.policy.preemption is Preemption.OFF or self._evicted >= self.policy.evictions_per_turn:
            return False
        if self._in_vain >= self.policy.vain_searches_per_turn:
            return False
        stays = self.horizon.stays
        if stays.is_calm and not self.ledger.asks_planner:
            return False
        return stays.lowest_class < NEVER_MS or stays.has_givers

    def who_may_take(self, aged: Callable[[], Iterable[Job]]) -> Takers:
        """Who could have a right to start in the place of others; a careful look tells. `aged`: the gangs that have
        waited for very long."""
        if not self.may_anyone_give_way():
            return NOBODY_TAKES._replace(lowest_class=NEVER_MS)
        stays, books = self.horizon.stays, self.ledger.columns
        offers = self._offered()
        return Takers(
            is_below=(books.started_usage < self.ledger.entitled) & self.policy.preempts_for_shares,
            entitled_to=self.ledger.entitled_to,
            givers=stays.givers,
            offers=offers,
            ceilings=ceilings_of(self.horizon) if len(offers.rows) else NO_CEILINGS,
            overtaken=stays.overtaken() | {job.id for job in aged() if self.may_take_back(job)},
            lowest_class=stays.lowest_class,
        )

    def may_take_back(self, job: Job) -> bool:
        """Whether a gang could have room, by a plain count, if those left who passed it, or from whom it may take."""
        stays, passed = self.horizon.stays, passed_by(job, self.policy)
        if passed is None or not len(past := stays.giving_past(passed)):
            return False
        rows = np.union1d(past, stays.giving_to(job, any_queue=self.policy.preempts_for_shares))
        if self.horizon.promised or are_many_or_odd(stays, rows, self.ledger.shapes):
            return True
        leaving = [leaving_in(self.horizon, rows)]
        where = [name for name in self.fleet.candidates(job.profile) if name in self.fleet.preempts_in]
        return any(has_room_without(self.horizon, job, name, leaving, only_delays=False) for name in where)

    def _offered(self) -> Offers:
        """Who may give way, and until when they stay; looked at anew when others may, or leave for promises."""
        horizon, stays = self.horizon, self.horizon.stays
        epoch, leavers, known = self._offers
        if known is None or epoch != stays.epoch:
            known, leavers = offers_of(horizon, self.ledger.shapes), None
        if len(known.rows):
            known = known._replace(gives=stays.who_gives().view(np.uint8))
            if leavers is None or not np.array_equal(leavers, leavers_of(horizon)):
                leavers = leavers_of(horizon)
                known = known._replace(until=until_of(horizon, known.rows))
        self._offers = (stays.epoch, leavers, known)
        return known

    def may_still_use(self, job: Job, reservation: Reservation) -> bool:
        """Whether every promised node is still there, takes tasks and suits the job."""
        if reservation.cluster not in self.fleet.candidates(job.profile):
            return False
        constraints = {group.name: group.constraint for group in job.profile.groups}
        nodes = self.fleet.nodes
        return all(
            task.node in nodes
            and nodes[task.node].cluster == reservation.cluster
            and self.fleet.suits(nodes[task.node], constraints[task.group])
            for task in reservation.tasks
        )

    def _as_promised(self, pending: Pending) -> Placed | None:
        """The job on the nodes once promised to it, if its time has come and they are free."""
        job, reservation = pending.job, pending.reservation
        if reservation is None or reservation.start_ms > self.now_ms or not self.may_still_use(job, reservation):
            return None
        span, tasks = self.horizon.span_from_now(job), []
        for task in reservation.tasks:
            group = job.profile.group(task.group)
            if not span.fits(task.node, group):
                span.undo()
                return None
            tasks.append(task._replace(devices=span.take(task.node, group)))
        return Placed(cluster=reservation.cluster, tasks=tuple(tasks))

    def _only_delays(self, job: Job, clusters: tuple[str, ...]) -> bool:
        """Whether there would be room if nobody had a promise."""
        if not self.horizon.promised:
            return False
        span = self.horizon.span_regardless()
        placer = Placer(span)
        fits = any(placer.place(job.profile, cluster, job.profile.least_widths) for cluster in clusters)
        span.undo()
        return fits

    def _by_preemption(self, job: Job, clusters: tuple[str, ...], blocked: Blocked) -> Placed | None:
        """The job in the place of others who must give way to it."""
        if not job.profile.may_preempt or not self.may_anyone_give_way():
            return None
        searches = (
            partial(self.in_place_of_lower, job, only_borrowers=True),
            partial(self._in_place_of, job, clusters, blocked),
            partial(self.in_place_of_lower, job, only_borrowers=False),
        )
        for search in searches:
            for cluster in clusters:
                if cluster not in self.fleet.preempts_in or not self.may_anyone_give_way():
                    continue
                taken = search(cluster)
                if taken is not None:
                    if self.policy.preemption is Preemption.ON:
                        self.horizon = taken.horizon or self.horizon
                    return Placed(
                        cluster=cluster,
                        tasks=taken.tasks,
                        units=tuple(taken.units),
                        by_right=taken.by_right,
                        is_in_place=taken.horizon is None,
                    )
        return None

    def in_place_of_lower(self, job: Job, cluster: str, *, only_borrowers: bool) -> Taken | None:
        """Which borrowers, or borrowers and lower classes, must go, whatever their age; no promise is passed."""
        limit = BORROWER + 1 if only_borrowers else job.priority_class
        if self.horizon.stays.lowest_class >= limit:
            return None
        like = (cluster, only_borrowers, job.profile, job.priority_class, self.policy.bound_ms(job))
        search = self._lower.search(self.horizon, job, cluster, only_borrowers=only_borrowers)
        if (like in self._vain and not search.is_barred) or not search.has_anyone():
            return None
        taken = self._taken_from(search)
        if taken is None:
            self._in_vain += 1
            if not search.is_barred:
                self._vain.add(like)
        return taken

    def _taken_from(self, search: Search) -> Taken | None:
        """The head in the place of those it finds, if they are not too many for one turn."""
        job, cluster = search.head, search.cluster
        without = Without(self.horizon, job, cluster, partial(self._beside_promises, job, cluster))
        units = search.enough(partial(self._fits_beside_promises, without, job, cluster), without.who_must_go)
        if units is None or len(by_run(units)) > self.policy.evictions_per_turn - self._evicted:
            return None
        if not self._is_apart(units):
            found = self._beside_promises(job, cluster, units)
            return found and Taken(units=units, tasks=found[0], horizon=found[1], by_right=False)
        undo, tasks = self.horizon.place_in_place_of(_gone(units), job, cluster)
        if tasks is not None and not self.horizon.promised:
            undo()
            units = self._needed(job, tasks, units)
            undo = self.horizon.put_in_place_of(_gone(units), job, tasks)
        if tasks is None:
            return None
        if self.policy.preemption is not Preemption.ON:
            undo()
        else:
            for run, gone in _gone(units):
                self.horizon.leave(run, gone)
        return Taken(units=units, tasks=tasks, horizon=None, by_right=False)

    def _in_place_of(self, job: Job, clusters: tuple[str, ...], blocked: Blocked, cluster: str) -> Taken | None:
        """Who must go in this cluster for fairness, and where the head starts then."""
        if not self.horizon.stays.has_givers:
            return None
        claims = Claims(job, partial(self._scarce, job, clusters), self.ledger, self.now_ms, self.policy)
        left = self.policy.evictions_per_turn - self._evicted
        careful = partial(self._without, job, cluster)
        is_on = self.policy.preemption is Preemption.ON
        if is_on and (search := self._taking.search(self.horizon, claims, cluster, careful)) is not None:
            if not search.may_have_room(only_delays=blocked.only_delays):
                return None
            taken = search.past_promises() if blocked.only_delays else search.find(partial(self._pruned, job), left)
            self._in_vain += taken is None and search.has_anyone()
            return taken
        in_reach = [unit for unit in claims.units(self.horizon.stays) if unit.run.cluster == cluster]
        trial = ByRight(self.horizon, job, cluster, careful)
        legal = [unit for unit in in_reach if claims.allows(unit)]
        if not trial.may_have_room(legal, len(in_reach), only_delays=blocked.only_delays):
            return None
        units = victims(claims, in_reach, trial, left, only_delays=blocked.only_delays) if in_reach else None
        if units is None or (found := careful(units)) is None:
            self._in_vain += bool(in_reach)
            return None
        tasks, horizon = found
        if len(self._needed(job, tasks, units)) < len(units):
            return self._pruned(job, tasks, units)
        return Taken(units=units, tasks=tasks, horizon=horizon)

    def _pruned(self, job: Job, tasks: Tasks, units: list[Unit]) -> Taken:
        """The job on these very tasks, without units that need not go for them."""
        needed = self._needed(job, tasks, units)
        return Taken(units=needed, tasks=tasks, horizon=self._with_in_place_of(job, tasks, needed))

    def _scarce(self, job: Job, clusters: tuple[str, ...]) -> str:
        """The resource that blocks a head; for want of whole nodes or closeness, the dearest it asks for."""
        profile = job.profile
        if profile not in self._full:
            placer = Placer(self.horizon.span_from_now(job))
            shortage = max((placer.shortage(profile, it) for it in clusters), key=lambda it: it.placed)
            return _resource(shortage.group, shortage.dimension)
        known = self.known_scarce(profile)
        if known is None:
            shortage = self.shortage(profile)
            known = _resource(shortage.group, shortage.dimension)
            if len(clusters) == len(profile.groups) == 1:
                self._scarcity.note(shortage, clusters[0])
        return known

    def known_scarce(self, profile: Profile) -> str | None:
        """The resource that blocks such a head, if that was worked out as things stand."""
        clusters = self.fleet.candidates(profile)
        if len(clusters) == len(profile.groups) == 1 and (name := self._scarcity.of(profile, clusters[0])) is not None:
            return _resource(profile.groups[0], name)
        known = self._short.get(profile)
        return None if known is None else _resource(known.group, known.dimension)

    def _needed(self, job: Job, tasks: Tasks, units: list[Unit]) -> list[Unit]:
        """The units that must go for these very tasks; another placement may have needed others."""
        needed = units
        for unit in () if self.horizon.promised else units:
            fewer = [other for other in needed if other is not unit]
            span = span_without(fewer, self.horizon)
            if span.holds_all(job.profile, tasks):
                needed = fewer
            span.undo()
        return needed

    def _with_in_place_of(self, job: Job, tasks: Tasks, units: list[Unit]) -> Horizon:
        """The horizon with these tasks on their nodes and the units gone."""
        horizon = self.horizon.fork_without(_gone(units))
        horizon.now.take_all(job.profile, tasks)
        return horizon

    def _fits_beside_promises(self, without: Without, job: Job, cluster: str, units: list[Unit]) -> bool:
        """Whether the job could start in the way of no promise if these units were gone."""
        if not self._is_apart(units):
            return without.fits(units)
        undo, tasks = self.horizon.place_in_place_of(_gone(units), job, cluster)
        undo()
        return tasks is not None

    def _is_apart(self, units: list[Unit]) -> bool:
        """Whether no promise counts on nodes of those who leave: then each room changes just by what they leave.

        Of all their nodes: where a promise counts on one of them to be gone by then, it is gone from the others too.
        """
        promised = {task.node for it in self.horizon.promised.values() for task in it.reservation.tasks}
        return promised.isdisjoint(task.node for unit in units for task in unit.run.tasks)

    def _beside_promises(self, job: Job, cluster: str, units: list[Unit]) -> tuple[Tasks, Horizon] | None:
        """The job's tasks, taken from a horizon on which these units are gone, in the way of no promise."""
        horizon = self.horizon.fork_without(_gone(units))
        tasks = Placer(horizon.span_from_now(job)).place(job.profile, cluster, job.profile.least_widths)
        return None if tasks is None else (tasks, horizon)

    def _without(self, job: Job, cluster: str, units: list[Unit]) -> tuple[Tasks, Horizon] | None:
        """The job's tasks, taken from a horizon on which these units are gone and every firm promise still holds."""
        least = job.profile.least_widths
        if not are_odd(units) and not is_room_left(units, self.horizon, job, cluster, only_delays=True):
            return None
        if units:
            horizon = self.horizon.fork_without(_gone(units))
            tasks = Placer(horizon.span_from_now(job)).place(job.profile, cluster, least)
            if tasks is not None:
                return tasks, horizon
        else:  # beside all promises it found no room, or nobody would have to give way
            horizon = self.horizon.fork()
        # A promise that rests on guesses does not keep a queue from its share; a firm one must still hold.
        tasks = Placer(horizon.span_regardless()).place(job.profile, cluster, least)
        if tasks is None:
            return None
        run = Running(job=job, attempt=0, cluster=cluster, started_ms=self.now_ms, tasks=tasks)
        return (tasks, horizon) if horizon.keeps_promises_beside(run) else None


def _gone(units: Iterable[Unit]) -> list[tuple[Running, Tasks]]:
    """The tasks of each job that go."""
    return [(unit.run, unit.tasks) for unit in by_run(units)]


def _resource(group: TaskGroup, dimension: str) -> str:
    """What is short; for want of whole nodes or closeness, the dearest that is asked for."""
    asks = group.request.resources
    if asks.get(dimension):
        return dimension
    return GPU if asks.get(GPU) else CPU
