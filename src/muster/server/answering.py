"""Why one job waits: as the last turn decided, in a paragraph; and when it will start, found out beside the world.

The reason is what the last turn said. All that must be tried out -- when it starts, what would help -- runs on a copy
of the world, outside of its lock, one at a time: turns go on meanwhile. Where there is more than can be copied in
a moment, nothing is tried out and the answer is brief.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from time import monotonic

from muster.model.jobs import Job
from muster.model.plan import Plan, Waiting
from muster.model.reasons import Facts, Reason
from muster.model.snapshot import Snapshot
from muster.server.reasons import Reasons
from muster.server.world import World
from muster.state.forecast import Estimate, forecast
from muster.state.run import Run
from muster.state.why import explain, paragraph
from muster.state.why.brief import Brief
from muster.state.why.standing import share_of
from muster.state.why.table import Table, shape
from muster.state.why.words import duration

FORECAST_TURNS = 200
MOST_COPIED = 5_000  # jobs that wait or run, and nodes: a copy of these takes some milliseconds
LOOKS_AHEAD_S = 1.0  # at most: turns have to share the machine with it
PATIENCE_S = 2.0  # for whoever looks ahead
MOST_OVER = 500_000  # jobs that are over and remembered: they only cost memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Why a job waits, as of a turn at a moment."""

    text: str
    reason: Reason
    facts: Facts = field(default_factory=dict)
    estimate_ms: int | None = None
    turn: int
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """A world as a turn left it, that nobody changes."""

    table: Table
    run: Run

    @cached_property
    def snapshot(self) -> Snapshot:
        """All of it."""
        return self.run.state.freeze(self.run.state.now_ms)

    @cached_property
    def estimates(self) -> Mapping[str, Estimate]:
        """When those start who wait."""
        until = monotonic() + LOOKS_AHEAD_S
        return forecast(self.run, most_turns=FORECAST_TURNS, goes_on=lambda: monotonic() < until)

    def explain(self, job: Job, waiting: Waiting) -> tuple[str, int | None]:
        """The answer in words, and when the job is expected to start."""
        said = {wait.job: wait.waiting for wait in self.table.waits if wait.job} | {job.id: waiting}
        plan = Plan(now_ms=self.snapshot.now_ms, verdicts=said, heads=self.table.heads)
        why = explain(self.snapshot, plan, job.id, self.estimates.get(job.id))
        assert why is not None, f"{job.id} waits"
        return paragraph(why), None if why.estimate is None else why.estimate.start_ms


class Answers:
    """Answers `why`."""

    def __init__(self, world: World, reasons: Reasons, clock: Callable[[], int]) -> None:
        self._world = world
        self._reasons = reasons
        self._clock = clock
        self._looking = Lock()  # one looks ahead at a time
        self._ahead: Ahead | None = None

    def why(self, job_id: str) -> Answer | None:
        """Why a job waits; None if it does not, or no turn has considered it."""
        with self._world.lock:
            if self._find(job_id) is None:
                return None
            is_small = self._is_small()
        if not is_small:
            return self._briefly(job_id)
        if not self._looking.acquire(timeout=PATIENCE_S):
            return self._briefly(job_id)
        try:
            return self._fully(job_id)
        finally:
            self._looking.release()

    def _fully(self, job_id: str) -> Answer | None:
        """With all that can be tried out, on a copy."""
        with self._world.lock:
            found = self._find(job_id)
            if found is None:
                return None
            job, waiting, table = found
            if self._ahead is None or self._ahead.table is not table:
                self._ahead = Ahead(table=table, run=self._world.ahead())
            ahead, answer = self._ahead, self._answer(waiting)
        text, estimate_ms = ahead.explain(job, waiting)
        return answer(text, estimate_ms)

    def _briefly(self, job_id: str) -> Answer | None:
        with self._world.lock:
            found = self._find(job_id)
            if found is None:
                return None
            job, waiting, table = found
            state = self._world.state
            head = table.heads.get(job.queue, "")
            brief = Brief(
                now_ms=state.now_ms,
                job=job,
                waiting=waiting,
                head=head,
                first=table.verdict(head, job.queue) if head and waiting.reason is Reason.BEHIND else None,
                alike=table.of_kind(job.queue, shape(job.profile)),
                share=share_of(state.freeze(state.now_ms), job),
                in_queue=state.jobs_in(job.queue),
            )
            answer = self._answer(waiting)
        return answer(brief.paragraph(), waiting.estimate_ms)

    def _find(self, job_id: str) -> tuple[Job, Waiting, Table] | None:
        job = self._world.state.find(job_id)
        waiting = None if job is None else self._reasons.verdict(job)
        if job is None or waiting is None:
            return None
        return job, waiting, self._reasons.table() or Table(at_ms=self._reasons.at_ms)

    def _answer(self, waiting: Waiting) -> Callable[[str, int | None], Answer]:
        """The answer once it is in words; as of which turn is known now, and may not be by then."""
        turn, at_ms, is_paused = self._reasons.turn, self._reasons.at_ms, self._world.is_paused

        def made(text: str, estimate_ms: int | None) -> Answer:
            as_of = f"This is as of turn {turn}, {duration(_seconds(self._clock() - at_ms))} ago."
            paused = " Nothing is decided now: the server is paused." if is_paused else ""
            return Answer(
                text=f"{text} {as_of}{paused}",
                reason=waiting.reason,
                facts=waiting.facts,
                estimate_ms=estimate_ms,
                turn=turn,
                at_ms=at_ms,
            )

        return made

    def _is_small(self) -> bool:
        """Whether the world can be copied in a moment."""
        state = self._world.state
        waiting = len(state.roll) + len(state.pending) + len(state.held)
        copied = waiting + len(state.running) + len(state.machines.nodes)
        return copied <= MOST_COPIED and state.jobs.remembered <= MOST_OVER


def _seconds(span_ms: int) -> int:
    """Whole seconds: more is nothing to people."""
    return max(span_ms, 0) // 1000 * 1000
