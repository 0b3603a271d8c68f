"""One turn of one pool: from a frozen snapshot to what is to be done.

1. Open the books: flows and shares as of now.
2. Keep promises: pending jobs, highest class and first admitted first, start or get their reservation renewed.
3. Hear the aged: who has waited for very long takes a free reservation ahead of class and flow.
4. Fill progressively: whose flow per weight would be smallest with its head? Start it, or make room for
   it by preemption, or reserve, or set its profile aside -- until heads run out or limits bite.
5. Set widths: elastic jobs take what nobody who waits can use (muster.engine.elastic).
6. Close: one verdict each, and when to look again if nothing happens (closing.py).

Steps 2 to 4 make a round. What one round did may open a way for another job, so there are rounds until one
changes nothing: then the same moment planned again gives an empty plan.

Pure. Why this order: docs/adr/0005-reservations-and-backfill.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from muster.engine import waiting
from muster.engine.drains import exchanged
from muster.engine.elastic.width import Cut
from muster.engine.field import field_of
from muster.engine.filled import Filled
from muster.engine.finder import Finder, Placed
from muster.engine.garbage import in_one_go
from muster.engine.horizon import Horizon
from muster.engine.kernels.filling import NO_ROOM, OVER_SHARE, Care, Field
from muster.engine.ledger import Ledger
from muster.engine.limits import Limit, charge_for, limit_on, standing_limit_on
from muster.engine.lines import Lines
from muster.engine.minutes import Asides, Minutes, Round, never_of
from muster.engine.mover import Mover
from muster.engine.never_fits import never_fits
from muster.engine.opening import Opened
from muster.engine.slots import Slots
from muster.engine.stays import Started, Stays
from muster.engine.victims import Unit, by_run
from muster.engine.waiting import Blocked
from muster.engine.wake import next_wake
from muster.model import plan as plans
from muster.model.jobs import Job, Pending, Reservation, Running
from muster.model.names import NameKey
from muster.model.plan import Admit, Evict, Promise, Return, Start, Victim, Waiting
from muster.model.policy import Preemption
from muster.model.reasons import Reason
from muster.model.snapshot import Snapshot


class Turn:
    """The books of one pool's turn. Every step reads what the steps before it wrote.

    The snapshot's fleet is all there is for it: a part of the whole fleet, or all of it where there are no pools.
    """

    def __init__(self, snapshot: Snapshot, opened: Opened, ledger: Ledger) -> None:
        self.snapshot = snapshot
        self.policy = snapshot.policy
        self.now_ms = snapshot.now_ms
        self.fleet = snapshot.fleet
        self.whole = snapshot.whole
        self.ledger = ledger
        self.roll, shapes, face = opened.roll, opened.shapes, opened.face
        borrowers = opened.borrowers_in(snapshot)
        stays = Stays(opened.runs, self.roll, self.policy, self.now_ms, self.fleet, self.whole, borrowers)
        self.finder = Finder(snapshot, opened, ledger, stays)
        self.slots = Slots(snapshot, ledger, self.roll, self.finder)
        ours = whose = None
        if self.whole.pools:
            ours, whose = shapes.homes(self.whole) == list(self.whole.parts).index(self.fleet.pool.name), self.fleet
        self.lines = Lines(self.roll, shapes, self.policy, self.now_ms, face, len(self.fleet.nodes), ours, whose)
        self.lines.leave_out(snapshot.evicted)
        self.pending = {it.job.id: it for it in sorted(snapshot.pending, key=lambda pending: pending.line)}
        self._waited = len(self.roll) + len(opened.snapshot.pending)  # in any pool, when the turn began
        self.minutes = Minutes()
        self._care_as_of: object = None
        self.mover = Mover(snapshot)

    def settle(self) -> None:
        """Steps 2 to 4 until nothing changes any more."""
        self.make_way()
        self.settle_again()

    def settle_again(self) -> None:
        """The same once more: something has changed for others, or someone left."""
        self.go_round()
        while self.may_change_more() or self.make_way():
            self.go_round()

    def go_round(self) -> None:
        """Steps 2 to 4, from the books as they stand."""
        self.ledger.settle()
        self.horizon.promised.clear()
        self.lines.reopen()
        self.finder.reopen()
        self.finder.width.reopen()
        self.round = Round()
        self._before = (self.minutes.gave_way, self.minutes.changes)
        self.heard_aged = False
        self.move()
        self.keep_promises()
        self.hear_the_aged()
        self.fill()

    def may_change_more(self) -> bool:
        """Whether another round could do more.

        Room that only shrinks opens nothing to anyone but the promised; and who starts brings a queue above its share.
        """
        evicted, acted = self._before
        if self.minutes.changes == acted or Reason.RATE_LIMIT in self.round.reasons:
            return False
        if self.minutes.gave_way > evicted:
            return True
        return self.may_answer()

    def may_answer(self) -> bool:
        """Whether it could matter to anyone here that queues hold more or less than before."""
        has_promises = bool(self.pending or self.horizon.promised)
        may_evict = self.policy.preemption is Preemption.ON and self.horizon.stays.has_givers
        return has_promises or may_evict or self.heard_aged

    @property
    def horizon(self) -> Horizon:
        """The room now and at every promised moment."""
        return self.finder.horizon

    def move(self) -> None:
        """Jobs in clusters they would rather not be in go to better ones, unless room is promised for good."""
        if not self.pending:
            self.mover.move(self.finder, self.minutes)

    # -- 2. promises -----------------------------------------------------------------------------------

    def keep_promises(self) -> None:
        """Pending jobs start if they can; else their reservation is renewed, never to a later start if it holds."""
        for pending in reversed(list(self.pending.values())):  # the last to come are the first to go
            if limit := standing_limit_on(pending.job, self.ledger):
                self._return(pending, limit.waiting)
        line = sorted(self.pending.values(), key=self._place_in_line)
        lasting = [
            (pending.job, pending.reservation)
            for pending in line
            if pending.reservation is not None
            and (pending.reservation.start_ms >= self.now_ms or not pending.reservation.is_firm)
            and self.finder.may_still_use(pending.job, pending.reservation)
        ]
        if len(line) == 1:  # then nobody else minds whether it is kept: it is looked at if nothing better is found
            self._serve_pending(line[0], lasting[0][1] if lasting else None, is_sole=True)
            return
        kept = self.horizon.promise_all(lasting)
        for pending in line:
            old = pending.reservation if pending.job.id in kept else None
            self.horizon.withdraw(pending.job)
            self._serve_pending(pending, old)

    def _place_in_line(self, pending: Pending) -> tuple[bool, int, bool, tuple[int, int, NameKey]]:
        """First those that hold their nodes most firmly; of equals, who was admitted first."""
        hold = self.policy.hold(pending.job, self.now_ms)
        return (not hold.is_for_good, -hold.priority_class, not hold.needs_gpus, pending.line)

    def _serve_pending(self, pending: Pending, old: Reservation | None, *, is_sole: bool = False) -> None:
        """Start the job, or promise it room. If it is the only one with a promise, that may turn out not to hold."""
        job = pending.job
        placed = self.finder.find(job, pending)
        if isinstance(placed, Placed):
            del self.pending[job.id]
            is_aged = self.now_ms - job.submit_ms >= self.policy.aging_after_ms
            is_kept = pending.admitted_ms < self.now_ms
            self._start(job, pending.attempt, placed, kept_promise=is_kept, is_aged=is_aged)
            return
        new = self._renewed(job, old, is_sole=is_sole)
        if new is None and never_fits(self.whole, job.profile):
            self._return(pending, never_of(job.profile, self.fleet, self.whole))
            return
        if new != pending.reservation:
            self.minutes.act(Promise(job=job.id, attempt=pending.attempt, reservation=new))
            self.pending[job.id] = replace(pending, reservation=new)
        self._reserve(job, new, placed)

    def _renewed(self, job: Job, old: Reservation | None, *, is_sole: bool) -> Reservation | None:
        """What the job was promised, unless there is any sooner that holds for sure; a drain keeps its nodes, but for
        those that it exchanges."""
        if old is None:
            return self.slots.soonest(job)
        if old.is_firm:
            new = self.slots.soonest(job, old.start_ms)
            if new is not None and new.is_firm:
                return new
        elif (new := exchanged(self.horizon, job, old)) is not old and self.horizon.promise(job, new):
            return new
        return old if not is_sole or self.horizon.promise(job, old) else self.slots.soonest(job)

    def _return(self, pending: Pending, verdict: Waiting) -> None:
        """The job can have no reservation any more: it goes back to its queue."""
        del self.pending[pending.job.id]
        self.minutes.act(Return(job=pending.job.id, attempt=pending.attempt))
        self.ledger.leave_line(pending)
        self.minutes.moved(pending.job.id, verdict)

    # -- 3. ageing -------------------------------------------------------------------------------------

    def hear_the_aged(self) -> None:
        """Jobs that have waited past `agingAfter`, oldest first; of queues above their entitled share, past twice that.

        One of each kind takes a free reservation, or starts at once where it fits (ADR 0012).
        """
        served: set[bool] = set()
        for job in self._aged():
            if job.profile.asks_gpu in served or not self.slots.free_for(job):
                continue
            holding = self.ledger.queues[job.queue]
            if holding.started_usage > holding.entitled and not self.policy.hold(job, self.now_ms).is_for_good:
                continue
            if limit_on(job, self.ledger, self.policy, self.minutes.starts) is None:
                self.lines.look_at(job)
                self._consider(job, is_aged=True)
                served.add(job.profile.asks_gpu)
        self.heard_aged = bool(served)

    def _aged(self) -> list[Job]:
        """The oldest of each lane that waited too long: one reservation each is all they could get."""
        since_ms = self.now_ms - self.policy.aging_after_ms
        aged = [job for job in self.lines.submitted_by(since_ms) if not never_fits(self.whole, job.profile)]
        return sorted(aged, key=lambda job: (job.submit_ms, job.number, job.key))

    # -- 4. filling ------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Progressive filling over the queues' heads."""
        if self.horizon.promised and not self.policy.backfill:
            return
        field = field_of(self.horizon)
        while (job := self._fill_by_itself(field)) is not None:
            if limit := limit_on(job, self.ledger, self.policy, self.minutes.starts):
                if not self._starts_by_quota(job, limit):
                    self._close_queue(job, limit)
                    continue
            elif not self._consider(job) and not self.policy.backfill:
                break
            field = field_of(self.horizon)

    def _fill_by_itself(self, field: Field) -> Job | None:
        """Let filling go on as far as it can by itself; the head that needs a careful look, None at the end."""
        job = self.lines.next_to_look_at(self.ledger.columns, self._care(), field, self.minutes.starts)
        if self.lines.has_started:
            self._note_started(self.lines.started())
        if self.lines.has_left_aside:
            self._note_set_aside(self.lines.left_aside(sorted(self.horizon.promised)))
        return job

    def _note_started(self, started: Started) -> None:
        """Filling started jobs by itself: the ledger and the rooms are written already."""
        grounds = self.horizon.now.books.grounds
        filled = Filled(started, self.roll, self.ledger.shapes, grounds, self.snapshot.attempts)
        self.horizon.stays.start_all(started, grounds)
        self.finder.started(len(started.tasks))
        self.minutes.fill(filled)

    def _note_set_aside(self, asides: Asides) -> None:
        """Filling set jobs aside by itself."""
        for number in set(asides.profiles[asides.why == NO_ROOM].tolist()):
            self.finder.note_full(self.roll.profiles.names[number])
        over = (asides.why == OVER_SHARE).nonzero()[0]
        for queue, profile in zip(asides.queues[over].tolist(), asides.profiles[over].tolist(), strict=True):
            usage = int(self.ledger.shapes.usage[profile])
            self.round.limited.append((self.roll.queues.names[queue], usage, Reason.OVER_SHARE))
        self.round.set_aside(asides)

    def _care(self) -> Care:
        """Whom filling must not set aside by itself: who may reserve, or may take from others."""
        may_take = self.finder.may_anyone_give_way(), self.finder.width.may_anyone_shrink()
        books = (
            self.minutes.changes,
            len(self.minutes.evictions),
            [(it.job.id, it.reservation) for it in self.horizon.promised.values()],
            may_take,
        )
        if self._care_as_of != books:
            self._care_as_of, self._last_care = books, self._who_needs_care()
        return self._last_care

    def _who_needs_care(self) -> Care:
        kinds = [1, 1] if self.finder.width.may_anyone_shrink() else self.slots.by_kind()
        aged_ms = self.now_ms - self.policy.aging_after_ms
        takers = self.finder.who_may_take(partial(self.lines.gangs_by, aged_ms))
        above = self.horizon.yields_above()
        return self.lines.care(kinds, takers, yields_above=above, asks_planner=self.ledger.asks_planner)

    def _close_queue(self, job: Job, limit: Limit) -> None:
        self.round.limit(job, self.ledger.least_usage(job), limit.waiting)
        self.lines.close(job.queue, limit)

    def _starts_by_quota(self, job: Job, limit: Limit) -> bool:
        """Whether the job starts after all, since others of its queue or user shrink for its quota."""
        placed = self.finder.by_quota(job) if limit.waiting.reason in (Reason.QUOTA, Reason.USER_QUOTA) else None
        if placed is None:
            return False
        charge = charge_for(job, self.ledger.queues[job.queue], self.ledger)
        self.ledger.admit(job, charge)
        self._start(job, self.snapshot.next_attempt(job), placed, charge=charge)
        self.lines.take(job)
        return True

    def _consider(self, job: Job, *, is_aged: bool = False) -> bool:
        """Start the job, reserve for it or set its profile aside; whether it starts.

        A reservation admits the job, which keeps it then though others come first later. Nobody is admitted where jobs
        do not come in the order of their arrival: who is first may not be in the next turn.
        """
        attempt = self.snapshot.next_attempt(job)
        placed = self.finder.find(job)
        charge = charge_for(job, self.ledger.queues[job.queue], self.ledger)
        if isinstance(placed, Placed):
            self.ledger.admit(job, charge)
            self._start(job, attempt, placed, charge=charge, is_aged=is_aged)
            self.lines.take(job)
            return True
        reservation = self.slots.soonest(job)
        is_reserved = self._reserve(job, reservation, placed)
        goes_on = False  # whether the next of its profile may have a reservation too
        if is_reserved and reservation is not None and self.policy.order.is_by_arrival:
            goes_on = self.policy.is_conservative
            self._admit(job, attempt, charge, reservation)
            self.pending[job.id] = Pending(
                job=job, attempt=attempt, admitted_ms=self.now_ms, charge=charge, reservation=reservation
            )
            self.lines.take(job)
        if not goes_on:
            self.lines.set_aside(job, self.horizon.in_the_way_from(job) if placed.only_delays else 0)
        if not placed.only_delays:
            self.lines.note_full(job.profile)
            if (resource := self.finder.known_scarce(job.profile)) is not None:
                self.lines.note_scarce(job.profile, resource, self.minutes.starts)
        return False

    # -- reservations ----------------------------------------------------------------------------------

    def _reserve(self, job: Job, reservation: Reservation | None, blocked: Blocked) -> bool:
        """Keep the room, and say so; or say why the job waits without."""
        if reservation is None or not self.horizon.promise(job, reservation):
            if blocked.only_delays:
                bound_ms = self.policy.bound_ms(job)
                self.round.say(job.id, waiting.would_delay(bound_ms, blocked, self.horizon.promised))
            else:
                self.round.block(job, blocked)
            return False
        self.round.reserve(job, self.policy.expected(reservation, self.now_ms), blocked)
        return True

    # -- writing it down -------------------------------------------------------------------------------

    def _admit(self, job: Job, attempt: int, charge: int, reservation: Reservation) -> None:
        self.ledger.admit(job, charge)
        cluster = reservation.cluster
        self.minutes.act(Admit(job=job.id, attempt=attempt, cluster=cluster, charge=charge, reservation=reservation))

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
        for unit in by_run(placed.units):
            self._evict(unit, job)
        self._shrink(placed.cuts)
        # Room taken by right of preemption is not borrowed from any promise.
        overtook = () if placed.by_right else self.horizon.overtake(job, placed.tasks)
        is_owed = bool(placed.units) or kept_promise
        safe_ms = self.policy.safe_ms(job, self.now_ms, is_owed=is_owed, is_aged=is_aged)
        run = Running(
            job=job,
            attempt=attempt,
            cluster=placed.cluster,
            started_ms=self.now_ms,
            tasks=placed.tasks,
            protected_until_ms=self.now_ms + safe_ms if safe_ms else 0,
            overtook=overtook,
        )
        if placed.by_right:
            self.horizon.start_by_right(run, is_in_place=placed.is_in_place)
        else:
            self.horizon.start(run)
        self.ledger.start(job, placed.tasks)
        self.finder.started(len(placed.tasks))
        self.minutes.starts += 1
        self.minutes.act(
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
        self.minutes.moved(job.id, plans.Started(cluster=placed.cluster, tasks=placed.tasks))

    def _evict(self, unit: Unit, head: Job) -> None:
        run = unit.run
        self.ledger.evict(run, unit.tasks, whole=unit.whole)
        self.finder.width.gone(run.job.id)
        self.finder.gave_way(unit)
        self.lines.forget_full()
        self.minutes.evict(
            Evict(job=run.job.id, attempt=run.attempt, tasks=unit.tasks, whole=unit.whole, rule=unit.rule, by=head.id)
        )
        self.minutes.moved(run.job.id, Victim(rule=unit.rule, by=head.id, whole=unit.whole))

    # -- 5. width --------------------------------------------------------------------------------------

    def make_way(self) -> bool:
        """Elastic jobs shrink where more is in use than may be; whether that, or what is withheld, changed any room."""
        cuts = self.finder.width.make_way(self.horizon)
        self._shrink(cuts)
        withheld = self.horizon.withheld
        is_moved = withheld is not None and withheld.keep()
        if is_moved:
            self.finder.withheld()
            self.lines.forget_full()
        return bool(cuts) or is_moved

    def grow(self) -> None:
        """Elastic jobs take what nobody who waits can use; whoever only waits for the next turn could use all."""
        if Reason.RATE_LIMIT not in self.round.reasons:
            is_anyone_left = self._waited > int(self.ledger.columns.starts.sum())
            with in_one_go():
                self.finder.width.grow(self.horizon, anyone_waits=is_anyone_left or bool(self.minutes.evictions))
            self.finder.grew()

    def _shrink(self, cuts: Iterable[Cut]) -> None:
        """Tasks above min are given up: the rooms are written already."""
        for cut in cuts:
            self.ledger.evict(cut.run, cut.tasks, whole=False)
            self.finder.evicted(len(cut.tasks))
            self.lines.forget_full()
            self.minutes.shrink()

    # -- 6. closing ------------------------------------------------------------------------------------

    def wakes_ms(self, others: set[Reason]) -> tuple[int | None, int | None]:
        """When time alone could change what was said of those who wait, and when a width or a place of those who run;
        `others` wait as well."""
        self.round.reasons |= others
        self.round.tell(self.roll, self.ledger, self.finder.shortage)
        waits_ms = next_wake(self.snapshot, self.pending.values(), self.ledger, self.horizon, self.lines, self.round)
        widths_ms, moves_ms = self.finder.width.wake_ms(self.horizon), self.mover.wake_ms(self.horizon)
        return waits_ms, min((it for it in (widths_ms, moves_ms) if it is not None), default=None)
