"""Reservations and what they leave to others (design.md 4.5).

The horizon knows the room now and, for each promise made to a blocked job, the room at the moment it is
to start. A later job may overtake when it fits now and at every promised moment before it ends: then it
runs on room no reservation needs, or is gone in time. Nothing else needs to be said about backfilling.

Ends that someone stated are counted on. Ends nobody knows help to choose when a reservation starts, but
never to let a third job in: at a promised moment only those tasks are taken to be gone that are stated
to be, or that the promise itself waits for. A promise that rests on guesses is a drain.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby

from muster.model.jobs import NEVER_MS, Job, Reservation, Running, Task
from muster.model.names import NameKey
from muster.model.nodes import Request
from muster.model.policy import Hold
from muster.model.resources import Resources
from muster.model.snapshot import Snapshot
from oracle.measure import measure_of
from oracle.placement import Headcount, Placer
from oracle.room import Rooms, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A running job and when we take it to leave; `is_stated` when that is not our guess."""

    run: Running
    end_ms: int
    is_stated: bool


@dataclass(slots=True, kw_only=True)
class Promised:
    """A promise, and the rooms at the moment it starts with all promises kept."""

    job: Job
    reservation: Reservation
    rooms: Rooms
    due_ms: int
    hold: Hold

    @property
    def order(self) -> tuple[int, int, NameKey]:
        """First start first."""
        return (self.due_ms, self.reservation.start_ms, self.job.key)

    @property
    def end_ms(self) -> int:
        """When the promised job will be gone again: of a drain whose start is past nobody knows."""
        known_ms = self.job.known_ms
        is_late = self.due_ms > self.reservation.start_ms
        return NEVER_MS if known_ms is None or is_late else self.due_ms + known_ms

    def is_under_way(self, moment_ms: int) -> bool:
        """Whether the promised job will be running at that moment."""
        return self.due_ms <= moment_ms < self.end_ms


FIRM = 4  # promises, the first of which are counted on before a search for victims

MayEvict = Callable[[Running], bool]


