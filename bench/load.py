"""`python -m bench.load URL TOKEN-FILE SECONDS RATE LOG`: submits batches of jobs to a server, as any client would.

A batch that was not answered is sent again with the same key until it is. LOG gets a line for each batch that was
acknowledged: when (milliseconds of the clock on the wall), how many jobs, and the id of its last one.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from random import Random
from threading import Lock
from time import monotonic, sleep, time
from typing import TextIO

import httpx2

AT_ONCE = 1_000
CLIENTS = 3  # each waits for its answer before it sends the next batch
QUEUES = tuple(f"team-{number}" for number in range(10))
_SHAPES = tuple({"cpu": cpu, "memory": f"{gib}Gi"} for cpu in (1, 1, 1, 2, 4) for gib in (1, 2, 4))
_AGAIN_S, _LONGEST_S = 0.05, 0.2  # between tries, twice as long each time


def batch(rng: Random, many: int = AT_ONCE) -> bytes:
    """A request with so many jobs."""
    jobs = [
        {"name": "bench", "queue": rng.choice(QUEUES), "command": ["true"], **rng.choice(_SHAPES)} for _ in range(many)
    ]
    return json.dumps({"jobs": jobs}).encode()


def submit(client: httpx2.Client, body: bytes, key: str) -> list[str]:
    """The ids of the jobs of a batch, whatever happens to the server meanwhile."""
    pause_s = _AGAIN_S
    while True:
        try:
            answer = client.post("/api/v1/jobs", content=body, headers={"Idempotency-Key": key})
        except httpx2.TransportError:
            sleep(_AGAIN_S)
            continue
        if answer.status_code == 201:
            return [job["id"] for job in answer.json()["jobs"]]
        if answer.status_code not in (429, 503):
            raise SystemExit(f"the server answered {answer.status_code}: {answer.text[:500]}")
        sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_S)


class Load:
    """Batches that are due one after the other, sent by several clients at a time."""

    def __init__(self, seconds: float, rate: float, lines: TextIO) -> None:
        rng = Random(1)
        self._bodies = [batch(rng) for _ in range(20)]
        self._seconds, self._rate = seconds, rate
        self._lines, self._lock = lines, Lock()
        self._next = count()
        self._began = monotonic()

    def send(self, client: httpx2.Client) -> None:
        """Submit the next batch when it is due, and so on until the time is over."""
        while (elapsed := monotonic() - self._began) < self._seconds:
            number = next(self._next)
            due = number * AT_ONCE / self._rate
            if elapsed < due:
                sleep(due - elapsed)
            ids = submit(client, self._bodies[number % len(self._bodies)], f"load-{number}")
            with self._lock:
                self._lines.write(f"{int(time() * 1000)} {len(ids)} {ids[-1]}\n")
                self._lines.flush()


def main() -> None:
    """Submit at a steady rate for so long; what could not be sent in time is sent as soon as it can be."""
    url, token_file, seconds, rate, log = sys.argv[1:]
    headers = {"Authorization": f"Bearer {Path(token_file).read_text(encoding='utf-8').strip()}"}
    with (
        open(log, "a", encoding="utf-8") as lines,
        httpx2.Client(base_url=url, headers=headers, timeout=60) as client,
        ThreadPoolExecutor(CLIENTS) as clients,
    ):
        load = Load(float(seconds), float(rate), lines)
        list(clients.map(load.send, [client] * CLIENTS))


if __name__ == "__main__":
    main()
