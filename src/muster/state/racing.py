"""The part of the loop that drives races: ask the clusters, let the rule decide, carry out what it says.

Clusters are asked every 10 s, counted from the beginning of each race. Polls that can bring nothing new may be left
out: what a race decides depends on the times that clusters report, so the outcome is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Protocol

from muster.engine.race.quota import held_back
from muster.engine.race.words import wasted_gpu_ms
from muster.model import events as ev
from muster.model.jobs import Job
from muster.model.names import NameKey, name_key
from muster.model.queues import Queue
from muster.model.race import POLL_MS, CancelAt, Ended, Race, RaceAction, Result, Sighting, SubmitTo, Won
from muster.model.resources import NOTHING, total
from muster.model.retries import FAILED
from muster.state.lifecycle import after_ending
from muster.state.races import Key
from muster.state.state import State


class OpaqueClusters(Protocol):
    """Clusters that can only submit, query and cancel."""

    def submit(self, action: SubmitTo, now_ms: int) -> Sighting:
        """Send a copy; what the cluster answers."""

    def cancel(self, action: CancelAt, now_ms: int) -> None:
        """Ask a cluster to stop its copy; whether it does is seen later."""

    def look(self, race: Race, now_ms: int) -> tuple[Sighting, ...]:
        """What every cluster shows of the race."""

    def changes_ms(self, race: Race, now_ms: int) -> int | None:
        """When some cluster will show something else, as far as that can be known; None: never by itself."""


class Racing:
    """Drives the races of a state over some clusters. `skips_polls`: leaves out those that can bring nothing new."""

    def __init__(self, state: State, clusters: OpaqueClusters, *, skips_polls: bool = True) -> None:
        self.state = state
        self.clusters = clusters
        self.skips_polls = skips_polls
        self._polls: list[tuple[int, tuple[NameKey, int], Key]] = []
        self._poll_ms: dict[Key, int] = {}  # only the last poll that was planned for a race counts

    def next_ms(self) -> int | None:
        """When the next poll is due; None when none can bring anything."""
        while self._polls and self._poll_ms.get(self._polls[0][-1]) != self._polls[0][0]:
            heappop(self._polls)
        return self._polls[0][0] if self._polls else None

    def look_soon(self, now_ms: int) -> None:
        """A cluster fell silent, or answers again: ask about every race at its next poll."""
        for key, race in self.state.races.live.items():
            self._poll(key, _poll_at(race, now_ms))

    def step(self, now_ms: int) -> Iterator[ev.Event]:
        """Everything races bring at this moment. Each event must be applied before the next is asked for."""
        yield from self._act(now_ms)  # for jobs that were cancelled
        while (poll_ms := self.next_ms()) is not None and poll_ms <= now_ms:
            key = heappop(self._polls)[-1]
            race = self.state.races.live[key]
            yield ev.RaceSeen(job=key[0], attempt=key[1], sightings=self.clusters.look(race, now_ms))
            yield from self._act(now_ms)
            yield from self._plan_next(key, now_ms)
        for job in sorted(self.state.races.line.values(), key=lambda job: job.order):
            if _may_begin(self.state, job):
                key = (job.id, self.state.jobs[job.id].attempts + 1)
                yield ev.RaceBegan(job=key[0], attempt=key[1])
                yield from self._act(now_ms)

    def _plan_next(self, key: Key, now_ms: int) -> Iterator[ev.Event]:
        """When to ask about a race again; or its end, when nothing is left to ask."""
        self._poll_ms.pop(key, None)
        race = self.state.races.live.get(key)
        if race is None:
            return
        if race.is_over:
            yield ev.RaceOver(job=key[0], attempt=key[1], wasted_gpu_ms=wasted_gpu_ms(race, now_ms))
            return
        changes_ms = self.clusters.changes_ms(race, now_ms)
        next_ms = min(race.due_ms, changes_ms) if changes_ms is not None else race.due_ms
        if next_ms < _FAR_MS:
            self._poll(key, _poll_at(race, max(next_ms, now_ms + 1) if self.skips_polls else now_ms + 1))

    def _poll(self, key: Key, at_ms: int) -> None:
        self._poll_ms[key] = at_ms
        heappush(self._polls, (at_ms, (name_key(key[0]), key[1]), key))

    def _act(self, now_ms: int) -> Iterator[ev.Event]:
        """Carry out what races want, and let them hear the answers, until none wants anything."""
        asked: dict[Key, None] = {}
        while actions := self.state.races.take_actions():
            answers: dict[Key, list[Sighting]] = {}
            asked |= {(action.job, action.attempt): None for action in actions}
            for action in actions:
                yield from self._carried_out(action, answers, now_ms)
            for (job, attempt), sightings in answers.items():
                yield ev.RaceSeen(job=job, attempt=attempt, sightings=tuple(sightings))
        for key in asked:
            yield from self._plan_next(key, now_ms)

    def _carried_out(self, action: RaceAction, answers: dict[Key, list[Sighting]], now_ms: int) -> Iterator[ev.Event]:
        key = job, attempt = action.job, action.attempt
        match action:
            case SubmitTo(cluster=cluster):
                if not action.is_again:
                    yield ev.SubmittedTo(job=job, attempt=attempt, cluster=cluster)
                answers.setdefault(key, []).append(self.clusters.submit(action, now_ms))
            case CancelAt(cluster=cluster):
                if not action.is_again:
                    yield ev.CancelledAt(job=job, attempt=attempt, cluster=cluster)
                self.clusters.cancel(action, now_ms)
            case Won(cluster=cluster, since_ms=since_ms):
                yield ev.RaceWon(job=job, attempt=attempt, cluster=cluster, since_ms=since_ms)
            case Ended():
                yield from self._ended(action)

    def _ended(self, action: Ended) -> Iterator[ev.Event]:
        match action.result:
            case Result.SUCCEEDED:
                yield ev.JobSucceeded(job=action.job, attempt=action.attempt)
            case Result.FAILED:
                job, record = self.state.races.job(action.job), self.state.jobs[action.job]
                yield after_ending(job, action.attempt, FAILED, record, action.cause)
            case Result.WITHDRAWN:
                pass  # its owner knows


_FAR_MS = 1 << 61  # nothing is due


def _poll_at(race: Race, from_ms: int) -> int:
    """The first poll of the race at or after a moment."""
    return race.began_ms + max(-(-(from_ms - race.began_ms) // POLL_MS), 0) * POLL_MS


def _may_begin(state: State, job: Job) -> bool:
    """Whether cordon and quotas let a raced job begin; if not, `races.blocked` says why."""
    books, user = state.books.get(job.queue), state.users.get(job.user)
    queue, by_queue = Queue(name=job.queue), NOTHING
    if books is not None:
        queue, by_queue = books.queue, books.started() + books.raced()
    by_user = [state.users.held(job.user)]
    for pending in (it.job for it in state.pending.values()):
        by_queue = by_queue + pending.profile.least if pending.queue == job.queue else by_queue
        by_user += [pending.profile.least] if pending.user == job.user else []
    waiting = held_back(state.races.asks(job.id), queue, by_queue, user, total(by_user))
    if waiting is not None:
        state.races.blocked[job.id] = waiting
    return waiting is None
