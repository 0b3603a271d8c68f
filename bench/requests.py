"""How fast a server reads the jobs of requests: decoded JSON in, checked jobs out, 1,000 in each request."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bench.measuring import MEASURE, at_least, median, table, timed
from bench.worlds import SCALE, freeze_garbage
from muster.documents.jobs import Known, read_jobs

REQUESTS = max(int(50 * SCALE), 1)
JOBS = 1000
ROUNDS = 5
BAR = 30_000

KNOWN = Known(queues=frozenset(f"queue-{number}" for number in range(100)), clusters={}, where="this server")

Job = dict[str, Any]


def job_requests() -> str:
    """Requests of four kinds, each read by a reader that remembers nothing from the request before."""
    kinds: dict[str, Callable[[int], Job]] = {
        "plain: 4 shapes, 10 priorities, 50 run times, 100 users and queues": _plain,
        "plain, each after the one before it": _after,
        "plain, each with a command and a variable of its own": _own_command,
        "gangs of two groups": _gang,
        "plain, each asking for another amount: read in full": _own_amount,
    }
    freeze_garbage()
    rates = {what: _rate(make) for what, make in kinds.items()}
    first = next(iter(rates.values()))
    return "\n".join(
        [
            f"{REQUESTS} requests of {JOBS:,} jobs each as a JSON decoder gives them. {MEASURE}",
            "",
            *table(("jobs", f"jobs/s: median of {ROUNDS}"), [(what, f"{rate:,.0f}") for what, rate in rates.items()]),
            "",
            at_least("Plain jobs a second and core", BAR, first),
            "",
            "Checked: every request gave as many jobs as it held, in their order.",
        ]
    )


def _rate(make: Callable[[int], Job]) -> float:
    body = json.dumps({"jobs": [make(number) for number in range(JOBS)]})
    rates = []
    for _ in range(ROUNDS):
        decoded = [json.loads(body) for _ in range(REQUESTS)]
        read, seconds = timed(lambda decoded=decoded: [read_jobs(one, KNOWN) for one in decoded])
        assert [spec.name for spec in read[-1]] == [f"job-{number}" for number in range(JOBS)]
        rates.append(REQUESTS * JOBS / seconds)
    return median(rates)


def _plain(number: int) -> Job:
    return {
        "name": f"job-{number}",
        "queue": f"queue-{number % 100}",
        "user": f"user-{number % 100}",
        "priority": number % 10,
        "lifetime": "30m",
        "expectedRuntime": f"{number % 50 + 1}m",
        "cpu": number % 4 + 1,
        "memory": "4Gi",
        "command": ["python", "train.py"],
    }


def _after(number: int) -> Job:
    return {**_plain(number), "after": [f"job-{number - 1}"]}


def _own_command(number: int) -> Job:
    command = ["python", "train.py", "--seed", str(number)]
    return {**_plain(number), "command": command, "env": {"SEED": str(number)}}


def _gang(number: int) -> Job:
    return {
        "name": f"job-{number}",
        "queue": f"queue-{number % 100}",
        "groups": [
            {"name": "ps", "count": 2, "cpu": 4, "command": ["serve"]},
            {"name": "worker", "min": 2, "max": 16, "cpu": 4, "gpu": 1, "command": ["train"]},
        ],
    }


def _own_amount(number: int) -> Job:
    return {**_plain(number), "cpu": f"{number + 1}m"}
