"""Borrowing: jobs that found no room at home start on idle nodes of other pools, one at a time (design.md 5.3).

A pool that shares lends the room that its own jobs do not need (lendable.py). For jobs without GPUs pools without any
come first; then the one with most idle of what the job asks for, then the one with the fewest tasks, then by name. A
job goes only to clusters that have its own pool. Borrowers take nothing but free room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from muster.engine.filled import Filled
from muster.engine.ledger import Ledger
from muster.engine.limits import charge_for, limit_on, widths_within_quota
from muster.engine.lines import NOBODY_TAKES, Lines
from muster.engine.minutes import Minutes, Round
from muster.engine.opening import Opened
from muster.engine.placement import Placer, Shortage, Tasks
from muster.engine.pools.lending import Lending, waits_for_room
from muster.engine.rooms import Span
from muster.engine.turn import Turn
from muster.engine.waiting import Blocked
from muster.model import plan as plans
from muster.model.jobs import Job, Profile, Running, resources_of
from muster.model.plan import Start
from muster.model.reasons import Reason
from muster.model.snapshot import Snapshot


class Borrowing:
    """The second phase of a turn: whoever may borrows from those who lend. `minutes`: what came of it; `round`: what
    there is to say of those who were only looked at here, because others of their kind could borrow."""

    def __init__(self, snapshot: Snapshot, opened: Opened, turns: Sequence[Turn], ledger: Ledger) -> None:
        self._snapshot = snapshot
        self._opened = opened
        self._turns = turns
        self._ledger = ledger
        self.round, self._homes = Round(), set[str]()
        self.minutes = Minutes()
        self.minutes.starts = int(ledger.columns.starts.sum())
        self._lent_as_of: tuple[list[Turn], int] | None = None

    def lend(self) -> set[str]:
        """Let everyone borrow who may, first those who were admitted, then in the order of filling; returns the pools
        whose jobs did."""
        lenders = [turn for turn in self._turns if self._lends(turn)]
        borrowers = [turn for turn in self._turns if turn.fleet.pool.borrows and waits_for_room(turn)]
        as_of = (lenders, self.minutes.changes + sum(turn.minutes.changes for turn in self._turns))
        if as_of == self._lent_as_of:  # whoever could borrow then has done so
            return set()
        self._lent_as_of = as_of
        self.round, self._homes = Round(), set[str]()
        if not lenders or not borrowers:
            return set()
        self._lending = Lending(self._snapshot, self._opened, self._turns, lenders)
        self._serve_pending(borrowers)
        self._fill()
        if self._homes:
            self._lending.give_back()
        return self._homes

    def _lends(self, turn: Turn) -> bool:
        """Whether the pool shares and has nodes, and none of its own jobs only waits for the next turn to take them."""
        pool, home = turn.fleet.pool, self._snapshot.fleet.home
        if not pool.shares or not turn.fleet.nodes or Reason.RATE_LIMIT in turn.round.reasons:
            return False
        return all(home(profile) != pool.name for profile in self._just_evicted())

    def _just_evicted(self) -> Iterator[Profile]:
        """The profiles of those who were sent away at this moment, and come back at the next."""
        roll, who = self._opened.roll, self._opened.runs
        for job_id in self._snapshot.evicted:
            if job_id in roll.row_of:
                yield roll.job(roll.row_of[job_id]).profile
        whole = [it.job for turn in self._turns for it in turn.minutes.evictions if it.whole]
        for row in who.rows_of(whole):
            run = who.table.who[row]
            assert isinstance(run, Running), f"{run!r} was evicted"
            yield run.job.profile

    # -- who was admitted ------------------------------------------------------------------------------

    def _serve_pending(self, borrowers: Sequence[Turn]) -> None:
        line = [(pending, turn) for turn in borrowers for pending in turn.pending.values()]
        for pending, turn in sorted(line, key=lambda it: it[0].line):
            found = self._place(pending.job, is_admitted=True)
            if found is not None:
                del turn.pending[pending.job.id]
                turn.horizon.withdraw(pending.job)
                # What its own pool promised and what comes of it stand in one book: then it just starts.
                turn.minutes.act(self._start(pending.job, pending.attempt, *found))

    # -- who stands in line ----------------------------------------------------------------------------

    def _fill(self) -> None:
        snapshot, opened, lending = self._snapshot, self._opened, self._lending
        nodes = len(snapshot.fleet.nodes)
        lines = Lines(
            opened.roll, opened.shapes, snapshot.policy, snapshot.now_ms, opened.face, nodes, lending.borrowers()
        )
        for turn in self._turns:
            lines.leave_out_those_of(turn.lines)
        lines.reopen()
        care = lines.care([0, 0], NOBODY_TAKES)
        while True:
            job = lines.next_to_look_at(self._ledger.columns, care, lending.field(), self.minutes.starts)
            self._note(lines)
            if lines.has_left_aside:
                self.round.set_aside(lines.left_aside(()))
            if job is None:
                break
            limit = limit_on(job, self._ledger, snapshot.policy, self.minutes.starts)
            if limit is not None:
                self.round.limit(job, self._ledger.least_usage(job), limit.waiting)
                lines.close(job.queue, limit)
            elif (found := self._place(job, is_admitted=False)) is not None:
                charge = charge_for(job, self._ledger.queues[job.queue], self._ledger)
                self._ledger.admit(job, charge)
                self.minutes.act(self._start(job, snapshot.next_attempt(job), *found, charge=charge))
                self.minutes.starts += 1
                lines.take(job)
            else:
                self.round.block(job, Blocked(only_delays=False))
                lines.set_aside(job, 0)

        for turn in self._turns if self._homes else ():
            turn.lines.leave_out_those_of(lines)

    def tell(self) -> None:
        """The turn is over: what is short is short at home."""
        turns = {turn.fleet.pool.name: turn for turn in self._turns}

        def shortage(profile: Profile) -> Shortage:
            return turns[self._snapshot.fleet.home(profile)].finder.shortage(profile)

        self.round.tell(self._opened.roll, self._ledger, shortage)

    def _note(self, lines: Lines) -> None:
        """Filling started jobs by itself: the ledger and the rooms are written already."""
        started = lines.started()
        if len(started.rows):
            opened, clusters = self._opened, [cluster for cluster, _ in self._lending.places]
            grounds, attempts = self._lending.grounds, self._snapshot.attempts
            profiles = np.unique(opened.roll.columns().lane_profile[opened.roll.lanes_in(started.rows)])
            self._homes |= {self._snapshot.fleet.home(opened.shapes.profiles.names[it]) for it in profiles.tolist()}
            self.minutes.fill(Filled(started, opened.roll, opened.shapes, grounds, attempts, clusters))

    # -- one job ---------------------------------------------------------------------------------------

    def _place(self, job: Job, *, is_admitted: bool) -> tuple[int, Tasks] | None:
        """The area where the job can start, and its tasks there, which have taken their room."""
        widths = widths_within_quota(job, self._ledger, is_admitted=is_admitted)
        placer, names = Placer(Span([self._lending.rooms])), self._lending.grounds.cluster_names
        for area in self._lending.areas_for(job.profile):
            if not self._lending.may_lend(area, job.profile.least):
                continue
            mark, tasks = placer.span.mark(), placer.place(job.profile, names[area], widths)
            if tasks is not None and not self._lending.may_lend(area, resources_of(job.profile, tasks)):
                placer.span.undo(mark)
                tasks = placer.place(job.profile, names[area], job.profile.least_widths)
            if tasks is not None:
                return area, tasks
        return None

    def _start(self, job: Job, attempt: int, area: int, tasks: Tasks, charge: int = 0) -> Start:
        cluster = self._lending.places[area][0]
        self._lending.take(area, resources_of(job.profile, tasks), self._ledger.weights, len(tasks))
        self._ledger.start(job, tasks)
        self._homes.add(self._snapshot.fleet.home(job.profile))
        self.minutes.moved(job.id, plans.Started(cluster=cluster, tasks=tasks))
        return Start(job=job.id, queue=job.queue, attempt=attempt, cluster=cluster, tasks=tasks, charge=charge)
