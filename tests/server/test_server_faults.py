"""kill -9 of the server, its agent and its database at seeded random moments under load.

Every job whose submission was answered ends, exactly once; no attempt is begun twice. The agent writes what it begins
and ends into a ledger outside of Muster, and that is what counts. `MUSTER_KILLS` says how many kills (`make soak`).
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from insisting import ends, submit_all
from serving import PATIENCE_S, Site

KILLS = int(os.environ.get("MUSTER_KILLS", "30")) // 2
BATCHES, JOBS = 6, 4  # while one is killed, after a random number of answers


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_whoever_is_killed_every_job_ends_exactly_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(f"{kind} {KILLS}")
    database = request.getfixturevalue("postgres") if kind == "postgresql" else None
    db = "" if database is None else database.url(database.database())
    with Site(tmp_path, db) as site:
        site.queue("a")
        agent = site.agent(nodes="4xcpu=4,memory=8Gi", seconds=0.02)

        def kill_server() -> None:
            site.server.end(signal.SIGKILL)
            site.server.start()

        def kill_agent() -> None:
            agent.end(signal.SIGKILL)
            agent.start()

        def kill_database() -> None:
            database.stop(signal.SIGQUIT)
            database.start()

        victims = [kill_server, kill_agent, *([kill_database] if database is not None else [])]
        acknowledged: list[str] = []
        with ThreadPoolExecutor(1) as people:
            for number in range(KILLS):
                answered: Queue[str] = Queue()
                keys = [f"{number}-{batch}" for batch in range(BATCHES)]
                submitted = people.submit(submit_all, site, keys, _jobs, answered)
                for _ in range(chance.randrange(BATCHES)):
                    answered.get(timeout=PATIENCE_S)
                chance.choice(victims)()
                acknowledged += submitted.result()
        states = ends(site, "a", len(acknowledged))

    assert states == {"succeeded": KILLS * BATCHES * JOBS}
    lines = [json.loads(line) for line in site.ledger().read_text(encoding="utf-8").splitlines() if line[-1:] == "]"]
    began = Counter((job, attempt) for what, job, attempt, _ in lines if what == "began")
    succeeded = Counter(job for what, job, _, result in lines if (what, result) == ("ended", "succeeded"))
    assert {attempt for attempt, times in began.items() if times > 1} == set()
    assert succeeded == Counter(acknowledged)


def _jobs(_key: str) -> list[dict[str, Any]]:
    return [{"name": f"j{place}", "queue": "a", "cpu": 1} for place in range(JOBS)]
