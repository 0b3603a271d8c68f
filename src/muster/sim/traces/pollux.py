"""Pollux workloads (petuum/adaptdl, OSDI'21): training jobs that run with any number of replicas up to a most.

A workload is a file of jobs: name, time of submission, application, most replicas, batch size. How long a job runs is
not in it: that follows from where its replicas are, moment by moment (measured.py). The engine is told how the job
scales when its replicas are packed on as few nodes as can be, as someone would state who measured it once; not how long
it runs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from muster.model.jobs import Job, Profile, Running, TaskGroup
from muster.model.nodes import DEVICE_MILLI, Request
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.resources import GPU, MICRO
from muster.model.width import FREEZING_MS
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.traces.lines import Line, table
from muster.sim.traces.measured import EPOCHS, Placement, application
from muster.sim.traces.shaping import Machine
from muster.state.work import Work

NODES = 16
EACH = 4  # GPUs of a node
ROUND_MS = 60_000
RESTART_MS = 30_000
GROUP = "replica"
CLUSTER = "pollux"
MACHINE = Machine(NODES, EACH, GPU, CLUSTER)
_HEADER = ("name", "time", "application", "num_replicas", "batch_size")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One line of a workload."""

    name: str
    submit_ms: int
    application: str
    replicas: int
    batch: int


@dataclass(frozen=True, slots=True)
class ByPlacement:
    """The pace of a job by where its replicas are; with one replica it is 1."""

    folder: str
    batch: int

    def __call__(self, run: Running) -> int:
        counts = Counter(task.node for task in run.tasks)
        return pace(self.folder, self.batch, tuple(sorted(counts.values())))


@cache
def pace(folder: str, batch: int, placement: Placement) -> int:
    """How many times as fast as with one replica, in micro-units."""
    kind = application(folder)
    return kind.seconds(batch, (1,)) * MICRO // max(kind.seconds(batch, placement), 1)


def packed(replicas: int, each: int = EACH) -> Placement:
    """Replicas on as few nodes as can be, which have so many GPUs each."""
    full, rest = divmod(replicas, each)
    return (*((rest,) if rest else ()), *((each,) * full))


def requests(path: Path, gpus: int = NODES * EACH) -> list[Wanted]:
    """The jobs of a workload for so many GPUs; raises TraceError."""
    return [_request(line, gpus) for line, _ in table(str(path), _HEADER)]


def _request(line: Line, gpus: int) -> Wanted:
    name, _, kind = line.parts[:3]
    if kind not in EPOCHS:
        line.refuse("application", kind, f"one of {', '.join(EPOCHS)}")
    replicas = line.whole(3, "num_replicas", least=1)
    if replicas > gpus:
        line.refuse("num_replicas", line.parts[3], f"at most {gpus}, the GPUs there are; see --nodes")
    return Wanted(name, line.whole(1, "time") * 1000, kind, replicas, line.whole(4, "batch_size", least=1))


def scenario(
    workload: Path, measured: Path, policy: Policy, *, machine: Machine = MACHINE, freezing_ms: int = FREEZING_MS
) -> Scenario:
    """The workload on the fleet it was made for, or on another one, in rounds; raises TraceError."""
    wanted = requests(workload, machine.units)
    jobs = [_job(request, str(measured / request.application), machine.each, freezing_ms) for request in wanted]
    return Scenario(
        policy=policy,
        clusters=machine.clusters(),
        nodes=tuple(sorted(machine.made(), key=lambda node: node.key)),
        queues=(Queue(name="pollux"),),
        jobs=tuple(sorted(jobs, key=lambda entry: (entry.job.submit_ms, entry.job.key))),
        rounds_ms=ROUND_MS,
    )


def _job(request: Wanted, folder: str, each: int, freezing_ms: int) -> ScriptJob:
    job = Job(
        id=request.name,
        queue="pollux",
        profile=_profile(folder, request.batch, request.replicas, each),
        submit_ms=request.submit_ms,
        freezing_ms=freezing_ms,
    )
    seconds = application(folder).seconds(request.batch, (1,))
    return ScriptJob(job=job, work=Work(seconds * 1000, ByPlacement(folder, request.batch), RESTART_MS))


@cache
def _profile(folder: str, batch: int, replicas: int, each: int) -> Profile:
    speeds = tuple(pace(folder, batch, packed(width, each)) for width in range(1, replicas + 1))
    gpu = Request.of({GPU: DEVICE_MILLI})
    group = TaskGroup(name=GROUP, min=1, initial=1, max=replicas, request=gpu, prefers_close=True, speeds=speeds)
    return Profile(groups=(group,))
