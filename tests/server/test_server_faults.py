"""kill -9 of the server, its agent and its database at seeded random moments under load.

Every job whose submission was answered ends, exactly once; no attempt is begun twice. The agent writes what it begins
and ends into a ledger outside of Muster, and that is what counts. `MUSTER_KILLS` says how many kills (`make soak`,
which also writes docs/reliability.md).
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from insisting import ends, submit_all
from ledger import Ledger
from serving import PATIENCE_S, Site
from soaking import Survived, note

KILLS = int(os.environ.get("MUSTER_KILLS", "30")) // 2
BATCHES, JOBS = 6, 4  # while one is killed, after a random number of answers


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_whoever_is_killed_every_job_ends_exactly_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed, began = f"{kind} {KILLS}", time.monotonic()
    chance = random.Random(seed)
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

        victims = {"server": kill_server, "agent": kill_agent}
        if database is not None:
            victims["database"] = kill_database
        kills: Counter[str] = Counter()
        acknowledged: list[str] = []
        with ThreadPoolExecutor(1) as people:
            for number in range(KILLS):
                answered: Queue[str] = Queue()
                keys = [f"{number}-{batch}" for batch in range(BATCHES)]
                submitted = people.submit(submit_all, site, keys, _jobs, answered)
                for _ in range(chance.randrange(BATCHES)):
                    answered.get(timeout=PATIENCE_S)
                victim = chance.choice(list(victims))
                victims[victim]()
                kills[victim] += 1
                acknowledged += submitted.result()
        states = ends(site, "a", len(acknowledged))

    ledger = Ledger.read(site.ledger())
    note(Survived(kind, kills, acknowledged, ledger, seed=seed, took_s=time.monotonic() - began))
    assert states == {"succeeded": KILLS * BATCHES * JOBS}
    ledger.check_each_once(acknowledged)


def _jobs(_key: str) -> list[dict[str, Any]]:
    return [{"name": f"j{place}", "queue": "a", "cpu": 1} for place in range(JOBS)]
