"""Reservations and what they leave to others (design.md 4.5).

The horizon knows the room now and, for each promise made to a blocked job, the room at the moment it is
to start. A later job may overtake when it fits now and at every promised moment before it ends: then it
runs on room no reservation needs, or is gone in time. Nothing else needs to be said about backfilling.

Ends that someone stated are counted on. Ends nobody knows help to choose when a reservation starts, but
never to let a third job in: at a promised moment only those tasks are taken to be gone that are stated
to be, or that the promise itself waits for.
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

    @property
    def order(self) -> tuple[int, NameKey]:
        """First start first."""
        return (self.reservation.start_ms, self.job.key)

    @property
    def end_ms(self) -> int:
        """When the promised job will be gone again."""
        known_ms = self.job.known_ms
        return NEVER_MS if known_ms is None else self.reservation.start_ms + known_ms

    def is_under_way(self, moment_ms: int) -> bool:
        """Whether the promised job will be running at that moment."""
        return self.reservation.start_ms <= moment_ms < self.end_ms


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

    def started(self, run: Running) -> None:
        """A job took room on a span of ours: it stays until its end."""
        insort(self._line, run, key=_by_end)

    # -- what others may use ---------------------------------------------------------------------------

    def span_from_now(self, job: Job) -> Span:
        """The room a job may use if it starts now."""
        # A promise that is due at this very moment is kept as well.
        return Span([self.now, *self._moments(self.now_ms - 1, _end(self.now_ms, self.policy.bound_ms(job)))])

    def starts_from_now(self, job: Job) -> list[int]:
        """When the moments of that span are."""
        end_ms = _end(self.now_ms, self.policy.bound_ms(job))
        inside = [it for it in self.promised.values() if self.now_ms - 1 < it.reservation.start_ms < end_ms]
        return [self.now_ms, *(it.reservation.start_ms for it in sorted(inside, key=lambda it: it.order))]

    def span_regardless(self) -> Span:
        """The room there is now, promised to someone or not."""
        return Span([self.now])

    def in_the_way_from(self, job: Job) -> int:
        """How long jobs like this one must run at least to meet the same promises: they would fare the same."""
        end_ms = _end(self.now_ms, self.policy.bound_ms(job))
        starts = [it.reservation.start_ms for it in self.promised.values() if it.reservation.start_ms < end_ms]
        return max(starts, default=self.now_ms) - self.now_ms + 1

    def overtake(self, job: Job, tasks: Iterable[Task]) -> tuple[str, ...]:
        """A job of unknown end starts: the promises that it is in the way of, and passes only because its lifetime ends
        before. Beside the others it is from now on."""
        if job.known_ms is not None or job.lifetime_ms is None or not self.policy.lifetime_bounds:
            return ()
        later_ms = self.now_ms + max(job.lifetime_ms, 1)
        overtook = []
        for it in self.promised.values():
            if it.reservation.start_ms < later_ms:
                continue
            left = taken(it.rooms, job, tasks)
            if left is None:
                overtook.append(it.job.id)
            else:
                it.rooms.update(left)
        return tuple(sorted(overtook))

    def keeps_promises_beside(self, run: Running) -> bool:
        """Whether firm promises still hold with this job, which takes room now and stays for as long as it may."""
        self.started(run)
        return self._rebuild(stays=run)

    def ceilings(self, job: Job, gone: Container[str]) -> list[dict[str, Resources]]:
        """For the first firm promises that come before the job's end: the most that could be free when each is due on
        nodes they count on, once all have left who leave by then, or may be taken to, and some others.

        Not where someone leaves more than it asked for.
        """
        firm = sorted((it for it in self.promised.values() if it.reservation.is_firm), key=lambda it: it.order)[:FIRM]
        nodes = {task.node for it in firm for task in it.reservation.tasks}
        until = dict.fromkeys((run.job.id for run in self._line), NEVER_MS)
        until |= {stay.run.job.id: 0 for stay in self.guessed() if self._may_leave(stay.run)}
        until |= {stay.run.job.id: stay.end_ms for stay in self._stated()}
        last_ms = max((it.reservation.start_ms for it in firm), default=0)
        for run in self._line:
            if until[run.job.id] <= last_ms:
                nodes -= {task.node for task, request in requests(run.job, run.tasks) if request.whole_node}
        end_ms, found = _end(self.now_ms, self.policy.bound_ms(job)), []
        for moment_ms in (it.reservation.start_ms for it in firm if it.reservation.start_ms < end_ms):
            leave = [run for run in self._line if run.job.id in gone or until[run.job.id] <= moment_ms]
            left = in_all(pair for run in leave for pair in requests(run.job, run.tasks))
            promised = [it for it in firm if it.is_under_way(moment_ms)]
            taken = in_all(pair for it in promised for pair in requests(it.job, it.reservation.tasks))
            found.append({node: _rest(self.now[node].free, left.get(node), taken.get(node)) for node in nodes})
        return found

    def _may_leave(self, run: Running) -> bool:
        """Whether a job of unknown end may be taken to leave for a promise: it overtook one, or it is on a node of one
        that rests on guesses."""
        guesses = (it.reservation.tasks for it in self.promised.values() if not it.reservation.is_firm)
        on_guess = {task.node for tasks in guesses for task in tasks}
        return not self.promised.keys().isdisjoint(run.overtook) or any(task.node in on_guess for task in run.tasks)

    def _moments(self, start_ms: int, end_ms: int) -> list[Rooms]:
        """Rooms at the promised moments strictly between two others."""
        inside = [it for it in self.promised.values() if start_ms < it.reservation.start_ms < end_ms]
        return [it.rooms for it in sorted(inside, key=lambda it: it.order)]

    # -- promises --------------------------------------------------------------------------------------

    def promise(self, job: Job, reservation: Reservation) -> bool:
        """Keep room for the job; False, and nothing changed, if that is not possible."""
        self.promised[job.id] = Promised(job=job, reservation=reservation, rooms={})
        if self._rebuild():
            return True
        self.withdraw(job)
        return False

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
            if headcount.is_enough() and (tasks := self._place_at(moment_ms, rooms, job, cluster)):
                nodes = {task.node for task in tasks}
                guesses = [stay for stay in gone if not stay.is_stated]
                firm = not any(task.node in nodes for stay in guesses for task in stay.run.tasks)
                return Reservation(cluster=cluster, start_ms=moment_ms, tasks=tasks, is_firm=firm)
        return None

    def _place_at(self, moment_ms: int, rooms: Rooms, job: Job, cluster: str) -> tuple[Task, ...] | None:
        """The job at its min at a later moment, beside every promise; `rooms` are those of the moment without them."""
        at_moment = rooms.copy()
        for it in self.promised.values():
            if it.is_under_way(moment_ms):
                for task, request in requests(it.job, it.reservation.tasks):
                    at_moment[task.node] = at_moment[task.node].take(request, task.devices)
        span = Span([at_moment, *self._moments(moment_ms, _end(moment_ms, job.known_ms))])
        return self.placer(span).place(job.profile, cluster, job.profile.least_widths)

    def _moments_to_try(self, job: Job, cluster: str, may_evict: MayEvict) -> Iterator[tuple[int, list[Stay]]]:
        """Every later moment at which room may appear in the cluster, with those who leave then."""
        guessed = [_as_seen_by(job, stay, self.now_ms, may_evict) for stay in self.guessed()]
        guessed.sort(key=lambda stay: (stay.end_ms, stay.run.job.key))
        ends = sorted(it.end_ms for it in self.promised.values() if it.end_ms < NEVER_MS)
        line = merge(
            ((stay.end_ms, stay) for stay in self._stated()),
            ((stay.end_ms, stay) for stay in guessed),
            ((end_ms, None) for end_ms in ends),
            key=lambda entry: entry[0],
        )
        here = (entry for entry in line if entry[1] is None or entry[1].run.cluster == cluster)
        for moment_ms, entries in groupby(here, key=lambda entry: entry[0]):
            yield moment_ms, [stay for _, stay in entries if stay is not None]

    # -- ends ------------------------------------------------------------------------------------------

    def _stated(self) -> Iterator[Stay]:
        """Those whose end someone stated and who are not over it, first end first."""
        first = bisect_right(self._line, self.now_ms, key=lambda run: run.end_ms)
        for place in range(first, len(self._line)):
            run = self._line[place]
            if run.end_ms == NEVER_MS:
                return
            yield Stay(run=run, end_ms=run.end_ms, is_stated=True)

    def next_stated_end(self) -> Stay | None:
        """The first of those who run whose end was stated and is still to come."""
        return next(self._stated(), None)

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
        """Work out the rooms at every promised moment again; False if a firm promise finds no room.

        Those of unknown end may be taken to leave in time for a promise, except the one who `stays`.
        """
        are_kept = True
        order = sorted(self.promised.values(), key=lambda it: it.order)
        for it in order:
            moment_ms, rooms = it.reservation.start_ms, self.now.copy()
            for stay in self._stated():
                if stay.end_ms > moment_ms:
                    break
                self.leave(rooms, stay.run.job, stay.run.tasks)
            guessed = [stay for stay in self.guessed() if stay.run is not stays]
            for other in order:
                if other.is_under_way(moment_ms):
                    are_kept &= self._keep(rooms, other, guessed)
            it.rooms = rooms
        return are_kept

    def _keep(self, rooms: Rooms, it: Promised, guessed: list[Stay]) -> bool:
        """Take the promised room; False if it is firm and there is none. Who overtook it gives way to it; only for a
        promise that rests on guesses, those of unknown end leave as well."""
        is_kept = True
        leavers = [stay for stay in guessed if not it.reservation.is_firm or gives_way_to(stay.run, it)]
        for task, request in requests(it.job, it.reservation.tasks):
            while not _holds(rooms, task, request):
                leaver = next((stay for stay in leavers if any(t.node == task.node for t in stay.run.tasks)), None)
                if leaver is None:
                    is_kept = not it.reservation.is_firm
                    break  # nobody else may have the room, but more cannot be said
                guessed.remove(leaver)
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
    return max(run.started_ms + run.job.lifetime_ms, run.safe_until_ms) <= it.reservation.start_ms


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
