"""How long the simulator takes, and what reservations cost against greedy placing in the same run."""

from __future__ import annotations

import sys
from time import process_time

from bench.worlds import busy_fleet
from muster.model.events import JobSucceeded
from muster.sim.checker import check
from muster.sim.scenario.loader import parse
from muster.sim.simulate import Simulation

CHECK_EVERY = 500  # turns


def simulate() -> str:
    """10,000 jobs on 100 nodes: reservations and backfill against greedy, the first held to 60 s."""
    greedy_s, _ = _timed(reservations=0)
    seconds, turns = _timed(reservations=1)
    return "\n".join(
        [
            "10,000 jobs (one in five a gang of 4) of four queues on 100 nodes of 32 cores, arriving about as fast",
            "as they can run; simulated to the end, one plan in 500 held to the independent checker; all succeeded.",
            "",
            "| policy | CPU seconds | against greedy | turns |",
            "|---|---|---|---|",
            f"| greedy (`reservations: 0`) | {greedy_s:.1f} | 1.00 | |",
            f"| reservations and backfill (the default) | {seconds:.1f} | {seconds / greedy_s:.2f} | {turns} |",
            "",
            f"A scenario file with 10,000 entries of seven keys is read in {_reading():.1f} CPU seconds.",
        ]
    )


def _reading() -> float:
    """CPU seconds to read a file of 10,000 jobs, each written out."""
    entry = "  - {{name: j{}, queue: A, at: {}, cpu: 1, memory: 4Gi, runtime: 10m, lifetime: 5m}}\n"
    text = "clusters: [{name: c, nodes: [{name: n, count: 100, cpu: 32, memory: 128Gi}]}]\nqueues: [{name: A}]\njobs:\n"
    text += "".join(entry.format(number, number) for number in range(10_000))
    start = process_time()
    if len(parse(text).jobs) != 10_000:
        sys.exit("bench: the result is wrong: not all jobs were read")
    return process_time() - start


def _timed(*, reservations: int) -> tuple[float, int]:
    simulation = Simulation(busy_fleet(jobs=10_000, nodes=100, reservations=reservations))
    violations: list[str] = []
    turns, checking_s, succeeded = 0, 0.0, 0

    def watch(snapshot: object, plan: object) -> None:
        nonlocal checking_s
        if turns % CHECK_EVERY == 0:
            start = process_time()
            violations.extend(check(snapshot, plan))  # type: ignore[arg-type]
            checking_s += process_time() - start

    simulation.run.watch = watch
    start = process_time()
    for tick in simulation:
        turns += 1
        succeeded += sum(isinstance(event, JobSucceeded) for event in tick.moment.events)
    seconds = process_time() - start - checking_s
    if violations or succeeded != 10_000:
        sys.exit(f"bench: the result is wrong: {succeeded} succeeded; {violations[:3]}")
    return seconds, turns
