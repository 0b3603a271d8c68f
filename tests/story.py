"""A scenario told to its end, for tests that read like small stories.

`story` runs a scenario (a text, or the same thing as a dict) through the loader and the simulator, holds every
turn to the independent checker, and answers questions about what happened. Times are seconds.

    told = story(world(nodes=1, jobs=[small("A", 32), small("B", 32)]))
    assert told.running_by_queue() == {"A": 16, "B": 16}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from muster.engine.shares import Shares, shares
from muster.model.plan import Plan
from muster.model.snapshot import Snapshot
from muster.sim.checker import check
from muster.sim.lines import lines
from muster.sim.scenario.loader import parse
from muster.sim.simulate import Simulation

Entry = dict[str, Any]

ENDS = ("requeued", "succeeded", "failed", "cancelled")


# --- worlds that say only what matters ----------------------------------------------------------


def world(*, nodes: int | Iterable[Entry] = 1, jobs: Iterable[Entry], **rest: Any) -> Entry:
    """A scenario of one cluster. `nodes`: so many of 32 CPUs and 256 GiB, or their own entries."""
    if isinstance(nodes, int):
        nodes = [{"name": "n", "count": nodes, "cpu": 32, "memory": "256Gi"}]
    clusters = rest.pop("clusters", None) or [{"name": "east", "nodes": list(nodes)}]
    return {"clusters": clusters, "jobs": list(jobs), **rest}


def job(name: str, queue: str = "A", **fields: Any) -> Entry:
    """One job entry, of 1 CPU unless it says otherwise."""
    if not {"groups", "cpu", "gpu"} & set(fields):
        fields = {"cpu": 1, **fields}
    return {"name": name, "queue": queue, **fields}


def single(queue: str, count: int, name: str = "", **fields: Any) -> Entry:
    """Jobs of 1 CPU that whoever is below its share may preempt: a-0, a-1 … of queue A."""
    return job(name or queue.lower(), queue, count=count, **{"lifetime": 0, **fields})


def small(queue: str, count: int, name: str = "", **fields: Any) -> Entry:
    """The same with 4 GiB each."""
    return single(queue, count, name, **{"memory": "4Gi", **fields})


def gang(name: str, size: int, queue: str = "A", *, cpu: float = 1, **fields: Any) -> Entry:
    """A job of `size` tasks that start together."""
    return {"name": name, "queue": queue, "groups": [{"name": "w", "count": size, "cpu": cpu}], **fields}


# --- the story ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Eviction:
    """One preemption as the log tells it."""

    job: str
    by: str
    rule: str


@dataclass(slots=True)
class Story:
    """What happened. `log` holds the public events in order; `turns` what every turn saw and decided."""

    log: list[dict[str, Any]]
    simulation: Simulation
    turns: list[tuple[Snapshot, Plan]] = field(repr=False)

    # -- events --

    def events(self, *kinds: str, at: float | None = None) -> list[str]:
        """`kind job` of each event of these kinds (all but waiting when none is named), in order."""
        wanted = kinds or ("submitted", "admitted", "started", "resized", "preempted", *ENDS)
        return [f"{line['event']} {line['job']}" for line in self._of(*wanted) if at in (None, line["t"])]

    def started(self, queue: str | None = None, at: float | None = None) -> list[str]:
        """Jobs in the order in which they started, again and again when they did."""
        return [
            line["job"]
            for line in self._of("started")
            if queue in (None, self.queue_of(line["job"])) and at in (None, line["t"])
        ]

    def starts(self) -> dict[str, float]:
        """When each job first started."""
        first: dict[str, float] = {}
        for line in self._of("started"):
            first.setdefault(line["job"], line["t"])
        return first

    def preempted(self, at: float | None = None) -> list[str]:
        """Jobs that had to give way, in order."""
        return [line["job"] for line in self._of("preempted") if at in (None, line["t"])]

    def evictions(self) -> list[Eviction]:
        """Every preemption: who, for whom, by which rule."""
        return [Eviction(line["job"], line["by"], line["rule"]) for line in self._of("preempted")]

    def reasons(self, name: str) -> list[str]:
        """The reason codes told about a job, in order."""
        return [line["reason"] for line in self._of("waiting") if line["job"] == name]

    def reason(self, name: str) -> str | None:
        """The last reason told about a job."""
        return next(reversed(self.reasons(name)), None)

    def facts(self, name: str) -> dict[str, Any]:
        """The facts of the last reason told about a job."""
        return [line["facts"] for line in self._of("waiting") if line["job"] == name][-1]

    # -- states --

    def tasks(self, at: float | None = None) -> dict[str, dict[str, str]]:
        """Running jobs with the node of each task, once everything of time `at` (default: the end) has happened."""
        running: dict[str, dict[str, str]] = {}
        for line in self.log:
            if at is not None and line["t"] > at:
                break
            if line["event"] == "started":
                running[line["job"]] = dict(line["tasks"])
            elif line["event"] == "resized":
                others = {task: node for task, node in running[line["job"]].items() if not _in(line["group"], task)}
                running[line["job"]] = {**others, **line["tasks"]}
            elif line["event"] in ENDS:
                running.pop(line["job"], None)
        return running

    def running(self, at: float | None = None) -> list[str]:
        """Names of the running jobs, sorted as names are."""
        return sorted(self.tasks(at), key=lambda name: self._jobs()[name].key)

    def running_by_queue(self, at: float | None = None) -> dict[str, int]:
        """How many jobs of each queue run; every declared queue is there."""
        return self._by_queue(dict.fromkeys(self.tasks(at), 1))

    def tasks_by_queue(self, at: float | None = None) -> dict[str, int]:
        """How many tasks of each queue run."""
        return self._by_queue({name: len(tasks) for name, tasks in self.tasks(at).items()})

    def width(self, name: str, at: float | None = None) -> int:
        """How many tasks of the job run."""
        return len(self.tasks(at).get(name, {}))

    def nodes_of(self, name: str, at: float | None = None) -> list[str]:
        """Where the job's tasks run."""
        return sorted(set(self.tasks(at).get(name, {}).values()))

    def queue_of(self, name: str) -> str:
        """The queue of a job."""
        return self._jobs()[name].queue

    # -- turns --

    def snapshot(self, at: float | None = None) -> Snapshot:
        """What the last turn at or before that time saw."""
        return [snapshot for snapshot, _ in self.turns if at is None or snapshot.now_ms <= at * 1000][-1]

    def shares(self, at: float | None = None) -> Shares:
        """The shares of all queues as that turn worked them out."""
        return shares(self.snapshot(at))

    def idle_turns(self, since: float) -> bool:
        """Whether every turn after that time decided nothing."""
        return all(plan.is_empty for snapshot, plan in self.turns if snapshot.now_ms > since * 1000)

    def _of(self, *kinds: str) -> list[dict[str, Any]]:
        return [line for line in self.log if line["event"] in kinds]

    def _jobs(self) -> dict[str, Any]:
        return {entry.job.id: entry.job for entry in self.simulation.scenario.jobs}

    def _by_queue(self, counts: Mapping[str, int]) -> dict[str, int]:
        by_queue = Counter({queue.name: 0 for queue in self.simulation.scenario.queues})
        for name, count in counts.items():
            by_queue[self.queue_of(name)] += count
        return dict(by_queue)


def _in(group: str, task: str) -> bool:
    return task.rpartition("-")[0] == group


def story(scenario: str | Mapping[str, Any], *, estimates: bool = False, **overrides: Any) -> Story:
    """Run a scenario to its end, the checker looking at every turn. `overrides` replace top-level keys.

    Estimated starts are left out of the log unless asked for: they run the world ahead again and again.
    """
    if not isinstance(scenario, str) or overrides:
        entries = yaml.safe_load(scenario) if isinstance(scenario, str) else scenario
        scenario = yaml.safe_dump({**entries, **overrides}, sort_keys=False)
    simulation = Simulation(parse(scenario), estimates=estimates)
    turns: list[tuple[Snapshot, Plan]] = []

    def watch(snapshot: Snapshot, plan: Plan) -> None:
        problems = check(snapshot, plan)
        assert not problems, f"the checker at {snapshot.now_ms / 1000} s:\n" + "\n".join(problems)
        turns.append((snapshot, plan))

    simulation.run.watch = watch
    return Story(log=[line for tick in simulation for line in lines(tick)], simulation=simulation, turns=turns)
