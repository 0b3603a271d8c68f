"""The state of the world: events are applied one by one, and a snapshot can be frozen at any moment.

Job states (design.md 3): queued → pending → running → succeeded | failed | cancelled. A preempted or
lost attempt brings the job back to queued, with its submit time and priority kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from muster.engine.columns.known import asks_planner
from muster.engine.columns.queued_jobs import Roll
from muster.engine.columns.running_jobs import Runs
from muster.engine.columns.views import Columns
from muster.model import events as ev
from muster.model.fleet import Fleet
from muster.model.jobs import Job, Pending, Running, Task
from muster.model.made import Made
from muster.model.plan import Rule
from muster.model.policy import Policy
from muster.model.queues import Queue, User
from muster.model.resources import NOTHING, Resources
from muster.model.retries import FAILED, PREEMPTED
from muster.model.snapshot import Held, Snapshot
from muster.model.width import Serving
from muster.state.books import Books
from muster.state.dependencies import Dependencies
from muster.state.elastic import Elastic
from muster.state.machines import Machines
from muster.state.patience import can_wait
from muster.state.protection import Protection
from muster.state.races import Races
from muster.state.records import Phase, Records
from muster.state.tally import Measures
from muster.state.users import Users


class State:
    """Everything events have told us. One writer; `freeze` gives readers their own view."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.now_ms = 0
        self.machines = Machines()
        self.running: dict[str, Running] = {}
        self.pending: dict[str, Pending] = {}
        self.held: dict[str, Job] = {}
        self.races = Races()
        self.books = Books()
        self.users = Users()
        self._retried: dict[str, int] = {}
        self.dependencies = Dependencies()
        self._evicted: dict[str, int] = {}
        self._preempted_by: dict[str, tuple[str, ...]] = {}  # only of those who ever were, until they end
        self._preempted_for: dict[str, Rule] = {}  # by which rule the last time, until their attempt is over
        self.protection = Protection()
        self.elastic = Elastic()
        self._measures = Measures(policy.weights)
        self.roll = Roll(policy.order.reads_time)
        self.runs = Runs(self.roll)
        self.jobs = Records(self.roll.row_of, self.held, self.races.line)
        self._asking: set[tuple[bool, str]] = (
            set()
        )  # queues and users for which a rule may hold that only the planner applies
        self.has_news = True  # whether anything happened since it was last set to False that a turn might answer

    # -- reading ---------------------------------------------------------------------------------------

    @property
    def fleet(self) -> Fleet:
        """The nodes as they are now."""
        return self.machines.fleet()

    def queue(self, name: str) -> Queue | None:
        """A queue's settings."""
        books = self.books.get(name)
        return None if books is None else books.queue

    def started_by(self, queue: str) -> Resources:
        """What a queue's started jobs hold."""
        books = self.books.get(queue)
        return NOTHING if books is None else books.started()

    def started_by_queue(self) -> dict[str, Resources]:
        """What each queue's started jobs hold."""
        return {name: books.started() for name, books in self.books.items()}

    def find(self, job_id: str) -> Job | None:
        """A job that is not over."""
        run = self.running.get(job_id)
        if run is not None:
            return run.job
        return self._job(job_id) if job_id in self.jobs and not self.jobs[job_id].phase.is_over else None

    def jobs_in(self, queue: str) -> int:
        """How many jobs of a queue are not over."""
        return self.books[queue].jobs if queue in self.books else 0

    def waiting(self) -> set[str]:
        """Ids of the jobs that have not started and may still."""
        return {*self.roll.row_of, *self.pending, *self.held}

    @property
    def asks_planner(self) -> bool:
        """Whether a rule may hold for anyone that only the planner applies (muster.engine.columns.known)."""
        return bool(self._asking) or self.roll.asks_planner or asks_planner(self.policy)

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits, no width may change and nobody may move: there is nothing to decide."""
        if self.asks_planner:
            return False
        may_move = self.running and self.policy.move_points is not None
        return not (self.roll.row_of or self.pending or self.held or self.elastic or may_move)

    def lender(self, job_id: str, tasks: tuple[Task, ...]) -> str | None:
        """The pool whose nodes these tasks of a job are on, if that is not the job's own."""
        fleet = self.fleet
        if not fleet.pools:
            return None
        pool = fleet.pool_of(tasks[0].node)
        return None if pool == fleet.home(self._job(job_id).profile) else pool

    def freeze(self, now_ms: int) -> Snapshot:
        """All that a turn at `now_ms` may know."""
        floor = self.machines.floor()
        return Snapshot(
            now_ms=now_ms,
            policy=self.policy,
            fleet=self.machines.fleet(),
            nodes=floor.nodes(),
            queues=self.books.states(),
            users=self.users.states(),
            running=Made(partial(self._running_as_of, self.runs.version), len(self.running)),
            pending=tuple(self.pending.values()),
            held=tuple(self.held_back(job) for job in self.held.values()),
            attempts=dict(self._retried),
            evicted=frozenset(job_id for job_id, at_ms in self._evicted.items() if at_ms == now_ms),
            budgets=self.protection.budgets(),
            eviction_limits=self.protection.limits(),
            columns=Columns(roll=self.roll.sight(), runs=self.runs.sight(), floor=floor.sight()),
        )

    def _running_as_of(self, version: int) -> Iterable[Running]:
        if version != self.runs.version:
            raise LookupError("running jobs have come or gone: look at a snapshot before the world goes on")
        return self.running.values()

    def forgets_queue_ms(self) -> int | None:
        """When the next idle queue stops counting in nominal shares."""
        return self.books.forgets_ms(self.policy.share_memory_ms, self.now_ms)

    def fork(self) -> State:
        """A copy that can go its own way, to find out what would happen."""
        other = State(self.policy)
        other.now_ms, other.has_news = self.now_ms, self.has_news
        other.machines = self.machines.fork()
        other.running, other.pending, other.held = dict(self.running), dict(self.pending), dict(self.held)
        other.roll = self.roll.fork()
        other.runs = self.runs.fork(other.roll)
        other.races = self.races.fork()
        other.jobs = self.jobs.fork(other.roll.row_of, other.held, other.races.line)
        other.books = self.books.fork(other.roll)
        other.users, other._retried = self.users.fork(), dict(self._retried)
        other._evicted, other._preempted_by = dict(self._evicted), dict(self._preempted_by)
        other._preempted_for = dict(self._preempted_for)
        other.protection = self.protection.fork()
        other.elastic = self.elastic.fork()
        other.dependencies = self.dependencies.fork()
        other._asking = set(self._asking)
        return other

    # -- writing ---------------------------------------------------------------------------------------

    def apply(self, event: ev.Event, now_ms: int) -> None:
        """Take note of what happened."""
        self.now_ms = now_ms
        self.has_news = self.has_news or not can_wait(event, self)
        match event:  # the most frequent first
            case ev.JobSubmitted(job=job, race=race):
                if race is not None:
                    self.races.enter(job, race)
                self._submit(job)
            case ev.JobAdmitted():
                self._admit(event)
            case ev.JobStarted():
                self._start(event)
            case ev.JobSucceeded(job=job_id):
                self._end(job_id, Phase.SUCCEEDED)
            case ev.JobPromised(job=job_id, reservation=reservation):
                self.pending[job_id] = replace(self.pending[job_id], reservation=reservation)
            case ev.JobReturned(job=job_id):
                self._return(job_id)
            case ev.JobResized():
                self._resize(event)
            case ev.JobRequeued():
                self._requeue(event)
            case ev.JobFailed(job=job_id, ended_by=ended_by):
                self._end(job_id, Phase.FAILED, ended_by)
            case ev.JobCancelled(job=job_id):
                self._end(job_id, Phase.CANCELLED)
            case ev.JobChanged(job=job_id, changes=changes):
                self._change_job(job_id, replace(self._job(job_id), **changes))
            case ev.JobPreempted(job=job_id, rule=rule, by=by):
                self._preempted_for[job_id] = rule
                if rule is not Rule.DRAIN:
                    self._note_preempted(job_id, by)
            case ev.TaskFailed() | ev.SubmittedTo() | ev.CancelledAt():
                pass  # what follows from it comes as an event of its own
            case ev.RaceBegan(job=job_id, attempt=attempt):
                self._begin_race(job_id, attempt)
            case ev.RaceSeen(job=job_id, attempt=attempt, sightings=sightings):
                self.races.observe(job_id, attempt, sightings, now_ms)
            case ev.RaceWon(job=job_id):
                self.jobs.note(job_id, Phase.RUNNING)
            case ev.RaceOver(job=job_id, attempt=attempt):
                del self.races.live[job_id, attempt]
            case ev.QueueSet(queue=queue):
                self._set_queue(queue)
            case ev.QueueChanged(queue=name, changes=changes):
                self._set_queue(replace(self.queue(name) or Queue(name=name), **changes))
            case ev.QueueDeleted(queue=name):
                self.books.delete(name)
                self._asking.discard((True, name))
            case ev.UserSet(user=user):
                self.users[user.name] = user
                self._note_asking(user)
            case ev.JobOver(job=job_id, state=phase):
                self.jobs.note(job_id, Phase(phase))
            case ev.JobRecalled():
                self._recall(event)
            case ev.QueueRecalled():
                self.books.recall(event)
            case ev.QueuesStand(entered=entered, closed=closed):
                self.books.note_standing(entered, closed, now_ms)
            case ev.ServingRecalled(job=job_id, serving=serving):
                self._change_run(replace(self.running[job_id], serving=serving))
            case ev.VirtualRecalled(kept=kept, floors=floors):
                self.elastic.recall(kept, floors)
            case _:
                if not (self.races.takes(event) or self.protection.takes(event)):
                    self.machines.apply(event)

    def start_at_once(self, admitted: ev.JobAdmitted, started: ev.JobStarted, now_ms: int) -> None:
        """A job that stands in line is admitted and starts: as if both had been applied, with nothing in between."""
        self.now_ms, self.has_news = now_ms, True
        job = self._job(admitted.job)
        self.books[job.queue].leave(job)
        self.books[job.queue].charge(admitted.charge)
        self._run(job, admitted.charge, started)

    # -- queues ----------------------------------------------------------------------------------------

    def _set_queue(self, queue: Queue) -> None:
        self.books.set(queue, self.policy.half_time_ms, self.roll, self.now_ms)
        self._note_asking(queue)

    def _note_asking(self, whose: Queue | User) -> None:
        """A queue or a user was set: whether a rule may hold for it that only the planner applies."""
        key = (isinstance(whose, Queue), whose.name)
        (self._asking.add if asks_planner(whose) else self._asking.discard)(key)

    def touch(self, queue: str, jobs: int) -> None:
        """The queue is in use; `jobs` of it came (or, below zero, went)."""
        if queue in self.books:  # only a raced job may be in none
            self.books.touch(queue, jobs, self.now_ms)

    def _submit(self, job: Job) -> None:
        self.jobs.forget(job.id)
        self.touch(job.queue, +1)
        if job.after:
            self.dependencies.enter(job, self.jobs)
        self._enqueue(job)

    def _recall(self, event: ev.JobRecalled) -> None:
        self.jobs.recall(
            event.job,
            attempts=event.attempts,
            failures=event.failures,
            losses=event.losses,
            preemptions=event.preemptions,
        )
        self._retried[event.job] = event.attempts

    def doublings(self, job_id: str) -> int:
        """How often evictions for fairness have doubled the lifetime of a job that is not over."""
        return self._job(job_id).doublings

    def preempted_by(self, job_id: str) -> tuple[str, ...]:
        """The jobs that this one, which is not over, gave way to."""
        return self._preempted_by.get(job_id, ())

    def _enqueue(self, job: Job) -> None:
        """The job stands in line; or aside while someone holds it, or until what it comes after has ended."""
        self.jobs.note(job.id, Phase.QUEUED)
        if job.held_by or job.id in self.dependencies:
            self.held[job.id] = job
        elif job.id in self.races:
            self.races.stand_in_line(job)
        else:
            self.books[job.queue].join(job)

    def held_back(self, job: Job) -> Held:
        """What a job that stands aside waits for."""
        return Held(job=job, waits_for=self.dependencies.waits_for(job))

    def _leave_line(self, job: Job) -> None:
        """The job stands in line, or aside, no more, and asks for nothing."""
        if self.held.pop(job.id, None) is not None:
            return
        if job.id in self.races:
            self.races.leave_line(job.id)
        else:
            self.books[job.queue].leave(job)
            self.books[job.queue].ask_no_more(job.profile)

    def _job(self, job_id: str) -> Job:
        """A job that is not over."""
        row = self.roll.row_of.get(job_id)
        if row is not None:
            return self.roll.job(row)
        if job_id in self.held:
            return self.held[job_id]
        if job_id in self.races:
            return self.races.job(job_id)
        started = self.running.get(job_id) or self.pending.get(job_id)
        assert started is not None, f"{job_id} is over"
        return started.job

    def _change_job(self, job_id: str, job: Job) -> None:
        phase = self.jobs[job_id].phase
        if phase is Phase.QUEUED:
            self._leave_line(self._job(job_id))
            self._enqueue(job)
        elif job_id in self.races:
            self.races.change(job)
        elif phase is Phase.PENDING:
            self.pending[job_id] = replace(self.pending[job_id], job=job)
            self.roll.note(job)
            if job.held_by:  # it gives its reservation back
                self._return(job_id)
        elif phase is Phase.RUNNING:
            run = self.running[job_id]
            serving = run.serving and run.serving.settled(self.now_ms, run.job.level)
            self._change_run(replace(run, job=job, serving=serving if job.level != run.job.level else run.serving))

    # -- a job's way -----------------------------------------------------------------------------------

    def _admit(self, event: ev.JobAdmitted) -> None:
        job = self._job(event.job)
        self.books[job.queue].leave(job)
        self.jobs.note(job.id, Phase.PENDING)
        self.books[job.queue].charge(event.charge)
        self.pending[job.id] = Pending(
            job=job,
            attempt=event.attempt,
            admitted_ms=self.now_ms,
            turn_place=event.place,
            charge=event.charge,
            reservation=event.reservation,
        )

    def _leave_pending(self, job_id: str) -> Pending:
        pending = self.pending.pop(job_id)
        self.books[pending.job.queue].charge(-pending.charge)
        return pending

    def _return(self, job_id: str) -> None:
        job = self._leave_pending(job_id).job
        self.books[job.queue].ask_no_more(job.profile)
        self._enqueue(job)

    def _start(self, event: ev.JobStarted) -> None:
        pending = self._leave_pending(event.job)
        self.books[pending.job.queue].charge(pending.charge)
        self._run(pending.job, pending.charge, event)

    def _run(self, job: Job, charge: int, event: ev.JobStarted) -> None:
        self._retried.pop(job.id, None)
        self.jobs.note(job.id, Phase.RUNNING, attempts=event.attempt)
        run = self.running[job.id] = Running(
            job=job,
            attempt=event.attempt,
            cluster=event.cluster,
            started_ms=self.now_ms,
            tasks=event.tasks,
            protected_until_ms=event.protected_until_ms,
            overtook=event.overtook,
            charge=charge,
            serving=self._serving(job, event.tasks),
            preempted_by=self._preempted_by.get(job.id, ()),
        )
        self.elastic.note(run)
        self.runs.add(run)
        self.machines.move_in(job, event.tasks)
        self._use(job, event.tasks, sign=+1, whole=True)

    def _serving(self, job: Job, tasks: tuple[Task, ...]) -> Serving | None:
        """What a job that starts now was given so far, if it is elastic."""
        if not job.profile.is_elastic:
            return None
        usage = self._measures.of(job.profile, tasks).usage
        return self.elastic.enter(job, self.machines.pool_with(tasks), usage, self.now_ms, self._pool_of)

    def _pool_of(self, run: Running) -> str:
        """The pool in which an attempt runs."""
        return self.machines.pool_with(run.tasks)

    def _resize(self, event: ev.JobResized) -> None:
        run = self.running[event.job]
        kept = tuple(task for task in run.tasks if task.group != event.group) + event.tasks
        gone = tuple(task for task in run.tasks if task not in kept)
        came = tuple(task for task in event.tasks if task not in run.tasks)
        self.machines.move_out(run.job, gone)
        self.machines.move_in(run.job, came)
        self._use(run.job, gone, sign=-1, whole=False)
        self._use(run.job, came, sign=+1, whole=False)
        serving = run.serving and run.serving.resized(
            self.now_ms, self._measures.of(run.job.profile, kept).usage, run.job.level
        )
        preempted_by = self._preempted_by.get(event.job, ())
        self._change_run(replace(run, tasks=kept, serving=serving, preempted_by=preempted_by))

    def _change_run(self, run: Running) -> None:
        self.runs.remove(run.job.id)
        self.running[run.job.id] = run
        self.elastic.note(run)
        self.runs.add(run)

    def _stop(self, job_id: str, *, waits_again: bool = False) -> Job:
        """The running attempt is over: its room, usage and charge come back, and it asks for nothing."""
        if job_id in self.races:
            return self._stop_race(job_id)
        run = self.running.pop(job_id)
        self.elastic.forget(run, self.now_ms, self._pool_of, waits_again=waits_again)
        self.runs.remove(job_id)
        self.machines.move_out(run.job, run.tasks)
        self._use(run.job, run.tasks, sign=-1, whole=True)
        self.books[run.job.queue].ask_no_more(run.job.profile)
        self.books[run.job.queue].charge(-run.charge)
        return run.job

    def _note_preempted(self, job_id: str, by: str) -> None:
        """Remember to whom the job gave way; what follows for its attempt comes as an event of its own."""
        before = self._preempted_by.get(job_id, ())
        if by not in before:
            self._preempted_by[job_id] = (*before, by)

    def _requeue(self, event: ev.JobRequeued) -> None:
        if event.cause == FAILED:
            self._learn_from(event.job)
        run = self.running.get(event.job)
        job = self._stop(event.job, waits_again=True)
        if run is not None and self.policy.order.attained:
            job = replace(job, attained=run.attained_by(self.now_ms, self.policy.weights))
        self._retried[event.job] = self.jobs[event.job].attempts
        self.jobs.note(event.job, Phase.QUEUED, ended_by=event.cause)
        rule = self._preempted_for.pop(event.job, None)
        if event.cause == PREEMPTED:
            if rule is not None and rule.asks_for_age:
                job = job.doubled()
            self._evicted = {job_id: at_ms for job_id, at_ms in self._evicted.items() if at_ms == self.now_ms}
            self._evicted[event.job] = self.now_ms
        self._enqueue(job)

    def _end(self, job_id: str, phase: Phase, ended_by: str = "") -> None:
        before = self.jobs[job_id].phase
        if phase is Phase.SUCCEEDED or ended_by == FAILED:
            self._learn_from(job_id)
        if before is Phase.RUNNING or (before is Phase.PENDING and job_id in self.races):
            job = self._stop(job_id)
        elif before is Phase.PENDING:
            job = self._leave_pending(job_id).job
            self.books[job.queue].ask_no_more(job.profile)
        else:
            job = self._job(job_id)
            self._leave_line(job)
        self.races.leave(job_id)
        self.jobs.note(job_id, phase, ended_by=ended_by)
        self._retried.pop(job_id, None)
        self._preempted_by.pop(job_id, None)
        self._preempted_for.pop(job_id, None)
        self.protection.forget(job_id)
        self.elastic.over(job_id)
        self.touch(job.queue, -1)
        for freed in self.dependencies.end(job_id, phase.value):
            if not self.held[freed].held_by:
                self._enqueue(self.held.pop(freed))

    def _learn_from(self, job_id: str) -> None:
        """An attempt ends by itself: its queue's jobs usually run about as long."""
        if self.policy.short_first and job_id in self.running:
            run = self.running[job_id]
            self.books[run.job.queue].ran(self.now_ms - run.started_ms)

    def _use(self, job: Job, tasks: tuple[Task, ...], *, sign: int, whole: bool) -> None:
        """Tasks start (sign +1) or end (-1). `whole`: so does the job, and its min counts as fixed, or no longer."""
        books, measure = self.books[job.queue], self._measures.of(job.profile, tasks)
        books.use(measure, self.now_ms, sign=sign)
        if whole and sign > 0:
            books.start(self.now_ms)
        if whole and job.lifetime_ms is None:
            books.fix(sign * self._measures.least_usage(job.profile), self.now_ms)
        self.users.start(job.user, measure.resources, sign)

    # -- races -----------------------------------------------------------------------------------------

    def _begin_race(self, job_id: str, attempt: int) -> None:
        job = self.races.begin(job_id, attempt, self.now_ms)
        self.jobs.note(job_id, Phase.PENDING, attempts=attempt)
        self._hold_raced(job, sign=+1)

    def _stop_race(self, job_id: str) -> Job:
        job = self.races.stop(job_id, self.now_ms)
        self._hold_raced(job, sign=-1)
        return job

    def _hold_raced(self, job: Job, *, sign: int) -> None:
        asks = self.races.asks(job.id)
        if job.queue in self.books:
            self.books[job.queue].hold_raced(asks, sign=sign)
        self.users.race(job.user, asks, sign)
