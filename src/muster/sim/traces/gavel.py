"""Gavel's traces (stanford-futuredata/gavel, OSDI'20): training jobs on three kinds of GPU, each a cluster of its own.

A trace has a line for each job: its type, commands, steps, how many GPUs it needs, when it arrives. How many steps a
second each type does on each kind of GPU was measured; from that follows how long a job runs where. The engine is told
how much a job would rather be in each cluster: its speed there, in per cent of its best. It is told how long a job runs
only if that is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from muster.documents.problems import Problem
from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import DEVICE_MILLI, Node, Request
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.resources import GPU, MICRO, Resources
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.traces.lines import Line, TraceError, lines, opened
from muster.state.work import ByCluster, Work

FLEET = {"v100": 8, "p100": 16, "k80": 24}
ROUND_MS = 360_000
_FIELDS = 10
_QUEUE = "gavel"

Rates = Mapping[str, float]
"""Steps a second on each kind of GPU that can run it."""


@dataclass(frozen=True, slots=True)
class Training:
    """One line of a trace."""

    name: str
    kind: str
    steps: int
    gpus: int
    submit_ms: int
    line: int

    def ms_on(self, rates: Rates) -> dict[str, int]:
        """How long it runs on each kind of GPU."""
        return {kind: max(round(self.steps / rate * 1000), 1) for kind, rate in rates.items()}


@cache
def measured(path: str, kinds: tuple[str, ...] = tuple(FLEET)) -> dict[str, dict[str, float]]:
    """Steps a second by job type with its number of GPUs, on each of these kinds of GPU; raises TraceError."""
    told = _told(path)
    rates: dict[str, dict[str, float]] = {}
    for kind in kinds:
        if kind not in told:
            there = f"there is {', '.join(told)}"
            raise TraceError((Problem(kind, 0, f"nothing was measured on this kind of GPU; {there}"),), path)
        for type_, beside in told[kind].items():
            if (alone := beside.get("null")) is not None and alone > 0:
                rates.setdefault(type_, {})[kind] = alone
    return rates


def _told(path: str) -> dict[str, dict[str, dict[str, float]]]:
    """What the file of throughputs says, by kind of GPU, job type, and what runs beside it (null: nothing)."""
    with opened(path) as text:
        try:
            told = json.load(text)
        except ValueError as err:
            raise TraceError((Problem("", 0, f"is not JSON: {err}"),), path) from err
    if not isinstance(told, dict) or not all(_is_measured(types) for types in told.values()):
        allowed = 'a map of kinds of GPU to maps of job types to maps with steps a second under "null"'
        raise TraceError((Problem("", 0, f"is not {allowed}"),), path)
    return told


def _is_measured(types: Any) -> bool:
    return isinstance(types, dict) and all(
        isinstance(beside, dict) and isinstance(beside.get("null"), int | float | None) for beside in types.values()
    )


def trainings(path: Path) -> list[Training]:
    """The jobs of a trace; raises TraceError."""
    found = list(lines(str(path), "\t"))
    wide = len(str(len(found)))
    return [_training(line, f"job-{number:0{wide}}") for number, line in enumerate(found)]


def _training(line: Line, name: str) -> Training:
    line.must_have(_FIELDS, "a trace")
    gpus = line.whole(6, "scale factor", least=1)
    steps, arrives_s = line.whole(5, "total steps", least=1), line.whole(9, "arrival time")
    return Training(name, f"('{line.parts[0]}', {gpus})", steps, gpus, arrives_s * 1000, line.number)


def scenario(
    path: Path,
    throughputs: Path,
    policy: Policy,
    *,
    fleet: Mapping[str, int] = FLEET,
    longest_first: bool = False,
) -> Scenario:
    """The trace with a cluster for each kind of GPU, in rounds. `longest_first`: priorities by how long jobs run at
    best."""
    rates = measured(str(throughputs), tuple(fleet))
    jobs = []
    for training in trainings(path):
        ms_on = training.ms_on(_where_it_fits(training, rates, fleet, path))
        jobs.append(_job(training, ms_on, longest_first=longest_first))
    nodes = [
        Node(name=f"{kind}-node", cluster=kind, allocatable=Resources.of({GPU: many * DEVICE_MILLI}))
        for kind, many in fleet.items()
    ]
    return Scenario(
        policy=policy,
        clusters=tuple(Cluster(name=kind) for kind in sorted(fleet)),
        nodes=tuple(sorted(nodes, key=lambda node: node.key)),
        queues=(Queue(name=_QUEUE),),
        jobs=tuple(sorted(jobs, key=lambda entry: (entry.job.submit_ms, entry.job.key))),
        rounds_ms=ROUND_MS,
    )


def _where_it_fits(training: Training, rates: Mapping[str, Rates], fleet: Mapping[str, int], path: Path) -> Rates:
    """How fast it is on each kind of GPU of which there are enough."""
    if training.kind not in rates:
        problem = f"{training.kind} is not a job type and scale factor that was measured on {' or '.join(fleet)}"
        raise TraceError((Problem("job type", training.line, problem),), str(path))
    found = {kind: rate for kind, rate in rates[training.kind].items() if training.gpus <= fleet[kind]}
    if not found:
        most = max(fleet[kind] for kind in rates[training.kind])
        problem = f"'{training.gpus}' is not allowed: at most the {most} GPUs of a kind there are; see --nodes"
        raise TraceError((Problem("scale factor", training.line, problem),), str(path))
    return found


def _job(training: Training, ms_on: Mapping[str, int], *, longest_first: bool) -> ScriptJob:
    best_ms = min(ms_on.values())
    wanted = tuple(sorted((kind, round(100 * best_ms / ms)) for kind, ms in ms_on.items()))
    request = Request.of({GPU: training.gpus * DEVICE_MILLI})
    group = TaskGroup(name="main", min=1, initial=1, max=1, request=request)
    job = Job(
        id=training.name,
        queue=_QUEUE,
        profile=Profile(groups=(group,), clusters=wanted),
        submit_ms=training.submit_ms,
        lifetime_ms=0,
        priority=best_ms // 60_000 if longest_first else 0,
    )
    speeds = {kind: best_ms * MICRO // ms for kind, ms in ms_on.items()}
    return ScriptJob(job=job, work=Work(best_ms, ByCluster(speeds), is_kept=True))
