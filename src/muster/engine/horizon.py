"""Reservations and what they leave to others (design.md 4.5).

The horizon knows the room now and, for each promise made to a blocked job, the room at the moment it is
to start. A later job may overtake when it fits now and at every promised moment before it ends: then it
runs on room no reservation needs, or is gone in time. Nothing else needs to be said about backfilling.

Ends that someone stated are counted on. Ends nobody knows help to choose when a reservation starts, but
never to let a third job in: at a promised moment only those tasks are taken to be gone that are stated
to be, or that the promise itself waits for. A promise that rests on guesses is a drain (drains.py): when its
start is past and it still waits, it is due at the next moment.

A promise binds jobs of its class and of lower ones. One of a higher class may take its nodes, until the promised job
has waited for twice `agingAfter`: from then on it may itself take those of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from muster.engine.columns import running_jobs as runs
from muster.engine.columns.arrays import Ints
from muster.engine.columns.profiles import ShapeTable
from muster.engine.columns.table import NONE
from muster.engine.columns.views import floor_of
from muster.engine.ends import Ends, RightsOf
from muster.engine.keeping import Keeper, Promised, SpareOn
from muster.engine.kernels import Face
from muster.engine.kernels.filling import Ceilings
from muster.engine.kernels.placing import TASK, Cells
from muster.engine.measure import Measure
from muster.engine.placement import Headcount, Leavers, Placer, Tasks
from muster.engine.rooms import Rooms, Span
from muster.engine.stays import Stays
from muster.engine.withheld import Withheld
from muster.model.jobs import NEVER_MS, Job, Profile, Reservation, Running, Task
from muster.model.snapshot import Snapshot

_FIRST_TO_TRY = 256  # of those who leave

Gone = Sequence[tuple[Running, Tasks]]


class Horizon:
    """The room now and at every promised moment."""

    def __init__(
        self, snapshot: Snapshot, stays: Stays, shapes: ShapeTable, face: Face, measure: Measure | None = None
    ) -> None:
        self.fleet = snapshot.fleet
        self.policy = snapshot.policy
        self.now_ms = snapshot.now_ms
        cores = self.policy.cores_per_gpu
        self.now = Rooms.of(floor_of(snapshot), face=face, cores_per_gpu=cores, measure=measure)
        self.asks = shapes.asks_of(self.now.books.grounds, listed=self.now.books.listed)
        self.withheld = Withheld(self.now, self.policy.calendar, self.now_ms) if self.policy.calendar else None
        self.stays = stays
        self.promised: dict[str, Promised] = {}
        self._keeper = Keeper(self.now, stays, self.asks)
        self.spare: SpareOn | None = None
        self.ceilings: tuple[object, tuple[Ceilings, Ints]] | None = None  # as of when; see muster.engine.offers

    def fork_without(self, victims: Gone) -> Horizon:
        """The horizon as it would be if these tasks were gone."""
        other = self.fork()
        for run, tasks in victims:
            other.evict(run, tasks)
        other._rebuild()
        return other

    def fork(self) -> Horizon:
        """The same horizon, to be changed apart."""
        other = object.__new__(Horizon)
        other.fleet, other.policy, other.now_ms, other.asks = self.fleet, self.policy, self.now_ms, self.asks
        other.now = self.now.copy()
        other.withheld, other.spare = self.withheld and self.withheld.on(other.now), self.spare
        other.stays = self.stays.fork()
        other.promised = {name: replace(it) for name, it in self.promised.items()}
        other._keeper = Keeper(other.now, other.stays, other.asks)
        other.ceilings = None
        return other

    def evict(self, run: Running, tasks: tuple[Task, ...]) -> None:
        """These tasks of a run are gone, in place. Promises are to be renewed."""
        self.now.give_all(run.job.profile, tasks)
        self.leave(run, tasks)

    def leave(self, run: Running, tasks: tuple[Task, ...]) -> None:
        """These tasks of a run stay no longer; the rooms are written already."""
        self.stays.leave(self.stays.row_of(run))
        if left := tuple(task for task in run.tasks if task not in tasks):
            self.stays.start(replace(run, tasks=left))

    def narrow(self, row: int, run: Running, gone: Tasks) -> int:
        """Who was in this row goes on as this run, without some tasks; returns its row. Promises are to be renewed."""
        self.now.give_all(run.job.profile, gone)
        self.stays.leave(row)
        return self.stays.start(run)

    def renew(self) -> bool:
        """Work out anew what is promised; False if a promise finds no room."""
        return self._rebuild()

    def place_without(self, rows: list[int], job: Job, cluster: str) -> tuple[Callable[[], None], Tasks | None]:
        """The job's tasks at its min if these were gone, taken in place; and how to undo all of it.

        Only right if no promise counts on nodes that they are on.
        """
        trials, all_rows = [], np.array(rows)
        all_moves = self._moves_of(all_rows)
        for rooms, present in self._rooms_with(all_rows):
            moves = all_moves if len(present) == len(rows) else self._moves_of(present)
            trials.append(span := Span([rooms]))
            span.give_back(moves, len(moves) // TASK)
        return self._placed_after(trials, job, cluster)

    def _moves_of(self, rows: Ints) -> Cells:
        books = self.now.books
        return books.from_array(self.stays.moves_of(rows, books.grounds, self.asks)[0])

    def place_in_place_of(self, gone: Gone, job: Job, cluster: str) -> tuple[Callable[[], None], Tasks | None]:
        """The job's tasks at its min if these tasks were gone, taken in place; and how to undo all of it.

        Only right if no promise counts on nodes that they are on.
        """
        trials, all_moves = [], self.now.books.moves_of(_tasks_of(gone))
        for rooms, present in self._rooms_of(gone):
            moves = all_moves if present is gone else self.now.books.moves_of(_tasks_of(present))
            trials.append(span := Span([rooms]))
            span.give_back(moves, len(moves) // TASK)
        return self._placed_after(trials, job, cluster)

    def _placed_after(self, trials: Sequence[Span], job: Job, cluster: str) -> tuple[Callable[[], None], Tasks | None]:
        """The job's tasks at its min after these trials, and how to undo all of it."""
        span = self.span_from_now(job)
        tasks = Placer(span).place(job.profile, cluster, job.profile.least_widths)

        def undo() -> None:
            for trial in (span, *trials):
                trial.undo()

        return undo, tasks

    def put_in_place_of(self, gone: Gone, job: Job, tasks: Tasks) -> Callable[[], None]:
        """Where there is no promise: these very tasks of a job in the place of others; returns how to undo it."""
        span = Span([self.now])
        span.give_all(_tasks_of(gone))
        for task in tasks:
            span.put(task.node, job.profile.group(task.group), task.devices)
        return span.undo

    def _rooms_of(self, gone: Gone) -> Iterator[tuple[Rooms, Gone]]:
        """The rooms of each moment, and which of these are there then."""
        yield self.now, gone
        for it in self.promised.values():
            start_ms = it.due_ms
            present = [(run, tasks) for run, tasks in gone if run.end_ms <= self.now_ms or run.end_ms > start_ms]
            if present:
                yield it.rooms, gone if len(present) == len(gone) else present

    def _rooms_with(self, rows: Ints) -> Iterator[tuple[Rooms, Ints]]:
        """The rooms of each moment, and which of these are there then."""
        yield self.now, rows
        ends = self.stays.column(runs.END, rows)
        overran = ends <= self.now_ms
        for it in self.promised.values():
            present = rows[overran | (ends > it.due_ms)]
            if len(present):
                yield it.rooms, present

    def start_by_right(self, run: Running, *, is_in_place: bool) -> None:
        """A job takes room that others must leave to it; promises are kept as far as they can be.

        `is_in_place`: rooms are up to date, but for promises that it may still be in the way of after its lifetime.
        """
        row = self.stays.start(run)
        nodes = {task.node for task in run.tasks}
        counted = {task.node for it in self.promised.values() for task in it.reservation.tasks}
        if not is_in_place or not nodes.isdisjoint(counted) or self.is_yielded_to(run.job):
            self._rebuild(stays=row)
            return
        bound_ms = _end(self.now_ms, self.policy.bound_ms(run.job))
        for it in self.promised.values():
            if bound_ms <= it.due_ms < run.end_ms:
                it.rooms.take_all(run.job.profile, run.tasks)

    def start(self, run: Running) -> None:
        """A job starts beside the promises that bind it; the others are kept as far as they can be."""
        row = self.stays.start(run)
        if self.is_yielded_to(run.job):
            self._rebuild(stays=row)

    def is_yielded_to(self, job: Job) -> bool:
        """Whether the job may take the nodes of some promise."""
        return any(not self._binds(it, job) for it in self.promised.values())

    def yields_above(self) -> int:
        """Jobs above this class may take the nodes of some promise; NEVER_MS if none may."""
        holds = (it.hold for it in self.promised.values() if not it.hold.is_for_good)
        to_alike = int(
            self.policy.gpu_first
        )  # those of its own class that ask for GPUs may take nodes of one that does not
        return min((hold.priority_class - (0 if hold.needs_gpus else to_alike) for hold in holds), default=NEVER_MS)

    def binding(self, job: Job) -> list[Promised]:
        """The promises whose nodes the job must leave alone."""
        return [it for it in self.promised.values() if self._binds(it, job)]

    def _binds(self, it: Promised, job: Job) -> bool:
        return self.policy.hold(job, self.now_ms) <= it.hold

    @property
    def is_plain(self) -> bool:
        """Whether promises wait for nobody in particular: then their rooms change just by who comes and goes, and
        whoever is not beside them breaks one."""
        overtook = self.stays.overtook().values()
        are_firm = all(it.reservation.is_firm for it in self.promised.values())
        return are_firm and self.spare is None and all(self.promised.keys().isdisjoint(jobs) for jobs in overtook)

    # -- what others may use ---------------------------------------------------------------------------

    def span_from_now(self, job: Job) -> Span:
        """The room a job may use if it starts now."""
        return Span([self.now, *(it.rooms for it in self._promised_from_now(job) if self._binds(it, job))])

    def span_beside_all(self, job: Job) -> Span:
        """The room a job may use if it starts now, without taking nodes of any promise."""
        return Span([self.now, *(it.rooms for it in self._promised_from_now(job))])

    def starts_from_now(self, job: Job) -> list[int]:
        """When the moments of the first of these spans are."""
        return [self.now_ms, *(it.due_ms for it in self._promised_from_now(job) if self._binds(it, job))]

    def _promised_from_now(self, job: Job) -> list[Promised]:
        # A promise that is due at this very moment is kept as well.
        return self._promised_within(self.now_ms - 1, _end(self.now_ms, self.policy.bound_ms(job)))

    def span_regardless(self) -> Span:
        """The room there is now, promised to someone or not."""
        return Span([self.now])

    def in_the_way_from(self, job: Job) -> int:
        """How long jobs like this one must run at least to meet the same promises: they would fare the same."""
        end_ms = _end(self.now_ms, self.policy.bound_ms(job))
        starts = [it.due_ms for it in self.promised.values() if it.due_ms < end_ms]
        return max(starts, default=self.now_ms) - self.now_ms + 1

    def overtake(self, job: Job, tasks: Sequence[Task]) -> tuple[str, ...]:
        """A job of unknown end starts: the promises that it is in the way of, and passes only because its lifetime ends
        before. Beside the others it is from now on."""
        if job.known_ms is not None or job.lifetime_ms is None or not self.policy.lifetime_bounds:
            return ()
        later_ms = self.now_ms + max(job.lifetime_ms, 1)
        overtook = []
        for it in self.promised.values():
            if it.due_ms < later_ms:
                continue
            if it.rooms.holds_all(job.profile, tasks):
                it.rooms.take_all(job.profile, tasks)
            else:
                overtook.append(it.job.id)
        return tuple(sorted(overtook))

    def keeps_promises_beside(self, run: Running) -> bool:
        """Whether promises would hold with this job too, which takes room now and stays for as long as it may."""
        other = self.fork()
        other.promised = {name: it for name, it in other.promised.items() if self._binds(it, run.job)}
        return other._rebuild(stays=other.stays.start(run))

    def _moments(self, job: Job, start_ms: int) -> list[Rooms]:
        """Rooms at the promised moments that bind a job strictly after its start and before its end."""
        promised = self._promised_within(start_ms, _end(start_ms, job.known_ms))
        return [it.rooms for it in promised if self._binds(it, job)]

    def _promised_within(self, start_ms: int, end_ms: int) -> list[Promised]:
        """The promises for moments strictly between two others, first start first."""
        inside = [it for it in self.promised.values() if start_ms < it.due_ms < end_ms]
        return sorted(inside, key=lambda it: it.order)

    # -- promises --------------------------------------------------------------------------------------

    def promise(self, job: Job, reservation: Reservation) -> bool:
        """Keep room for the job; False, and nothing changed, if that is not possible.

        Where promises stand in the way that yield to it, those that yield first are withdrawn until it is.
        """
        if (known := self.promised.get(job.id)) is not None and known.reservation is reservation:
            return True
        before = dict(self.promised)
        self.promised[job.id] = self._promise_of(job, reservation)
        yielding = sorted((it for it in before.values() if not self._binds(it, job)), key=lambda it: it.job.rank)
        while not self._rebuild():
            if not yielding:
                self.promised = before
                self._rebuild()
                return False
            del self.promised[yielding.pop(0).job.id]
        return True

    def _promise_of(self, job: Job, reservation: Reservation) -> Promised:
        # Who starts now can be evicted at the next moment: jobs of lifetime 0 may pass a drain until then.
        first_ms = self.now_ms if reservation.is_firm else self.now_ms + 1
        return Promised(
            job=job,
            reservation=reservation,
            rooms=self.now,
            due_ms=max(reservation.start_ms, first_ms),
            hold=self.policy.hold(job, self.now_ms),
        )

    def promise_all(self, promises: Iterable[tuple[Job, Reservation]]) -> set[str]:
        """Keep room for these jobs as far as it is possible; returns for whom it is."""
        promises = list(promises)
        for job, reservation in promises:
            self.promised[job.id] = self._promise_of(job, reservation)
        if self._rebuild():  # with fewer there is more room: each would have been kept, one after the other
            return {job.id for job, _ in promises}
        self.promised.clear()
        return {job.id for job, reservation in promises if self.promise(job, reservation)}

    def withdraw(self, job: Job) -> None:
        """The job no longer needs its promise."""
        if self.promised.pop(job.id, None) is not None:
            self._rebuild()

    def soonest(self, job: Job, cluster: str, rights: RightsOf, before_ms: int = NEVER_MS) -> Reservation | None:
        """Where and when in the cluster the job can start soonest, before some moment, without delaying any promise.

        `rights`: from whom the job may then take, if from anyone.
        """
        rooms, headcount = self.now, None
        guesses: list[Ints] = []
        gone = np.zeros(0, np.int64)
        for ends in self._moments_to_try(job, cluster, rights, before_ms):
            if headcount is None:
                rooms = self.now.copy(indexed=True)
                headcount = Headcount(Placer(Span([rooms])), job.profile, cluster)
            leaving, position = self._leaving(ends.rows, ends.moments), 0
            while position < len(ends.rows):
                position, is_enough = headcount.free_until_enough(leaving, position)
                moment_ms = int(ends.moments[position - 1])
                left = np.concatenate((gone, ends.rows[:position]))
                if is_enough and (tasks := self._place_at(moment_ms, rooms, left, job, cluster)):
                    guesses.append(ends.rows[:position][~ends.stated[:position]])
                    firm = not self.stays.are_on(np.concatenate(guesses), {task.node for task in tasks})
                    return Reservation(cluster=cluster, start_ms=moment_ms, tasks=tasks, is_firm=firm)
            guesses.append(ends.rows[~ends.stated])
            gone = np.concatenate((gone, ends.rows))
        return None

    def _place_at(self, moment_ms: int, rooms: Rooms, gone: Ints, job: Job, cluster: str) -> tuple[Task, ...] | None:
        """The job at its min at a later moment, beside promises; `rooms` are those of the moment without them, when
        those in some rows are `gone`."""
        at_moment = rooms.copy(indexed=True)
        self._keeper.take_under_way(at_moment, self.binding(job), moment_ms, gone)
        span = Span([at_moment, *self._moments(job, moment_ms)])
        tasks = Placer(span).place(job.profile, cluster, job.profile.least_widths)
        span.undo()  # the rooms of other promises may be remembered
        return tasks

    def _moments_to_try(self, job: Job, cluster: str, rights: RightsOf, before_ms: int) -> Iterator[Ends]:
        """Every later moment at which room may appear in the cluster, with those who leave then: in order, the first
        few before the many that are hardly ever needed."""
        rows, moments, stated = self.stays.ends_as_seen_by(job, rights, cluster, before_ms)
        ends = [it.end_ms for it in self.promised.values() if it.end_ms < NEVER_MS]
        if ends:  # nobody who runs now leaves then
            rows = np.concatenate([rows, np.full(len(ends), NONE)])
            moments = np.concatenate([moments, np.array(ends, np.int64)])
            stated = np.concatenate([stated, np.ones(len(ends), np.bool_)])
        if before_ms < NEVER_MS:
            is_before = moments < before_ms
            rows, moments, stated = rows[is_before], moments[is_before], stated[is_before]
        size = _FIRST_TO_TRY
        while len(rows):
            if len(rows) <= size:
                order = moments.argsort(kind="stable")
                yield Ends(rows[order], moments[order], stated[order])
                return
            is_next = moments <= np.partition(moments, size)[size]
            order = is_next.nonzero()[0]
            order = order[np.argsort(moments[order], kind="stable")]
            yield Ends(rows[order], moments[order], stated[order])
            rows, moments, stated = rows[~is_next], moments[~is_next], stated[~is_next]
            size *= 8

    def _leaving(self, rows: Ints, moments: Ints) -> Leavers:
        """Those who leave, in cells."""
        books = self.now.books
        moves, lasts = self.stays.moves_of(rows, books.grounds, self.asks)
        return Leavers(*(books.from_array(part) for part in (moments, moves, lasts)))

    # -- rooms at promised moments ---------------------------------------------------------------------

    def _rebuild(self, stays: int = NONE) -> bool:
        """Work out the rooms at every promised moment again; False if a promise finds no room.

        Those on nodes of a drain may be taken to leave in time for it, except the one in the row that `stays`.
        """
        if not self.promised:
            return True
        may_recall = stays == NONE and self.spare is None and self.withheld is None
        return self._keeper.keep(self.promised.values(), self.spare, stays, may_recall=may_recall)


def _tasks_of(gone: Gone) -> list[tuple[Profile, Tasks]]:
    return [(run.job.profile, tasks) for run, tasks in gone]


def _end(start_ms: int, bound_ms: int | None) -> int:
    return NEVER_MS if bound_ms is None else start_ms + bound_ms
