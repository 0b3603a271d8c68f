"""What a turn changes in the store: the rows of jobs, their leases, and an event for each thing that happened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from muster.model import events as ev
from muster.model.jobs import Job, Task
from muster.model.plan import Rule
from muster.model.retries import COUNTED, PREEMPTED
from muster.server.leases import ENDED, LEASED, STOPPING, Leases, revision
from muster.server.memory import attempt_body, evicted_thing
from muster.server.usage import widened, widths_at_start
from muster.state.state import State
from muster.state.telling import told
from muster.store.rows import JobChange, LeaseChange, LeaseRow, NewEvent, Thing

_STATES = {ev.JobSucceeded: "succeeded", ev.JobFailed: "failed", ev.JobCancelled: "cancelled"}


class Written:
    """The rows that follow from what happened at one moment, one event after the other."""

    def __init__(self, leases: Leases, now_ms: int, state: State) -> None:
        self._known = leases
        self._state = state
        self._now_ms = now_ms
        self._changes: dict[str, dict[str, Any]] = {}
        self.leases: dict[tuple[str, int], LeaseRow] = {}
        self._attempts: dict[str, list[int]] = {}  # of each job, in `leases`
        self.events: list[NewEvent] = []
        self.things: list[Thing] = []
        self.gone: list[tuple[str, str]] = []

    @property
    def changes(self) -> list[JobChange]:
        """What became different about each job."""
        return [JobChange(id=job, **changes) for job, changes in self._changes.items()]

    def add_all(self, events: Iterable[ev.Event], queue_of: Mapping[str, tuple[str, str]]) -> None:
        """All this happened. `queue_of`: queue and job set of jobs that may be over by now.

        That a job was admitted which started at the same moment is not worth a line: its start says it.
        """
        admitted: ev.JobAdmitted | None = None
        for event in events:
            if admitted is not None and not (isinstance(event, ev.JobStarted) and event.job == admitted.job):
                self.add(admitted, queue_of)
            admitted = event if isinstance(event, ev.JobAdmitted) else None
            if admitted is None:
                self.add(event, queue_of)
        if admitted is not None:
            self.add(admitted, queue_of)

    def add(self, event: ev.Event, queue_of: Mapping[str, tuple[str, str]]) -> None:
        """One more thing happened. `queue_of`: queue and job set of jobs that may be over by now."""
        match event:
            case ev.JobAdmitted(job=job, attempt=attempt, cluster=cluster):
                self._change(job, state="pending", attempt=attempt, cluster=cluster)
            case ev.JobReturned(job=job):
                self._change(job, state="queued", cluster="")
            case ev.JobStarted():
                job_of_it = self._start(event)
                queue_of = {event.job: (job_of_it.queue, job_of_it.job_set)}
            case ev.JobResized(job=job, group=group, tasks=tasks):
                self._resize(job, group, tasks)
            case ev.JobPreempted(job=job, attempt=attempt, rule=Rule.DRAIN, by=node):
                self._note_reason(job, attempt, f"preempted: node {node} is drained")
            case ev.JobPreempted(job=job, attempt=attempt, by=by):
                self._note_reason(job, attempt, f"preempted for {by}")
                self.things.append(evicted_thing(self._state, job))
            case ev.JobRequeued(job=job, attempt=attempt, cause=cause):
                self._change(job, state="queued", cluster="", start_ms=None, reason=cause, **self._counts(job))
                self._stop(job, attempt, cause)
                if cause == PREEMPTED:
                    self.things.append(evicted_thing(self._state, job))
            case ev.JobSucceeded(job=job) | ev.JobFailed(job=job) | ev.JobCancelled(job=job):
                cause = getattr(event, "cause", "")
                if isinstance(event, ev.JobFailed):
                    self._change(job, **self._counts(job))
                self._change(job, state=_STATES[type(event)], end_ms=self._now_ms, reason=cause)
                for row in self._of(job):
                    self._stop(job, row.attempt, cause or _STATES[type(event)])
            case ev.JobChanged(job=job, changes=given):
                self._change(job, **{name: given[name] for name in ("priority", "priority_class") if name in given})
                if given.get("held_by"):
                    self._change(job, state="queued", cluster="")
                if "level" in given:
                    self._weigh(job)
            case _:
                pass
        self._tell(event, queue_of)

    def _counts(self, job: str) -> dict[str, int]:
        """How many attempts of a job ended by what."""
        record = self._state.jobs[job]
        return {count: record.times(cause) for cause, count in COUNTED.items()}

    def remember(self, changed: tuple[list[Thing], list[tuple[str, str]]]) -> None:
        """What the world remembers beside these rows: things to write, and those that are no more."""
        self.things += changed[0]
        self.gone += changed[1]

    def put(self, row: LeaseRow) -> None:
        """An agent spoke of a lease."""
        key = (row.job, row.attempt)
        if key not in self.leases:
            self._attempts.setdefault(row.job, []).append(row.attempt)
        self.leases[key] = row

    def lease(self, job: str, attempt: int) -> LeaseRow | None:
        """A lease as it is by now."""
        return self.leases.get((job, attempt)) or self._known.live.get((job, attempt))

    def lease_rows(self) -> tuple[list[LeaseRow], list[LeaseChange]]:
        """The leases to write: whole those that are new or have other places, of the others what changed."""
        whole: list[LeaseRow] = []
        changed: list[LeaseChange] = []
        for key, row in self.leases.items():
            before = self._known.live.get(key)
            if before is None or before.spec is not row.spec:
                whole.append(row)
            else:
                changed.append(
                    LeaseChange(
                        job=row.job,
                        attempt=row.attempt,
                        cluster=row.cluster,
                        state=row.state,
                        reason=row.reason,
                        result=row.result,
                        changed_ms=row.changed_ms,
                    )
                )
        return whole, changed

    def _tell(self, event: ev.Event, queue_of: Mapping[str, tuple[str, str]]) -> None:
        line = told(event)
        if line is None:
            return
        kind, job = str(line.pop("event")), str(line.get("job", ""))
        queue, job_set = queue_of.get(job) or self._queue_of(job) if job else (str(line["queue"]), "")
        self.events.append(NewEvent(kind=kind, body=line, job=job, queue=queue, job_set=job_set))

    def _queue_of(self, job_id: str) -> tuple[str, str]:
        job = self._state.find(job_id)
        if job is not None:
            return job.queue, job.job_set
        lease = next(iter(self._of(job_id)), None)  # it ran until now
        return ("", "") if lease is None else (lease.spec["queue"], lease.spec["jobSet"])

    def _change(self, job: str, **changes: Any) -> None:
        before = self._changes.setdefault(job, changes)
        if before is not changes:
            before.update(changes)

    def _start(self, event: ev.JobStarted) -> Job:
        self._change(
            event.job, state="running", attempt=event.attempt, cluster=event.cluster, start_ms=self._now_ms, reason=""
        )
        run = self._state.running[event.job]
        job = run.job
        spec: dict[str, Any] = {
            "queue": job.queue,
            "jobSet": job.job_set,
            "user": job.user,
            "timeLimit": None if job.time_limit_ms is None else job.time_limit_ms / 1000,
            "revision": 0,
            "started": self._now_ms,
            "protectedUntil": event.protected_until_ms,
            "places": _places(event.tasks),
            "widths": widths_at_start(run.resources, self._now_ms),
        }
        if run.charge or run.overtook or run.serving is not None:
            spec |= attempt_body(run)
        self.put(
            LeaseRow(
                job=event.job,
                attempt=event.attempt,
                cluster=event.cluster,
                name=f"{event.job}-{event.attempt}",
                state=LEASED,
                spec=spec,
                reason="",
                result={},
                changed_ms=self._now_ms,
            )
        )
        return job

    def _of(self, job: str) -> Iterable[LeaseRow]:
        known, attempts = self._known.of_job(job), self._attempts.get(job)
        if attempts is None:
            return known
        if len(attempts) == 1 and all(row.attempt == attempts[0] for row in known):  # one attempt, as most have
            return [self.leases[job, attempts[0]]]
        rows = {row.attempt: row for row in known}
        rows |= {attempt: self.leases[job, attempt] for attempt in attempts}
        return [rows[attempt] for attempt in sorted(rows)]

    def _resize(self, job: str, group: str, tasks: tuple[Task, ...]) -> None:
        row = max(self._of(job), key=lambda row: row.attempt, default=None)
        if row is None or row.state in (STOPPING, ENDED):
            return
        places = [place for place in row.spec["places"] if place["group"] != group] + _places(tasks)
        spec = {**row.spec, "revision": revision(row) + 1, "places": places}
        run = self._state.running.get(job)
        if run is not None and run.attempt == row.attempt:
            spec |= attempt_body(run)
            spec["widths"] = widened(row.spec.get("widths", ()), run.resources, self._now_ms)
        # Only tasks of it gave way, if any did: the attempt goes on, and what was noted of them does not stop it.
        self.put(replace(row, spec=spec, reason=""))

    def _weigh(self, job: str) -> None:
        """What an elastic attempt is given counts by another level from now on."""
        run = self._state.running.get(job)
        row = None if run is None else self.lease(job, run.attempt)
        if run is not None and row is not None and row.state not in (STOPPING, ENDED):
            self.put(replace(row, spec={**row.spec, **attempt_body(run)}))

    def _note_reason(self, job: str, attempt: int, reason: str) -> None:
        row = self.lease(job, attempt)
        if row is not None and row.state != ENDED:
            self.put(replace(row, reason=reason))

    def _stop(self, job: str, attempt: int, reason: str) -> None:
        """The attempt is to end, unless its agent said that it has."""
        row = self.lease(job, attempt)
        if row is not None and row.state not in (STOPPING, ENDED):
            self.put(replace(row, state=STOPPING, reason=row.reason or reason, changed_ms=self._now_ms))


def _places(tasks: tuple[Task, ...]) -> list[dict[str, Any]]:
    return [
        {"group": task.group, "index": task.index, "node": task.node, "devices": list(task.devices)} for task in tasks
    ]


def tasks_of(row: LeaseRow) -> tuple[Task, ...]:
    """The tasks of a lease, as they were decided."""
    return tuple(
        Task(group=place["group"], index=place["index"], node=place["node"], devices=tuple(place["devices"]))
        for place in row.spec["places"]
    )
