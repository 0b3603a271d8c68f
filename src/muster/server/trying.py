"""What would happen if: a question about the world as it is now, tried out on a copy of it.

Jobs that nobody submitted and events as a scenario writes them are put into a copy of the world, and the very same loop
runs ahead with them and without them (`muster.state.future`). The world is copied under its lock, which takes some
milliseconds; everything else runs beside turns, one question at a time and for a few seconds at most. Where that was
not enough the answer says how far it looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any

from muster.documents.jobs.spec import JobSpec
from muster.documents.problems import DocumentError, Problem
from muster.model import events as ev
from muster.model.errors import MusterError
from muster.server.access import Who
from muster.server.submissions import Submissions, check_rights
from muster.server.world import World
from muster.sim.scenario.present import read_changes
from muster.state.future import Answer, look_ahead
from muster.state.run import Run
from muster.state.state import State

MOST_COPIED = 50_000  # jobs that wait or run, and nodes: to copy these takes some 20 ms
MOST_TRIED = 1_000  # jobs in one question
LOOKS_AHEAD_S = 2.5  # at most, without the change and again with it
PATIENCE_S = 10.0  # for those who asked before

NEW = "new"

Change = tuple[int, ev.Event]


class TooMany(MusterError):
    """There is more than can be tried out."""


class Busy(MusterError):
    """Others are trying something out."""


class Forbidden(MusterError):
    """Whoever asks may not see what the question is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """An answer. `asked`: the jobs that the question is about; `is_paused`: nothing happens until someone resumes."""

    answer: Answer
    asked: tuple[str, ...]
    is_paused: bool


class Trials:
    """Answers questions about what would happen."""

    def __init__(
        self,
        world: World,
        submissions: Submissions,
        classes: Mapping[str, int],
        levels: Mapping[str, int],
        clock: Callable[[], int],
    ) -> None:
        self._world = world
        self._submissions = submissions
        self._classes, self._levels = classes, levels
        self._clock = clock
        self._trying = Lock()  # one at a time

    def ask(self, who: Who, jobs: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]) -> Tried:
        """What would happen if these jobs came now, and these events.

        Raises DocumentError, Forbidden, TooMany or Busy.
        """
        specs = self._submissions.read({"jobs": list(jobs)}) if jobs else []
        if len(specs) > MOST_TRIED:
            message = f"{len(specs)} jobs are not allowed: at most {MOST_TRIED} in one question"
            raise DocumentError((Problem("jobs", 0, message),))
        check_rights(specs, who)
        if not self._trying.acquire(timeout=PATIENCE_S):
            raise Busy("others are trying something out: ask again in a moment")
        try:
            return self._try(who, specs, events)
        finally:
            self._trying.release()

    def _try(self, who: Who, specs: Sequence[JobSpec], events: Sequence[Mapping[str, Any]]) -> Tried:
        world, is_paused = self._copy()
        at_ms = max(self._clock(), world.state.now_ms)
        changes = [(at_ms, event) for event in _submissions(specs, world.state, who, at_ms)]
        scripted = read_changes(events, world.state, classes=self._classes, levels=self._levels)
        changes += [(at_ms + it.at_ms, it.event) for it in scripted]
        _check_view(changes, world.state, who)
        asked = tuple(dict.fromkeys(job for _, event in changes for job in _jobs_of(event)))
        without = look_ahead(world, at_ms, asked=asked, goes_on=_for_a_while())
        with_it = look_ahead(world, at_ms, changes, asked, goes_on=_for_a_while())
        return Tried(answer=Answer(at_ms=at_ms, without=without, with_it=with_it), asked=asked, is_paused=is_paused)

    def _copy(self) -> tuple[Run, bool]:
        world = self._world
        with world.lock:
            state = world.state
            many = len(state.roll) + len(state.pending) + len(state.held) + len(state.running)
            many += len(state.machines.nodes)
            if many > MOST_COPIED:
                raise TooMany(
                    f"there are {many} jobs and nodes, and with more than {MOST_COPIED} nothing is tried out: "
                    "a scenario file can be asked about as many as you like"
                )
            return world.ahead(), world.is_paused


def _for_a_while() -> Callable[[], bool]:
    until = monotonic() + LOOKS_AHEAD_S
    return lambda: monotonic() < until


def _submissions(specs: Sequence[JobSpec], state: State, who: Who, at_ms: int) -> Iterator[ev.Event]:
    """The jobs under names that nobody has here. Each comes after those of the question, or those that are there."""
    taken: set[str] = set()
    for place, spec in enumerate(specs):
        name = spec.name or (NEW if len(specs) == 1 else f"{NEW}-{place + 1}")
        while name in taken or state.find(name) is not None:
            name += "+"
        taken.add(name)
        unknown = [it.job for it in spec.after if it.job not in taken and it.job not in state.jobs]
        if unknown:
            message = f"{unknown[0]!r} is not allowed: the name of a job before it, or the id of one that is not over"
            raise DocumentError((Problem(f"jobs[{place}].after", 0, message),))
        yield ev.JobSubmitted(job=spec.job(name, at_ms, spec.after, user=spec.user or who.name, number=place + 1))


def _jobs_of(event: ev.Event) -> Iterator[str]:
    """The job that an event is about, if it is about one."""
    match event:
        case ev.JobSubmitted(job=job):
            yield job.id
        case ev.JobChanged(job=name) | ev.JobCancelled(job=name) | ev.TaskFailed(job=name):
            yield name
        case _:
            pass


def _check_view(changes: Sequence[Change], state: State, who: Who) -> None:
    """Whoever asks must be able to see the jobs and queues that the question names."""
    for _, event in changes:
        if isinstance(event, ev.QueueChanged) and not who.may("view", event.queue):
            raise Forbidden(f"{who.name} may not view in queue {event.queue!r}")
        for name in _jobs_of(event):
            job = state.find(name)
            if job is not None and not who.may("view", job.queue):
                raise Forbidden(f"{who.name} may not view in queue {job.queue!r}")
