"""The turns of a real server, recorded while it decides and decided again from what it kept."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import MUSTER, Site
from worlds import a_job, a_world

from muster.server.recording import Recording
from muster.state.record import Record, Replay
from muster.state.record.lines import dumps


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path, "", "--record", str(tmp_path / "record")) as running:
        running.queue("a")
        running.queue("b")
        yield running


def replay(site: Site, *args: str, exit_code: int = 0) -> Any:
    environment = {**os.environ, "MUSTER_SERVER": site.url, "MUSTER_TOKEN_FILE": str(site.token_file)}
    done = subprocess.run(
        [*MUSTER, "replay", *args], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    return json.loads(done.stdout) if "json" in args else done


def busy(site: Site) -> None:
    """Starts, ends, a preemption for fairness, a cancel, a drain, an elastic job and a restart."""
    site.agent(nodes="2xcpu=8,memory=32Gi", seconds=0.05)
    site.wait(site.submit(*({"name": f"quick-{index}", "queue": "a", "cpu": 2} for index in range(20))))
    long = {"queue": "a", "cpu": 4, "lifetime": 0, "command": "sleep 600"}
    runs = site.submit(*({**long, "name": f"long-{index}"} for index in range(6)))
    site.wait(runs[:4], "running")
    (rival,) = site.submit({"name": "rival", "queue": "b", "cpu": 4, "command": "sleep 600"})
    site.wait([rival], "running")
    kinds = {json.loads(line[6:])["event"] for line in _events(site)}
    assert {"started", "preempted", "requeued", "succeeded"} <= kinds
    site.ask("POST", "/nodes/lab-0/drain")
    site.ask("POST", "/jobs/cancel", {"jobs": runs})
    group = {"name": "w", "min": 1, "max": 3, "cpu": 1, "command": "sleep 600"}  # leaves a core beside the rival
    (elastic,) = site.submit({"name": "elastic", "queue": "a", "lifetime": "1h", "groups": [group]})
    site.wait([elastic], "running")


def _events(site: Site) -> list[str]:
    assert site._client is not None
    sent = site._client.get("/events", params={"after": 0, "follow": False}).text
    return [line for line in sent.splitlines() if line.startswith("data: ")]


def test_every_turn_of_a_busy_server_is_decided_alike(site: Site) -> None:
    busy(site)
    site.ask("PATCH", "/settings", {"preemption": "dry-run"})  # a record has one policy: another one begins
    site.wait(site.submit({"name": "last", "queue": "a", "cpu": 1, "lifetime": "1h"}))

    told = replay(site, "-o", "json")

    assert (told["identical"], told["differing"]) == (True, [])
    assert told["turns"] > 10
    assert len(site.ask("GET", "/records")) == 2
    assert replay(site, "-o", "json", "--turns", "3")["turns"] == 3
    assert "all 1 plans are identical" in replay(site, "--turns", "1").stdout


def test_turns_before_and_after_a_change_of_policy_are_decided_alike(site: Site) -> None:
    site.agent(nodes="2xcpu=8,memory=32Gi", seconds=600)
    long = {"queue": "a", "cpu": 4, "command": "sleep 600"}
    runs = site.submit(*({**long, "name": f"long-{index}"} for index in range(6)))
    site.wait(runs[:2], "running")

    site.ask("PATCH", "/policy", {"overShare": "off", "agingAfter": "1h"})
    site.wait(runs[:4], "running")
    window = {"cluster": "lab", "from": "00:00", "to": "24:00", "withhold": {"cpu": 8}}
    site.ask("PATCH", "/policy", {"calendar": [window], "agingAfter": None})
    site.ask("POST", "/jobs/change", {"jobs": runs[4:], "level": "Production", "priority": 2})
    site.ask("PUT", f"/jobs/{runs[0]}/budget", {"minAvailable": 1})
    site.ask("POST", "/jobs/cancel", {"queue": "a", "all": True})
    site.ask("DELETE", "/queues/a", status=204)

    told = replay(site, "-o", "json")
    assert (told["identical"], told["differing"]) == (True, [])
    assert len(site.ask("GET", "/records")) == 3  # a record has one policy


def test_what_a_killed_server_recorded_is_kept_and_the_next_goes_on(site: Site) -> None:
    site.agent(seconds=0.05)
    site.wait(site.submit(*({"name": f"x-{index}", "queue": "a", "cpu": 2} for index in range(20))))
    before = replay(site, "-o", "json")["turns"]
    site.server.end(signal.SIGKILL)
    site.start()
    site.wait(site.submit({"name": "more", "queue": "a", "cpu": 2}))

    told = replay(site, "-o", "json")

    assert told["identical"]
    assert told["turns"] > before
    assert [it["open"] for it in site.ask("GET", "/records")] == [False, True]


def test_a_record_that_was_doctored_shows_its_difference(site: Site, tmp_path: Path) -> None:
    site.agent(nodes="2xcpu=8,memory=32Gi", seconds=0.05)
    site.wait(site.submit({"name": "x", "queue": "a", "cpu": 8}))
    replay(site, "--save", str(tmp_path / "saved"))
    (path,) = (tmp_path / "saved").iterdir()
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    (start,) = [action for line in lines[1:] if line[0] == "actions" for action in line[1] if action[0] == "Start"]
    place = start[1][4][0]
    real, place[2] = place[2], "lab-9"
    body = b"".join(map(dumps, lines[:-1]))
    path.write_bytes(gzip.compress(body + dumps(["end", lines[-1][1], hashlib.sha256(body).hexdigest()])))

    said = replay(site, str(path), exit_code=1).stdout

    assert "action 1 is another" in said
    assert "@lab-9" in said
    assert f"@{real}" in said


def test_a_server_that_records_nothing_says_so(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        assert "start it with --record FOLDER" in replay(site, exit_code=1).stderr
        site.ask("GET", "/records/turns-000001.muster", status=409)


def test_only_an_admin_may_read_records_and_only_records(site: Site) -> None:
    made = site.ask("POST", "/tokens", {"name": "ana", "queues": {"*": ["submit"]}}, status=201)

    site.ask("GET", "/records", status=403, headers={"Authorization": f"Bearer {made['token']}"})
    site.ask("GET", "/records/token", status=404)
    site.ask("GET", "/records/..%2Ftoken", status=404)


# --- the files ------------------------------------------------------------------------------------


def recorded(folder: Path, most_bytes: int, turns: int) -> Recording:
    """So many turns with a job each, recorded."""
    world = a_world(over_share=None).with_node("n", cpu=4).with_queues("a")
    recording = Recording(folder, most_bytes)
    world.run.listener = recording
    for number in range(turns):
        world.at(seconds=number)
        recording.begin_turn(world.state)
        name = f"job-{hashlib.sha256(str(number).encode()).hexdigest()}"  # so that it cannot be made small
        world.with_jobs(a_job("a").named(name).cpu(1).lasts(seconds=2)).turn()
        recording.end_turn()
        if not number % 100:
            recording.kept()  # the writer keeps up
    return recording


def test_the_oldest_records_go_so_that_all_together_stay_small(tmp_path: Path) -> None:
    most = 40_000
    recording = recorded(tmp_path, most, 1500)
    kept = recording.kept()
    records = [recording.read(it.name) for it in kept]
    recording.close()

    assert len(kept) > 2
    assert kept[0].name != "turns-000001.muster"
    assert sum(it.bytes for it in kept) <= most
    for data in records:
        assert data is not None
        assert [turn.difference for turn in Replay(Record(io.BytesIO(data))) if turn.difference] == []


def test_a_folder_that_is_gone_keeps_nobody_from_deciding_and_is_used_again_once_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "record"
    world = a_world(over_share=None).with_node("n", cpu=4).with_queues("a")
    recording = Recording(folder, 1 << 20)
    world.run.listener = recording

    def turn(number: int) -> list[str]:
        world.at(seconds=number)
        recording.begin_turn(world.state)
        world.with_jobs(a_job("a").cpu(1).lasts(seconds=2)).turn()
        recording.end_turn()
        return [it.name for it in recording.kept()] if folder.exists() else []

    folder.rmdir()
    assert turn(1) == []
    assert len(world.state.running) == 1
    recording._settle()
    folder.mkdir()
    (name,) = turn(2)
    data = recording.read(name)
    recording.close()

    assert data is not None
    assert [turn.difference for turn in Replay(Record(io.BytesIO(data)))] == [None]
