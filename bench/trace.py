"""How long a real log takes, repeated to a million jobs; and what it is worth to decide turns at a glance."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter, process_time
from unittest import mock

from bench.measuring import below, table, tell
from bench.worlds import SCALE
from evidence.traces import trace
from muster.model.events import JobStarted
from muster.sim.simulate import Simulation
from muster.sim.traces.choices import QueueBy
from muster.sim.traces.formats import Trace
from muster.sim.traces.loading import load_trace

JOBS = round(1_000_000 * SCALE)
FIRST = 20_000  # of the log, for the comparison
PROCESSORS = "8192"
MOST_S = 300
WARM_UP = 12_000  # moments


def ricc() -> str:
    """RICC's log on 8,192 processors, one queue for each user, EASY; held to 5 minutes of one core."""
    path = str(trace("swf", "RICC-2010-2.swf.gz"))
    tell(f"the first {FIRST:,} jobs of the log")
    glances_s, starts = _first(path)
    with mock.patch("muster.engine.planning.glance", return_value=None):
        whole_s, expected = _first(path)
    if starts != expected or len(starts) != FIRST:
        sys.exit("bench: the result is wrong: turns decided at a glance start others than whole turns")
    tell(f"all of it, repeated to {JOBS:,} jobs")
    command = ["--trace", path, "--nodes", PROCESSORS, "--queue-by", "user", "--repeat-to", str(JOBS)]
    command = [sys.executable, "-m", "muster", "simulate", *command, "--no-reasons", "-o", "summary"]
    before, began = getrusage(RUSAGE_CHILDREN), perf_counter()
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    wall_s, after = perf_counter() - began, getrusage(RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    totals = told["totals"]
    if (totals["jobs"], totals["started"]) != (JOBS, JOBS):
        sys.exit(f"bench: the result is wrong: {totals['started']} of {totals['jobs']} jobs started")
    return "\n".join(
        [
            f"`muster simulate --trace RICC-2010-2.swf.gz --nodes {PROCESSORS} --queue-by user --repeat-to {JOBS}",
            "--no-reasons -o summary`: reading the log, every turn of the default policy, and the summary. The memory",
            "is the most that any process of this benchmark had.",
            "",
            *table(
                ("jobs", "queues", "simulated days", "CPU s", "wall s", "peak MiB"),
                [
                    (
                        f"{JOBS:,}",
                        f"{len(told['queues'])}",
                        f"{totals['end'] / 86_400:,.0f}",
                        f"{cpu_s:,.0f}",
                        f"{wall_s:,.0f}",
                        f"{after.ru_maxrss // 1024:,}",
                    )
                ],
            ),
            "",
            below("The whole command, wall time", MOST_S, wall_s, " s"),
            "",
            f"The first {FIRST:,} jobs of the log take {whole_s:.1f} s of CPU with whole turns, and {glances_s:.1f} s",
            f"where turns are decided at a glance: {whole_s / glances_s:.1f} times less. The same jobs start at",
            "the same moments.",
        ]
    )


def _first(path: str) -> tuple[float, list[tuple[int, str]]]:
    """CPU seconds for the first jobs, reading and compiling apart, and when each of them starts."""
    scenario = load_trace(Trace(path=path, nodes=PROCESSORS, queue_by=QueueBy.USER, most_jobs=FIRST))
    for _ in islice(Simulation(scenario, tells_why=False, estimates=False), WARM_UP):
        pass
    began, starts = process_time(), []
    for tick in Simulation(scenario, tells_why=False, estimates=False):
        starts += [(tick.moment.now_ms, it.job) for it in tick.moment.events if isinstance(it, JobStarted)]
    return process_time() - began, starts
