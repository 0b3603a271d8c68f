"""The worlds that benchmarks run on. Same seed, same world."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from muster.model.events import ClusterSet, Event, JobSubmitted, NodeAdded, PoolSet, QueueSet
from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.labels import ANYWHERE, Constraint
from muster.model.nodes import DEVICE_MILLI, Node, Request
from muster.model.policy import Policy
from muster.model.pools import Pool
from muster.model.queues import Queue
from muster.model.resources import Resources
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.state.state import State

GIB, MIB = 1 << 30, 1 << 20
SECOND_MS = 1000
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


def steady_fleet(*, jobs: int, nodes: int, seed: int = 1) -> Scenario:
    """Nodes of 32 cores / 128 GiB and jobs of ten queues; everything happens in whole seconds.

    A job takes 3,375 core seconds on average; with 100 jobs for each node, the fleet has 3,456 for each in the three
    hours over which they come.
    """
    rng = Random(seed)
    shapes = [_profile(cores, 2 * cores, 1) for cores in range(1, 9)]
    submits = sorted(rng.randrange(3 * 3600) * SECOND_MS for _ in range(jobs))
    script = []
    for index, submit_ms in enumerate(submits):
        runtime_ms = rng.randrange(240, 1261) * SECOND_MS
        job = Job(
            id=f"job-{index}",
            queue=f"q-{rng.randrange(10)}",
            profile=rng.choice(shapes),
            submit_ms=submit_ms,
            expected_ms=runtime_ms if rng.random() < 0.6 else None,
        )
        script.append(ScriptJob(job=job, runtime_ms=runtime_ms))
    return Scenario(
        policy=Policy(),
        clusters=(Cluster(name="east"),),
        nodes=tuple(_node(index) for index in range(nodes)),
        queues=tuple(Queue(name=f"q-{number}") for number in range(10)),
        jobs=tuple(script),
    )


def _node(index: int) -> Node:
    return Node(name=f"n-{index}", cluster="east", allocatable=LARGE)


def _profile(cpu: int, gib: int, width: int) -> Profile:
    request = Request.of({"cpu": cpu * 1000, "memory": gib * GIB})
    return Profile(groups=(TaskGroup(name="main", min=width, initial=width, max=width, request=request),))


# --- a million cores ------------------------------------------------------------------------------------

LARGE = Resources.of({"cpu": 32_000, "memory": 128 * GIB})
CORES = (1, 1, 1, 2, 2, 4, 8, 16)
GIB_PER_CORE = (1, 2, 2, 4, 4, 8)
WIDTHS = (2, 2, 2, 4, 4, 8, 16, 32, 64)
GPU_MODELS = ("a100", "h100", "t4")
LABEL_KEYS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a world is; by default as large as design.md 10 asks for."""

    nodes: int = 31_250
    jobs: int = 1_000_000
    queues: int = 100
    profiles: int = 300

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes, {self.jobs:,} jobs, {self.queues} queues, {self.profiles:,} profiles"


SCALE = float(os.environ.get("MUSTER_BENCH_SCALE", "1"))
"""For a quick try: MUSTER_BENCH_SCALE=0.01 makes a hundredth of the nodes and jobs."""


