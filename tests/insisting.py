"""People who do not give up: what they ask is asked again until a server that is killed now and then has answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Queue
from typing import Any

import httpx2
from serving import PATIENCE_S, Site

BACK_OFF_S = 0.03  # they leave the machine to those they wait for

JobsOf = Callable[[str], list[dict[str, Any]]]
"""The jobs of a submission with that key."""


def submit_all(site: Site, keys: list[str], jobs_of: JobsOf, answered: Queue[str]) -> list[str]:
    """Submit one batch after the other; the ids of all jobs. Each answer is told."""
    ids: list[str] = []
    for key in keys:
        headers = {"Idempotency-Key": key}
        answer = insist(site, "POST", "/jobs", json={"jobs": jobs_of(key)}, headers=headers)
        ids += [job["id"] for job in answer["jobs"]]
        answered.put(key)
    return ids


def insist(site: Site, method: str, path: str, **more: Any) -> Any:
    """The answer to a question, once there is one."""
    until = time.monotonic() + PATIENCE_S
    headers = {"Authorization": f"Bearer {site.token}", **more.pop("headers", {})}
    with httpx2.Client(verify=False, trust_env=False, timeout=PATIENCE_S) as client:
        while time.monotonic() < until:
            try:
                answer = client.request(method, f"{site.url}/api/v1{path}", headers=headers, **more)
            except httpx2.TransportError:
                time.sleep(BACK_OFF_S)
                continue
            if answer.status_code < 300:
                return answer.json()
            assert answer.status_code == 503, answer.text
    raise AssertionError(f"{method} {path} was never answered")


def ends(site: Site, queue: str, many: int) -> dict[str, int]:
    """What became of all jobs of a queue, once nothing more will."""
    until = time.monotonic() + PATIENCE_S
    counts: dict[str, int] = {}
    while time.monotonic() < until:
        time.sleep(BACK_OFF_S)
        counts = insist(site, "GET", f"/queues/{queue}")["jobs"]
        if sum(counts.values()) == many and set(counts) <= {"succeeded", "failed", "cancelled"}:
            return counts
    return counts
