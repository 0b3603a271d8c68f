"""How fast a peer fills the same fleet with the same jobs: YuniKorn's scheduler, in process, on this machine.

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
from pathlib import Path
from shutil import which
from typing import TypedDict

from bench.measuring import table, tell
from bench.turns import TRIES, Filling, filled, made_world, warm_up
from bench.worlds import MIB, Size, jobs_of, scaled

VERSION = "1.8.0"  # of github.com/apache/yunikorn-core; bench/peer/go.mod.txt asks for the same
SOURCES = Path(__file__).resolve().parent / "peer"
FILL_PCT = 90
RUN_S = 30  # a run that is not done by then is stopped: its rate is known
BUILD_S = 300  # a cold build took 71 s


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

    size: Size
    applications: int  # per queue, and no gangs; 0: one per job


# Of 1, 10 and 100 applications per queue, 1 was slower and 10 and 100 about equal. One per job took 1.7 GiB at a
# tenth of the full size, so it is not run at the full size, where ten per queue take 6 GiB.
SMALL, MEDIUM, LARGE = Size(jobs=10_000, nodes=312), Size(jobs=100_000, nodes=3_125), Size()
TRIALS = (
    Trial(size=SMALL, applications=0),
    Trial(size=MEDIUM, applications=0),
    Trial(size=SMALL, applications=10),
    Trial(size=MEDIUM, applications=10),
    Trial(size=LARGE, applications=10),
)

INTRODUCTION = f"""Apache YuniKorn core {VERSION}, in process, from its Go module, driven by `bench/peer/main.go.txt`,
on the very worlds of `fill`, each filled from empty. The peer's clock starts when all is registered, and stops at
{FILL_PCT} % full or after {RUN_S} s. Its nodes hold what was counted, each task once, and none is over-full.

Ours, measured in the same run, fills the world until nothing more fits: the best of {TRIES} plans, with every action
made. Compared are placements per second of CPU.
"""

UNLIKE = """Its scheduling runs on one core, Go's garbage collector may use another. Where seconds exceed CPU seconds
the machine was shared, and the rate per CPU second is the one to compare.

Unlike ours: one step places one task, and sorts queues and applications anew for it. Applied: equal fair share between
queues, first in first out within one, the emptiest node first (its default), user accounting. Left out in its favour:
preemption, reservations, limits, events, messages to a cluster. Its gangs (one application per job) take places one by
one and hold them until whole; one column counts those still in part. Ten applications per queue are its faster
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
    "ours per CPU second",
    "ours against it",
)


def peer() -> str:
    """The section of the report: the peer's placements per second on worlds of several sizes."""
    if which("go") is None:
        return NO_GO
    scratch = _scratch()
    trouble = _build(scratch)
    if trouble is not None:
        return f"Not run: the peer could not be built.\n\n```\n{trouble}\n```"
    rows = [(trial, _run(scratch, trial)) for trial in TRIALS]
    warm_up()
    ours = {size: filled(made_world(scaled(size))) for size in (SMALL, MEDIUM, LARGE)}
    cells = [_row(trial, answer, ours[trial.size]) for trial, answer in rows]
    return "\n".join([INTRODUCTION, *table(HEADINGS, cells), "", UNLIKE])


def write_world(path: Path, size: Size) -> None:
    """The jobs of a world, one per line: queue,cpu,mib,width. Lifetimes and stated run times are left out."""
    with path.open("w", encoding="utf-8") as file:
        for job in jobs_of(size, seed=1):
            group = job.profile.groups[0]
            asks = group.request.resources
            file.write(f"{job.queue},{asks.get('cpu') // 1000},{asks.get('memory') // MIB},{group.min}\n")


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


def _row(trial: Trial, answer: Answer, ours: Filling) -> list[str]:
    rate = answer["placed"] / answer["cpu_seconds"]
    return [
        f"{trial.applications} per queue" if trial.applications else "1 per job",
        f"{answer['jobs']:,}",
        f"{answer['nodes']:,}",
        f"{answer['placed']:,}",
        f"{answer['fill_pct']:.0f} %",
        f"{answer['seconds']:.1f}",
        f"{answer['cpu_seconds']:.1f}",
        f"{answer['placed'] / answer['seconds']:,.0f}",
        f"{rate:,.0f}",
        "" if trial.applications else f"{answer['gangs_part']:,}",
        f"{ours.whole_rate:,.0f}",
        f"{ours.whole_rate / rate:,.0f} times",
    ]


def _run(scratch: Path, trial: Trial) -> Answer:
    size = scaled(trial.size)
    world = scratch / f"world-{size.jobs}.csv"
    write_world(world, size)
    command = [
        str(scratch / "peer"),
        f"-world={world}",
        f"-nodes={size.nodes}",
        f"-applications={trial.applications}",
        f"-fill={FILL_PCT}",
        f"-seconds={RUN_S}",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"bench: the peer's result is wrong: {ran.stderr.strip()[-300:]}")
    answer: Answer = json.loads(ran.stdout)
    tell(f"the peer placed {answer['placed']:,} tasks in {answer['cpu_seconds']:.1f} s of CPU ({answer['stopped']})")
    return answer
