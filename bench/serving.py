"""How many jobs a second go through a whole server: submitted, decided on, leased, done.

The load generator, the server, the simulated agent and PostgreSQL are processes of their own and speak only what
everybody speaks. What is counted is counted in the database, by queries of this benchmark.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

from bench.load import CLIENTS, QUEUES
from bench.measuring import at_least, below, table, tell
from bench.worlds import SCALE

SECONDS = 300 * SCALE
KILL_AFTER_S = 260 * SCALE
RATE = float(os.environ.get("MUSTER_BENCH_RATE", "5300"))
BAR_RATE = 5_000
BAR_CONSIDERED_MS = 1_000
KEEP_S = 60
MOST_QUEUED = 1_000  # in each queue: so the load is what the server can take, not a backlog
_SERVER = ("server", "server's writer")
_LOOK_S = 5.0
_EVERY = 6  # of the looks, for the size of the database
_TICKS = os.sysconf("SC_CLK_TCK")

# Counted before retention takes them away, and never twice: by the millisecond in which they ended.
_ENDED = "SELECT count(*) FROM standing WHERE state = 'succeeded' AND end_ms >= {since} AND end_ms < {until}"
_LEFT = "SELECT count(*) FROM standing WHERE end_ms IS NULL"


@dataclass(slots=True)
class Seen:
    """What the benchmark saw on the way."""

    done: int = 0
    until_ms: int = 0
    waits_ms: dict[str, float] = field(default_factory=dict)
    sizes: list[float] = field(default_factory=list)
    restart_s: float = 0.0


def throughput() -> str:
    """Five minutes of jobs through server, PostgreSQL and simulated agent, with a kill -9 of the server."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from postgres import Postgres
    from serving import Site

    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    postgres = Postgres(shared_buffers="1GB", max_wal_size="4GB")  # as docs/server.md advises
    try:
        postgres.start()
        database = postgres.database()
        options = ("--keep", f"{KEEP_S}s", "--most-queued", str(MOST_QUEUED))  # more get 429 and wait, as clients do
        with Site(folder, postgres.url(database), *options) as site:
            for queue in QUEUES:
                site.queue(queue)
            site.agent(nodes="1000xcpu=32,memory=128Gi", seconds=0.2)
            return _measured(site, postgres, database, folder)
    finally:
        postgres.remove()
        shutil.rmtree(folder)


def _measured(site: Any, postgres: Any, database: str, folder: Path) -> str:
    log = folder / "load.log"
    log.touch()
    agent = site.agents["lab"].process.pid
    spent: dict[str, float] = dict.fromkeys([*_SERVER, "agent", "PostgreSQL", "load generator"], 0.0)
    before = {**_server_cpu_s(site), "agent": cpu_s(agent), "PostgreSQL": _postgres_cpu_s(postgres)}
    arguments = [site.url, str(site.token_file), str(SECONDS), str(RATE), str(log)]
    load = subprocess.Popen([sys.executable, "-m", "bench.load", *arguments])
    began, is_killed = monotonic(), False
    seen = Seen(until_ms=int(time() * 1000))
    while load.poll() is None:
        _look(postgres, database, log, seen)
        tell(f"{monotonic() - began:.0f} s: {seen.done:,} jobs done")
        if not is_killed and monotonic() - began > KILL_AFTER_S:
            is_killed = True
            spent |= {name: seconds - before[name] for name, seconds in _server_cpu_s(site).items()}
            site.server.end(signal.SIGKILL)
            killed = monotonic()
            site.start()
            seen.restart_s = monotonic() - killed
            before |= dict.fromkeys(_SERVER, 0.0)
            tell(f"killed the server; it answered again after {seen.restart_s:.1f} s")
        else:
            _wait(load, _LOOK_S)
        spent["load generator"] = max(spent["load generator"], cpu_s(load.pid))
    took = monotonic() - began
    while postgres.execute(_LEFT, database)[0][0]:
        if monotonic() - began > took + 120:
            raise SystemExit("jobs are left that nobody finishes")
        sleep(0.5)
    ended = monotonic() - began
    _look(postgres, database, log, seen, settled_ms=0)
    for name, seconds in _server_cpu_s(site).items():
        spent[name] += seconds - before[name]
    spent["agent"] = cpu_s(agent) - before["agent"]
    spent["PostgreSQL"] = _postgres_cpu_s(postgres) - before["PostgreSQL"]
    sent = sum(int(line.split()[1]) for line in log.read_text(encoding="utf-8").splitlines())
    if sent != seen.done:
        raise SystemExit(f"{sent:,} jobs were acknowledged, and {seen.done:,} ended")
    ledger = site.ledger().read_text(encoding="utf-8").splitlines()
    begun = [line for line in ledger if line.startswith('["began"')]
    if len(begun) != len(set(begun)):
        raise SystemExit("an attempt was begun twice")
    return _told(seen, spent, took, ended, _settings(postgres))


