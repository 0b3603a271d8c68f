"""kill -9 of the server, the agent, its launcher and supervisors at seeded random moments under load.

Tasks keep a ledger themselves. No attempt begins twice, and every job whose submission was answered has done its work;
more than once only where the supervisor of an attempt was killed, which nobody can tell from one that came too early.
`MUSTER_KILLS` says how many kills (`make soak`).
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Queue
from typing import Any

from insisting import ends, submit_all
from serving import PATIENCE_S, Site

from muster.local.processes import descendants, parent, started

KILLS = int(os.environ.get("MUSTER_KILLS", "30"))
BATCHES, JOBS = 5, 4  # while one is killed, after a random number of answers


def test_whoever_is_killed_the_tasks_own_ledger_is_right(tmp_path: Path) -> None:
    chance = random.Random(KILLS)
    ledger = tmp_path / "ledger"
    ledger.touch()
    line = f'echo "$MUSTER_JOB $MUSTER_ATTEMPT %s" >> {ledger}'
    command = f"{line % 'began'}; sleep 0.0$MUSTER_ATTEMPT; {line % 'ended'}"
    jobs = [{"name": f"j{place}", "queue": "a", "cpu": "100m", "command": command} for place in range(JOBS)]
    killed: set[str] = set()
    with Site(tmp_path) as site:
        site.queue("a")
        agent = site.local_agent()

        def kill_server() -> None:
            site.server.end(signal.SIGKILL)
            site.server.start()

        def kill_agent() -> None:
            agent.end(signal.SIGKILL)
            agent.start()

        def kill_launcher() -> None:
            assert agent.process is not None
            for pid in _children(agent.process.pid):
                os.kill(pid, signal.SIGKILL)

        def kill_supervisor() -> None:
            killed.update(_kill_one(site, chance))

        victims = [kill_server, kill_agent, kill_agent, kill_launcher, kill_supervisor, kill_supervisor]
        acknowledged: list[str] = []
        with ThreadPoolExecutor(1) as people:
            for number in range(KILLS):
                answered: Queue[str] = Queue()
                keys = [f"{number}-{batch}" for batch in range(BATCHES)]
                submitted = people.submit(submit_all, site, keys, lambda _: jobs, answered)
                for _ in range(chance.randrange(BATCHES)):
                    answered.get(timeout=PATIENCE_S)
                chance.choice(victims)()
                acknowledged += submitted.result()
        states = ends(site, "a", len(acknowledged))

    assert states == {"succeeded": KILLS * BATCHES * JOBS}
    lines = [tuple(written.split()) for written in ledger.read_text().splitlines()]
    assert [written for written, times in Counter(lines).items() if times > 1] == []
    done = Counter(job for job, _, what in lines if what == "ended")
    assert set(done) == set(acknowledged)
    assert {job for job, times in done.items() if times > 1} <= killed
    began = Counter(job for job, _, what in lines if what == "began")
    assert {job for job, times in began.items() if times > 1} <= killed


def _children(pid: int) -> list[int]:
    """The launcher of an agent: supervisors are children of the launcher, not of the agent."""
    return [one for one in descendants(pid) if parent(one) == pid]


def _kill_one(site: Site, chance: random.Random) -> list[str]:
    """Kill a supervisor, if there is one; the job of its task. It goes on to the next one unless it is held."""
    found = [record for _, record in _records(site) if started(record["pid"]) == record["started"]]
    if not found:
        return []
    pid = chance.choice(found)["pid"]
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        held = [path.parts[-3].rpartition(".")[0] for path, record in _records(site) if record["pid"] == pid]
        os.kill(pid, signal.SIGKILL)
        return held
    return []


def _records(site: Site) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Of every task that began and whose end nobody wrote down; meanwhile, folders of others may go."""
    walks = [walk for live in site.folder.glob("*/live") for walk in os.walk(live)]
    for path in sorted(Path(folder, "record.json") for folder, _, files in walks if "record.json" in files):
        with suppress(FileNotFoundError):
            record = json.loads(path.read_text())
            if record and not path.with_name("end.json").exists():
                yield path, record
