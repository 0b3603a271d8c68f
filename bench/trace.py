"""How long a real log takes, repeated to a million jobs; what it is worth to decide turns at a glance, and to live
through a log in one go."""

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
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation
from muster.sim.straight import live_straight
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
    scenario = load_trace(Trace(path=path, nodes=PROCESSORS, queue_by=QueueBy.USER, most_jobs=FIRST))
    glances_s, starts = _by_turns(scenario)
    with mock.patch("muster.engine.planning.glance", return_value=None):
        whole_s, expected = _by_turns(scenario)
    straight_s, outright = _straight(scenario)
    if not starts == expected == outright or len(starts) != FIRST:
        sys.exit("bench: the result is wrong: jobs do not start at the moments at which whole turns start them")
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
            f"The first {FIRST:,} jobs of the log, told nothing but starts and ends:",
            "",
            *table(
                ("", "CPU s", "times less"),
                [
                    ("whole turns", f"{whole_s:.1f}", "1.0"),
                    ("turns at a glance", f"{glances_s:.1f}", f"{whole_s / glances_s:.1f}"),
                    ("in one go", f"{straight_s:.2f}", f"{whole_s / straight_s:.0f}"),
                ],
            ),
            "",
            "The same jobs start at the same moments. The command lives through the log in one go; turns are taken",
            "where someone asks about single moments (`-o jsonl`, `--report`, `--parquet`), or where a log is not as",
            "plain as this one.",
        ]
    )


def _by_turns(scenario: Scenario) -> tuple[float, dict[str, int]]:
    """CPU seconds, compiling apart, and when each job starts."""
    for _ in islice(Simulation(scenario, tells_why=False, estimates=False), WARM_UP):
        pass
    began, starts = process_time(), {}
    for tick in Simulation(scenario, tells_why=False, estimates=False):
        for event in tick.moment.events:
            if isinstance(event, JobStarted):
                starts[event.job] = tick.moment.now_ms
    return process_time() - began, starts


def _straight(scenario: Scenario) -> tuple[float, dict[str, int]]:
    """The same, lived through in one go."""
    live_straight(scenario)  # compiles
    began = process_time()
    outcome = live_straight(scenario)
    took_s = process_time() - began
    if outcome is None:
        sys.exit("bench: the result is wrong: the log is not lived through in one go")
    ids = (entry.job.id for entry in scenario.jobs)
    return took_s, dict(zip(ids, outcome.starts_ms, strict=True))
