"""How fast a peer fills the same kind of fleet: YuniKorn's scheduler, in process, on this machine.

The peer comes as a Go module of a pinned version, checked against the sums in peer/go.sum.txt. Our own driver,
peer/main.go.txt, registers nodes, queues and jobs, then calls the peer's scheduling step until the fleet is nearly
full, and checks what was placed. Module, driver and worlds lie in a scratch folder outside this repository.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from shutil import which
from typing import TypedDict

VERSION = "1.8.0"  # of github.com/apache/yunikorn-core; bench/peer/go.mod.txt asks for the same
SOURCES = Path(__file__).resolve().parent / "peer"
FILL_PCT = 90
RUN_S = 30  # a run that is not done by then is stopped: its rate is known
BUILD_S = 300  # a cold build took 71 s
QUEUES = 100
SHAPES = 300
GANGS = 0.05


class Answer(TypedDict):
    """What the driver says of one run; main.go.txt, type result."""

    jobs: int
    tasks: int
    nodes: int
    setup_seconds: float
    placed: int
    seconds: float
    cpu_seconds: float
    fill_pct: float
    stopped: str
    gangs_whole: int
    gangs_part: int
    peak_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A world, and how its jobs are told to the peer."""

    jobs: int
    nodes: int
    applications: int  # per queue, and no gangs; 0: one per job


# Of 1, 10 and 100 applications per queue, 1 was slower and 10 and 100 about equal. One per job took 1.7 GiB at a
# tenth of the full size, so it is not run at the full size, where ten per queue take 6 GiB.
TRIALS = (
    Trial(jobs=10_000, nodes=312, applications=0),
    Trial(jobs=100_000, nodes=3_125, applications=0),
    Trial(jobs=10_000, nodes=312, applications=10),
    Trial(jobs=100_000, nodes=3_125, applications=10),
    Trial(jobs=1_000_000, nodes=31_250, applications=10),
)

INTRODUCTION = f"""Apache YuniKorn core {VERSION}, in process, from its Go module, driven by `bench/peer/main.go.txt`.
Nodes of 32 cores / 128 GiB, filled from empty; {QUEUES} queues, {SHAPES} shapes with Zipf popularity (1 to 16 cores,
1 to 64 GiB), one job in twenty a gang of 2 to 64. The clock starts when all is registered, and stops at {FILL_PCT} %
full or after {RUN_S} s. The nodes hold what was counted, each task once, and none is over-full.
"""

UNLIKE = """Its scheduling runs on one core, Go's garbage collector may use another. Where seconds exceed CPU seconds
the machine was shared, and the rate per CPU second is the one to compare.

Unlike ours: one step places one task, and sorts queues and applications anew for it. Applied: equal fair share between
queues, first in first out within one, the emptiest node first (its default), user accounting. Left out in its favour:
preemption, reservations, limits, events, messages to a cluster. Its gangs (one application per job) take places one by
one and hold them until whole; the last column counts those still in part. Ten applications per queue are its faster
way, and know no gangs: their tasks are placed as single ones."""

NO_GO = "Not run: Go is missing. Get Go 1.24 or later (Debian: `apt install golang`), then `make bench NAME=peer`."
HEADINGS = (
    "applications",
    "jobs",
    "nodes",
    "tasks placed",
    "full to",
    "seconds",
    "CPU seconds",
    "placements/s",
    "per CPU second",
    "gangs in part",
)


def peer() -> str:
    """The section of the report: the peer's placements per second on worlds of several sizes."""
    if which("go") is None:
        return NO_GO
    scratch = _scratch()
    trouble = _build(scratch)
    if trouble is not None:
        return f"Not run: the peer could not be built.\n\n```\n{trouble}\n```"
    return "\n".join([INTRODUCTION, *_table(scratch), "", UNLIKE])


def write_world(path: Path, *, jobs: int, seed: int = 1) -> None:
    """One job per line: queue,cpu,gib,width. Same seed, same world."""
    rng = Random(seed)
    shapes = rng.sample([(cpu, gib) for cpu in (1, 2, 4, 8, 16) for gib in range(1, 65)], SHAPES)
    popularity = list(accumulate(1 / rank for rank in range(1, SHAPES + 1)))
    with path.open("w", encoding="utf-8") as file:
        for cpu, gib in rng.choices(shapes, cum_weights=popularity, k=jobs):
            width = rng.randint(2, 64) if rng.random() < GANGS else 1
            file.write(f"q-{rng.randrange(QUEUES):02d},{cpu},{gib},{width}\n")


def _scratch() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    scratch = cache / "muster" / "peer" / VERSION
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch


def _build(scratch: Path) -> str | None:
    """Build the driver; what went wrong, or None. Go fetches the pinned modules and keeps what it compiled."""
    for name in ("go.mod", "go.sum", "main.go"):
        (scratch / name).write_bytes((SOURCES / f"{name}.txt").read_bytes())
    environment = os.environ | {"GOFLAGS": "-mod=readonly -buildvcs=false"}
    command = ["go", "build", "-o", "peer", "."]
    try:
        built = subprocess.run(
            command, cwd=scratch, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{' '.join(command)}: not done after {BUILD_S} s"
    return None if built.returncode == 0 else "\n".join(built.stderr.splitlines()[-5:])


def _table(scratch: Path) -> list[str]:
    return [
        f"| {' | '.join(HEADINGS)} |",
        f"|{'---|' * len(HEADINGS)}",
        *(_row(trial, _run(scratch, trial)) for trial in TRIALS),
    ]


def _row(trial: Trial, answer: Answer) -> str:
    cells = [
        f"{trial.applications} per queue" if trial.applications else "1 per job",
        f"{answer['jobs']:,}",
        f"{answer['nodes']:,}",
        f"{answer['placed']:,}",
        f"{answer['fill_pct']:.0f} %",
        f"{answer['seconds']:.1f}",
        f"{answer['cpu_seconds']:.1f}",
        f"{answer['placed'] / answer['seconds']:.0f}",
        f"{answer['placed'] / answer['cpu_seconds']:.0f}",
        "" if trial.applications else str(answer["gangs_part"]),
    ]
    return f"| {' | '.join(cells)} |"


def _run(scratch: Path, trial: Trial) -> Answer:
    world = scratch / f"world-{trial.jobs}.csv"
    write_world(world, jobs=trial.jobs)
    command = [
        str(scratch / "peer"),
        f"-world={world}",
        f"-nodes={trial.nodes}",
        f"-applications={trial.applications}",
        f"-fill={FILL_PCT}",
        f"-seconds={RUN_S}",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"bench: the peer's result is wrong: {ran.stderr.strip()[-300:]}")
    answer: Answer = json.loads(ran.stdout)
    return answer
