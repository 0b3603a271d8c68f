"""Where a job can start now, and at whose cost: on free room, as promised, or in the place of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from muster.model.jobs import Job, Pending, Profile, Reservation, Running
from muster.model.policy import Preemption
from muster.model.resources import CPU, GPU, Resources
from muster.model.snapshot import Snapshot
from oracle.horizon import Horizon, in_all, requests, taken
from oracle.ledger import Ledger
from oracle.limits import widths_within_quota
from oracle.lower import Lower, lower_units
from oracle.placement import Shortage, Tasks, nearest
from oracle.room import Span
from oracle.victims import Claims, Unit, by_run, victims
from oracle.waiting import Blocked
from oracle.walls import Walls

FEW = 1024  # units in reach: of more it is not counted beforehand what they leave

Careful = Callable[[Job, str, list[Unit]], tuple[Tasks, Horizon] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a job can start now; `units` must give way for it."""

    cluster: str
    tasks: Tasks
    units: tuple[Unit, ...] = ()
    by_right: bool = False


class Finder:
    """Looks for room on the horizon, which it replaces when others give way."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger) -> None:
        self.policy = snapshot.policy
        self.now_ms = snapshot.now_ms
        self.fleet = snapshot.fleet
        self.ledger = ledger
        self.horizon = Horizon(snapshot)
        self._full: set[Profile] = set()
        self._evicted = 0
        self._in_vain = 0
        self._borrowers = snapshot.borrowers
        self._budgets = {(budget.job, budget.group): budget for budget in snapshot.budgets}
        self._walls = Walls(snapshot.eviction_limits, snapshot.running)
        self._vain: set[tuple[object, ...]] = set()

    def reopen(self) -> None:
        """A new round: other promises may stand in the way."""
        self._vain.clear()

    def evicted(self, unit: Unit) -> None:
        """Someone gave way: profiles that found no room may find some."""
        self._walls.note_gone((unit.run, task) for task in unit.tasks)
        self._evicted += 1
        self._full.clear()
        self._vain.clear()

    def at_min(self, job: Job) -> set[str]:
        """The nodes that the job would be on now at its min, by room nobody is promised; none if there is none."""
        for cluster in self.fleet.candidates(job.profile) if job.profile not in self._full else ():
            span = self.horizon.span_beside_all(job)
            found = self.horizon.placer(span).place(job.profile, cluster, job.profile.least_widths)
            span.undo()
            if found is not None:
                return {task.node for task in found}
        return set()

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
                    found = self.horizon.placer(span).place(job.profile, cluster, widths)
                    if found is not None:
                        return Placed(cluster=cluster, tasks=found)
        if pending is not None and (as_promised := self._as_promised(pending)):
            return as_promised
        blocked = self._why_not(job, clusters)
        evicting = self._by_preemption(job, clusters, blocked)
        if evicting is None:
            return blocked
        if self.policy.preemption is Preemption.ON:
            return evicting
        return replace(blocked, would_evict=evicting.units)

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
        placer, clusters = self.horizon.placer(self.horizon.span_regardless()), self.fleet.candidates(profile)
        found = [placer.shortage(profile, cluster) for cluster in clusters]
        return nearest(profile, found)

    def may_still_use(self, job: Job, reservation: Reservation) -> bool:
        """Whether every promised node is still there, takes tasks and suits the job."""
        if reservation.cluster not in self.fleet.candidates(job.profile):
            return False
        suits = {
            group.name: {node.name for node in self.fleet.open_matching(reservation.cluster, group.constraint)}
            for group in job.profile.groups
        }
        return all(task.node in suits[task.group] for task in reservation.tasks)

    def _as_promised(self, pending: Pending) -> Placed | None:
        """The job on the nodes once promised to it, if its time has come and they are free."""
        job, reservation = pending.job, pending.reservation
        if reservation is None or reservation.start_ms > self.now_ms or not self.may_still_use(job, reservation):
            return None
        span, tasks = self.horizon.span_from_now(job), []
        for task in reservation.tasks:
            request = job.profile.group(task.group).request
            if not span.fits(task.node, request):
                span.undo()
                return None
            tasks.append(task._replace(devices=span.take(task.node, request)))
        return Placed(cluster=reservation.cluster, tasks=tuple(tasks))

    def _only_delays(self, job: Job, clusters: tuple[str, ...]) -> bool:
        """Whether there would be room if nobody had a promise."""
        if not self.horizon.promised:
            return False
        span = self.horizon.span_regardless()
        placer = self.horizon.placer(span)
        fits = any(placer.place(job.profile, cluster, job.profile.least_widths) for cluster in clusters)
        span.undo()
        return fits

    def _by_preemption(self, job: Job, clusters: tuple[str, ...], blocked: Blocked) -> Placed | None:
        """The job in the place of others who must give way to it."""
        if (
            not job.profile.may_preempt
            or self.policy.preemption is Preemption.OFF
            or self.policy.evictions_per_turn <= self._evicted
        ):
            return None
        searches = (
            partial(self._from_lower, job, only_borrowers=True),
            partial(self._by_fairness, job, clusters, blocked),
            partial(self._from_lower, job, only_borrowers=False),
        )
        for search in searches:
            for cluster in clusters:
                if cluster not in self.fleet.preempts_in or self._in_vain >= self.policy.vain_searches_per_turn:
                    continue
                found = search(cluster)
                if found is not None:
                    placed, horizon = found
                    if self.policy.preemption is Preemption.ON:
                        self.horizon = horizon
                    return placed
        return None

    def _by_fairness(
        self, job: Job, clusters: tuple[str, ...], blocked: Blocked, cluster: str
    ) -> tuple[Placed, Horizon] | None:
        """In the place of queues above their share, of its own queue's lower ranks, and of who overtook it."""
        claims = Claims(job, self._scarce(job, clusters), self.ledger, self.now_ms, self.policy)
        in_reach = [unit for unit in claims.units(self.horizon.may_give_way) if unit.run.cluster == cluster]
        if not in_reach:
            return None
        legal = [unit for unit in in_reach if claims.allows(unit)]
        only_delays = blocked.only_delays
        if len(in_reach) <= FEW and not self._may_have_room(job, cluster, legal, only_delays=only_delays):
            return None
        left = self.policy.evictions_per_turn - self._evicted
        fits = partial(self._fits_without, job, cluster, self._without)
        units = victims(claims, in_reach, fits, left, only_delays=only_delays)
        found = None if units is None else self._without(job, cluster, units)
        self._in_vain += found is None
        if units is None or found is None:
            return None
        return self._placed(job, cluster, units, *found, by_right=True)

    def _may_have_room(self, job: Job, cluster: str, units: list[Unit], *, only_delays: bool) -> bool:
        """Whether there could be room without all of these, and beside the first firm promises that the job would meet:
        by a plain count of amounts, each group by itself."""
        leaving = [pair for unit in units for pair in requests(unit.run.job, unit.tasks)]
        if not all(unit.whole for unit in units) or any(request.whole_node for _, request in leaving):
            return True
        if self.horizon.is_yielded_to(job):
            return True
        left = in_all(leaving)
        is_choosy = len(job.profile.groups) == job.profile.tasks_min == 1 and not only_delays
        gone = {unit.run.job.id for unit in units}
        ceilings = self.horizon.ceilings(job, gone)
        for group in job.profile.groups if units or only_delays else ():
            count, asks = 0, group.request.resources
            for node in self.fleet.open_matching(cluster, group.constraint):
                if node.name in left or not is_choosy:
                    there = self.horizon.now[node.name].free + left.get(node.name, Resources({}))
                    rooms = [there, *(ceiling[node.name] for ceiling in ceilings if node.name in ceiling)]
                    count += min(room.get(name) // amount for name, amount in asks.items() if amount for room in rooms)
            if count < group.min:
                return False
        return bool(units) or only_delays

    def _from_lower(self, job: Job, cluster: str, *, only_borrowers: bool) -> tuple[Placed, Horizon] | None:
        """In the place of borrowers, or of borrowers and lower classes, whatever their age; no promise is passed."""
        runs = [run for run in self.horizon.movable if run.cluster == cluster]
        units = lower_units(job, runs, self._borrowers, only_borrowers=only_borrowers)
        is_barred = any(job.id in run.preempted_by for run in runs)
        like = (only_borrowers, cluster, job.profile, job.priority_class, self.policy.bound_ms(job))
        if not units or (like in self._vain and not is_barred):
            return None
        lower = Lower(
            head=job,
            cluster=cluster,
            fleet=self.fleet,
            empties={name: state.empty for name, state in self.horizon.states.items()},
            budgets=self._budgets,
            walls=self._walls,
            units=units,
            starts=self.horizon.starts_from_now(job),
            measure=self.horizon.measure,
        )
        fits = partial(self._fits_without, job, cluster, self._beside_promises)
        few = lower.enough(self.horizon.span_from_now(job), fits)
        found = None
        if few is not None and len(by_run(few)) <= self.policy.evictions_per_turn - self._evicted:
            found = self._beside_promises(job, cluster, few)
        if few is None or found is None:
            self._in_vain += 1
            if not is_barred:
                self._vain.add(like)
            return None
        return self._placed(job, cluster, few, *found, by_right=False)

    def _placed(
        self, job: Job, cluster: str, units: list[Unit], tasks: Tasks, horizon: Horizon, *, by_right: bool
    ) -> tuple[Placed, Horizon]:
        if len(needed := self._needed(job, tasks, units)) < len(units):
            units, horizon = needed, self._with_in_place_of(job, tasks, needed)
        return Placed(cluster=cluster, tasks=tasks, units=tuple(units), by_right=by_right), horizon

    def _scarce(self, job: Job, clusters: tuple[str, ...]) -> str:
        """The resource that blocks a head; for want of whole nodes or closeness, the dearest it asks for."""
        span = self.horizon.span_regardless() if job.profile in self._full else self.horizon.span_from_now(job)
        placer = self.horizon.placer(span)
        shortage = max((placer.shortage(job.profile, it) for it in clusters), key=lambda shortage: shortage.placed)
        asks = shortage.group.request.resources
        if asks.get(shortage.dimension):
            return shortage.dimension
        return GPU if asks.get(GPU) else CPU

    def _fits_without(self, job: Job, cluster: str, careful: Careful, units: list[Unit]) -> bool:
        """Whether the job could start if these units were gone; a quick no before the careful answer."""
        span = Span([self.horizon.now])
        for unit in units:
            for task in unit.tasks:
                request = unit.run.job.profile.group(task.group).request
                span.give(task.node, request, task.devices, self.horizon.states[task.node].empty)
        found = self.horizon.placer(span).place(job.profile, cluster, job.profile.least_widths)
        span.undo()
        if found is None or not self.horizon.promised:
            return found is not None
        return careful(job, cluster, units) is not None

    def _needed(self, job: Job, tasks: Tasks, units: list[Unit]) -> list[Unit]:
        """The units that must go for these very tasks; another placement may have needed others."""
        needed = units
        for unit in () if self.horizon.promised else units:
            fewer = [other for other in needed if other is not unit]
            rooms = self.horizon.now.copy()
            for other in fewer:
                self.horizon.leave(rooms, other.run.job, other.tasks)
            if taken(rooms, job, tasks) is not None:
                needed = fewer
        return needed

    def _with_in_place_of(self, job: Job, tasks: Tasks, units: list[Unit]) -> Horizon:
        """The horizon with these tasks on their nodes and the units gone."""
        horizon = self.horizon.fork_without([(unit.run, unit.tasks) for unit in by_run(units)])
        for task, request in requests(job, tasks):
            horizon.now[task.node] = horizon.now[task.node].take(request, task.devices)
        return horizon

    def _beside_promises(self, job: Job, cluster: str, units: list[Unit]) -> tuple[Tasks, Horizon] | None:
        """The job's tasks, taken from a horizon on which these units are gone, in the way of no promise."""
        horizon = self.horizon.fork_without([(unit.run, unit.tasks) for unit in by_run(units)])
        span = horizon.span_from_now(job)
        tasks = self.horizon.placer(span).place(job.profile, cluster, job.profile.least_widths)
        return None if tasks is None else (tasks, horizon)

    def _without(self, job: Job, cluster: str, units: list[Unit]) -> tuple[Tasks, Horizon] | None:
        """The job's tasks, taken from a horizon on which these units are gone and every promise still holds."""
        gone = [(unit.run, unit.tasks) for unit in by_run(units)]
        horizon = self.horizon.fork_without(gone)
        least = job.profile.least_widths
        tasks = horizon.placer(horizon.span_from_now(job)).place(job.profile, cluster, least)
        if tasks is not None:
            return tasks, horizon
        tasks = horizon.placer(horizon.span_regardless()).place(job.profile, cluster, least)
        if tasks is None:
            return None
        run = Running(job=job, attempt=0, cluster=cluster, started_ms=self.now_ms, tasks=tasks)
        return (tasks, horizon) if horizon.fork_without([]).keeps_promises_beside(run) else None
