"""How long the first 100,000 jobs of a real log take, turn by turn, as `muster simulate` lives through them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import Any

from bench.measuring import below, table, tell
from bench.worlds import SCALE
from evidence.traces import trace
from muster.model.resources import CPU
from muster.sim.scenario.scenario import Scenario
from muster.sim.traces.choices import QueueBy
from muster.sim.traces.formats import Trace
from muster.sim.traces.loading import load_trace

JOBS = round(100_000 * SCALE)
PROCESSORS = 8192
MOST_S = 600
SHOWN = 3


def ricc() -> str:
    """RICC's log on 8,192 processors, one queue for each user; held to 10 minutes."""
    path = log()
    tell(f"the first {JOBS:,} jobs of the log")
    arguments = ["--nodes", str(PROCESSORS), "--queue-by", "user", "--jobs", str(JOBS), "--no-reasons", "-o", "summary"]
    command = [sys.executable, "-m", "muster", "simulate", "--trace", str(path), *arguments]
    before, began = getrusage(RUSAGE_CHILDREN), perf_counter()
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    wall_s, after = perf_counter() - began, getrusage(RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    tell("checking")
    if problems := wrong_in(first_of_log(JOBS), told["jobs"]):
        sys.exit(f"bench: the result is wrong in {len(problems):,} ways: {problems[:SHOWN]}")
    return "\n".join(
        [
            f"`muster simulate --trace {path.name} {' '.join(arguments)}`:",
            "reading the log, every turn of the default policy, and the summary.",
            "",
            *table(
                ("jobs", "queues", "simulated days", "CPU s", "CPU ms for each job", "wall s", "peak MiB"),
                [
                    (
                        f"{JOBS:,}",
                        f"{len(told['queues'])}",
                        f"{told['totals']['end'] / 86_400:,.0f}",
                        f"{cpu_s:,.0f}",
                        f"{1000 * cpu_s / JOBS:.2f}",
                        f"{wall_s:,.0f}",
                        f"{after.ru_maxrss // 1024:,}",
                    )
                ],
            ),
            "",
            below("The whole command, wall time", MOST_S, wall_s, " s"),
            "",
            f"Checked: every job succeeded, started once and not before it came, and ran as long as in the log; jobs "
            f"never held more than {PROCESSORS:,} processors together.",
        ]
    )


def log() -> Path:
    """Where RICC's log is."""
    return trace("swf", "RICC-2010-2.swf.gz")


def first_of_log(jobs: int) -> Scenario:
    """The first jobs of the log, each user with a queue of their own, on one node with all processors."""
    return load_trace(
        Trace(path=str(log()), nodes=str(PROCESSORS), queue_by=QueueBy.USER, most_jobs=jobs),
    )


def wrong_in(scenario: Scenario, told: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What a summary says of the jobs of the log that cannot be; times in it are in seconds."""
    problems: list[str] = []
    changes: list[tuple[float, int]] = []  # ends, which are less than nothing, come first
    for entry in scenario.jobs:
        job, here = entry.job, told[entry.job.id]
        if here["state"] != "succeeded" or here["attempts"] != 1:
            problems.append(f"{job.id}: {here['state']} after {here['attempts']} attempts")
            continue
        start, end = here["start"], here["end"]
        if start * 1000 < job.submit_ms:
            problems.append(f"{job.id}: starts before it comes")
        if round((end - start) * 1000) != entry.runtime_ms:
            problems.append(f"{job.id}: runs for {end - start} s instead of {entry.runtime_ms} ms")
        held = job.profile.least.get(CPU)
        changes += [(start, held), (end, -held)]
    held = 0
    for moment, change in sorted(changes):
        held += change
        if held > 1000 * PROCESSORS:
            problems.append(f"{held} millicores are held at {moment} s")
    return problems