class Horizon:
    """The room now and at every promised moment."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.fleet = snapshot.fleet
        self.policy = snapshot.policy
        self.now_ms = snapshot.now_ms
        self.states = snapshot.nodes
        self.measure = measure_of(snapshot)
        self.now: Rooms = {name: state.room for name, state in snapshot.nodes.items()}
        self.promised: dict[str, Promised] = {}
        self._line = sorted(snapshot.running, key=_by_end)
        self.movable = [run for run in self._line if self._is_movable(run)]
        self.may_give_way: dict[str, list[Running]] = {}
        for run in self._line:
            if self._may_give_way(run):
                self.may_give_way.setdefault(run.job.queue, []).append(run)

    def placer(self, span: Span) -> Placer:
        """Who places by this turn's rule."""
        return Placer(self.fleet, span, measure=self.measure)

    def fork_without(self, victims: Iterable[tuple[Running, tuple[Task, ...]]]) -> Horizon:
        """The horizon as it would be if these tasks were gone."""
        other = object.__new__(Horizon)
        other.fleet, other.policy, other.now_ms, other.states = self.fleet, self.policy, self.now_ms, self.states
        other.measure = self.measure
        other.now = self.now.copy()
        other.promised = {name: replace(it) for name, it in self.promised.items()}
        other._line = list(self._line)
        other.movable = list(self.movable)
        other.may_give_way = {queue: list(runs) for queue, runs in self.may_give_way.items()}
        for run, tasks in victims:
            other.leave(other.now, run.job, tasks)
            other._line.remove(run)
            other.movable.remove(run)
            if self._may_give_way(run):
                other.may_give_way[run.job.queue].remove(run)
            if left := tuple(task for task in run.tasks if task not in tasks):
                narrower = replace(run, tasks=left)
                insort(other._line, narrower, key=_by_end)
                other.movable.append(narrower)
                if self._may_give_way(narrower):
                    other.may_give_way.setdefault(run.job.queue, []).append(narrower)
        other._rebuild()
        return other

    def _is_movable(self, run: Running) -> bool:
        """Whether a running job is not safe; it is at the very moment it started: that would be a start too many."""
        return self.now_ms >= run.safe_until_ms and self.now_ms != run.started_ms

    def _may_give_way(self, run: Running) -> bool:
        """Whether anything of a running job could be evicted now for fairness, if someone has a right to it."""
        return self._is_movable(run) and (run.is_expired(self.now_ms) or bool(run.surplus()))

    def started(self, run: Running, *, by_right: bool) -> None:
        """A job took room on a span of ours, or regardless of promises: it stays until its end."""
        insort(self._line, run, key=_by_end)
        if by_right or self.is_yielded_to(run.job):
            self._rebuild(stays=run)

    # -- what others may use ---------------------------------------------------------------------------

    def span_from_now(self, job: Job) -> Span:
        """The room a job may use if it starts now."""
        # A promise that is due at this very moment is kept as well.
        return Span([self.now, *(it.rooms for it in self._from_now(job) if self.binds(it, job))])

    def span_beside_all(self, job: Job) -> Span:
        """The same if it may take nodes of no promise."""
        return Span([self.now, *(it.rooms for it in self._from_now(job))])

    def binds(self, it: Promised, job: Job) -> bool:
        """Whether the job must leave the promised nodes alone."""
        return self.policy.hold(job, self.now_ms) <= it.hold

    def is_yielded_to(self, job: Job) -> bool:
        """Whether the job may take the nodes of some promise."""
        return any(not self.binds(it, job) for it in self.promised.values())

    def _from_now(self, job: Job) -> list[Promised]:
        return self._within(self.now_ms - 1, _end(self.now_ms, self.policy.bound_ms(job)))

    def starts_from_now(self, job: Job) -> list[int]:
        """When the moments of that span are."""
        return [self.now_ms, *(it.due_ms for it in self._from_now(job) if self.binds(it, job))]

    def span_regardless(self) -> Span:
        """The room there is now, promised to someone or not."""
        return Span([self.now])

    def in_the_way_from(self, job: Job) -> int:
        """How long jobs like this one must run at least to meet the same promises: they would fare the same."""
        end_ms = _end(self.now_ms, self.policy.bound_ms(job))
        starts = [it.due_ms for it in self.promised.values() if it.due_ms < end_ms]
        return max(starts, default=self.now_ms) - self.now_ms + 1

    def overtake(self, job: Job, tasks: Iterable[Task]) -> tuple[str, ...]:
        """A job of unknown end starts: the promises that it is in the way of, and passes only because its lifetime ends
        before. Beside the others it is from now on."""
        if job.known_ms is not None or job.lifetime_ms is None or not self.policy.lifetime_bounds:
            return ()
        later_ms = self.now_ms + max(job.lifetime_ms, 1)
        overtook = []
        for it in self.promised.values():
            if it.due_ms < later_ms:
                continue
            left = taken(it.rooms, job, tasks)
            if left is None:
                overtook.append(it.job.id)
            else:
                it.rooms.update(left)
        return tuple(sorted(overtook))

    def keeps_promises_beside(self, run: Running) -> bool:
        """Whether promises still hold with this job, which takes room now and stays for as long as it may."""
        self.promised = {name: it for name, it in self.promised.items() if self.binds(it, run.job)}
        self.started(run, by_right=False)
        return self._rebuild(stays=run)

    def ceilings(self, job: Job, gone: Container[str]) -> list[dict[str, Resources]]:
        """For the first firm promises that come before the job's end: the most that could be free when each is due on
        nodes they count on, once all have left who leave by then, or may be taken to, and some others.

        Not where someone leaves more than it asked for.
        """
        firm = sorted((it for it in self.promised.values() if it.reservation.is_firm), key=lambda it: it.order)[:FIRM]
        nodes = {task.node for it in firm for task in it.reservation.tasks}
        until = dict.fromkeys((run.job.id for run in self._line), NEVER_MS)
        until |= {stay.run.job.id: stay.end_ms for stay in self.stated()}
        until |= {run.job.id: 0 for run in self._line if self._may_leave(run)}
        last_ms = max((it.due_ms for it in firm), default=0)
        for run in self._line:
            if until[run.job.id] <= last_ms:
                nodes -= {task.node for task, request in requests(run.job, run.tasks) if request.whole_node}
        end_ms, found = _end(self.now_ms, self.policy.bound_ms(job)), []
        for moment_ms in (it.due_ms for it in firm if it.due_ms < end_ms):
            leave = [run for run in self._line if run.job.id in gone or until[run.job.id] <= moment_ms]
            left = in_all(pair for run in leave for pair in requests(run.job, run.tasks))
            promised = [it for it in firm if it.is_under_way(moment_ms)]
            taken = in_all(pair for it in promised for pair in requests(it.job, it.reservation.tasks))
            found.append({node: _rest(self.now[node].free, left.get(node), taken.get(node)) for node in nodes})
        return found

    def _may_leave(self, run: Running) -> bool:
        """Whether a job may be taken to leave for a promise: it overtook one, or it is on a node of a drain."""
        guesses = (it.reservation.tasks for it in self.promised.values() if not it.reservation.is_firm)
        on_guess = {task.node for tasks in guesses for task in tasks}
        return not self.promised.keys().isdisjoint(run.overtook) or any(task.node in on_guess for task in run.tasks)

    def _within(self, start_ms: int, end_ms: int) -> list[Promised]:
        """The promises for moments strictly between two others."""
        inside = [it for it in self.promised.values() if start_ms < it.due_ms < end_ms]
        return sorted(inside, key=lambda it: it.order)

    # -- promises --------------------------------------------------------------------------------------

    def promise(self, job: Job, reservation: Reservation) -> bool:
        """Keep room for the job, in the place of promises that yield to it; False, and nothing changed, if that is not
        possible."""
        if (known := self.promised.get(job.id)) is not None and known.reservation is reservation:
            return True
        before = dict(self.promised)
        first_ms = self.now_ms if reservation.is_firm else self.now_ms + 1
        self.promised[job.id] = Promised(
            job=job,
            reservation=reservation,
            rooms={},
            due_ms=max(reservation.start_ms, first_ms),
            hold=self.policy.hold(job, self.now_ms),
        )
        yielding = sorted((it for it in before.values() if not self.binds(it, job)), key=lambda it: it.job.rank)
        while not self._rebuild():
            if not yielding:
                self.promised = before
                self._rebuild()
                return False
            del self.promised[yielding.pop(0).job.id]
        return True

    def withdraw(self, job: Job) -> None:
        """The job no longer needs its promise."""
        if self.promised.pop(job.id, None) is not None:
            self._rebuild()

    def soonest(self, job: Job, cluster: str, may_evict: MayEvict) -> Reservation | None:
        """Where and when in the cluster the job can start soonest without delaying any promise."""
        rooms, gone = self.now.copy(), []
        headcount = Headcount(self.placer(Span([rooms])), job.profile, cluster)
        for moment_ms, leaving in self._moments_to_try(job, cluster, may_evict):
            for stay in leaving:
                gone.append(stay)
                self.leave(rooms, stay.run.job, stay.run.tasks)
                for node in {task.node for task in stay.run.tasks}:
                    headcount.refresh(node)
            if headcount.is_enough() and (tasks := self._place_at(moment_ms, rooms, gone, job, cluster)):
                nodes = {task.node for task in tasks}
                guesses = [stay for stay in gone if not stay.is_stated]
                firm = not any(task.node in nodes for stay in guesses for task in stay.run.tasks)
                return Reservation(cluster=cluster, start_ms=moment_ms, tasks=tasks, is_firm=firm)
        return None

    def _place_at(
        self, moment_ms: int, rooms: Rooms, gone: list[Stay], job: Job, cluster: str
    ) -> tuple[Task, ...] | None:
        """The job at its min at a later moment, beside promises; `rooms` are those of the moment without them."""
        at_moment, left = rooms.copy(), {stay.run.job.id for stay in gone}
        there = [stay for stay in in_order([*self.stated(), *self.guessed()]) if stay.run.job.id not in left]
        binding = [it for it in self.promised.values() if self.binds(it, job)]
        for it in sorted(binding, key=lambda it: it.order):
            if it.is_under_way(moment_ms):
                self._keep(at_moment, it, there)
        later = self._within(moment_ms, _end(moment_ms, job.known_ms))
        span = Span([at_moment, *(it.rooms for it in later if self.binds(it, job))])
        return self.placer(span).place(job.profile, cluster, job.profile.least_widths)

    def _moments_to_try(self, job: Job, cluster: str, may_evict: MayEvict) -> Iterator[tuple[int, list[Stay]]]:
        """Every later moment at which room may appear in the cluster, with those who leave then."""
        guessed = [_as_seen_by(job, stay, self.now_ms, may_evict) for stay in self.guessed()]
        guessed.sort(key=lambda stay: (stay.end_ms, stay.run.job.key))
        ends = sorted(it.end_ms for it in self.promised.values() if it.end_ms < NEVER_MS)
        line = merge(
            ((stay.end_ms, stay) for stay in self.stated()),
            ((stay.end_ms, stay) for stay in guessed),
            ((end_ms, None) for end_ms in ends),
            key=lambda entry: entry[0],
        )
        here = (entry for entry in line if entry[1] is None or entry[1].run.cluster == cluster)
        for moment_ms, entries in groupby(here, key=lambda entry: entry[0]):
            yield moment_ms, [stay for _, stay in entries if stay is not None]

    # -- ends ------------------------------------------------------------------------------------------

    def stated(self) -> Iterator[Stay]:
        """Those whose end someone stated and who are not over it, first end first."""
        first = bisect_right(self._line, self.now_ms, key=lambda run: run.end_ms)
        for place in range(first, len(self._line)):
            run = self._line[place]
            if run.end_ms == NEVER_MS:
                return
            yield Stay(run=run, end_ms=run.end_ms, is_stated=True)

    def next_stated_end(self) -> Stay | None:
        """The first of those who run whose end was stated and is still to come."""
        return next(self.stated(), None)

    def guessed(self) -> list[Stay]:
        """Those whose end nobody knows, or who overran it, first guess first.

        They have as long to go as they have run, at least 10 minutes; counted in steps of 10 s, so that a
        reservation does not move with every tick of the clock.
        """
        overran = bisect_right(self._line, self.now_ms, key=lambda run: run.end_ms)
        unknown = bisect_right(self._line, NEVER_MS - 1, key=lambda run: run.end_ms)
        now_ms = self.now_ms - self.now_ms % self.policy.reestimate_ms
        stays = [
            Stay(run=run, end_ms=now_ms + max(now_ms - run.started_ms, self.policy.unknown_end_ms), is_stated=False)
            for run in (*self._line[:overran], *self._line[unknown:])
        ]
        return sorted(stays, key=lambda stay: (stay.end_ms, stay.run.job.key))

    def leave(self, rooms: Rooms, job: Job, tasks: Iterable[Task]) -> None:
        """Tasks of a job leave their nodes."""
        for task, request in requests(job, tasks):
            rooms[task.node] = rooms[task.node].give(request, task.devices, self.states[task.node].empty)

    # -- rooms at promised moments ---------------------------------------------------------------------

    def _rebuild(self, stays: Running | None = None) -> bool:
        """Work out the rooms at every promised moment again; False if a promise finds no room.

        Those on nodes of a drain may be taken to leave in time for it, except the one who `stays`.
        """
        are_kept = True
        order = sorted(self.promised.values(), key=lambda it: it.order)
        for it in order:
            moment_ms, rooms = it.due_ms, self.now.copy()
            there = [stay for stay in in_order([*self.stated(), *self.guessed()]) if stay.run is not stays]
            for stay in self.stated():
                if stay.end_ms > moment_ms:
                    break
                self.leave(rooms, stay.run.job, stay.run.tasks)
                if stay.run is not stays:
                    there.remove(stay)
            for other in order:
                if other.is_under_way(moment_ms):
                    are_kept &= self._keep(rooms, other, there)
            it.rooms = rooms
        return are_kept

    def _keep(self, rooms: Rooms, it: Promised, there: list[Stay]) -> bool:
        """Take the promised room; False if there is none. Who overtook it gives way to it; only for a drain everyone
        else on its nodes leaves as well."""
        is_kept = True
        leavers = [stay for stay in there if not it.reservation.is_firm or gives_way_to(stay.run, it)]
        for task, request in requests(it.job, it.reservation.tasks):
            while not _holds(rooms, task, request):
                leaver = next((stay for stay in leavers if any(t.node == task.node for t in stay.run.tasks)), None)
                if leaver is None:
                    is_kept = False
                    break  # nobody else may have the room, but more cannot be said
                there.remove(leaver)
                leavers.remove(leaver)
                self.leave(rooms, leaver.run.job, leaver.run.tasks)
            rooms[task.node] = rooms[task.node].take(request, task.devices)
        return is_kept


