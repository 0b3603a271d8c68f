"""`python -m bench.prober URL TOKEN-FILE JOB OUT`: asks a server for small things all the time, until it is ended.

OUT gets a line for each answer: the path and the milliseconds that it took.
"""

from __future__ import annotations

import sys
from itertools import cycle
from pathlib import Path
from time import perf_counter, sleep

import httpx2

PAUSE_S = 0.02


def main() -> None:
    """Ask one thing after the other."""
    url, token_file, job, out = sys.argv[1:]
    headers = {"Authorization": f"Bearer {Path(token_file).read_text(encoding='utf-8').strip()}"}
    paths = (
        "/api/v1/status",
        f"/api/v1/jobs/{job}",
        "/api/v1/jobs?limit=20",
        "/api/v1/queues/team-0",
        "/api/v1/queues",
    )
    with httpx2.Client(base_url=url, headers=headers, timeout=60) as client, open(out, "a", encoding="utf-8") as lines:
        for path in cycle(paths):
            began = perf_counter()
            client.get(path).raise_for_status()
            name = path.replace(job, "JOB")
            lines.write(f"{name} {1000 * (perf_counter() - began):.3f}\n")
            lines.flush()
            sleep(PAUSE_S)


if __name__ == "__main__":
    main()
