"""A server with a million queued jobs: how fast they come in, what they cost in memory, who must wait meanwhile."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import httpx2

from bench.load import QUEUES, batch, submit
from bench.measuring import at_most, below, table, tell
from bench.worlds import SCALE

JOBS = int(1_000_000 * SCALE)
FIRST = JOBS // 10  # when memory is first looked at
AT_ONCE = 5_000
QUIET_TURNS = 20
BAR_GET_MS = 50
BAR_MEMORY = 1_024
BAR_TURN_MS = 50
BAR_RESTART_S = 30


def backlog() -> str:
    """A million jobs into a full fleet, on PostgreSQL; then quiet turns, and a restart after a kill -9."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from postgres import Postgres
    from serving import Site

    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    postgres = Postgres()
    try:
        postgres.start()
        with Site(folder, postgres.url(postgres.database())) as site:
            return _measured(site, folder)
    finally:
        postgres.remove()
        shutil.rmtree(folder)


def _measured(site: Any, folder: Path) -> str:
    for queue in QUEUES:
        site.queue(queue)
    site.agent(nodes="10xcpu=32,memory=128Gi", seconds=100_000)
    headers = {"Authorization": f"Bearer {site.token}"}
    with httpx2.Client(base_url=site.url, headers=headers, timeout=60) as client:
        rng, bodies = Random(1), []
        for _ in range(10):
            bodies.append(batch(rng, AT_ONCE))
        (first_job, *_) = submit(client, bodies[0], "first")
        probed = folder / "probed"
        prober = subprocess.Popen(
            [sys.executable, "-m", "bench.prober", site.url, str(site.token_file), first_job, str(probed)]
        )
        try:
            memory, took_s = _filled(site, client, bodies)
        finally:
            prober.terminate()
            prober.wait()
    answers = _answers(probed)
    quiet_ms = _quiet_turns(site)
    restart_s, first_turn_s = _restarted(site)
    grown = (memory[JOBS] - memory[FIRST]) / (JOBS - FIRST)
    everything = sorted(ms for some in answers.values() for ms in some)
    rows = [(path, f"{len(some):,}", _ms(_at(some, 0.5)), _ms(_at(some, 0.99))) for path, some in answers.items()]
    return "\n".join(
        [
            f"{JOBS:,} jobs in {len(QUEUES)} queues, {AT_ONCE:,} a request, into a fleet of 320 cores that is full:",
            f"{took_s:,.0f} s, {JOBS / took_s:,.0f} jobs/s. Meanwhile another process asked for small things:",
            "",
            *table(("GET", "answers", "median ms", "99 of 100 within ms"), rows),
            "",
            f"The server had {memory[FIRST] / 2**20:,.0f} MiB with {FIRST:,} jobs,",
            f"{memory[JOBS] / 2**20:,.0f} MiB with {JOBS:,}.",
            f"Killed (SIGKILL), it answered again after {restart_s:.1f} s.",
            "",
            below("A GET while they come, 99 of 100", BAR_GET_MS, _at(everything, 0.99), " ms"),
            at_most("Memory of each queued job more", BAR_MEMORY, grown, " bytes"),
            below("A turn with nothing new, half of them", BAR_TURN_MS, quiet_ms, " ms"),
            below("From start to the end of the first turn", BAR_RESTART_S, first_turn_s, " s"),
            "",
            "Checked: all jobs are there after the restart.",
        ]
    )


def _filled(site: Any, client: httpx2.Client, bodies: Sequence[bytes]) -> tuple[dict[int, float], float]:
    """Memory of the server after some and after all jobs, and how long they took to come in."""
    memory: dict[int, float] = {}
    began, sent = monotonic(), AT_ONCE
    while sent < JOBS:
        submit(client, bodies[sent // AT_ONCE % len(bodies)], f"fill-{sent}")
        sent += AT_ONCE
        if sent in (FIRST, JOBS):
            _all_considered(site, sent)
            memory[sent] = resident(site.server.process.pid)
            tell(f"{sent:,} jobs, {memory[sent] / 2**20:,.0f} MiB")
    return memory, monotonic() - began


def _all_considered(site: Any, many: int) -> None:
    """Wait until turns have seen all jobs."""
    while _metric(site, "muster_jobs") < many:
        sleep(0.1)


def _quiet_turns(site: Any) -> float:
    """Milliseconds that half of the turns took at most that had nothing to decide."""
    took = []
    for number in range(QUIET_TURNS):
        before = _metric(site, 'muster_turn_seconds_total{stage="decide"}')
        site.ask("PUT", f"/priority-classes/class-{number}", {"value": number})
        took.append(_metric(site, 'muster_turn_seconds_total{stage="decide"}') - before)
    return 1000 * sorted(took)[len(took) // 2]


def _restarted(site: Any) -> tuple[float, float]:
    """Seconds until the server answers after it was killed, and until its first turn is over."""
    site.server.end(signal.SIGKILL)
    began = monotonic()
    site.start()
    answered = monotonic() - began
    while not site.ask("GET", "/status")["turns"]:
        sleep(0.05)
    first_turn = monotonic() - began
    if _metric(site, "muster_jobs") != JOBS:
        raise SystemExit(f"{_metric(site, 'muster_jobs'):,.0f} jobs are there after a restart, not {JOBS:,}")
    return answered, first_turn


def _answers(probed: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for line in probed.read_text(encoding="utf-8").splitlines():
        path, ms = line.split()
        found.setdefault(path, []).append(float(ms))
    return {path: sorted(some) for path, some in found.items()}


def _at(ordered: Sequence[float], part: float) -> float:
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


def _ms(number: float) -> str:
    return f"{number:.1f}"


def _metric(site: Any, name: str) -> float:
    """The sum of a metric over its labels."""
    headers = {"Authorization": f"Bearer {site.token}"}
    text = httpx2.get(f"{site.url}/metrics", headers=headers, timeout=60).text
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


def resident(pid: int) -> float:
    """Bytes of memory that a process has."""
    fields: Mapping[str, str] = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    )
    return 1024 * float(fields["VmRSS"].split()[0])
