"""What would happen if: a scenario and the same with a change, each run ahead as a scheduler could.

Until the moment of the question everything happens as in the scenario. From then on only what was stated is known:
everyone runs as long as expected and, where nobody said how long, as long again as so far, at least 10 minutes
(docs/adr/0013). With stated run times that are true the answer is what a simulation of the changed file does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.model import events as ev
from muster.model.jobs import Running
from muster.model.names import name_key
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation
from muster.sim.summary import Summary
from muster.state.forecast import stated_or_guessed
from muster.state.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A start. `is_assumed`: before it, some run time had to be guessed."""

    at_ms: int
    is_assumed: bool


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

    `before` are the last starts before that moment of jobs that still ran then, `why` the last verdict on each job.
    """

    starts: dict[str, list[Start]] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    preempted: list[Preemption] = field(default_factory=list)
    why: dict[str, dict[str, Any]] = field(default_factory=dict)
    queues: dict[str, str] = field(default_factory=dict)
    waits: dict[str, int] = field(default_factory=dict)


class Prediction(Simulation):
    """A simulation that knows no more of run times, from a moment on, than was stated."""

    def __init__(self, scenario: Scenario, at_ms: int, *, knows_runtimes: bool = False) -> None:
        self.at_ms = at_ms
        self.knows_runtimes = knows_runtimes
        self.guesses: list[int] = []
        super().__init__(scenario, estimates=False)

    def _runtime(self, run: Running) -> int | Work | None:
        real = super()._runtime(run)
        # How much work there is to do was stated; how long that takes depends on widths.
        is_seen = isinstance(real, Work) or (real is not None and run.started_ms + real <= self.at_ms)
        if is_seen or self.knows_runtimes:
            return real
        runtime_ms, is_guess = stated_or_guessed(run, self.at_ms, self.state.policy)
        if is_guess:
            self.guesses.append(run.started_ms + runtime_ms)
        return runtime_ms


def future(scenario: Scenario, at_ms: int, *, knows_runtimes: bool = False) -> Future:
    """What lies ahead in a scenario, as far as can be known at a moment."""
    simulation = Prediction(scenario, at_ms, knows_runtimes=knows_runtimes)
    summary, ahead = Summary(simulation), Future()
    for tick in simulation:
        summary.add(tick)
        now_ms = tick.moment.now_ms
        for event in tick.moment.events:
            _note(ahead, event, now_ms, simulation)
    for entry in scenario.jobs:
        job = entry.job
        ahead.queues[job.id] = job.queue
        ahead.why[job.id] = summary.verdict(job.id, {})
        if (first_ms := summary.stories[job.id].first_start_ms) is not None:
            ahead.waits[job.id] = first_ms - job.submit_ms
    return ahead


def _note(ahead: Future, event: ev.Event, now_ms: int, simulation: Prediction) -> None:
    at_ms = simulation.at_ms
    match event:
        case ev.JobStarted(job=job) if now_ms < at_ms:
            ahead.before[job] = now_ms
        case ev.JobStarted(job=job):
            is_assumed = any(guess_ms <= now_ms for guess_ms in simulation.guesses)
            ahead.starts.setdefault(job, []).append(Start(at_ms=now_ms, is_assumed=is_assumed))
        case ev.JobPreempted(job=job, by=by, rule=rule) if now_ms >= at_ms:
            ahead.preempted.append(Preemption(at_ms=now_ms, job=job, by=by, rule=rule.value))
        case ev.JobRequeued(job=job) | ev.JobSucceeded(job=job) | ev.JobFailed(job=job) | ev.JobCancelled(job=job):
            if now_ms < at_ms:
                ahead.before.pop(job, None)
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
        """Every job of the changed scenario, in order of name."""
        for job in sorted(self.with_it.queues, key=name_key):
            yield Comparison(
                job=job,
                queue=self.with_it.queues[job],
                is_new=job not in self.without.queues,
                without=_starts(self.without, job),
                with_it=_starts(self.with_it, job),
                why=self.with_it.why[job],
            )


def _starts(ahead: Future, job: str) -> tuple[Start, ...]:
    before_ms = ahead.before.get(job)
    running = [] if before_ms is None else [Start(at_ms=before_ms, is_assumed=False)]
    return (*running, *ahead.starts.get(job, ()))


def ask(before: Scenario, after: Scenario, at_ms: int, *, knows_runtimes: bool = False) -> Answer:
    """What would happen from a moment on in a scenario, and in the same with a change."""
    return Answer(
        at_ms=at_ms,
        without=future(before, at_ms, knows_runtimes=knows_runtimes),
        with_it=future(after, at_ms, knows_runtimes=knows_runtimes),
    )
