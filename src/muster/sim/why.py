"""Why a job of a scenario waits at a moment, or what became of it: the answer to `muster simulate FILE --why JOB@TIME`.

The scenario is run to the turn in question and stopped there; `muster.state.why` explains what it finds. Without a time
that turn is the last one in which the job waited, which takes a run to the end before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches

from muster.model import events as ev
from muster.model.jobs import Job
from muster.model.names import name_key
from muster.model.plan import Plan, Rule
from muster.sim.scenario.changes import read_moment
from muster.sim.scenario.problems import Problem, ScenarioError, quoted
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import FORECAST_TURNS, Simulation
from muster.state.forecast import forecast
from muster.state.why import Why, explain, paragraph
from muster.state.why.words import clock, duration

FLAG = "--why"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A job, and the moment that is asked about (None: when it last waited)."""

    job: Job
    at_ms: int | None


@dataclass(slots=True)
class Story:
    """What happened to the job until a moment. `waited_tick` is the last moment at which it waited, counted from 0."""

    job: Job
    now_ms: int = 0
    is_told_out: bool = False  # nothing more will happen
    is_submitted: bool = False
    is_running: bool = False
    waited_tick: int | None = None
    started_ms: int | None = None
    nodes: tuple[str, ...] = ()
    attempt: int = 0
    end: str = ""
    end_ms: int = 0
    cause: str = ""
    setbacks: list[str] = field(default_factory=list)

    @property
    def is_waiting(self) -> bool:
        """Whether it has not started, or must start again."""
        return self.is_submitted and not self.is_running and not self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The answer: what became of the job until the moment, and why it waited then, or last, if it ever did."""

    story: Story
    why: Why | None


def read_question(text: str, scenario: Scenario) -> Question:
    """`JOB` or `JOB@TIME`; raises ScenarioError when there is no such job or time."""
    name, at, when = text.partition("@")
    jobs = {entry.job.id: entry.job for entry in scenario.jobs}
    if name not in jobs:
        raise _refused(f"{quoted(name)} is not a job of this file{_near(name, jobs)}")
    at_ms = read_moment(when, FLAG) if at else None
    if at_ms is not None and scenario.until_ms is not None and at_ms > scenario.until_ms:
        raise _refused(f"{quoted(when)} is not allowed: the scenario ends at {clock(scenario.until_ms)}")
    return Question(job=jobs[name], at_ms=at_ms)


def tell(scenario: Scenario, question: Question) -> Told:
    """Run the scenario to the moment in question, and answer; raises ScenarioError when it ends before."""
    story = Story(job=question.job)
    if question.at_ms is not None:
        why = _run(scenario, story, at_ms=question.at_ms)
        if story.is_told_out and story.now_ms < question.at_ms:
            raise _refused(f"nothing happens after {clock(story.now_ms)}: ask about a moment up to then")
        story.now_ms = question.at_ms
        return Told(story=story, why=why)
    _run(scenario, story)
    if story.waited_tick is None:
        return Told(story=story, why=None)
    return Told(story=story, why=_run(scenario, Story(job=question.job), last_tick=story.waited_tick))


def in_words(told: Told) -> list[str]:
    """The answer in paragraphs: what became of the job, and why it waited."""
    story, why = told.story, told.why
    fate = " ".join(_fate(story))
    if why is None:
        return [fate if story.waited_tick is not None or not story.is_submitted else f"{fate} It never waited."]
    if story.is_waiting:
        return [*([fate] if fate else []), paragraph(why)]
    return [f"{fate} When it last waited:", paragraph(why)]


def _fate(story: Story) -> list[str]:
    name, told = story.job.id, list(story.setbacks)
    because = f": {story.cause}" if story.cause and story.cause != story.end else ""
    if not story.is_submitted:
        told.append(
            f"{name} is submitted at {clock(story.job.submit_ms)}: at {clock(story.now_ms)} nobody knows of it."
        )
    elif story.is_running or (story.end and story.started_ms is not None):
        started_ms = story.started_ms or 0
        waited = duration(started_ms - story.job.submit_ms)
        where = f"on {', '.join(story.nodes[:3])}" + (
            f" and {len(story.nodes) - 3} more" if len(story.nodes) > 3 else ""
        )
        told.append(
            f"{name} started at {clock(started_ms)} {where} (attempt {story.attempt}), {waited} after it was submitted"
            + (f", and {story.end} at {clock(story.end_ms)}{because}." if story.end else ".")
        )
    elif story.end:
        told.append(f"{name} was {story.end} at {clock(story.end_ms)} and never ran{because}.")
    if story.is_running:
        told += _running(story)
    return told


def _running(story: Story) -> list[str]:
    job, started_ms, told = story.job, story.started_ms or 0, []
    if job.known_ms is not None:
        told.append(f"As far as was stated it runs until {clock(started_ms + job.known_ms)}.")
    if job.lifetime_ms is None:
        told.append("It has no lifetime: nobody may preempt it for fairness.")
    else:
        told.append(f"From {clock(started_ms + job.lifetime_ms)} on it may be preempted for fairness.")
    return told


# --- the run ------------------------------------------------------------------------------------


def _run(scenario: Scenario, story: Story, *, at_ms: int | None = None, last_tick: int | None = None) -> Why | None:
    """Run until a moment, the end of a tick, or the end; why the job waits then, if it does."""
    simulation = Simulation(scenario, estimates=False)
    plan: Plan | None = None
    for number, tick in enumerate(simulation):
        plan = tick.moment.plan
        _note(story, number, tick.moment.now_ms, tick.moment.events)
        next_ms = simulation.run.next_moment_ms(scenario.until_ms) if at_ms is not None else None
        if number == last_tick or (at_ms is not None and next_ms is not None and next_ms > at_ms):
            break
    else:
        story.is_told_out = True
    if plan is None or not story.is_waiting or (at_ms is None and last_tick is None):
        return None
    snapshot = simulation.state.freeze(story.now_ms if at_ms is None else max(at_ms, story.now_ms))
    estimates = forecast(simulation.run, most_turns=FORECAST_TURNS)
    return explain(snapshot, plan, story.job.id, estimates.get(story.job.id))


def _note(story: Story, number: int, now_ms: int, events: tuple[ev.Event, ...]) -> None:
    story.now_ms = now_ms
    for event in events:
        _happened(story, event, now_ms)
    if story.is_waiting:
        story.waited_tick = number


def _happened(story: Story, event: ev.Event, now_ms: int) -> None:
    name = story.job.id
    match event:
        case ev.JobSubmitted(job=job) if job.id == name:
            story.is_submitted = True
        case ev.JobChanged(job=job_id) if job_id == name:
            story.setbacks.append(f"{name} was changed at {clock(now_ms)}.")
        case ev.JobStarted(job=job_id, attempt=attempt, tasks=tasks) if job_id == name:
            story.is_running, story.started_ms, story.attempt = True, now_ms, attempt
            story.nodes = tuple(sorted({task.node for task in tasks}, key=name_key))
        case ev.JobPreempted(job=job_id, by=by, rule=rule) if job_id == name:
            why = f"because node {by} was drained" if rule is Rule.DRAIN else f"for {by} ({rule.value})"
            story.setbacks.append(f"{name} was preempted at {clock(now_ms)} {why}.")
        case ev.JobRequeued(job=job_id, cause=cause) if job_id == name:
            story.is_running = False
            if cause != "preempted":
                story.setbacks.append(f"{name} went back to its queue at {clock(now_ms)} ({cause}).")
        case ev.JobSucceeded(job=job_id) | ev.JobFailed(job=job_id) | ev.JobCancelled(job=job_id) if job_id == name:
            ends = {"JobSucceeded": "succeeded", "JobFailed": "failed", "JobCancelled": "cancelled"}
            story.is_running, story.end, story.end_ms = False, ends[type(event).__name__], now_ms
            story.cause = getattr(event, "cause", "")
        case _:
            pass


# --- questions that cannot be answered ----------------------------------------------------------


def _refused(message: str) -> ScenarioError:
    return ScenarioError((Problem(FLAG, 0, message),), "")


def _near(name: str, jobs: dict[str, Job]) -> str:
    """What may have been meant."""
    if numbered := sorted((job for job in jobs if job.rpartition("-")[0] == name), key=name_key):
        return f": there are {len(numbered)} of that name; ask about one of them, such as {numbered[0]}"
    first: dict[str, str] = {}
    for job in sorted(jobs, key=name_key):  # of jobs that differ only in their number, one is enough
        first.setdefault(name_key(job)[0], job)
    near = get_close_matches(name, first.values(), n=3, cutoff=0.5) if len(name) <= 80 else []
    if near:
        return f": did you mean {' or '.join(near)}?"
    few = list(first.values())[:10]
    return f": it has {', '.join(few)}{' and others' if len(first) > 10 else ''}" if few else ": it has none"
