"""What lies ahead, without a change and with it: who starts when, where, and who gives way to whom.

A future is found by running the very same loop on a copy of the world, knowing no more of run times than was stated
(`muster.state.forecast`). Scenario files are run ahead from their beginning (`muster.sim.whatif`), a server from the
moment somebody asks (`look_ahead`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.engine.waiting import held
from muster.model import events as ev
from muster.model.jobs import Running
from muster.model.names import name_key
from muster.model.plan import Plan, Waiting
from muster.state.forecast import stated_or_guessed
from muster.state.run import Run
from muster.state.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A start. `is_assumed`: before it, some run time had to be guessed."""

    at_ms: int
    is_assumed: bool
    cluster: str = field(default="", compare=False)
    nodes: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Who would give way, when, for whom, by which rule."""

    at_ms: int
    job: str
    by: str
    rule: str


@dataclass(slots=True)
class Future:
    """What lies ahead: the starts of each job from the moment of the question on, and who is preempted.

    `before` are the last starts before that moment of jobs that still ran then, `why` verdicts on jobs: the last ones,
    or the first ones of those that were asked about. `until_ms`: how far was looked; `is_whole`: nothing more starts.
    """

    starts: dict[str, list[Start]] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    preempted: list[Preemption] = field(default_factory=list)
    why: dict[str, dict[str, Any]] = field(default_factory=dict)
    queues: dict[str, str] = field(default_factory=dict)
    waits: dict[str, int] = field(default_factory=dict)
    until_ms: int = 0
    is_whole: bool = True

    def note(self, event: ev.Event, now_ms: int, *, is_assumed: bool) -> None:
        """Something happens that lies ahead."""
        match event:
            case ev.JobStarted(job=job, cluster=cluster, tasks=tasks):
                nodes = tuple(sorted({task.node for task in tasks}, key=name_key))
                start = Start(at_ms=now_ms, is_assumed=is_assumed, cluster=cluster, nodes=nodes)
                self.starts.setdefault(job, []).append(start)
            case ev.JobPreempted(job=job, by=by, rule=rule):
                self.preempted.append(Preemption(at_ms=now_ms, job=job, by=by, rule=rule.value))
            case _:
                pass

    def note_before(self, event: ev.Event, now_ms: int) -> None:
        """Something happened before the question was asked."""
        match event:
            case ev.JobStarted(job=job):
                self.before[job] = now_ms
            case ev.JobRequeued(job=job) | ev.JobSucceeded(job=job) | ev.JobFailed(job=job) | ev.JobCancelled(job=job):
                self.before.pop(job, None)
            case _:
                pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One job without and with a change: its starts, the one included with which it runs when the question is asked."""

    job: str
    queue: str
    is_new: bool
    without: tuple[Start, ...]
    with_it: tuple[Start, ...]
    why: dict[str, Any]

    @property
    def gain_ms(self) -> int | None:
        """How much earlier its last start is with the change (below zero: later): what ran before that is lost.

        None where it does not start in both.
        """
        if not self.without or not self.with_it:
            return None
        return self.without[-1].at_ms - self.with_it[-1].at_ms

    @property
    def is_better(self) -> bool:
        """Whether the change is good for it."""
        return not self.is_new and ((self.gain_ms or 0) > 0 or bool(self.with_it and not self.without))

    @property
    def is_worse(self) -> bool:
        """Whether the change is bad for it."""
        return not self.is_new and ((self.gain_ms or 0) < 0 or bool(self.without and not self.with_it))

    @property
    def is_changed(self) -> bool:
        """Whether the change changes anything for it."""
        return self.is_new or _moments(self.without) != _moments(self.with_it)


def _moments(starts: tuple[Start, ...]) -> list[int]:
    return [start.at_ms for start in starts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A future without a change and with it."""

    at_ms: int
    without: Future
    with_it: Future

    def jobs(self) -> Iterator[Comparison]:
        """Every job of the changed world, in order of name."""
        for job in sorted(self.with_it.queues, key=name_key):
            yield Comparison(
                job=job,
                queue=self.with_it.queues[job],
                is_new=job not in self.without.queues,
                without=_starts(self.without, job),
                with_it=_starts(self.with_it, job),
                why=self.with_it.why.get(job, {}),
            )


def _starts(ahead: Future, job: str) -> tuple[Start, ...]:
    before_ms = ahead.before.get(job)
    running = [] if before_ms is None else [Start(at_ms=before_ms, is_assumed=False)]
    return (*running, *ahead.starts.get(job, ()))


# --- of a world that runs -----------------------------------------------------------------------


def look_ahead(
    world: Run,
    at_ms: int,
    changes: Iterable[tuple[int, ev.Event]] = (),
    asked: Collection[str] = (),
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> Future:
    """What lies ahead of a world from a moment on, if these things happen in it; the world itself stays as it is.

    It is looked at until nobody waits any more, nothing more can start, or someone says that it should not go on.
    """
    guesses: list[int] = []

    def expected_ms(run: Running) -> int:
        runtime_ms, is_guess = stated_or_guessed(run, at_ms, world.state.policy)
        if is_guess:
            guesses.append(run.started_ms + runtime_ms)
        return runtime_ms

    run = world.ahead(expected_ms)
    ahead = Future(until_ms=at_ms, before={name: it.started_ms for name, it in run.state.running.items()})
    ahead.queues = _queues(run.state)
    last_ms = at_ms
    for when_ms, event in changes:
        last_ms = max(last_ms, when_ms)
        run.expect(when_ms, event)
        if isinstance(event, ev.JobSubmitted):
            ahead.queues[event.job.id] = event.job.queue
    while (moment_ms := run.next_moment_ms()) is not None:
        if not goes_on():
            ahead.is_whole = False
            break
        now_ms = ahead.until_ms = max(moment_ms, at_ms)
        moment = run.step(now_ms)
        for event in moment.events:
            ahead.note(event, now_ms, is_assumed=any(guess_ms <= now_ms for guess_ms in guesses))
        for job in asked:
            if job not in ahead.why and (why := _verdict(run.state, moment.plan, job)):
                ahead.why[job] = why
        if now_ms >= last_ms and not run.state.waiting():
            break
    return ahead


def _queues(state: State) -> dict[str, str]:
    """The queue of every job that is not over."""
    found = {name: run.job.queue for name, run in state.running.items()}
    for name in state.waiting():
        job = state.find(name)
        assert job is not None, f"{name} waits"
        found[name] = job.queue
    return found


def _verdict(state: State, plan: Plan, job_id: str) -> dict[str, Any]:
    """What a turn said of a job that waits after it, or that it started; nothing of one that has not come yet."""
    job = state.find(job_id)
    if job is None:
        return {}
    if job_id in state.running:
        return {"verdict": "running"}
    verdict = held(state.held_back(job)) if job_id in state.held else plan.verdicts.get(job_id)
    if not isinstance(verdict, Waiting):  # not looked at, or a victim that is back in line
        verdict = plan.behind(job.queue)
    return {
        "verdict": "waiting",
        "reason": verdict.reason.name,
        "facts": dict(verdict.facts),
        "why": verdict.explain(),
    }