def in_all(tasks: Iterable[tuple[Task, Request]]) -> dict[str, Resources]:
    """What tasks ask for, on each node in all."""
    found: dict[str, Resources] = {}
    for task, request in tasks:
        found[task.node] = found.get(task.node, Resources({})) + request.resources
    return found


def _rest(there: Resources, left: Resources | None, taken: Resources | None) -> Resources:
    """What is there with what others leave, without what others take; never less than nothing."""
    in_all = there + (left or Resources({}))
    return in_all - in_all.lowest(taken or Resources({}))


def in_order(stays: Iterable[Stay]) -> list[Stay]:
    """First end first, as stated; then those whose end nobody knows, the youngest first."""

    def order(stay: Stay) -> tuple[bool, int, NameKey]:
        return (not stay.is_stated, stay.end_ms if stay.is_stated else -stay.run.started_ms, stay.run.job.key)

    return sorted(stays, key=order)


def _by_end(run: Running) -> tuple[int, NameKey]:
    return (run.end_ms, run.job.key)


def _end(start_ms: int, bound_ms: int | None) -> int:
    return NEVER_MS if bound_ms is None else start_ms + bound_ms


def _as_seen_by(job: Job, stay: Stay, now_ms: int, may_evict: MayEvict) -> Stay:
    """A job of unknown end leaves with its lifetime, if this job may then evict it."""
    run = stay.run
    if run.job.lifetime_ms is None or not (job.id in run.overtook or may_evict(run)):
        return stay
    expiry_ms = max(run.started_ms + run.job.lifetime_ms, run.safe_until_ms)
    return replace(stay, end_ms=expiry_ms) if now_ms < expiry_ms < stay.end_ms else stay


