"""The loop: apply what happens at one moment, take one turn, carry out its plan, see when to look again.

Production, the simulator and forecasts all turn the same crank. Here a plan's actions succeed at once
and their results come back as events; who else makes things happen (a script, a cluster, an assumed
run time) is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from muster.engine import plan as decide
from muster.model import events as ev
from muster.model.calendar import WEEK_MS
from muster.model.jobs import Job, Reservation, Running
from muster.model.plan import Admit, Evict, Move, Plan, Promise, Resize, Return, Rule, Standing, Start
from muster.model.retries import DRAINED, FAILED, LOST, PREEMPTED
from muster.model.snapshot import Snapshot
from muster.state.agenda import Agenda
from muster.state.lifecycle import after_ending, after_losing, resized
from muster.state.racing import OpaqueClusters, Racing
from muster.state.records import Record
from muster.state.state import State
from muster.state.work import Work, Works

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from muster.model.quick import dataclass

End = ev.JobSucceeded | ev.JobFailed
_ENDS = (ev.JobSucceeded, ev.JobFailed, ev.JobCancelled)
Runtime = Callable[[Running], int | Work | None]
"""How long an attempt runs, in ms, or until how much is done; None: for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What one moment brought: events in order, and the plan of the turn at its end. `over`: the jobs that ended."""

    now_ms: int
    events: tuple[ev.Event, ...]
    plan: Plan
    over: Mapping[str, Job] = field(default_factory=dict)


class Listener(Protocol):
    """Hears all that happens in a world and all that is decided in it, in order (muster.state.record)."""

    def happened(self, event: ev.Event, now_ms: int) -> None:
        """Something is about to be applied to the state."""

    def decided(self, snapshot: Snapshot, plan: Plan) -> None:
        """A turn was taken; nothing of its plan has been carried out yet."""


class Run:
    """A world that runs by itself: a state, an agenda of things to come, and turns in between.

    `skips_turns`: those that would only say again what the last one said are not taken. `ahead`: how many jobs are to
    come in all.
    With `rounds_ms` above 1, what happens between two rounds is heard of in the next one.
    """

    def __init__(
        self,
        state: State,
        runtime: Runtime,
        *,
        skips_turns: bool = True,
        ahead: int = 0,
        opaque: OpaqueClusters | None = None,
        rounds_ms: int = 1,
    ) -> None:
        self.state = state
        state.roll.to_come = ahead
        self.skips_turns = skips_turns
        self.is_paused = False  # nothing is decided; what happens is taken in
        self.listener: Listener | None = None  # of this world only: what lies ahead has not happened
        self.watch: Callable[[Snapshot, Plan], None] | None = None
        self._runtime = runtime
        self._racing = None if opaque is None else Racing(state, opaque, skips_polls=skips_turns)
        self._agenda = Agenda()
        self._silent_ends: dict[str, list[End]] = {}
        self._works = Works()
        self._due: dict[str, int | None] = {}  # of jobs that work: when they are done as things stand
        self._moved_ms = 0
        self._over: dict[str, Job] = {}  # at this moment
        self._rounds_ms = rounds_ms
        self.done_ms: dict[str, int] = {}  # when jobs are really done, which is heard of in the next round
        self._last: Plan | None = None
        self._forgets_ms: int | None = None
        for run in state.running.values():
            self._expect_end(run)

    def ahead(self, runtime: Runtime) -> Run:
        """This world as it would go on if nothing new came and everyone ran as long as `runtime` says."""
        other = Run(self.state.fork(), runtime, ahead=self.state.roll.to_come)
        other._last, other._forgets_ms = self._last, self._forgets_ms
        return other

    def expect(self, at_ms: int, event: ev.Event) -> None:
        """Something will happen. At one moment ends come first, then the rest in the order expected."""
        self._agenda.expect(self._round_at(at_ms), event)

    def _round_at(self, moment_ms: int) -> int:
        """The first round not before that moment."""
        return -(-moment_ms // self._rounds_ms) * self._rounds_ms

    def _expect_end(self, run: Running) -> None:
        runtime_ms, limit_ms = self._runtime_ms(run), run.job.time_limit_ms
        end: ev.Event
        if limit_ms is not None and (runtime_ms is None or runtime_ms > limit_ms):
            runtime_ms, end = limit_ms, ev.JobFailed(job=run.job.id, attempt=run.attempt, cause="time limit")
        elif runtime_ms is not None:
            end = ev.JobSucceeded(job=run.job.id, attempt=run.attempt)
        else:
            return
        self.done_ms[run.job.id] = done_ms = run.started_ms + runtime_ms
        self._agenda.expect_end(self._round_at(done_ms), run.job.key, run.attempt, end)

    def _runtime_ms(self, run: Running) -> int | None:
        """How long the attempt runs in all, if it stays as wide as it is."""
        runtime = self._runtime(run)
        if not isinstance(runtime, Work):
            return runtime
        end_ms = self._works.ends_ms(run, runtime, max(self.state.now_ms, run.started_ms))
        self._due[run.job.id] = None if end_ms is None else self._round_at(end_ms)
        return None if end_ms is None else end_ms - run.started_ms

    def next_moment_ms(self, until_ms: int | None = None) -> int | None:
        """When the next turn is due; None when nothing more can happen by itself."""
        if self.state.dependencies.doomed:
            return self.state.now_ms
        while (first := self._agenda.first()) is not None and not self._is_to_come(first.event, first.at_ms):
            self._agenda.pop(first)
        event_ms = None if first is None else first.at_ms
        if self._racing is not None and (poll_ms := self._racing.next_ms()) is not None:
            event_ms = poll_ms if event_ms is None else min(event_ms, poll_ms)
        last = self._last
        if last is None:
            return event_ms
        turn_ms = self.state.policy.turn_ms
        if not self.skips_turns or not last.is_empty:
            look_ms: int | None = last.now_ms + turn_ms
        else:
            look_ms = None if last.wake_ms is None else _tick_at(last.now_ms, last.wake_ms, turn_ms)
        if until_ms is None and event_ms is None and self._is_settled(last):
            return None
        forgets_ms = self.state.forgets_queue_ms()
        if forgets_ms is not None:
            forgets_ms = _tick_at(last.now_ms, forgets_ms, turn_ms)
        moments = [moment for moment in (event_ms, look_ms, forgets_ms, until_ms) if moment is not None]
        return min(moments, default=None)

    def _is_settled(self, last: Plan) -> bool:
        """Whether nothing more can change by itself for those who wait; widths of others may change for ever."""
        if not last.is_empty or last.waits_ms is not None:
            return False
        is_hopeless = last.now_ms - self._moved_ms > WEEK_MS  # every window of a calendar has come and gone
        return last.runs_ms is None or not self.state.waiting() or is_hopeless

    def is_due(self, now_ms: int) -> bool:
        """Whether something is still to happen at this very moment."""
        first = self._agenda.first()
        return first is not None and first.at_ms <= now_ms

    def step(self, now_ms: int, news: Iterable[ev.Event] = ()) -> Moment:
        """Live through one moment: what was expected happens, then the news."""
        self.state.now_ms, self._over = now_ms, {}
        happened = self._end_doomed(now_ms)
        while (first := self._agenda.first()) is not None and first.at_ms <= now_ms:
            self._agenda.pop(first)
            if self._is_timely(first.event, first.at_ms):
                self._happen(first.event, now_ms, happened)
        for event in news:
            self._happen(event, now_ms, happened)
        self._race_on(now_ms, happened)
        if (skipped := self._skipped(now_ms)) is not None:
            self._last = skipped
            return Moment(now_ms=now_ms, events=tuple(happened), plan=skipped, over=self._over)
        snapshot = self.state.freeze(now_ms)
        plan = decide(snapshot)
        if self.listener is not None:
            self.listener.decided(snapshot, plan)
        if self.watch is not None:
            snapshot.settle()
            self.watch(snapshot, plan)
        self.state.has_news = False
        self._forgets_ms = self.state.forgets_queue_ms()
        if plan.standing != Standing():
            self._note(ev.QueuesStand(entered=plan.standing.entered, closed=plan.standing.closed), now_ms)
        self._carry_out(plan, now_ms, happened)
        if not all(isinstance(event, ev.JobResized) for event in happened):
            self._moved_ms = now_ms
        self._last = plan
        return Moment(now_ms=now_ms, events=tuple(happened), plan=plan, over=self._over)

    def _skipped(self, now_ms: int) -> Plan | None:
        """The plan of a turn that need not be taken: nobody waits, or it would only say again what the last one said.

        None if the turn must be taken.
        """
        last = self._last
        if self.is_paused:
            return Plan(now_ms=now_ms)
        if not self.skips_turns:
            return None
        if self.state.is_idle and self.watch is None:  # whoever watches may care how things stand
            return Plan(now_ms=now_ms)
        if last is None or self.state.has_news or not last.is_empty:
            return None
        moments = [moment for moment in (last.wake_ms, self._forgets_ms) if moment is not None]
        if now_ms >= min(moments, default=now_ms + 1):
            return None
        return last.again(now_ms)

    # -- what happens ----------------------------------------------------------------------------------

    def _happen(self, event: ev.Event, now_ms: int, happened: list[ev.Event]) -> None:
        """Apply one event with what follows from it; an event that came too late for its job does nothing."""
        events: Iterable[ev.Event] = (event,)
        match event:  # the most frequent first
            case ev.JobSubmitted():
                pass
            case ev.JobSucceeded() | ev.JobFailed():
                events = self._ended(event)
            case ev.JobCancelled(job=job_id):
                events = [event] if self._is_alive(job_id) else []
            case ev.JobChanged(job=job_id, changes=changes):
                # Only who waits can be held back; who runs goes on.
                is_late = changes.get("held_by") and job_id in self.state.running
                events = [event] if self._is_alive(job_id) and not is_late else []
            case ev.JobRequeued():
                events = self._stopped(event)
            case ev.QueueDeleted(queue=name):
                events = [event] if name in self.state.books and not self.state.jobs_in(name) else []
            case ev.BudgetSet(budget=budget):
                events = [event] if self._is_alive(budget.job) else []
            case ev.TaskFailed():
                events = [event, *self._failed(event)]
            case ev.NodeRemoved(node=name):
                events = [*self._lost_with(name), event]
            case ev.NodeDrained(node=name):
                events = [event, *self._driven_from(name)]
            case ev.ClusterSilent(cluster=cluster) if cluster in self.state.races.clusters:
                if self._racing is not None:
                    self._racing.look_soon(now_ms)
            case ev.ClusterSilent(cluster=cluster, silent=False):
                heard = self._silent_ends.pop(cluster, [])
                events = [event, *(one for end in heard for one in self._result_of(end))]
            case _:
                pass
        for each in events:
            self._apply(each, now_ms, happened)

    def _apply(self, event: ev.Event, now_ms: int, happened: list[ev.Event]) -> None:
        """Apply an event, and the ends of those that can never start because of it."""
        self._note(event, now_ms)
        happened.append(event)
        if self.state.dependencies.doomed:
            happened += self._end_doomed(now_ms)

    def _end_doomed(self, now_ms: int) -> list[ev.Event]:
        """End the jobs that come after what did not end as it had to; whoever comes after them may be next."""
        ended: list[ev.Event] = []
        while doomed := self.state.dependencies.doomed:
            job_id, cause = next(iter(doomed.items()))
            ended.append(ev.JobCancelled(job=job_id, cause=cause))
            self._note(ended[-1], now_ms)
        return ended

    def _note(self, event: ev.Event, now_ms: int) -> None:
        """Apply an event. A job that works is done sooner or later than thought when it got wider, or was stopped."""
        if isinstance(event, _ENDS) and (job := self.state.find(event.job)) is not None:
            self._over[event.job] = job
        if self.listener is not None:
            self.listener.happened(event, now_ms)
        self.state.apply(event, now_ms)
        if isinstance(event, ev.JobStarted):
            self._expect_end(self.state.running[event.job])
        if isinstance(event, ev.JobRequeued):
            self._works.stop(event.job, self.state.now_ms)
        if isinstance(event, ev.JobResized) and event.job in self._due and event.job in self.state.running:
            self._expect_end(self.state.running[event.job])

    def _is_timely(self, event: ev.Event, at_ms: int) -> bool:
        """Whether an end is due at that moment: of a job that works, only the last one that was worked out."""
        return not isinstance(event, ev.JobSucceeded) or self._due.get(event.job, at_ms) == at_ms

    def _is_to_come(self, event: ev.Event, at_ms: int) -> bool:
        """Whether an expected event can still happen: an attempt that was evicted has no end of its own."""
        if not isinstance(event, End):
            return True
        if not self._is_timely(event, at_ms):
            return False
        run = self.state.running.get(event.job)
        return run is not None and run.attempt == event.attempt

    def _is_alive(self, job_id: str) -> bool:
        return job_id in self.state.jobs and not self.state.jobs[job_id].phase.is_over

    def _ended(self, event: End) -> list[ev.Event]:
        """An attempt is over; from a silent cluster we hear of it later."""
        run = self.state.running.get(event.job)
        if run is not None and self.state.machines.clusters[run.cluster].silent:
            self._silent_ends.setdefault(run.cluster, []).append(event)
            return []
        return self._result_of(event)

    def _result_of(self, event: End) -> list[ev.Event]:
        """What the end of an attempt means for its job; nothing if the attempt was over already."""
        run = self.state.running.get(event.job)
        if run is None or run.attempt != event.attempt:
            return []
        if isinstance(event, ev.JobFailed):
            return [after_ending(run.job, run.attempt, FAILED, self._record(run), event.cause)]
        return [event]

    def _stopped(self, event: ev.JobRequeued) -> list[ev.Event]:
        """Someone says that an attempt is over, and not by its own fault."""
        run = self.state.running.get(event.job)
        if run is None or run.attempt != event.attempt:
            return []
        return [after_ending(run.job, run.attempt, event.cause, self._record(run))]

    def _failed(self, event: ev.TaskFailed) -> list[ev.Event]:
        run = self.state.running.get(event.job)
        tasks = () if run is None else run.tasks
        gone = [task for task in tasks if (task.group, task.index) == (event.group, event.index)]
        return after_losing(run, gone, FAILED, self._record(run)) if run is not None and gone else []

    def _lost_with(self, node: str) -> list[ev.Event]:
        """What happens to the jobs with tasks on a node that is gone."""
        events: list[ev.Event] = []
        for job_id in self.state.machines.jobs_on(node):
            run = self.state.running[job_id]
            gone = [task for task in run.tasks if task.node == node]
            events += after_losing(run, gone, LOST, self._record(run))
        return events

    def _driven_from(self, node: str) -> list[ev.Event]:
        """What happens to the jobs with tasks on a node that is drained: they get narrower, or wait elsewhere."""
        events: list[ev.Event] = []
        for job_id in self.state.machines.jobs_on(node):
            run = self.state.running[job_id]
            gone = tuple(task for task in run.tasks if task.node == node)
            events.append(ev.JobPreempted(job=job_id, attempt=run.attempt, rule=Rule.DRAIN, by=node, tasks=gone))
            events += after_losing(run, gone, DRAINED, self._record(run))
        return events

    def _record(self, run: Running) -> Record:
        return self.state.jobs[run.job.id]

    def _race_on(self, now_ms: int, happened: list[ev.Event]) -> None:
        """What races bring at this moment."""
        for event in () if self._racing is None else self._racing.step(now_ms):
            self._apply(event, now_ms, happened)

    # -- what a plan does --------------------------------------------------------------------------------

    def _carry_out(self, plan: Plan, now_ms: int, happened: list[ev.Event]) -> None:
        """Every action of a plan, in order. Room is free the moment a task is evicted."""
        actions = tuple(plan.actions)
        for action in actions:
            if isinstance(action, Move):
                left = ev.JobRequeued(job=action.job, attempt=action.attempt - 1, cause="moved")
                self._apply(left, now_ms, happened)
        for place, action in enumerate(actions):
            if isinstance(action, Start) and action.job not in self.state.pending:
                self._start(action, place, now_ms, happened)
                continue
            for event in self._results(action, place, now_ms):
                self._apply(event, now_ms, happened)

    def _start(self, action: Start, place: int, now_ms: int, happened: list[ev.Event]) -> None:
        """A job that stood in line until now starts: two events, which for most jobs come together."""
        admitted, started = _admitted(action, place), self._started(action, now_ms)
        if self.listener is not None:
            self.listener.happened(admitted, now_ms)
            self.listener.happened(started, now_ms)
        self.state.start_at_once(admitted, started, now_ms)
        happened += (admitted, started)
        self._expect_end(self.state.running[action.job])

    def _started(self, action: Start, now_ms: int) -> ev.JobStarted:
        return ev.JobStarted(
            job=action.job,
            attempt=action.attempt,
            cluster=action.cluster,
            tasks=action.tasks,
            overtook=action.overtook,
            protected_until_ms=now_ms + action.safe_ms if action.safe_ms else 0,
            borrowed=self.state.lender(action.job, action.tasks),
        )

    def _results(self, action: object, place: int, now_ms: int) -> list[ev.Event]:
        match action:
            case Evict(job=job_id, attempt=attempt, tasks=tasks, rule=rule, by=by):
                run = self.state.running[job_id]
                evicted = ev.JobPreempted(job=job_id, attempt=attempt, rule=rule, by=by, tasks=tasks)
                return [evicted, *after_losing(run, tasks, PREEMPTED, self._record(run))]
            case Admit():
                return [_admitted(action, place, action.reservation)]
            case Promise(job=job_id, reservation=reservation):
                return [ev.JobPromised(job=job_id, reservation=reservation)]
            case Return(job=job_id):
                return [ev.JobReturned(job=job_id)]
            case Start():
                return [self._started(action, now_ms)]
            case Move():
                protected_ms = now_ms + self.state.policy.protected_ms
                started = ev.JobStarted(
                    job=action.job,
                    attempt=action.attempt,
                    cluster=action.cluster,
                    tasks=action.tasks,
                    protected_until_ms=protected_ms,
                )
                return [_admitted(action, place), started]
            case Resize():
                return resized(self.state.running[action.job], action)
            case _:
                raise TypeError(f"not an action: {action!r}")


def _admitted(action: Admit | Start | Move, place: int, reservation: Reservation | None = None) -> ev.JobAdmitted:
    return ev.JobAdmitted(
        job=action.job,
        attempt=action.attempt,
        cluster=action.cluster,
        place=place,
        charge=action.charge,
        reservation=reservation,
    )


def _tick_at(last_ms: int, moment_ms: int, turn_ms: int) -> int:
    """The first turn at or after a moment: turns come every `turn_ms` since the last one."""
    turns = max(-(-(moment_ms - last_ms) // turn_ms), 1)
    return last_ms + turns * turn_ms
