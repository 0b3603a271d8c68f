"""A simulation of a million jobs on 10,000 nodes, in a process of its own so that its memory can be told.

`python -m bench.million` is that process: it prints what it took as one line of JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from time import perf_counter, process_time
from typing import TypedDict

from bench.measuring import below, table, tell
from bench.worlds import SCALE, steady_fleet
from muster.model.events import JobSucceeded
from muster.sim.simulate import Simulation, settle_memory

JOBS, NODES = 1_000_000, 10_000
BAR_S, BAR_MIB = 180, 2048
TELL_EVERY = 600  # turns


class Answer(TypedDict):
    """What the process says of itself."""

    jobs: int
    nodes: int
    succeeded: int
    turns: int
    simulated_s: int
    making_s: float
    cpu_s: float
    wall_s: float
    peak_mib: float


def million() -> str:
    """Simulate in a child, and hold it to 3 minutes and 2 GB."""
    ran = subprocess.run([sys.executable, "-m", "bench.million"], stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"bench: the simulation ended with {ran.returncode}")
    answer: Answer = json.loads(ran.stdout)
    if answer["succeeded"] != answer["jobs"]:
        sys.exit(f"bench: {answer['succeeded']:,} of {answer['jobs']:,} jobs succeeded")
    return "\n".join(
        [
            f"{answer['jobs']:,} jobs of 1 to 8 cores and 4 to 21 minutes, of ten queues, arriving over 3 hours, on",
            f"{answer['nodes']:,} nodes of 32 cores, which they just about fill; default policy, simulated to the end,",
            "all succeeded. The memory is the most the process ever had, the scenario and Python itself included.",
            "",
            *table(
                ("turns", "simulated s", "making the scenario, CPU s", "simulating, CPU s", "wall s", "peak MiB"),
                [
                    (
                        f"{answer['turns']:,}",
                        f"{answer['simulated_s']:,}",
                        f"{answer['making_s']:.1f}",
                        f"{answer['cpu_s']:.1f}",
                        f"{answer['wall_s']:.1f}",
                        f"{answer['peak_mib']:,.0f}",
                    )
                ],
            ),
            "",
            below("Simulating, CPU time", BAR_S, answer["cpu_s"], " s"),
            below("Memory", BAR_MIB, answer["peak_mib"], " MiB"),
        ]
    )


def simulated(jobs: int, nodes: int) -> Answer:
    """Simulate to the end in this process."""
    simulation = Simulation(steady_fleet(jobs=jobs, nodes=nodes))
    settle_memory()  # as `muster simulate` does
    making_s = process_time()
    tell(f"made a scenario of {jobs:,} jobs on {nodes:,} nodes")
    cpu, wall = process_time(), perf_counter()
    turns = succeeded = now_ms = 0
    for tick in simulation:
        turns, now_ms = turns + 1, tick.moment.now_ms
        succeeded += sum(isinstance(event, JobSucceeded) for event in tick.moment.events)
        if turns % TELL_EVERY == 0:
            tell(f"{turns:,} turns, {succeeded:,} jobs done, {len(simulation.state.waiting()):,} wait")
    return Answer(
        jobs=jobs,
        nodes=nodes,
        succeeded=succeeded,
        turns=turns,
        simulated_s=now_ms // 1000,
        making_s=making_s,
        cpu_s=process_time() - cpu,
        wall_s=perf_counter() - wall,
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


if __name__ == "__main__":
    print(json.dumps(simulated(int(JOBS * SCALE), int(NODES * SCALE))))
