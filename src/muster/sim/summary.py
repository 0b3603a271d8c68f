"""What a simulation added up to: one value per job, queue, cluster and pool, and the totals (scenario.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster.engine.columns.node_rooms import Floor
from muster.model import events as ev
from muster.model.fleet import Fleet
from muster.model.jobs import Job, Task
from muster.model.names import name_key
from muster.model.plan import Plan, Rule, Waiting
from muster.model.resources import GPU, MICRO, MILLI, Resources, total
from muster.sim.goodput import Attempts, keeping
from muster.sim.integral import Integral, Steps, Use, together
from muster.sim.pools import PoolUse
from muster.sim.raced import RaceStories, racing
from muster.sim.simulate import Simulation, Tick, promised
from muster.state.forecast import Estimate
from muster.state.pools import PoolTable, pool_table
from muster.state.records import Phase
from muster.state.state import State

SLOWDOWN_THRESHOLD_S = 10
_FLEET = "fleet"


@dataclass(slots=True)
class JobStory:
    """What became of a job."""

    job: Job
    first_start_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    cause: str = ""  # of its end
    nodes: tuple[str, ...] = ()
    waited_for: tuple[str, ...] = ()
    preempted_by: tuple[str, ...] = ()


class Summary:
    """Watches a simulation and adds up. Feed it every tick, then ask for `totals`."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.stories = {entry.job.id: JobStory(entry.job) for entry in simulation.scenario.jobs}
        self.started = {queue.name: 0 for queue in simulation.scenario.queues}
        self.preemptions = 0
        self.now_ms = 0
        self.last_plan: Plan | None = None
        self._races = RaceStories()
        self._has_races = any(entry.race is not None for entry in simulation.scenario.jobs)
        keeps = keeping(simulation.scenario)
        self._attempts = Attempts(keeps)
        self._usage = Steps()
        self._whole = Steps()
        self._held: dict[str, Steps] = {}  # by cluster
        self._there: dict[str, Steps] = {}
        self._thrown: dict[str, Integral] = {}
        self._pools = PoolUse(keeps)
        self._fleet: Fleet | None = None
        self._capacity: Resources | None = None
        self._measured: tuple[Floor, int] | None = None  # when
        self._measure()
        self._pools.look(self.state, (), (), 0)

    @property
    def state(self) -> State:
        """The world as it is."""
        return self.simulation.state

    # -- while it runs ---------------------------------------------------------------------------------

    def add(self, tick: Tick) -> None:
        """One more moment."""
        self._pools.pass_time(tick.moment.now_ms - self.now_ms)
        self.now_ms = tick.moment.now_ms
        for event in tick.moment.events:
            self._note(event)
            for stretch in self._attempts.note(event, self.now_ms):
                for cluster, name, amount in stretch.sums():
                    self._thrown.setdefault(cluster, Integral()).add([(name, amount)])
            if self._has_races:
                self._races.note(event)
        for notice in tick.notices:
            story = self.stories[notice.job]
            if notice.waiting.reason.name not in story.waited_for:
                story.waited_for += (notice.waiting.reason.name,)
        if tick.moment.events:
            jobs = _jobs_of(tick.moment.events)
            for job in jobs:
                if (run := self.state.running.get(job)) is not None:
                    self._attempts.hold(job, {run.cluster: run.resources}, self.now_ms)
            self._measure()
            self._measure_queues({self.stories[job].job.queue for job in jobs})
            self._pools.look(self.state, tick.moment.events, jobs, self.now_ms)
        self.last_plan = tick.moment.plan

    def _note(self, event: ev.Event) -> None:
        match event:  # the most frequent first
            case ev.JobSubmitted() | ev.JobAdmitted():
                pass
            case ev.JobSucceeded(job=job_id):
                self.stories[job_id].end_ms = self.now_ms
            case ev.JobStarted(job=job_id, tasks=tasks):
                story = self.stories[job_id]
                story.start_ms = self.now_ms
                if story.first_start_ms is None:
                    story.first_start_ms = self.now_ms
                story.nodes = _nodes_of(tasks)
                self.started[story.job.queue] = self.started.get(story.job.queue, 0) + 1
            case ev.RaceWon(job=job_id, since_ms=since_ms):
                story = self.stories[job_id]
                story.start_ms = since_ms
                story.first_start_ms = since_ms if story.first_start_ms is None else story.first_start_ms
                self.started[story.job.queue] = self.started.get(story.job.queue, 0) + 1
            case ev.JobPreempted(job=job_id, by=by, rule=rule):
                self.preemptions += rule is not Rule.DRAIN
                self.stories[job_id].preempted_by += (f"{by} ({rule.value})",)
            case ev.JobRequeued(job=job_id):
                self.stories[job_id].start_ms, self.stories[job_id].nodes = None, ()
            case ev.JobFailed(job=job_id, cause=cause) | ev.JobCancelled(job=job_id, cause=cause):
                self.stories[job_id].end_ms, self.stories[job_id].cause = self.now_ms, cause
            case _:
                pass

    def _measure_queues(self, queues: set[str]) -> None:
        """What these queues use from now on."""
        weights, started = self.state.policy.weights, self.state.started_by
        for name in queues:
            self._usage.set(name, weights.usage(started(name)), self.now_ms)

    def _measure(self) -> None:
        """From now on, the fleet's usage, and by cluster what is held and what is there."""
        machines, weights = self.state.machines, self.state.policy.weights
        fleet, floor = machines.fleet(), machines.floor()
        if fleet is not self._fleet:  # nodes change rarely
            self._fleet = fleet
            for name in machines.clusters:
                there = total(node.empty().free for node in fleet.nodes_of(name))
                self._there.setdefault(name, Steps()).set_all(there, self.now_ms)
        elif self._measured == (floor, floor.version):  # jobs only came
            return
        self._measured = (floor, floor.version)
        for name in self._there:
            self._held.setdefault(name, Steps()).set_all(floor.held_in(name), self.now_ms)
        capacity = floor.capacity()
        if capacity is not self._capacity:
            self._capacity = capacity
            self._whole.set(_FLEET, weights.usage(capacity), self.now_ms)

    # -- at the end ------------------------------------------------------------------------------------

    def totals(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        waits = sorted(
            (story.first_start_ms - story.job.submit_ms) / 1000
            for story in self.stories.values()
            if story.first_start_ms is not None
        )
        slowdowns = [
            self._slowdown(story)
            for story in self.stories.values()
            if (record := self.state.jobs.get(story.job.id)) is not None and record.phase is Phase.SUCCEEDED
        ]
        wasted, uses = self._races.wasted_gpu_ms(self.state, self.now_ms), self._uses()
        whole = together(uses.values())
        ends = [story.end_ms for story in self.stories.values() if story.end_ms is not None]
        return {
            "jobs": self._jobs(wasted),
            "queues": self._queues(),
            "clusters": {
                **{name: use.told() for name, use in uses.items()},
                **{name: self._races.of_cluster(name) for name in self.state.races.clusters},
            },
            "pools": self._pools.told(self.pool_table()),
            "totals": {
                "end": self.now_ms / 1000,
                "makespan": max(ends, default=0) / 1000,
                "jobs": len(self.stories),
                "started": len(waits),
                "meanWait": _mean(waits),
                "waitPercentiles": {f"p{p}": _percentile(waits, p) for p in (50, 90, 95, 99, 100)},
                "meanBoundedSlowdown": _mean(slowdowns),
                "preemptions": self.preemptions,
                "wastedGpuSeconds": (whole.thrown.get(GPU, 0) // MILLI + sum(wasted.values())) / 1000,
                **whole.told(),
            },
        }

    def verdict(self, job_id: str, estimates: dict[str, Estimate]) -> dict[str, Any]:
        """The last verdict on a job, in words and facts."""
        record = self.state.jobs.get(job_id)
        if record is None:
            return {"verdict": "not submitted"}
        if record.phase.is_over or self.last_plan is None:
            cause = self.stories[job_id].cause
            return {"verdict": record.phase.value, **({"cause": cause} if cause else {})}
        if record.phase is Phase.RUNNING:
            return {"verdict": "running"}
        if (race := self.state.races.live.get((job_id, record.attempts))) is not None:
            return racing(race)
        if not self.simulation.tells_why:
            return {"verdict": "in line"}
        verdict = self.last_plan.verdicts.get(job_id) or self.state.races.blocked.get(job_id)
        if not isinstance(verdict, Waiting):  # not looked at, or a victim that is back in line
            verdict = self.last_plan.behind(self.stories[job_id].job.queue)
        estimate = estimates.get(job_id) or promised(verdict)
        return {
            "verdict": "waiting",
            "reason": verdict.reason.name,
            "facts": dict(verdict.facts),
            "why": verdict.explain(),
            "until": sorted(happening.value for happening in verdict.reason.until),
            "estimate": None if estimate is None else estimate.start_ms / 1000,
        }

    def pool_table(self) -> PoolTable:
        """Where pools stand now."""
        return pool_table(self.state.freeze(self.now_ms))

    def _uses(self) -> dict[str, Use]:
        """What there was of each cluster that shows its nodes, and what became of it."""
        return {
            name: Use(
                there=self._there.get(name, Steps()).sums(self.now_ms),
                held=self._held.get(name, Steps()).sums(self.now_ms),
                thrown=self._thrown.get(name, Integral()).sums,
                lived_ms=self.now_ms,
            )
            for name in self.state.machines.clusters
        }

    def _jobs(self, wasted: dict[str, int]) -> dict[str, Any]:
        estimates = self.simulation.forecast()
        told = {}
        for name, story in sorted(self.stories.items(), key=lambda entry: entry[1].job.key):
            record = self.state.jobs.get(name)
            told[name] = {
                "queue": story.job.queue,
                "state": "not submitted" if record is None else record.phase.value,
                "submitted": story.job.submit_ms / 1000,
                "start": None if story.start_ms is None else story.start_ms / 1000,
                "end": None if story.end_ms is None else story.end_ms / 1000,
                "attempts": 0 if record is None else record.attempts,
                "nodes": list(story.nodes),
                "waitedFor": list(story.waited_for),
                "preemptedBy": list(story.preempted_by),
                "lastVerdict": self.verdict(name, estimates),
                **self._races.of_job(name, wasted),
            }
        return told

    def _queues(self) -> dict[str, Any]:
        whole = self._whole.sum(_FLEET, self.now_ms)
        return {
            name: {
                "started": self.started.get(name, 0),
                "usage": round(self._usage.sum(name, self.now_ms) / MICRO / max(self.now_ms, 1), 6),
                "share": round(self._usage.sum(name, self.now_ms) / whole, 6) if whole else 0.0,
            }
            for name in sorted(self.state.started_by_queue())
        }

    def _slowdown(self, story: JobStory) -> float:
        """Bounded slowdown of a job that succeeded."""
        end_ms, start_ms = story.end_ms or 0, story.start_ms or 0
        run_s = (end_ms - start_ms) / 1000
        return max(1.0, (end_ms - story.job.submit_ms) / 1000 / max(run_s, SLOWDOWN_THRESHOLD_S))


def _nodes_of(tasks: tuple[Task, ...]) -> tuple[str, ...]:
    """The nodes that tasks are on, by name."""
    if len(tasks) == 1:
        return (tasks[0].node,)
    return tuple(sorted({task.node for task in tasks}, key=name_key))


def _jobs_of(events: tuple[ev.Event, ...]) -> set[str]:
    """Ids of the jobs whose tasks the events may have moved."""
    return {event.job for event in events if isinstance(event, _MOVES)}


_MOVES = (ev.JobStarted, ev.JobResized, ev.JobRequeued, ev.JobSucceeded, ev.JobFailed, ev.JobCancelled)


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 6) if values else None


def _percentile(values: list[float], percent: int) -> float | None:
    """The smallest value that so many percent of the (sorted) values do not exceed."""
    if not values:
        return None
    return values[max(-(-len(values) * percent // 100) - 1, 0)]
