"""How fast one machine gets rid of jobs that do nothing, and what it costs to be there for them.

`muster up` is started as anyone would: server, SQLite and agent, with a supervisor for each task. Then Slurm does the
same on the same machine (bench/slurm.py).
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from bench import slurm
from bench.measuring import at_least, below, table, tell
from bench.serving import cpu_s
from bench.worlds import SCALE
from muster.sdk.client import Client

MANY = max(int(1_000 * SCALE), 1)
BAR = 150  # jobs a second
IDLE_S = max(40 * SCALE, 1.0)
BAR_IDLE_PCT, BAR_IDLE_MB = 2, 300
ASKING = {"all at once (0.001 cores each)": "1m", "a core each": "1"}
_LOOK_S = 0.1
_NAMES = ("server", "agent", "launcher")  # each is a child of the one before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """Jobs that were submitted together: seconds until all were over, and CPU seconds of each process."""

    what: str
    took_s: float
    spent: dict[str, float]

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return MANY / self.took_s


def local() -> str:
    """1,000 jobs that do nothing through `muster up` and through Slurm; and `muster up` with nothing to do."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from serving import Process

    load = os.getloadavg()[0]  # of whoever else is here
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    settings = {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_DATA_HOME": str(folder / "data")}
    up = Process(["up", "--port", "0"], "muster is up at", folder / "log", settings)
    try:
        up.start()
        assert up.process is not None
        token = (folder / "data" / "muster" / "token").read_text(encoding="utf-8").strip()
        with Client(up.greeting.split()[4].rstrip(","), token=token) as client:
            did = [_run(client, up.process.pid, what, cpu) for what, cpu in ASKING.items()]
        idle = _idle(up.process.pid)
        up.end(signal.SIGINT)
    finally:
        if up.is_alive:
            up.end(signal.SIGKILL)
        shutil.rmtree(folder)
    return _told(did, idle, slurm.raced(MANY), load)


def _run(client: Client, root: int, what: str, cpu: str) -> Did:
    """Submit jobs in one request, and look until none is left."""
    before = {name: cpu_s(pid) for name, pid in _processes(root).items()}
    began = monotonic()
    made = client.submit({"name": "none", "queue": "default", "cpu": cpu, "command": ["true"], "count": MANY})
    while any(client.queue("default").jobs.get(state) for state in ("queued", "pending", "running")):
        sleep(_LOOK_S)
    took_s = monotonic() - began
    spent = {name: cpu_s(pid) - before.get(name, 0.0) for name, pid in _processes(root).items()}
    ids = {job.id for job in made}
    done = sum(1 for job in client.iter_jobs(state="succeeded") if job.id in ids)
    if done != MANY:
        raise SystemExit(f"{done:,} jobs succeeded, not {MANY:,}")
    tell(f"{MANY:,} jobs {what} in {took_s:.1f} s")
    return Did(what=what, took_s=took_s, spent=spent)


def _processes(root: int) -> dict[str, int]:
    """The server and those that it started, which are there for as long as it is."""
    found = [root]
    while len(found) < len(_NAMES):
        threads = Path(f"/proc/{found[-1]}/task").iterdir()
        children = [child for thread in threads for child in (thread / "children").read_text().split()]
        if not children:
            break
        found.append(int(children[0]))
    return dict(zip(_NAMES, found, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """What each process costs while nothing is to be done: percent of a core, and MB that it holds."""

    pct: dict[str, float]
    mb: dict[str, float]


def _idle(root: int) -> Idle:
    sleep(min(IDLE_S, 5.0))  # what came last has been written down and looked at by then
    pids = _processes(root)
    before, began = {name: cpu_s(pid) for name, pid in pids.items()}, monotonic()
    sleep(IDLE_S)
    took_s = monotonic() - began
    pct = {name: 100 * (cpu_s(pid) - before[name]) / took_s for name, pid in pids.items()}
    return Idle(pct=pct, mb={name: _resident_mb(pid) for name, pid in pids.items()})


def _resident_mb(pid: int) -> float:
    """What it holds, what it shares with others counted in full: more than it costs."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _told(did: list[Did], idle: Idle, race: slurm.Race, load: float) -> str:
    rows: list[tuple[Any, ...]] = [
        (f"Muster, {one.what}", f"{MANY:,}", f"{one.took_s:.1f}", f"{one.rate:,.1f}", _spent(one.spent)) for one in did
    ]
    rows += [
        (f"Slurm {race.version}, {name}", f"{one.done:,}", f"{one.took_s:.1f}", f"{one.rate:,.1f}", _spent(one.spent))
        for name, one in race.runs.items()
    ]
    costs = [(name, f"{idle.pct[name]:.2f}", f"{idle.mb[name]:,.0f}") for name in idle.pct]
    return "\n".join(
        [
            f"{MANY:,} jobs that run `true`, from before the first is submitted until the last is over, on this",
            f"machine of {os.cpu_count()} cores (load average before: {load:.1f}): `muster up` (server, SQLite with",
            "synchronous FULL, agent, a supervisor for each task), in one request. CPU seconds are of processes that",
            "stay; those of each task come on top.",
            "",
            *table(("jobs", "over", "after s", "jobs/s", "CPU s"), rows),
            "",
            *_compared(did, race),
            f"For {IDLE_S:.0f} s with nothing to do:",
            "",
            *table(("process", "% of a core", "MB resident"), costs),
            "",
            at_least("Jobs that do nothing, submitted to done", BAR, did[0].rate, "/s"),
            below("CPU of server, agent and launcher with nothing to do", BAR_IDLE_PCT, sum(idle.pct.values()), " %"),
            below("Memory of server, agent and launcher", BAR_IDLE_MB, sum(idle.mb.values()), " MB"),
            "",
            "Checked: every job succeeded.",
        ]
    )


def _spent(spent: dict[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.1f}" for name, seconds in spent.items())


def _compared(did: list[Did], race: slurm.Race) -> list[str]:
    """Like with like: all at once, and with a core each."""
    if not race.runs:
        return [race.said, ""]
    *as_it_comes, at_once = (one.rate for one in race.runs.values())
    theirs = (at_once, max(as_it_comes))
    ratios = [f"{one.rate / rate:.1f} ({one.what})" for one, rate in zip(did, theirs, strict=True)]
    return [race.said, "", f"Jobs a second, Muster's over Slurm's: {', '.join(ratios)}.", ""]
