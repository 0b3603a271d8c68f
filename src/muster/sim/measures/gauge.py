"""Watches a simulation and measures it.

Events are noted as they come, for a microsecond or so each; all arithmetic is done for many moments together.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush, heappushpop
from typing import Any

import numpy as np

from muster.model import events as ev
from muster.model.jobs import resources_of
from muster.model.plan import Waiting
from muster.model.resources import MICRO, Resources, Weights, units_of
from muster.sim.goodput import keeping
from muster.sim.measures.division import Floats, entitled
from muster.sim.measures.fairness import WINDOW_MS, FairnessSums, Shared
from muster.sim.measures.fragments import Looks
from muster.sim.measures.jobs import (
    CANCELLED,
    FAILED,
    PHASES,
    QUEUED,
    SUCCEEDED,
    JobColumns,
    JobTable,
    width_classes,
)
from muster.sim.measures.levels import Block, Journal, Kinds, Layout, main_of, weighed
from muster.sim.measures.measured import Course, Measured, Stay, spreads
from muster.sim.measures.steps import Series
from muster.sim.measures.thrown import Thrown
from muster.sim.simulate import Simulation, Tick
from muster.state.state import State

LONGEST = 20  # jobs that waited longest, of which more is told
_UNLIMITED = 1 << 62


class Gauge:
    """Feed it every tick, then ask for `result`.

    `weights`: what counts how much in shares; those of the policy unless told otherwise (only GPUs, for example).
    """

    def __init__(self, simulation: Simulation, *, weights: Weights | None = None, window_ms: int = WINDOW_MS) -> None:
        scenario = simulation.scenario
        self._state: State = simulation.state
        self._jobs = [entry.job for entry in scenario.jobs]
        self._rows = {job.id: row for row, job in enumerate(self._jobs)}
        self._waiters: dict[str, list[int]] = {}
        for row, job in enumerate(self._jobs):
            for need in job.after:
                self._waiters.setdefault(need.job, []).append(row)
        weights = scenario.policy.weights if weights is None else weights
        self._layout = _layout(simulation, weights)
        self._queue_numbers = {name: number for number, name in enumerate(self._layout.queues)}
        per_unit = {name: micro / units / MICRO for name, micro, units in weights.terms}
        self._per_unit = np.array([per_unit.get(name, 0.0) for name in self._layout.resources])
        self._kinds = Kinds(self._layout)
        self._is_raced = {entry.job.id for entry in scenario.jobs if entry.race is not None}
        self._kind_of = [0] * len(self._jobs)  # what each job counts as now; 0: nothing
        self._columns = JobColumns([job.submit_ms for job in self._jobs])
        self._clusters: dict[str, int] = {}
        self._told: dict[int, Waiting] = {}
        self._longest: list[tuple[int, int, Waiting | None]] = []
        self._requeues: dict[str, int] = {}
        self._now_ms = 0
        self._journal = Journal(self._kinds, self._state.fleet, self._capacity())
        self._fairness = FairnessSums(self._layout.queues, window_ms)
        self._series = Series(3 * len(self._layout.queues) + len(self._layout.resources) + 3)
        self._thrown = Thrown(self._layout.resources, keeping(scenario))
        self._there, self._held = np.zeros((2, len(self._layout.resources)))
        self._whole_ms = self._asked = 0.0
        last_ms = max((job.submit_ms for job in self._jobs), default=0)
        self._looks = Looks(self._layout.main, last_ms if scenario.until_ms is None else scenario.until_ms)
        self._read_queues()

    # -- while it runs ---------------------------------------------------------------------------------

    def add(self, tick: Tick) -> None:
        """One more moment."""
        moment, journal = tick.moment, self._journal
        self._now_ms = now_ms = moment.now_ms
        if journal.is_full:
            self._work_out(now_ms)
        if self._state.fleet is not journal.fleet:
            self._work_out(now_ms)
            journal.move_to(self._state.fleet)
        if moment.events:
            journal.begin(now_ms)
            for event in moment.events:
                note = _NOTES.get(type(event))
                if note is not None:
                    note(self, event)
            journal.end(self._capacity())
        for notice in tick.notices:
            row = self._rows[notice.job]
            self._columns.tell(row, notice.waiting.reason, now_ms)
            self._told[row] = notice.waiting
        if self._looks.is_due(now_ms):
            self._look(now_ms)

    def _capacity(self) -> Resources:
        return self._state.machines.floor().capacity()

    def _submitted(self, event: ev.JobSubmitted) -> None:
        self._stand_in_line(self._rows[event.job.id])

    def _stand_in_line(self, row: int) -> None:
        """A job waits; it asks for room unless it must wait for others first."""
        job = self._jobs[row]
        is_raced = job.id in self._is_raced
        self._columns.wait(row, self._now_ms, is_behind=not is_raced)
        if is_raced or (job.after and job.id in self._state.held):
            self._count(row, self._kinds.elsewhere(runs=False))
        else:
            self._count(row, self._kinds.waits(self._queue_numbers[job.queue], job.profile))

    def _started(self, event: ev.JobStarted) -> None:
        row = self._rows[event.job]
        job = self._jobs[row]
        self._count(row, self._kinds.runs(self._queue_numbers[job.queue], job.profile, event.tasks))
        self._thrown.hold(event.job, resources_of(job.profile, event.tasks), self._now_ms)
        self._begin(row, event.cluster, event.attempt, self._now_ms)

    def _won(self, event: ev.RaceWon) -> None:
        row = self._rows[event.job]
        self._count(row, self._kinds.elsewhere(runs=True))
        self._begin(row, event.cluster, event.attempt, event.since_ms)

    def _begin(self, row: int, cluster: str, attempt: int, start_ms: int) -> None:
        told = self._told.pop(row, None)
        if self._columns.start[row] < 0:
            self._remember(start_ms - self._columns.submit[row], row, told)
        number = self._clusters.setdefault(cluster, len(self._clusters))
        self._columns.begin(row, start_ms, number, attempt, self._now_ms)

    def _resized(self, event: ev.JobResized) -> None:
        run = self._state.running.get(event.job)
        if run is not None:  # else it is over by the end of this moment
            row = self._rows[event.job]
            self._count(row, self._kinds.runs(self._queue_numbers[run.job.queue], run.job.profile, run.tasks))
            self._thrown.hold(event.job, run.resources, self._now_ms)

    def _requeued(self, event: ev.JobRequeued) -> None:
        self._thrown.end(event, self._now_ms)
        self._requeues[event.cause] = self._requeues.get(event.cause, 0) + 1
        self._stand_in_line(self._rows[event.job])

    def _succeeded(self, event: ev.JobSucceeded) -> None:
        self._finish(event, SUCCEEDED)

    def _failed(self, event: ev.JobFailed) -> None:
        self._finish(event, FAILED)

    def _cancelled(self, event: ev.JobCancelled) -> None:
        self._finish(event, CANCELLED)

    def _finish(self, event: ev.JobSucceeded | ev.JobFailed | ev.JobCancelled, phase: int) -> None:
        row = self._rows[event.job]
        self._thrown.end(event, self._now_ms)
        self._count(row, 0)
        told = self._told.pop(row, None)
        if self._columns.start[row] < 0:
            self._remember(self._now_ms - self._columns.submit[row], row, told)
        self._columns.finish(row, phase, self._now_ms)
        for waiter in self._waiters.get(event.job, ()):
            if self._columns.phase[waiter] == QUEUED and self._jobs[waiter].id not in self._state.held:
                self._let_ask(waiter)

    def _let_ask(self, row: int) -> None:
        """What the job comes after has ended."""
        job = self._jobs[row]
        if job.id not in self._is_raced:
            self._count(row, self._kinds.waits(self._queue_numbers[job.queue], job.profile))

    def _queue_changed(self, event: ev.QueueSet | ev.QueueChanged) -> None:
        del event
        self._journal.end(self._capacity())
        self._work_out(self._now_ms)
        self._read_queues()

    def _count(self, row: int, kind: int) -> None:
        """The job counts as something else from now on."""
        before = self._kind_of[row]
        if before:
            self._journal.less(before)
        if kind:
            self._journal.more(kind)
        self._kind_of[row] = kind

    def _remember(self, waited_ms: int, row: int, told: Waiting | None) -> None:
        """Of the jobs that waited longest, what they were last told."""
        entry = (waited_ms, -row, told)
        if len(self._longest) < LONGEST:
            heappush(self._longest, entry)
        elif entry[:2] > self._longest[0][:2]:
            heappushpop(self._longest, entry)

    # -- many moments at once --------------------------------------------------------------------------

    def _read_queues(self) -> None:
        queues = [self._state.queue(name) for name in self._layout.queues]
        self._weights = np.array([1.0 if queue is None else queue.weight / MICRO for queue in queues])
        self._quotas = np.array(
            [
                [_UNLIMITED if queue is None else queue.quota.get(name, _UNLIMITED) for queue in queues]
                for name in self._layout.resources
            ],
            np.int64,
        ).reshape(len(self._layout.resources), len(queues))

    def _work_out(self, until_ms: int) -> None:
        """Everything up to that moment."""
        block = self._journal.block(until_ms)
        self._thrown.add(block)
        layout, queues, lasted = self._layout, len(self._layout.queues), np.diff(block.moments).astype(float)
        shape = (len(lasted), len(layout.resources), queues)
        many = len(layout.resources) * queues
        held, wanted = (part.reshape(shape) for part in (block.levels[:, :many], block.levels[:, many : 2 * many]))
        there = np.flatnonzero((held.any(axis=0) | wanted.any(axis=0)).any(axis=0))  # the others hold and want nothing
        held = held[:, :, there]
        wanted = np.minimum(np.minimum(wanted[:, :, there], self._quotas[:, there]), block.capacity[:, :, None])
        whole = block.capacity @ self._per_unit
        shared = Shared(
            moments=block.moments,
            queues=there,
            held=weighed(held, self._per_unit),
            entitled=entitled(weighed(wanted, self._per_unit), self._weights[there], whole),
            waits=(block.levels[:, layout.waits(0) : layout.waits(queues)][:, there] > 0).astype(float),
            whole=whole,
        )
        self._fairness.add(shared)
        self._add_course(block, shared, held.sum(axis=2), lasted)

    def _add_course(self, block: Block, shared: Shared, held: Any, lasted: Floats) -> None:
        layout, queues = self._layout, len(self._layout.queues)
        asked = np.zeros(len(lasted))
        if layout.main in layout.resources:
            place = layout.resources.index(layout.main)
            idle = np.maximum(block.capacity[:, place] - held[:, place], 0)
            asked = _part(np.minimum(idle, block.levels[:, layout.asked]), block.capacity[:, place])
        self._there += lasted @ block.capacity
        self._held += lasted @ held
        self._whole_ms += float(lasted.sum())
        self._asked += float(lasted @ asked)
        if block.moments[-1] <= block.moments[0]:
            return
        by_queue = _part(np.hstack([shared.held, shared.entitled, shared.short]), shared.whole[:, None])
        jobs = block.levels[:, [layout.waiting, layout.running]]
        levels = np.hstack([by_queue, _part(held, block.capacity), jobs, asked[:, None]])
        there = shared.queues
        rest = np.arange(3 * queues, self._series.columns)
        places = np.concatenate([there, there + queues, there + 2 * queues, rest])
        self._series.add(levels, block.moments, places)

    def _look(self, now_ms: int) -> None:
        self._work_out(now_ms)
        waiting = self._kinds.waiting_profiles(self._journal.counts)
        self._looks.look(self._state.machines.floor(), waiting, now_ms)

    # -- at the end ------------------------------------------------------------------------------------

    def result(self) -> Measured:
        """All that was measured until now."""
        self._work_out(self._now_ms)
        layout, jobs = self._layout, self._job_table()
        classes = list(width_classes(jobs.width, units_of(layout.main)))
        width = np.zeros(len(self._jobs), np.int64)
        for number, (_, which) in enumerate(classes):
            width[which] = number
        main = layout.resources.index(layout.main) if layout.main in layout.resources else None
        return Measured(
            end_ms=self._now_ms,
            main=layout.main,
            unit=units_of(layout.main),
            capacity=0.0 if main is None or not self._whole_ms else float(self._there[main]) / self._whole_ms,
            fairness=self._fairness.result(self._weights),
            course=self._course(),
            jobs=jobs,
            all_jobs=spreads(["all"], np.zeros(len(self._jobs), np.int64), jobs)[0],
            by_queue=spreads(jobs.queues, jobs.queue, jobs),
            by_width=spreads([name for name, _ in classes], width, jobs),
            used=dict(zip(layout.resources, _part(self._held, self._there).tolist(), strict=True)),
            good=dict(
                zip(layout.resources, _part(self._held - self._thrown.total(), self._there).tolist(), strict=True)
            ),
            asked=self._asked / self._whole_ms if self._whole_ms else 0.0,
            looks=tuple(self._looks.looks),
            reasons=self._columns.reasons(self._now_ms),
            longest=self._longest_stays(),
            requeues=dict(sorted(self._requeues.items())),
        )

    def _course(self) -> Course:
        means, queues = self._series.means(), len(self._layout.queues)
        held, entitled_, short, used, rest = np.split(
            means, [queues, 2 * queues, 3 * queues, 3 * queues + len(self._layout.resources)], axis=1
        )
        return Course(
            step_ms=self._series.width_ms,
            end_ms=self._now_ms,
            queues=self._layout.queues,
            resources=self._layout.resources,
            held=held,
            entitled=entitled_,
            short=short,
            used=used,
            good=np.maximum(used - self._thrown.means(self._now_ms), 0.0),  # differences of sums may be a hair below
            waiting=rest[:, 0],
            running=rest[:, 1],
            asked=rest[:, 2],
        )

    def _job_table(self) -> JobTable:
        columns, jobs = self._columns, self._jobs
        phase = np.frombuffer(columns.phase, np.int8).copy()
        for row in np.flatnonzero(phase == QUEUED).tolist():
            phase[row] = PHASES.index(self._state.jobs[jobs[row].id].phase.value)
        return JobTable(
            ids=[job.id for job in jobs],
            users=[job.user for job in jobs],
            queues=self._layout.queues,
            clusters=tuple(self._clusters),
            queue=np.array([self._queue_numbers[job.queue] for job in jobs], np.int64),
            cluster=np.array(columns.cluster, np.int64),
            submit=np.array(columns.submit, np.int64),
            start=np.array(columns.start, np.int64),
            last_start=np.array(columns.last_start, np.int64),
            end=np.array(columns.end, np.int64),
            attempts=np.array(columns.attempts, np.int64),
            tasks=np.array([job.profile.tasks_min for job in jobs], np.int64),
            width=np.array([job.profile.least.get(self._layout.main) for job in jobs], np.int64),
            phase=phase,
            reasons=columns.told(),
        )

    def _longest_stays(self) -> tuple[Stay, ...]:
        """Those who waited longest, whether or not they ever started."""
        phase, start = np.frombuffer(self._columns.phase, np.int8), np.frombuffer(self._columns.start, np.int64)
        still = np.flatnonzero((phase == QUEUED) & (start < 0))
        waited = self._now_ms - np.frombuffer(self._columns.submit, np.int64)[still]
        chosen = still[np.argsort(-waited, kind="stable")[:LONGEST]]
        found = [(self._now_ms - self._columns.submit[row], -row, self._told.get(row)) for row in chosen.tolist()]
        longest = sorted([*self._longest, *found], key=lambda entry: entry[:2], reverse=True)[:LONGEST]
        return tuple(self._stay(waited_ms, -minus, told) for waited_ms, minus, told in longest if waited_ms > 0)

    def _stay(self, waited_ms: int, row: int, told: Waiting | None) -> Stay:
        reason, sentence = "BEHIND", "others of its queue came first"
        if told is not None:
            reason, sentence = told.reason.name, told.explain()
        elif self._jobs[row].id in self._is_raced:
            reason, sentence = "RACING", "no cluster had run it for long enough"
        return Stay(row=row, waited_ms=waited_ms, reason=reason, sentence=sentence)


def _layout(simulation: Simulation, weights: Weights) -> Layout:
    """Every queue and resource that there is or will be."""
    scenario = simulation.scenario
    scripted = [entry.event for entry in scenario.events]
    names = {queue.name for queue in scenario.queues} | {entry.job.queue for entry in scenario.jobs}
    names |= {event.queue.name for event in scripted if isinstance(event, ev.QueueSet)}
    names |= {event.queue for event in scripted if isinstance(event, ev.QueueChanged)}
    nodes = [*scenario.nodes, *(event.node for event in scripted if isinstance(event, ev.NodeAdded))]
    there = {name for node in nodes for name in node.allocatable}
    resources = tuple(name for name, micro in weights.micro if micro and name in there)
    return Layout(queues=tuple(sorted(names)), resources=resources, main=main_of(resources))


def _part(amounts: Any, whole: Any) -> Any:
    """Parts of a whole, 0 where there is none."""
    return np.divide(amounts, whole, out=np.zeros(np.broadcast(amounts, whole).shape), where=np.asarray(whole) > 0)


_NOTES: dict[type, Callable[[Gauge, Any], None]] = {
    ev.JobSubmitted: Gauge._submitted,
    ev.JobStarted: Gauge._started,
    ev.RaceWon: Gauge._won,
    ev.JobResized: Gauge._resized,
    ev.JobRequeued: Gauge._requeued,
    ev.JobSucceeded: Gauge._succeeded,
    ev.JobFailed: Gauge._failed,
    ev.JobCancelled: Gauge._cancelled,
    ev.QueueSet: Gauge._queue_changed,
    ev.QueueChanged: Gauge._queue_changed,
}