def _told(seen: Seen, spent: Mapping[str, float], took: float, ended: float, settings: Mapping[str, str]) -> str:
    waits = sorted(seen.waits_ms.values())
    p50, p99 = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    rows = [(name, f"{seconds:,.1f}", f"{1e6 * seconds / seen.done:,.0f}") for name, seconds in spent.items()]
    return "\n".join(
        [
            f"{len(QUEUES)} queues of at most {MOST_QUEUED:,} jobs; {CLIENTS} clients send batches of 1,000, at",
            f"{RATE:,.0f} jobs/s or as fast as there is room, for {took:,.0f} s; 1,000 nodes of 32 cores, each job",
            f"0.2 s; what is over is kept for {KEEP_S} s. The server was killed",
            f"(SIGKILL) after {KILL_AFTER_S:,.0f} s; it answered again after {seen.restart_s:.1f} s.",
            f"PostgreSQL: {', '.join(f'{name} {value}' for name, value in settings.items())}.",
            "",
            *table(("process", "CPU s", "µs of CPU a job"), rows),
            "",
            f"{seen.done:,} jobs were acknowledged and ended, the last {ended - took:.1f} s after the last was sent.",
            f"MiB of the database on the way: {', '.join(f'{size:,.0f}' for size in seen.sizes[::_EVERY])}.",
            f"From acknowledged to considered (here: started): half within {p50:,.0f} ms.",
            "",
            at_least("Jobs through submit, turn, lease and done", BAR_RATE, seen.done / ended, "/s"),
            below("From acknowledged to considered, 99 of 100 batches", BAR_CONSIDERED_MS, p99, " ms"),
            "",
            "Checked: as many jobs ended in the database as were acknowledged, and no attempt was begun twice by the",
            "agent's ledger.",
        ]
    )


def _look(postgres: Any, database: str, log: Path, seen: Seen, settled_ms: int = 5_000) -> None:
    """Count what ended since the last look, and how long batches waited.

    What ended in the last `settled_ms` may not all be durable yet: it is counted the next time.
    """
    until_ms = int(time() * 1000) - settled_ms
    seen.done += postgres.execute(_ENDED.format(since=seen.until_ms, until=until_ms), database)[0][0]
    seen.until_ms = until_ms
    size = postgres.execute(f"SELECT pg_database_size('{database}')", database)[0][0]
    seen.sizes.append(size / 2**20)
    lines = (line.split() for line in log.read_text(encoding="utf-8").splitlines())
    acknowledged = {job: int(at_ms) for at_ms, _, job in lines if job not in seen.waits_ms}
    names = ", ".join(f"'{job}'" for job in acknowledged)
    if names:
        found = postgres.execute(f"SELECT job, start_ms FROM standing WHERE job IN ({names})", database)
        seen.waits_ms |= {job: start - acknowledged[job] for job, start in found if start is not None}


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def cpu_s(pid: int) -> float:
    """CPU seconds of a process until now; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _server_cpu_s(site: Any) -> dict[str, float]:
    """CPU seconds of the server, and of the process that writes for it."""
    server = site.server.process.pid
    return {"server": cpu_s(server), "server's writer": sum(map(cpu_s, _children(server)))}


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")  # a child belongs to the thread that made it
    return [int(child) for task in tasks for child in task.read_text(encoding="utf-8").split()]


def _postgres_cpu_s(postgres: Any) -> float:
    """CPU seconds of PostgreSQL's processes, and of those of its children that have ended."""
    root = postgres.pid
    fields = Path(f"/proc/{root}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    total = sum(int(field) for field in fields[11:15]) / _TICKS
    return total + sum(map(cpu_s, _children(root)))


def _settings(postgres: Any) -> dict[str, str]:
    names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size")
    return {name: postgres.execute(f"SHOW {name}")[0][0] for name in names}
