"""What a turn of a small world costs: one node with 100 jobs in line, and the first 6,000 jobs of a real log.

It asks nothing of the engine but turns, so that it runs on the sources of other commits as well:
`PYTHONPATH=<their src>:. python -m bench.small`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from time import process_time
from typing import Any

from bench.measuring import MEASURE, median, ms, table, tell, timed
from bench.trace import PROCESSORS, SHOWN, first_of_log, wrong_in
from bench.worlds import GIB, QUEUES, SCALE, SECOND_MS, freeze_garbage
from muster.model import events as ev
from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import Node, Request
from muster.model.plan import Plan
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.resources import Resources
from muster.model.snapshot import Snapshot
from muster.sim.checker import check
from muster.sim.simulate import Simulation, settle_memory
from muster.state.run import Run
from muster.state.state import State

CORES, WAITING = 64, 100
STEP_MS = 10 * SECOND_MS  # between two turns
WARM_UP, TURNS, CHECKED = 200, max(round(2000 * SCALE), 20), 100
LOG_JOBS = round(6000 * SCALE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What kind of jobs there are: of how many queues, of how many cores each, and how many state their run time."""

    words: str
    queues: int
    cores: tuple[int, ...]
    stated: float


MIXED = (1, 1, 2, 4, 8)
LINES = (
    Line(words="one queue, one core each, run times stated", queues=1, cores=(1,), stated=1),
    Line(words="4 queues, 1 to 8 cores, run times stated", queues=4, cores=MIXED, stated=1),
    Line(words="4 queues, 1 to 8 cores, six in ten run times stated", queues=4, cores=MIXED, stated=0.6),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The turns on one node: CPU seconds of each, and how many jobs started in all."""

    seconds: tuple[float, ...]
    starts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """A log lived through: CPU seconds of all turns, how many there were, and how long jobs waited on average."""

    cpu_s: float
    turns: int
    wait_s: float


def small_turn() -> str:
    """A turn in which one of few jobs ended, and those of a log on one node; nothing is held against a bar."""
    on_one_node = [(line.words, turns_on_one_node(line)) for line in LINES]
    lived = log_lived_through()
    return "\n".join(
        [
            f"One node of {CORES} cores, {WAITING} jobs in line, default policy. One job ends: the",
            "whole turn, which is to apply the end, to plan, and to carry out the plan. Before each turn new jobs",
            f"fill up the line. {MEASURE}",
            "",
            *table(
                ("jobs in line", "turns", "µs: median", "fastest", "90 of 100 within", "jobs started in a turn"),
                [_row(words, turns) for words, turns in on_one_node],
            ),
            "",
            f"The first {LOG_JOBS:,} jobs of RICC's log on {PROCESSORS:,} processors, one queue for each user,",
            "simulated to the end; reading the log is not counted, nor loading the kernels.",
            "",
            *table(
                ("jobs", "moments", "CPU s", "CPU ms for each moment", "for each job", "mean wait s"),
                [
                    (
                        f"{LOG_JOBS:,}",
                        f"{lived.turns:,}",
                        f"{lived.cpu_s:.2f}",
                        f"{1000 * lived.cpu_s / lived.turns:.3f}",
                        ms(lived.cpu_s / LOG_JOBS),
                        f"{lived.wait_s:,.1f}",
                    )
                ],
            ),
            "",
            f"Checked: {CHECKED} more turns of each kind on the one node by the independent checker, every action and",
            "every verdict. Of the log, every job succeeded, started once and not before it came, and ran as long as",
            f"in the log; jobs never held more than {PROCESSORS:,} processors together.",
        ]
    )


def _row(words: str, turns: Turns) -> tuple[str, ...]:
    ordered = [f"{1e6 * took_s:,.0f}" for took_s in sorted(turns.seconds)]
    many = len(ordered)
    return words, f"{many:,}", ordered[many // 2], ordered[0], ordered[many * 9 // 10], f"{turns.starts / many:.2f}"


# -- one node ----------------------------------------------------------------------------------------


def turns_on_one_node(line: Line) -> Turns:
    """Turns a while apart, in each of which the job that has run longest ends."""
    run, renew = one_node(line)
    seconds, starts = list[float](), 0
    for number in range(WARM_UP + TURNS):
        renew()
        if number == WARM_UP:
            freeze_garbage()
            seconds, starts = [], 0
        moment, took_s = timed(partial(run.step, run.state.now_ms + STEP_MS, [oldest_ends(run)]))
        seconds.append(took_s)
        starts += sum(isinstance(event, ev.JobStarted) for event in moment.events)
    problems: list[str] = []

    def watch(snapshot: Snapshot, plan: Plan) -> None:
        problems.extend(check(snapshot, plan))

    run.watch = watch
    for _ in range(CHECKED):
        renew()
        run.step(run.state.now_ms + STEP_MS, [oldest_ends(run)])
    if problems or not starts:
        sys.exit(f"bench: the result is wrong: {starts} starts; {problems[:SHOWN]}")
    tell(f"one node: {1e6 * median(seconds):,.0f} µs a turn")
    return Turns(seconds=tuple(seconds), starts=starts)


def one_node(line: Line, seed: int = 1) -> tuple[Run, Callable[[], None]]:
    """A world of one node that is full, with jobs in line; and what fills up the line, which takes no turn."""
    rng, state = Random(seed), State(Policy())
    state.apply(ev.ClusterSet(cluster=Cluster(name="east")), 0)
    room = Resources.of({"cpu": CORES * 1000, "memory": 4 * CORES * GIB})
    state.apply(ev.NodeAdded(node=Node(name="n-0", cluster="east", allocatable=room)), 0)
    for name in QUEUES[: line.queues]:
        state.apply(ev.QueueSet(queue=Queue(name=name)), 0)
    shapes, run, came = [_shape(cores) for cores in line.cores], Run(state, lambda _: None), 0

    def renew() -> None:
        nonlocal came
        while len(state.waiting()) < WAITING:
            job = Job(
                id=f"job-{came}",
                queue=rng.choice(QUEUES[: line.queues]),
                profile=rng.choice(shapes),
                submit_ms=state.now_ms,
                expected_ms=rng.randrange(60, 900) * SECOND_MS if rng.random() < line.stated else None,
            )
            state.apply(ev.JobSubmitted(job=job), state.now_ms)
            came += 1

    renew()
    run.step(SECOND_MS)
    return run, renew


def _shape(cores: int) -> Profile:
    request = Request.of({"cpu": cores * 1000, "memory": 2 * cores * GIB})
    return Profile(groups=(TaskGroup(name="main", min=1, initial=1, max=1, request=request),))


def oldest_ends(run: Run) -> ev.JobSucceeded:
    """The end of the job that has run longest."""
    oldest = min(run.state.running.values(), key=lambda running: (running.started_ms, running.job.key))
    return ev.JobSucceeded(job=oldest.job.id, attempt=oldest.attempt)


# -- a log -------------------------------------------------------------------------------------------


def log_lived_through() -> Lived:
    """The first jobs of the log, every turn of the default policy, told nothing but what happens."""
    scenario = first_of_log(LOG_JOBS)
    for _ in Simulation(scenario, tells_why=False, estimates=False):
        pass  # kernels are loaded when they are first needed, the last of them late
    settle_memory()
    began, moments = process_time(), list[tuple[int, tuple[ev.Event, ...]]]()
    for tick in Simulation(scenario, tells_why=False, estimates=False):
        moments.append((tick.moment.now_ms, tick.moment.events))
    cpu_s = process_time() - began
    told: dict[str, dict[str, Any]] = {
        entry.job.id: {"state": "queued", "attempts": 0, "start": None, "end": None} for entry in scenario.jobs
    }
    for now_ms, events in moments:
        for event in events:
            if isinstance(event, ev.JobStarted):
                told[event.job] |= {"start": now_ms / 1000, "attempts": told[event.job]["attempts"] + 1}
            elif isinstance(event, ev.JobSucceeded):
                told[event.job] |= {"end": now_ms / 1000, "state": "succeeded"}
    if problems := wrong_in(scenario, told):
        sys.exit(f"bench: the result is wrong in {len(problems):,} ways: {problems[:SHOWN]}")
    waits = [told[entry.job.id]["start"] - entry.job.submit_ms / 1000 for entry in scenario.jobs]
    tell(f"the log: {1000 * cpu_s / len(moments):.3f} ms a moment")
    return Lived(cpu_s=cpu_s, turns=len(moments), wait_s=sum(waits) / len(waits))


if __name__ == "__main__":
    print(small_turn())
