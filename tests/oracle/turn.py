"""One turn: from a frozen snapshot to a plan.

1. Open the books: flows and shares as of now.
2. Keep promises: pending jobs, highest class and first admitted first, start or get their reservation renewed.
3. Hear the aged: who has waited for very long takes a free reservation ahead of class and flow.
4. Fill progressively: whose flow per weight would be smallest with its head? Start it, or make room for
   it by preemption, or reserve, or set its profile aside -- until heads run out or limits bite.
5. Close: one verdict each, and when to look again if nothing happens.

Steps 2 to 4 make a round. What one round did may open a way for another job, so there are rounds until one
changes nothing: then the same moment planned again gives an empty plan.

Pure. Why this order: docs/adr/0005-reservations-and-backfill.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from muster.model.jobs import Job, Pending, Reservation, Running
from muster.model.names import NameKey
from muster.model.plan import (
    Action,
    Admit,
    Evict,
    Plan,
    Promise,
    Return,
    Standing,
    Start,
    Started,
    Verdict,
    Victim,
    Waiting,
)
from muster.model.policy import Preemption
from muster.model.reasons import Reason
from muster.model.resources import CPU, GPU
from muster.model.snapshot import Snapshot
from oracle import waiting
from oracle.drains import exchanged
from oracle.finder import Finder, Placed
from oracle.horizon import Horizon
from oracle.ledger import Ledger
from oracle.limits import Limit, charge_for, limit_on, standing_limit_on
from oracle.line import Line
from oracle.placement import never_fits
from oracle.shares import shares
from oracle.victims import Claims, Unit, by_run
from oracle.waiting import Blocked
from oracle.wake import next_wake


def plan(snapshot: Snapshot) -> Plan:
    """Decide one turn."""
    turn = _Turn(snapshot)
    turn.go_round()
    while turn.may_change_more():
        turn.go_round()
    return turn.close()


class _Turn:
    """The books of one turn. Every step reads what the steps before it wrote."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.policy = snapshot.policy
        self.now_ms = snapshot.now_ms
        self.fleet = snapshot.fleet
        self.ledger = Ledger(snapshot, shares(snapshot))
        self.finder = Finder(snapshot, self.ledger)
        self.pending = {it.job.id: it for it in sorted(snapshot.pending, key=lambda pending: pending.line)}
        self.evictions: list[Action] = []
        self.actions: list[Action] = []
        self.moved: dict[str, Verdict] = {}
        self.starts = 0
        self._queues = sorted(snapshot.queues, key=lambda state: state.queue.name)

    def go_round(self) -> None:
        """Steps 2 to 4, from the books as they stand."""
        self.ledger.settle()
        self.horizon.promised.clear()
        self.finder.reopen()
        self.blocked: list[tuple[Job, Blocked]] = []
        self.reserved: list[tuple[Job, Reservation, Blocked]] = []
        self.lines = {state.queue.name: Line(state, self.policy, self.now_ms, self._is_out) for state in self._queues}
        self.waiting: dict[str, Verdict] = {}
        self.heads: dict[str, str] = {}
        self.can_start: dict[str, bool] = {}  # of queues whose jobs were looked at
        self.limited: list[tuple[Job, Reason]] = []
        self._before = (len(self.evictions), len(self.actions))
        self._heard_aged = False
        self.keep_promises()
        self.hear_the_aged()
        self.fill()

    def may_change_more(self) -> bool:
        """Whether another round could do more.

        Room that only shrinks opens nothing to anyone but the promised; and who starts brings a queue above its share.
        """
        evicted, acted = self._before
        if len(self.actions) == acted or any(reason is Reason.RATE_LIMIT for _, reason in self.limited):
            return False
        has_promises = bool(self.pending or self.horizon.promised)
        may_evict = self.policy.preemption is Preemption.ON and any(self.horizon.may_give_way.values())
        return len(self.evictions) > evicted or has_promises or may_evict or self._heard_aged

    def _is_out(self, job: Job) -> bool:
        """Whether the job stands in line no more; who was evicted at this very moment comes back at the next."""
        return job.id in self.moved or job.id in self.pending or job.id in self.snapshot.evicted

    @property
    def horizon(self) -> Horizon:
        """The room now and at every promised moment."""
        return self.finder.horizon

    # -- 2. promises -----------------------------------------------------------------------------------

    def keep_promises(self) -> None:
        """Pending jobs start if they can; else their reservation is renewed, never to a later start if it holds."""
        for pending in reversed(list(self.pending.values())):  # the last to come are the first to go
            if limit := standing_limit_on(pending.job, self.ledger):
                self._return(pending, limit.waiting)
        line = sorted(self.pending.values(), key=self._place_in_line)
        kept = {
            pending.job.id
            for pending in line
            if pending.reservation is not None
            and (pending.reservation.start_ms >= self.now_ms or not pending.reservation.is_firm)
            and self.finder.may_still_use(pending.job, pending.reservation)
            and self.horizon.promise(pending.job, pending.reservation)
        }
        for pending in line:
            old = pending.reservation if pending.job.id in kept else None
            self.horizon.withdraw(pending.job)
            self._serve_pending(pending, old)

    def _place_in_line(self, pending: Pending) -> tuple[bool, int, bool, tuple[int, int, NameKey]]:
        hold = self.policy.hold(pending.job, self.now_ms)
        return (not hold.is_for_good, -hold.priority_class, not hold.needs_gpus, pending.line)

    def _serve_pending(self, pending: Pending, old: Reservation | None) -> None:
        job = pending.job
        placed = self.finder.find(job, pending)
        if isinstance(placed, Placed):
            del self.pending[job.id]
            self._start(
                job,
                pending.attempt,
                placed,
                kept_promise=pending.admitted_ms < self.now_ms,
                is_aged=self.now_ms - job.submit_ms >= self.policy.aging_after_ms,
            )
            return
        if old is not None and not old.is_firm:
            new: Reservation | None = exchanged(self.horizon, job, old)
            if new == old or new is None or not self.horizon.promise(job, new):
                new = old
        else:
            new = self._soonest(job)
            # What holds for sure is not given up for a guess, however soon.
            if old is not None and (new is None or not new.is_firm or old.start_ms <= new.start_ms):
                new = old
        if new is None and (shortage := never_fits(self.fleet, job.profile)):
            self._return(pending, waiting.never(job, shortage, self.fleet))
            return
        if new != pending.reservation:
            self.actions.append(Promise(job=job.id, attempt=pending.attempt, reservation=new))
            self.pending[job.id] = replace(pending, reservation=new)
        self._reserve(job, new, placed)

    def _return(self, pending: Pending, verdict: Waiting) -> None:
        """The job can have no reservation any more: it goes back to its queue."""
        del self.pending[pending.job.id]
        self.actions.append(Return(job=pending.job.id, attempt=pending.attempt))
        self.ledger.leave_line(pending)
        self.moved[pending.job.id] = verdict

    # -- 3. ageing -------------------------------------------------------------------------------------

    def hear_the_aged(self) -> None:
        """Jobs that have waited past `agingAfter`, oldest first; of queues above their entitled share, past twice that.

        One of each kind takes a free reservation, or starts at once where it fits (ADR 0012).
        """
        served: set[bool] = set()
        for job in self._aged():
            holding = self.ledger.queues[job.queue]
            is_above = holding.started_usage > holding.entitled
            is_for_good = self.policy.hold(job, self.now_ms).is_for_good
            if (is_above and not is_for_good) or job.profile.asks_gpu in served:
                continue
            if self._free_slots(job) and limit_on(job, self.ledger, self.policy, self.starts) is None:
                self.heads.setdefault(job.queue, job.id)
                self._consider(job, is_aged=True)
                served.add(job.profile.asks_gpu)
        self._heard_aged = bool(served)

    def _aged(self) -> list[Job]:
        """The oldest of each lane that waited too long: one reservation each is all they could get."""
        since_ms = self.now_ms - self.policy.aging_after_ms
        oldest = [job for line in self.lines.values() for job in line.lane_heads()]
        aged = [job for job in oldest if job.submit_ms <= since_ms and not never_fits(self.fleet, job.profile)]
        return sorted(aged, key=lambda job: (job.submit_ms, job.number, job.key))

    # -- 4. filling ------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Progressive filling over the queues' heads."""
        if self.horizon.promised and not self.policy.backfill:
            return
        while (job := self._hungriest_head()) is not None:
            self.heads.setdefault(job.queue, job.id)
            if shortage := never_fits(self.fleet, job.profile):
                self.waiting[job.id] = waiting.never(job, shortage, self.fleet)
                self.can_start.setdefault(job.queue, False)
                self.lines[job.queue].set_aside(job.profile, 0)
            elif self._gives_way(job):
                self.lines[job.queue].come_late(job)
                if self.heads[job.queue] == job.id:
                    del self.heads[job.queue]
            elif limit := limit_on(job, self.ledger, self.policy, self.starts):
                self._close_queue(job, limit)
            elif not self._consider(job) and not self.policy.backfill:
                return

    def _hungriest_head(self) -> Job | None:
        offers = [job for line in self.lines.values() if (job := line.offer()) is not None]
        top = max((job.priority_class for job in offers), default=0)
        of_top = [job for job in offers if job.priority_class == top]
        in_time = [job for job in of_top if not self.lines[job.queue].is_late(job)]
        return min(in_time or of_top, key=self._hunger, default=None)

    def _gives_way(self, job: Job) -> bool:
        """Whether GPU jobs of its class come first: it asks for none, and finds room only with nodes that have some."""
        if not self.policy.gpu_first or job.profile.asks_gpu or self.lines[job.queue].is_late(job):
            return False
        if not any(lane.jobs and lane.profile.asks_gpu for state in self._queues for lane in state.lanes):
            return False
        return any(self.fleet.nodes[name].allocatable.get(GPU) for name in self.finder.at_min(job))

    def _hunger(self, job: Job) -> tuple[Fraction, Fraction, tuple[int, int], str]:
        """What is due per weight, then usage per weight with the job, then, by service, the last start; queue name."""
        holding, usage = self.ledger.queues[job.queue], self.ledger.least_usage(job)
        weight = self.policy.turn_weight(holding.weight, holding.state.habit)
        by_usage, service = Fraction(holding.usage + usage, weight), self.ledger.service
        if service is None:
            return Fraction(holding.flow_with(usage), weight), by_usage, (0, 0), holding.name
        due = Fraction(holding.started_usage * service.memory + holding.lead, weight)
        return due, by_usage, holding.last_start, holding.name

    def _close_queue(self, job: Job, limit: Limit) -> None:
        self.waiting[job.id] = limit.waiting
        self.limited.append((job, limit.waiting.reason))
        if limit.waiting.reason is Reason.RATE_LIMIT:
            self.can_start[job.queue] = True
        self.can_start.setdefault(job.queue, False)
        self.lines[job.queue].close(limit)

    def _consider(self, job: Job, *, is_aged: bool = False) -> bool:
        """Start the job, reserve for it or set its profile aside; whether it starts.

        A reservation admits the job, which keeps it then though others come first later.
        """
        self.can_start[job.queue] = True
        line, attempt = self.lines[job.queue], self.snapshot.next_attempt(job)
        placed = self.finder.find(job)
        charge = charge_for(job, self.ledger.queues[job.queue], self.ledger)
        if isinstance(placed, Placed):
            self.ledger.admit(job, charge)
            self._start(job, attempt, placed, charge=charge, is_aged=is_aged)
            line.take(job)
            return True
        reservation = self._soonest(job)
        is_reserved = self._reserve(job, reservation, placed)
        if is_reserved and reservation is not None and self.policy.order.is_by_arrival:
            self._admit(job, attempt, charge, reservation)
            self.pending[job.id] = Pending(
                job=job, attempt=attempt, admitted_ms=self.now_ms, charge=charge, reservation=reservation
            )
            line.take(job)
            if self.policy.is_conservative:
                return False  # the next of its profile may have a reservation too
        line.set_aside(job.profile, self.horizon.in_the_way_from(job) if placed.only_delays else 0)
        return False

    # -- reservations ----------------------------------------------------------------------------------

    def _soonest(self, job: Job) -> Reservation | None:
        """The best reservation the job may take: the soonest start, then the most preferred cluster."""
        claims = Claims(job, GPU if job.profile.asks_gpu else CPU, self.ledger, self.now_ms, self.policy)

        def may_evict(run: Running) -> bool:
            return self.policy.preemption is Preemption.ON and claims.right_over(run) is not None

        found = [self.horizon.soonest(job, cluster, may_evict) for cluster in self._free_slots(job)]
        # min keeps the first of equals, and the most preferred cluster comes first
        best = min((it for it in found if it is not None), key=lambda it: it.start_ms, default=None)
        return best if best is None or self._is_sure(best.cluster) else replace(best, is_firm=False)

    def _free_slots(self, job: Job) -> list[str]:
        """Clusters where the job's kind (GPU or CPU) may still have a reservation; one per profile, or for everyone."""
        binding = [it for it in self.horizon.promised.values() if self.horizon.binds(it, job)]
        promised = [(it.job.profile, it.reservation.cluster) for it in binding]
        if len(promised) >= self.policy.reservations_in_all:
            return []
        if not self.policy.is_conservative and any(profile == job.profile for profile, _ in promised):
            return []
        kind = job.profile.asks_gpu
        taken = [cluster for profile, cluster in promised if profile.asks_gpu == kind]
        return [name for name in self.fleet.candidates(job.profile) if taken.count(name) < self.policy.reservations]

    def _is_sure(self, cluster: str) -> bool:
        """Whether no promise in the cluster rests on guesses."""
        reservations = [it.reservation for it in self.horizon.promised.values()]
        return all(it.is_firm for it in reservations if it.cluster == cluster)

    def _reserve(self, job: Job, reservation: Reservation | None, blocked: Blocked) -> bool:
        """Keep the room, and say so; or say why the job waits without."""
        if reservation is None or not self.horizon.promise(job, reservation):
            if blocked.only_delays:
                self.waiting[job.id] = waiting.would_delay(job, blocked, self.horizon.promised, self.policy)
            else:
                self.blocked.append((job, blocked))
            return False
        self.reserved.append((job, self.policy.expected(reservation, self.now_ms), blocked))
        return True

    # -- writing it down -------------------------------------------------------------------------------

    def _admit(self, job: Job, attempt: int, charge: int, reservation: Reservation) -> None:
        self.ledger.admit(job, charge)
        cluster = reservation.cluster
        self.actions.append(Admit(job=job.id, attempt=attempt, cluster=cluster, charge=charge, reservation=reservation))

    def _start(
        self,
        job: Job,
        attempt: int,
        placed: Placed,
        *,
        charge: int = 0,
        kept_promise: bool = False,
        is_aged: bool = False,
    ) -> None:
        safe_ms = self.policy.protected_ms if placed.units or kept_promise else 0
        if is_aged:
            safe_ms = max(safe_ms, self.now_ms - job.submit_ms)
        for unit in by_run(placed.units):
            self._evict(unit, job)
        # Room taken by right of preemption is not borrowed from any promise.
        overtook = () if placed.by_right else self.horizon.overtake(job, placed.tasks)
        run = Running(
            job=job,
            attempt=attempt,
            cluster=placed.cluster,
            started_ms=self.now_ms,
            tasks=placed.tasks,
            protected_until_ms=self.now_ms + safe_ms if safe_ms else 0,
            overtook=overtook,
        )
        self.horizon.started(run, by_right=placed.by_right)
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
                charge=charge,
                safe_ms=safe_ms,
            )
        )
        self.moved[job.id] = Started(cluster=placed.cluster, tasks=placed.tasks)

    def _evict(self, unit: Unit, head: Job) -> None:
        run = unit.run
        self.ledger.evict(run, unit.tasks, whole=unit.whole)
        self.finder.evicted(unit)
        self.evictions.append(
            Evict(job=run.job.id, attempt=run.attempt, tasks=unit.tasks, whole=unit.whole, rule=unit.rule, by=head.id)
        )
        self.moved[run.job.id] = Victim(rule=unit.rule, by=head.id, whole=unit.whole)

    # -- 5. closing ------------------------------------------------------------------------------------

    def close(self) -> Plan:
        """The plan, evictions first."""
        self._say_what_is_short()
        for job_id in sorted(self.snapshot.evicted):
            self.waiting[job_id] = Waiting(reason=Reason.JUST_EVICTED)
        for held in sorted(self.snapshot.held, key=lambda held: held.job.key):
            self.waiting[held.job.id] = waiting.held(held)
        pending = self.pending.values()
        wake_ms = next_wake(self.snapshot, pending, self.ledger, self.horizon, self.waiting, self.limited)
        return Plan(
            now_ms=self.now_ms,
            actions=(*self.evictions, *self._lasting_actions()),
            verdicts=self.moved | self.waiting,
            heads=self.heads,
            wake_ms=wake_ms,
            standing=self._standing(),
        )

    def _standing(self) -> Standing:
        """Who came to stand in line, and who can start nobody."""
        service = self.ledger.service
        if service is None:
            return Standing()
        entered, closed = list[tuple[str, int]](), list[str]()
        for state in self._queues:
            name = state.queue.name
            if not any(lane.jobs for lane in state.lanes):
                continue
            may_start, enters = self.can_start.get(name, True), name in service.entering
            comes = enters and (may_start or self.ledger.queues[name].starts > 0)
            if comes:
                entered.append((name, service.entering[name]))
            if not may_start and (comes or not enters):
                closed.append(name)
        return Standing(tuple(entered), tuple(closed))

    def _say_what_is_short(self) -> None:
        """What blocked jobs lack, as the turn leaves the nodes."""
        for job, blocked in self.blocked:
            self.waiting[job.id] = waiting.blocked(job, blocked, self.finder.shortage(job.profile))
        for job, reservation, blocked in self.reserved:
            shortage = None if blocked.only_delays else self.finder.shortage(job.profile)
            self.waiting[job.id] = waiting.reserved(reservation, blocked, shortage)

    def _lasting_actions(self) -> Iterator[Action]:
        """What comes of all rounds: who was promised something and starts after all has no use for the promise."""
        last = {action.job: action for action in self.actions if isinstance(action, Promise)}
        started = {action.job for action in self.actions if isinstance(action, Start)}
        for action in self.actions:
            if isinstance(action, Admit) and action.job in started:
                yield action._replace(reservation=None)
            elif not isinstance(action, Promise) or (action.job in self.pending and last[action.job] is action):
                yield action