def gives_way_to(run: Running, it: Promised) -> bool:
    """Whether a job overtook a promise, and may be evicted for it when it is due."""
    if it.job.id not in run.overtook or run.job.lifetime_ms is None:
        return False
    return max(run.started_ms + run.job.lifetime_ms, run.safe_until_ms) <= it.due_ms


def requests(job: Job, tasks: Iterable[Task]) -> Iterator[tuple[Task, Request]]:
    """What each task asks of its node."""
    requests = {group.name: group.request for group in job.profile.groups}
    for task in tasks:
        yield task, requests[task.group]


def taken(rooms: Rooms, job: Job, tasks: Iterable[Task]) -> Rooms | None:
    """What these tasks leave of the rooms they are in; None if there is no room for them."""
    left = {task.node: rooms[task.node] for task in tasks}
    for task, request in requests(job, tasks):
        if not _holds(left, task, request):
            return None
        left[task.node] = left[task.node].take(request, task.devices)
    return left


def _holds(rooms: Rooms, task: Task, request: Request) -> bool:
    """Whether the task fits on its node, on the very devices it was promised."""
    if task.node not in rooms or not rooms[task.node].fits(request):
        return False
    devices = rooms[task.node].devices
    return all(devices[index] >= request.gpu_milli for index in task.devices)
