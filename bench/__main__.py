"""`python -m bench [NAME]`: run one benchmark, or all; at full size, docs/benchmarks.md gets what they say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.backlog import backlog
from bench.binds import binds
from bench.caches import caches
from bench.calibration import calibration
from bench.classes import class_preemption
from bench.elastic import elastic
from bench.growth import growth
from bench.kinds import gpus, profiles, selectors, topology
from bench.local import local
from bench.memory import memory
from bench.million import million
from bench.peer import peer
from bench.pools import pools
from bench.preemption import preemption
from bench.races import races
from bench.requests import job_requests
from bench.serving import throughput
from bench.simulate import simulate
from bench.singles import singles
from bench.small import small_turn
from bench.store import store
from bench.trace import ricc
from bench.turns import fill
from bench.worlds import SCALE

BENCHMARKS: dict[str, Callable[[], str]] = {
    "fill": fill,
    "small-turn": small_turn,
    "selectors": selectors,
    "gpus": gpus,
    "topology": topology,
    "profiles": profiles,
    "preemption": preemption,
    "class-preemption": class_preemption,
    "pools": pools,
    "elastic": elastic,
    "growth": growth,
    "memory": memory,
    "caches": caches,
    "binds": binds,
    "simulate": simulate,
    "million": million,
    "ricc": ricc,
    "races": races,
    "job-requests": job_requests,
    "store": store,
    "throughput": throughput,
    "backlog": backlog,
    "singles": singles,
    "local": local,
    "peer": peer,
}
REPORT = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
INTRODUCTION = """# Benchmarks

Written by `make bench`; one of them: `make bench NAME=fill`. Absolute times mean little on another machine:
compare the ratios, or scale by the calibration figure, which each benchmark prints as it was when it ran.
"""


def main() -> int:
    """Run what was asked for, one after the other."""
    names = sys.argv[1:]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark called {unknown[0]!r}; there is: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    if len(names) == 1:
        section = f"## {names[0]}\n\n{calibration()}\n\n{BENCHMARKS[names[0]]()}\n"
        print(section, flush=True)
        if SCALE == 1:
            update(names[0], section)
        return 0
    return run_all(names or list(BENCHMARKS))


def update(name: str, section: str) -> None:
    """Put a benchmark's section in the place of its last one; the others stay as they were when they ran."""
    parts = REPORT.read_text(encoding="utf-8").split("\n## ")
    found = {part.split("\n", 1)[0]: part for part in parts[1:]} | {name: section.removeprefix("## ")}
    kept = ["## " + found[it].strip() + "\n" for it in BENCHMARKS if it in found]
    REPORT.write_text("\n".join([INTRODUCTION, *kept]), encoding="utf-8")


def run_all(names: list[str]) -> int:
    """Each in a process of its own, so that none finds another's leavings; how many went wrong."""
    failed = 0
    for name in names:
        print(f"bench: {name}", file=sys.stderr, flush=True)
        ran = subprocess.run([sys.executable, "-m", "bench", name], check=False)
        if ran.returncode != 0:
            failed += 1
            if SCALE == 1:
                update(name, f"## {name}\n\n**Failed**: its result was not right.\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