def scaled(size: Size) -> Size:
    """The size, or a part of it for a quick try."""
    return replace(size, nodes=max(int(size.nodes * SCALE), 1), jobs=max(int(size.jobs * SCALE), 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is special about a world: a tenth of its jobs ask for labels, a fifth for GPUs, or for closeness; or nodes
    are in so many pools, of which each queue has one for its own, and the last `lent` are nobody's."""

    selectors: bool = False
    gpus: bool = False
    topology: bool = False
    pools: int = 0
    lent: int = 0


PLAIN = Kind()


def built(size: Size, kind: Kind = PLAIN, policy: Policy | None = None) -> State:
    """The state of such a world at moment 0, with nothing running yet."""
    state = State(policy or Policy())
    for event in million_cores(size, kind):
        state.apply(event, 0)
    freeze_garbage()
    return state


def freeze_garbage() -> None:
    """What is there stays: the collector need not look at it again. The server does the same once it has loaded.

    What an earlier world left behind goes first.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def million_cores(size: Size, kind: Kind = PLAIN, seed: int = 1) -> Iterator[Event]:
    """Events that make the world: nodes of 32 cores / 128 GiB, and jobs of Zipf-popular shapes, 5 % of them gangs."""
    yield ClusterSet(cluster=Cluster(name="east"))
    for index in range(size.nodes):
        yield NodeAdded(node=_special_node(index, kind))
    for number in range(kind.pools):
        yield PoolSet(pool=Pool(name=f"pool-{number}", selector={"pool": f"pool-{number}"}))
    for number in range(size.queues):
        yield QueueSet(queue=Queue(name=f"q-{number}"))
    for job in jobs_of(size, kind, seed=seed):
        yield JobSubmitted(job=job)


def jobs_of(
    size: Size, kind: Kind = PLAIN, *, seed: int, prefix: str = "job", queue: str = "", since_ms: int = 0
) -> Iterator[Job]:
    """The jobs of such a world, in the order they came; all of one queue if it is given.

    Six in ten state how long they will run, half may be evicted after ten minutes.
    """
    rng = Random(seed)
    single = _distinct(size.profiles * 4 // 5, lambda: _special_profile(rng, kind, 1))
    gangs = _distinct(size.profiles - len(single), lambda: _special_profile(rng, kind, rng.choice(WIDTHS)))
    singles = rng.choices(single, _zipf(len(single)), k=size.jobs)
    rare = rng.choices(gangs, _zipf(len(gangs)), k=size.jobs)
    homes = [
        {it: replace(it, pool=f"pool-{home}") for it in (*single, *gangs)} for home in range(kind.pools - kind.lent)
    ]
    for index in range(size.jobs):
        number = rng.randrange(size.queues)
        profile = rare[index] if rng.random() < 0.05 else singles[index]
        yield Job(
            id=f"{prefix}-{index}",
            queue=queue or f"q-{number}",
            profile=homes[number % len(homes)][profile] if homes else profile,
            submit_ms=since_ms + index // 100,
            lifetime_ms=600 * SECOND_MS if rng.random() < 0.5 else None,
            expected_ms=rng.randrange(300, 4 * 3600) * SECOND_MS if rng.random() < 0.6 else None,
        )


def _distinct(count: int, draw: Callable[[], Profile]) -> list[Profile]:
    """So many profiles, no two alike: state would take those for one."""
    drawn: dict[Profile, None] = {}
    while len(drawn) < count:
        drawn[draw()] = None
    return list(drawn)


def _zipf(count: int) -> list[float]:
    return [1 / place for place in range(1, count + 1)]


def _special_node(index: int, kind: Kind) -> Node:
    labels = {f"key-{key}": f"value-{(index >> key % 8) % 4}" for key in range(LABEL_KEYS)} if kind.selectors else {}
    allocatable = LARGE
    if kind.gpus and index % 4 == 0:
        labels |= {"gpu": GPU_MODELS[index // 4 % 3]}
        allocatable = Resources.of({**LARGE, "nvidia.com/gpu": 8 * DEVICE_MILLI})
    if kind.pools:
        labels |= {"pool": f"pool-{index % kind.pools}"}
    path = (f"spine-{index // 512}", f"leaf-{index // 16}") if kind.topology else ()
    return Node(name=f"n-{index}", cluster="east", allocatable=allocatable, labels=labels, topology=path)


def _special_profile(rng: Random, kind: Kind, width: int) -> Profile:
    cores = rng.choice(CORES)
    memory = min(cores * rng.choice(GIB_PER_CORE), 100) * GIB + rng.randrange(1024) * MIB
    amounts = {"cpu": cores * 1000, "memory": memory}
    constraint, milli = ANYWHERE, DEVICE_MILLI
    if kind.selectors and rng.random() < 0.1:
        constraint = Constraint(selector=((f"key-{rng.randrange(LABEL_KEYS)}", f"value-{rng.randrange(4)}"),))
    if kind.gpus and rng.random() < 0.2:
        milli = rng.choice((DEVICE_MILLI, DEVICE_MILLI, 500, 250))
        amounts["nvidia.com/gpu"] = (rng.choice((1, 2, 4)) if milli == DEVICE_MILLI else 1) * DEVICE_MILLI
        if rng.random() < 0.5:
            constraint = Constraint(selector=(("gpu", rng.choice(GPU_MODELS)),))
    is_close = kind.topology and width > 1
    group = TaskGroup(
        name="main",
        min=width,
        initial=width,
        max=width,
        request=Request.of(amounts, gpu_milli=milli),
        constraint=constraint,
        max_hops=4 if is_close and rng.random() < 0.5 else None,
        prefers_close=is_close,
    )
    return Profile(groups=(group,))
