"""One turn: from a frozen snapshot to a plan.

1. Open the books: flows and shares as of now.
2. Keep promises: pending jobs, first admitted first, start or get their reservation renewed.
3. Hear the aged: who has waited for very long takes a free reservation ahead of class and flow.
4. Fill progressively: whose flow per weight would be smallest with its head? Start it, or make room for
   it by preemption, or reserve, or set its profile aside -- until heads run out or limits bite.
5. Close: one verdict each, and when to look again if nothing happens.

Pure. Why this order: docs/adr/0005-reservations-and-backfill.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import lcm

from muster.engine.horizon import Horizon
from muster.engine.ledger import Ledger
from muster.engine.limits import Limit, charge_for, limit_on, standing_limit_on, widths_within_quota
from muster.engine.line import Line
from muster.engine.placement import Placer, Shortage, Tasks, never_fits, no_cluster
from muster.engine.room import Span
from muster.engine.shares import shares
from muster.engine.victims import Claims, Unit, victims
from muster.engine.wake import Contest, next_wake
from muster.model.jobs import Job, Pending, Profile, Reservation, Running
from muster.model.nodes import DEVICE_MILLI, Request
from muster.model.plan import (
    Action,
    Admit,
    Evict,
    Plan,
    Promise,
    Return,
    Start,
    Started,
    Verdict,
    Victim,
    Waiting,
)
from muster.model.policy import Preemption
from muster.model.reasons import Fact, Reason
from muster.model.resources import CPU, GPU, format_amount
from muster.model.snapshot import Snapshot


def plan(snapshot: Snapshot) -> Plan:
    """Decide one turn."""
    turn = _Turn(snapshot)
    turn.keep_promises()
    turn.hear_the_aged()
    turn.fill()
    return turn.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a job can start now, and at whose cost."""

    cluster: str
    tasks: Tasks
    units: tuple[Unit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why a job cannot start now. `only_delays`: there is room, but it is promised to others."""

    shortage: Shortage
    only_delays: bool
    would_evict: tuple[Unit, ...] = ()


class _Turn:
    """The books of one turn. Every step reads what the steps before it wrote."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.policy = snapshot.policy
        self.now_ms = snapshot.now_ms
        self.fleet = snapshot.fleet
        self.ledger = Ledger(snapshot, shares(snapshot))
        self.horizon = Horizon(snapshot)
        self.lines = {
            state.queue.name: Line(state, self.policy)
            for state in sorted(snapshot.queues, key=lambda state: state.queue.name)
        }
        self.evictions: list[Action] = []
        self.actions: list[Action] = []
        self.verdicts: dict[str, Verdict] = {}
        self.heads: dict[str, str] = {}
        self.full: dict[Profile, Blocked] = {}
        self.contests: set[Contest] = set()
        self.limited: list[tuple[Job, Reason]] = []
        self.starts = 0
        self.evicted = 0
        self._scale = lcm(*(holding.weight for holding in self.ledger.queues.values()))

    # -- 2. promises -----------------------------------------------------------------------------------

    def keep_promises(self) -> None:
        """Pending jobs start if they can; else their reservation is renewed, never to a later start if it holds."""
        line = sorted(self.snapshot.pending, key=lambda pending: pending.line)
        kept = {
            pending.job.id
            for pending in line
            if pending.reservation is not None
            and pending.reservation.start_ms >= self.now_ms
            and self._may_still_use(pending.job, pending.reservation)
            and self.horizon.promise(pending.job, pending.reservation)
        }
        for pending in line:
            old = pending.reservation if pending.job.id in kept else None
            self.horizon.withdraw(pending.job)
            self._serve_pending(pending, old)

    def _serve_pending(self, pending: Pending, old: Reservation | None) -> None:
        job = pending.job
        if limit := standing_limit_on(job, self.ledger):
            self._return(pending, limit.waiting)
            return
        placed = self._find_place(job, pending)
        if isinstance(placed, Placed):
            self._start(job, pending.attempt, placed)
            return
        new = self._soonest(job)
        if old is not None and (new is None or old.start_ms <= new.start_ms):
            new = old
        if new is None and (shortage := never_fits(self.fleet, job.profile)):
            self._return(pending, self._never(job, shortage))
            return
        if _firm(new) != pending.reservation:
            self.actions.append(Promise(job=job.id, attempt=pending.attempt, reservation=_firm(new)))
        self._reserve(job, new, placed)

    def _return(self, pending: Pending, waiting: Waiting) -> None:
        """The job can have no reservation any more: it goes back to its queue."""
        self.actions.append(Return(job=pending.job.id, attempt=pending.attempt))
        self.ledger.leave_line(pending)
        self.verdicts[pending.job.id] = waiting

    # -- 3. ageing -------------------------------------------------------------------------------------

    def hear_the_aged(self) -> None:
        """Jobs that have waited past `agingAfter`, of queues not above their entitled share, oldest first.

        One of each kind takes a free reservation, or starts at once where it fits (ADR 0012).
        """
        served: set[bool] = set()
        for job in self._aged():
            holding = self.ledger.queues[job.queue]
            if holding.started_usage > holding.entitled or job.profile.asks_gpu in served:
                continue
            if self._free_slots(job) and limit_on(job, self.ledger, self.policy, self.starts) is None:
                self.heads.setdefault(job.queue, job.id)
                self._consider(job)
                served.add(job.profile.asks_gpu)

    def _aged(self) -> list[Job]:
        """The oldest of each lane that waited too long: one reservation each is all they could get."""
        since_ms = self.now_ms - self.policy.aging_after_ms
        oldest = [lane.jobs[0] for state in self.snapshot.queues for lane in state.lanes if lane.jobs]
        aged = [job for job in oldest if job.submit_ms <= since_ms and not never_fits(self.fleet, job.profile)]
        return sorted(aged, key=lambda job: (job.submit_ms, job.key))

    # -- 4. filling ------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Progressive filling over the queues' heads."""
        if self.horizon.promised and not self.policy.backfill:
            return
        while (job := self._hungriest_head()) is not None:
            self.heads.setdefault(job.queue, job.id)
            if shortage := never_fits(self.fleet, job.profile):
                self.verdicts[job.id] = self._never(job, shortage)
                self.lines[job.queue].set_aside(job.profile, 0)
            elif limit := limit_on(job, self.ledger, self.policy, self.starts):
                self._close_queue(job, limit)
            elif not self._consider(job):
                self._note_rivals(job)
                if not self.policy.backfill:
                    return

    def _hungriest_head(self) -> Job | None:
        offers = [job for line in self.lines.values() if (job := line.offer()) is not None]
        top = max((job.priority_class for job in offers), default=0)
        return min((job for job in offers if job.priority_class == top), key=self._hunger, default=None)

    def _note_rivals(self, blocked: Job) -> None:
        """Whose turn could come before this job's as flows decay: that may be another one's reservation."""
        if all(it.reservation.is_firm for it in self.horizon.promised.values()):
            return
        for line in self.lines.values():
            rival = line.offer()
            if rival is not None and rival.queue != blocked.queue:
                contest = Contest(
                    queue=rival.queue,
                    floor=self.ledger.queues[rival.queue].usage + self.ledger.least_usage(rival),
                    before=blocked.queue,
                    before_floor=self.ledger.queues[blocked.queue].usage + self.ledger.least_usage(blocked),
                    wins_ties=self._hunger(rival)[1:] < self._hunger(blocked)[1:],
                )
                self.contests.add(contest)

    def _note_too_soon(self, head: Job, queues: set[str]) -> None:
        """From which queues the head may take once it has had less lately than they."""
        floor = self.ledger.queues[head.queue].started_usage + self.ledger.least_usage(head)
        for queue in queues:
            usage = self.ledger.queues[queue].started_usage
            contest = Contest(queue=head.queue, floor=floor, before=queue, before_floor=usage, wins_ties=True)
            self.contests.add(contest)

    def _hunger(self, job: Job) -> tuple[int, int, str]:
        """Flow per weight with the job admitted, then usage per weight, then queue name."""
        holding, usage = self.ledger.queues[job.queue], self.ledger.least_usage(job)
        per_weight = self._scale // holding.weight  # a/b against c/d without fractions
        return (holding.flow_with(usage) * per_weight, (holding.usage + usage) * per_weight, holding.name)

    def _close_queue(self, job: Job, limit: Limit) -> None:
        self.verdicts[job.id] = limit.waiting
        self.limited.append((job, limit.waiting.reason))
        self.lines[job.queue].close(limit)

    def _consider(self, job: Job) -> bool:
        """Start the job, reserve for it or set its profile aside; whether it starts.

        Only a firm reservation admits the job for good. One that rests on guesses keeps others from slipping by in
        this turn; in the next the job stands in line as before, so that a newcomer's queue gets what is its due.
        """
        line, attempt = self.lines[job.queue], self.snapshot.next_attempt(job)
        placed = self._find_place(job)
        charge = charge_for(job, self.ledger.queues[job.queue], self.ledger)
        if isinstance(placed, Placed):
            self._admit(job, attempt, charge, placed.cluster, None)
            self._start(job, attempt, placed)
            line.take(job)
            return True
        reservation = self._soonest(job)
        if self._reserve(job, reservation, placed) and reservation is not None and reservation.is_firm:
            self._admit(job, attempt, charge, reservation.cluster, reservation)
            line.take(job)
        line.set_aside(job.profile, self.horizon.in_the_way_from(job) if placed.only_delays else 0)
        return False

    # -- finding room ----------------------------------------------------------------------------------

    def _find_place(self, job: Job, pending: Pending | None = None) -> Placed | Blocked:
        """Where the job can start now: on free room, else on its promised nodes, else by preemption."""
        clusters = self.fleet.candidates(job.profile)
        if not clusters:
            return Blocked(shortage=no_cluster(job.profile), only_delays=False)
        if job.profile not in self.full:
            widths = widths_within_quota(job, self.ledger, is_admitted=pending is not None)
            for cluster in clusters:
                found = Placer(self.fleet, self.horizon.span_from_now(job)).place(job.profile, cluster, widths)
                if found is not None:
                    return Placed(cluster=cluster, tasks=found)
        if pending is not None and (as_promised := self._as_promised(pending)):
            return as_promised
        blocked = self._why_not(job, clusters)
        evicting = self._by_preemption(job, blocked.shortage)
        if evicting is None:
            return blocked
        if self.policy.preemption is Preemption.ON:
            return evicting
        return replace(blocked, would_evict=evicting.units)

    def _why_not(self, job: Job, clusters: tuple[str, ...]) -> Blocked:
        """What the job lacks where it lacks least. A profile for which there is no room at all is not tried again."""
        if (known := self.full.get(job.profile)) is not None:
            return known
        only_delays = self._only_delays(job, clusters)
        span = self.horizon.span_from_now(job) if only_delays else self.horizon.span_regardless()
        shortages = [Placer(self.fleet, span).shortage(job.profile, cluster) for cluster in clusters]
        blocked = Blocked(shortage=max(shortages, key=lambda shortage: shortage.placed), only_delays=only_delays)
        if not only_delays:
            self.full[job.profile] = blocked
        return blocked

    def _may_still_use(self, job: Job, reservation: Reservation) -> bool:
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
        if reservation is None or reservation.start_ms > self.now_ms or not self._may_still_use(job, reservation):
            return None
        span, tasks = self.horizon.span_from_now(job), []
        for task in reservation.tasks:
            request = job.profile.group(task.group).request
            if not span.fits(task.node, request):
                span.undo()
                return None
            tasks.append(replace(task, devices=span.take(task.node, request)))
        return Placed(cluster=reservation.cluster, tasks=tuple(tasks))

    def _only_delays(self, job: Job, clusters: tuple[str, ...]) -> bool:
        """Whether there would be room if nobody had a promise."""
        if not self.horizon.promised:
            return False
        span = self.horizon.span_regardless()
        placer = Placer(self.fleet, span)
        fits = any(placer.place(job.profile, cluster, job.profile.least_widths) for cluster in clusters)
        span.undo()
        return fits

    def _by_preemption(self, job: Job, shortage: Shortage) -> Placed | None:
        """The job in the place of others who must give way to it."""
        left = self.policy.evictions_per_turn - self.evicted
        if self.policy.preemption is Preemption.OFF or left <= 0:
            return None
        for cluster in self.fleet.candidates(job.profile):
            claims = Claims(job, _scarce(shortage), self.ledger, self.now_ms)
            units = victims(claims, self.horizon, cluster, partial(self._fits_without, job, cluster), left)
            self._note_too_soon(job, claims.too_soon)
            if units is not None and (found := self._without(job, cluster, units)):
                tasks, horizon = found
                if self.policy.preemption is Preemption.ON:
                    self.horizon = horizon
                return Placed(cluster=cluster, tasks=tasks, units=tuple(units))
        return None

    def _fits_without(self, job: Job, cluster: str, units: list[Unit]) -> bool:
        """Whether the job could start if these units were gone; a quick no before the careful answer."""
        span = Span([self.horizon.now])
        for unit in units:
            for task in unit.tasks:
                request = unit.run.job.profile.group(task.group).request
                span.give(task.node, request, task.devices, self.snapshot.nodes[task.node].empty)
        found = Placer(self.fleet, span).place(job.profile, cluster, job.profile.least_widths)
        span.undo()
        if found is None or not self.horizon.promised:
            return found is not None
        return self._without(job, cluster, units) is not None

    def _without(self, job: Job, cluster: str, units: list[Unit]) -> tuple[Tasks, Horizon] | None:
        """The job's tasks, taken from a horizon on which these units are gone and every firm promise still holds."""
        gone = [(unit.run, unit.tasks) for unit in _by_run(units)]
        horizon = self.horizon.fork_without(gone)
        least = job.profile.least_widths
        tasks = Placer(self.fleet, horizon.span_from_now(job)).place(job.profile, cluster, least)
        if tasks is not None:
            return tasks, horizon
        # A promise that rests on guesses does not keep a queue from its share, and one that counted on the room of
        # those who go may find it elsewhere.
        tasks = Placer(self.fleet, horizon.span_regardless()).place(job.profile, cluster, least)
        if tasks is None:
            return None
        run = Running(job=job, attempt=0, cluster=cluster, started_ms=self.now_ms, tasks=tasks)
        return (tasks, horizon) if horizon.fork_without([]).keeps_promises_beside(run) else None

    # -- reservations ----------------------------------------------------------------------------------

    def _soonest(self, job: Job) -> Reservation | None:
        """The best reservation the job may take: the soonest start, then the most preferred cluster."""
        claims = Claims(job, GPU if job.profile.asks_gpu else CPU, self.ledger, self.now_ms)

        def may_evict(run: Running) -> bool:
            return self.policy.preemption is Preemption.ON and claims.right_over(run) is not None

        found = [self.horizon.soonest(job, cluster, may_evict) for cluster in self._free_slots(job)]
        # min keeps the first of equals, and the most preferred cluster comes first
        return min((it for it in found if it is not None), key=lambda it: it.start_ms, default=None)

    def _free_slots(self, job: Job) -> list[str]:
        """Clusters where the job's kind (GPU or CPU) may still have a reservation, one per profile."""
        promised = [(it.job.profile, it.reservation.cluster) for it in self.horizon.promised.values()]
        if len(promised) >= self.policy.reservations_in_all or any(profile == job.profile for profile, _ in promised):
            return []
        kind = job.profile.asks_gpu
        taken = [cluster for profile, cluster in promised if profile.asks_gpu == kind]
        return [name for name in self.fleet.candidates(job.profile) if taken.count(name) < self.policy.reservations]

    def _reserve(self, job: Job, reservation: Reservation | None, blocked: Blocked) -> bool:
        """Keep the room, and say so; or say why the job waits without."""
        if reservation is None or not self.horizon.promise(job, reservation):
            self.verdicts[job.id] = self._blocked(job, blocked)
            return False
        facts: dict[str, Fact] = {
            "cluster": reservation.cluster,
            "start": reservation.start_ms / 1000,
            "nodes": sorted({task.node for task in reservation.tasks}),
            "assumed": not reservation.is_firm,
            "dimension": blocked.shortage.dimension,
            **_would_evict(blocked),
        }
        self.verdicts[job.id] = Waiting(reason=Reason.RESERVED, facts=facts, estimate_ms=reservation.start_ms)
        return True

    # -- writing it down -------------------------------------------------------------------------------

    def _admit(self, job: Job, attempt: int, charge: int, cluster: str, reservation: Reservation | None) -> None:
        self.ledger.admit(job, charge)
        self.actions.append(Admit(job=job.id, attempt=attempt, cluster=cluster, charge=charge, reservation=reservation))

    def _start(self, job: Job, attempt: int, placed: Placed) -> None:
        for unit in _by_run(placed.units):
            self._evict(unit, job)
        # Room taken by right of preemption is not borrowed from any promise.
        overtook = () if placed.units else self.horizon.overtaken_by(job, placed.tasks)
        run = Running(
            job=job,
            attempt=attempt,
            cluster=placed.cluster,
            started_ms=self.now_ms,
            tasks=placed.tasks,
            overtook=overtook,
        )
        if placed.units:
            self.horizon.keeps_promises_beside(run)
        else:
            self.horizon.started(run)
        self.ledger.start(job, placed.tasks)
        self.starts += 1
        self.actions.append(
            Start(
                job=job.id,
                queue=job.queue,
                attempt=attempt,
                cluster=placed.cluster,
                tasks=placed.tasks,
                overtook=overtook,
                by_preemption=bool(placed.units),
            )
        )
        self.verdicts[job.id] = Started(cluster=placed.cluster, tasks=placed.tasks)

    def _evict(self, unit: Unit, head: Job) -> None:
        run = unit.run
        self.ledger.evict(run, unit.tasks, whole=unit.whole)
        self.evicted += 1
        self.full.clear()
        self.evictions.append(
            Evict(job=run.job.id, attempt=run.attempt, tasks=unit.tasks, whole=unit.whole, rule=unit.rule, by=head.id)
        )
        self.verdicts[run.job.id] = Victim(rule=unit.rule, by=head.id, whole=unit.whole)

    def _blocked(self, job: Job, blocked: Blocked) -> Waiting:
        shortage = blocked.shortage
        facts: dict[str, Fact] = {
            "dimension": shortage.dimension,
            "short": shortage.short,
            "matching": shortage.matching,
            "placed": shortage.placed,
            "needed": shortage.needed,
            **_would_evict(blocked),
        }
        if shortage.dimension == "clusters":
            facts["case"] = "nothing"
        if blocked.only_delays:
            facts["reserved"] = sorted(self.horizon.promised)
            bound_ms = self.policy.bound_ms(job)
            facts["runs"] = None if bound_ms is None else bound_ms / 1000
            return Waiting(reason=Reason.WOULD_DELAY, facts=facts)
        alone = job.profile.tasks_min == 1
        return Waiting(reason=Reason.NO_ROOM if alone else Reason.GANG_DOES_NOT_FIT, facts=facts)

    def _never(self, job: Job, shortage: Shortage) -> Waiting:
        """No empty cluster would do: what was asked, and the most there is on any node that suits."""
        request, name = shortage.group.request, shortage.dimension
        suits = [
            node
            for cluster in self.fleet.candidates(job.profile, silent=True)
            for node in self.fleet.matching(cluster, shortage.group.constraint)
        ]
        most = max((node.empty().free.get(name) for node in suits), default=0)
        is_fraction = name == GPU and request.gpu_milli < DEVICE_MILLI
        facts: dict[str, Fact] = {
            "dimension": name,
            "asked": f"{request.gpus} x {request.gpu_milli}m" if is_fraction else _asked(request, name),
            "most": format_amount(name, most),
            "group": shortage.group.name,
            "placed": shortage.placed,
            "needed": shortage.needed,
            "matching": len(suits),
            "case": _case(shortage, most),
        }
        return Waiting(reason=Reason.NEVER_FITS, facts=facts)

    # -- 5. closing ------------------------------------------------------------------------------------

    def close(self) -> Plan:
        """The plan, evictions first."""
        for held in sorted(self.snapshot.held, key=lambda held: held.job.key):
            reason = Reason.DEPENDENCY_FAILED if held.failed else Reason.DEPENDENCY
            after = list(held.failed or held.waits_for)
            self.verdicts[held.job.id] = Waiting(reason=reason, facts={"after": after})
        return Plan(
            now_ms=self.now_ms,
            actions=(*self.evictions, *self.actions),
            verdicts=self.verdicts,
            heads=self.heads,
            wake_ms=next_wake(self.snapshot, self.ledger, self.horizon, self.verdicts, self.limited, self.contests),
        )


def _scarce(shortage: Shortage) -> str:
    """The resource that blocks a head; for want of whole nodes or closeness, the dearest it asks for."""
    asks = shortage.group.request.resources
    if asks.get(shortage.dimension):
        return shortage.dimension
    return GPU if asks.get(GPU) else CPU


def _asked(request: Request, name: str) -> str:
    return format_amount(name, request.resources.get(name))


def _case(shortage: Shortage, most: int) -> str:
    """Which sentence says why the job can never start."""
    if shortage.dimension in ("nodes", "clusters"):
        return "nothing"
    if shortage.dimension in ("nodeSelector", "affinity", "taint"):
        return "refused"
    if shortage.dimension == "topology":
        return "topology"
    return "amount" if shortage.group.request.resources.get(shortage.dimension) > most else "count"


def _would_evict(blocked: Blocked) -> dict[str, Fact]:
    """What preemption would do if it were not on trial only."""
    names = sorted({unit.run.job.id for unit in blocked.would_evict})
    return {"wouldEvict": names} if names else {}


def _firm(reservation: Reservation | None) -> Reservation | None:
    """What is worth keeping: a promise that rests on guesses is made anew every turn."""
    return reservation if reservation is not None and reservation.is_firm else None


def _by_run(units: tuple[Unit, ...] | list[Unit]) -> list[Unit]:
    """The tasks of one job go together."""
    grouped: dict[str, Unit] = {}
    for unit in units:
        if (first := grouped.get(unit.run.job.id)) is not None:
            unit = Unit(run=unit.run, tasks=(*first.tasks, *unit.tasks), whole=unit.whole, rule=unit.rule)
        grouped[unit.run.job.id] = unit
    return list(grouped.values())
