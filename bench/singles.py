"""How many requests with one job each a server on SQLite takes in a second, every one durable before it is answered.

`python -m bench.singles URL TOKEN-FILE MANY` is the process that sends them, many at a time.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from bench.load import QUEUES
from bench.measuring import at_least, table, tell
from bench.serving import cpu_s
from bench.worlds import SCALE

MANY = int(10_000 * SCALE)
TOGETHER = 32
BAR = 500


def singles() -> str:
    """Requests with one job each, 32 under way at a time, on SQLite."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from serving import Site

    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    try:
        with Site(folder) as site:
            for queue in QUEUES:
                site.queue(queue)
            return _measured(site)
    finally:
        shutil.rmtree(folder)


def _measured(site: Any) -> str:
    before = cpu_s(site.server.process.pid)
    arguments = [sys.executable, "-m", "bench.singles", site.url, str(site.token_file), str(MANY)]
    sent = subprocess.run(arguments, check=True, capture_output=True, text=True)
    took_s, sender_s, slowest_ms = json.loads(sent.stdout)
    server_s = cpu_s(site.server.process.pid) - before
    tell(f"{MANY:,} requests in {took_s:.1f} s")
    there = sum(queue["jobs"].get("queued", 0) for queue in site.ask("GET", "/queues"))
    if there != MANY:
        raise SystemExit(f"{there:,} jobs are there, not {MANY:,}")
    rows = [(name, f"{s:.1f}", f"{1e6 * s / MANY:,.0f}") for name, s in (("server", server_s), ("sender", sender_s))]
    return "\n".join(
        [
            f"{MANY:,} requests, {TOGETHER} under way at a time, 99 of 100 answered within {slowest_ms:.0f} ms.",
            "SQLite: journal_mode WAL, synchronous FULL.",
            "",
            *table(("process", "CPU s", "µs of CPU a request"), rows),
            "",
            at_least("Requests with one job each", BAR, MANY / took_s, "/s"),
            "",
            "Checked: every job is there.",
        ]
    )


async def _send(url: str, token: str, many: int) -> tuple[float, float, float]:
    """Seconds on the wall and of CPU, and within how many milliseconds 99 of 100 were answered."""
    host, _, port = url.removeprefix("http://").partition(":")
    head = f"POST /api/v1/jobs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
    left, times = iter(range(many)), []

    async def send() -> None:
        """One connection, one request after the other. An HTTP client would take as much CPU as the server does."""
        reader, writer = await asyncio.open_connection(host, int(port))
        for number in left:
            job = {"name": "one", "queue": QUEUES[number % len(QUEUES)], "cpu": 1, "command": ["true"]}
            body = json.dumps({"jobs": [job]})
            asked = monotonic()
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 201"):
                raise SystemExit(answer.decode())
            length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            times.append(monotonic() - asked)
        writer.close()

    began, cpu = monotonic(), process_time()
    await asyncio.gather(*(send() for _ in range(TOGETHER)))
    return monotonic() - began, process_time() - cpu, 1000 * sorted(times)[int(len(times) * 0.99)]


def main() -> None:
    """Send them, and say how it went."""
    url, token_file, many = sys.argv[1:]
    token = Path(token_file).read_text(encoding="utf-8").strip()
    print(json.dumps(asyncio.run(_send(url, token, int(many)))))


if __name__ == "__main__":
    main()
