"""The worlds that benchmarks run on. Same seed, same world."""

from __future__ import annotations

from random import Random

from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import Node, Request
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.resources import Resources
from muster.sim.scenario.scenario import Scenario, ScriptJob

GIB = 1 << 30
QUEUES = ("physics", "vision", "speech", "biology")


def busy_fleet(*, jobs: int, nodes: int, reservations: int = 1, seed: int = 1) -> Scenario:
    """Nodes of 32 cores / 128 GiB; jobs of four queues, one in five a gang, arriving about as fast as they can run."""
    rng = Random(seed)
    shapes = [_profile(cpu, gib, width) for cpu in (1, 2, 4, 8) for gib in (2, 8) for width in (1, 1, 1, 1, 4)]
    hours = 10 * jobs / (nodes * 100)
    script = []
    for index in range(jobs):
        runtime_ms = rng.randrange(60, 3600) * 1000
        job = Job(
            id=f"job-{index}",
            queue=rng.choice(QUEUES),
            profile=rng.choice(shapes),
            submit_ms=rng.randrange(int(hours * 3600)) * 1000,
            expected_ms=runtime_ms,
        )
        script.append(ScriptJob(job=job, runtime_ms=runtime_ms))
    return Scenario(
        policy=Policy(over_share=None, reservations=reservations),
        clusters=(Cluster(name="east"),),
        nodes=tuple(_node(index) for index in range(nodes)),
        queues=tuple(Queue(name=name) for name in QUEUES),
        jobs=tuple(sorted(script, key=lambda entry: (entry.job.submit_ms, entry.job.key))),
    )


def _node(index: int) -> Node:
    allocatable = Resources.of({"cpu": 32_000, "memory": 128 * GIB})
    return Node(name=f"n-{index}", cluster="east", allocatable=allocatable)


def _profile(cpu: int, gib: int, width: int) -> Profile:
    request = Request.of({"cpu": cpu * 1000, "memory": gib * GIB})
    return Profile(groups=(TaskGroup(name="main", min=width, initial=width, max=width, request=request),))
