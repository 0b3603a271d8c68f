"""An agent that is killed finds its tasks again; a supervisor that is killed takes its task with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from serving import PATIENCE_S, Site

from muster.local.processes import started


def job(command: str, **more: object) -> dict[str, object]:
    return {"name": "job", "queue": "a", "cpu": "10m", "command": command, **more}


def gate(folder: Path, name: str) -> Path:
    """A pipe: who reads it waits until someone writes."""
    path = folder / name
    os.mkfifo(path)
    return path


def test_tasks_that_end_while_the_agent_is_dead_are_reported_exactly(site: Site, tmp_path: Path) -> None:
    gates = [gate(tmp_path, f"gate-{number}") for number in range(3)]
    ends = ("exit 0", "exit 3", "kill -SEGV $$")
    started = tmp_path / "started"
    jobs = [
        job(f"echo begun >> {started}; read line < {path}; echo $line; echo trouble >&2; {end}")
        for path, end in zip(gates, ends, strict=True)
    ]
    ids = site.submit(*jobs)
    site.wait_until(lambda: started.exists() and len(started.read_text().splitlines()) == 3)
    site.wait(ids, "running")

    site.agents["desk"].end(signal.SIGKILL)
    for path in gates:
        path.write_text("through the gate\n")
    site.wait_until(
        lambda: all(
            (site.folder / "agent-desk" / "live" / f"{name}.1" / "main.0" / "end.json").exists() for name in ids
        )
    )
    site.agents["desk"].start()

    ended = site.wait(ids)
    assert [it["state"] for it in ended] == ["succeeded", "failed", "failed"]
    assert [it["reason"] for it in ended] == ["", "exit code 3", "killed by SIGSEGV"]
    assert [it["leases"][0]["result"]["exitCode"] for it in ended] == [0, 3, 128 + signal.SIGSEGV]
    assert [it["attempt"] for it in ended] == [1, 1, 1]
    assert started.read_text().splitlines() == ["begun"] * 3
    folders = [site.folder / "agent-desk" / "over" / f"{name}.1" / "main.0" for name in ids]
    site.wait_until(lambda: all(folder.exists() for folder in folders))
    assert [(folder / "out").read_text() for folder in folders] == ["through the gate\n"] * 3
    assert [(folder / "err").read_text() for folder in folders] == ["trouble\n"] * 3


def test_a_killed_supervisor_takes_its_task_along_and_the_attempt_is_lost_once(site: Site, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    # the first attempt stays, with a child that left its process group; the second ends well
    command = f"echo $$ >> {tries}; [ $MUSTER_ATTEMPT = 2 ] || {{ setsid sleep 1000 & echo $! >> {tries}; wait; }}"
    (name,) = site.submit(job(command))
    site.wait_until(lambda: tries.exists() and len(tries.read_text().splitlines()) == 2)
    record = site.folder / "agent-desk" / "live" / f"{name}.1" / "main.0" / "record.json"

    os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)

    (ended,) = site.wait([name])
    assert (ended["state"], ended["attempt"], ended["failures"]) == ("succeeded", 2, 0)
    assert [lease["result"]["result"] for lease in ended["leases"]] == ["lost", "succeeded"]
    assert ended["leases"][0]["result"]["message"] == "its supervisor was killed"
    pids = [int(line) for line in tries.read_text().splitlines()]
    assert len(pids) == 3
    assert [started(pid) for pid in pids[:2]] == [None, None]


def test_a_supervisor_that_dies_while_the_agent_is_dead_is_noticed_too(site: Site, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    (name,) = site.submit(job(f"echo $$ >> {tries}; [ $MUSTER_ATTEMPT = 2 ] || sleep 1000"))
    site.wait_until(tries.exists)
    record = site.folder / "agent-desk" / "live" / f"{name}.1" / "main.0" / "record.json"

    site.agents["desk"].end(signal.SIGKILL)
    os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
    site.agents["desk"].start()

    (ended,) = site.wait([name])
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)
    assert [lease["result"]["result"] for lease in ended["leases"]] == ["lost", "succeeded"]


def test_two_agents_do_not_share_a_folder(site: Site) -> None:
    second = subprocess.run(site.agents["desk"].arguments, capture_output=True, text=True, timeout=PATIENCE_S)

    assert second.returncode == 1
    assert "another agent works in" in second.stderr


def test_an_agent_that_is_told_to_end_leaves_tasks_to_the_next_one(site: Site, tmp_path: Path) -> None:
    path, begun = gate(tmp_path, "gate"), tmp_path / "begun"
    (name,) = site.submit(job(f"echo > {begun}; read line < {path}"))
    site.wait_until(begun.exists)  # it runs as soon as that was decided, and the agent may not know of it yet

    assert site.agents["desk"].end(signal.SIGTERM) == 0
    path.write_text("go\n")
    site.agents["desk"].start()

    (ended,) = site.wait([name])
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
