"""When some of a job's processes end too early: gangs start again whole, arrays only where they must."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import Site

from muster.local.processes import started


def kill_process(site: Site, job_id: str, pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def kill_supervisor(site: Site, job_id: str, pid: int) -> None:
    record = site.folder / "agent-desk" / "live" / f"{job_id}.1" / "worker.1" / "record.json"
    os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


KILLERS = [
    pytest.param(kill_process, "failed", (1, 0), "worker/1: killed by SIGKILL", id="a process"),
    pytest.param(kill_supervisor, "lost", (0, 1), "worker/1: its supervisor was killed", id="its supervisor"),
]


@pytest.mark.parametrize("kill, result, counted, message", KILLERS)
def test_a_gang_of_which_one_is_killed_starts_again_together(
    site: Site,
    tmp_path: Path,
    kill: Callable[[Site, str, int], None],
    result: str,
    counted: tuple[int, int],
    message: str,
) -> None:
    """The first attempt stays until it may leave; the second ends when all three of it have begun.

    While some are leaving, the agent is killed: all it says when it is back is that the attempt is not over.
    """
    ledger, gate = tmp_path / "ledger", tmp_path / "gate"
    begin = f"echo $MUSTER_ATTEMPT $MUSTER_INDEX $$ >> {ledger}"
    leave = f"echo told $MUSTER_INDEX $$ >> {ledger}; until [ -e {gate} ]; do sleep 0.01; done; exit 1"
    stay = f"trap '{leave}' TERM; {begin}; while :; do sleep 0.01; done"
    meet = f"{begin}; until [ $(grep -c ^2 {ledger}) = 3 ]; do sleep 0.01; done"
    group = {
        "name": "worker",
        "count": 3,
        "cpu": "10m",
        "command": f"[ $MUSTER_ATTEMPT = 2 ] && {{ {meet}; exit; }}; {stay}",
    }
    (gang,) = site.submit({"name": "gang", "queue": "a", "retries": {"failed": 1, "lost": 1}, "groups": [group]})
    site.wait_until(lambda: len(lines(ledger)) == 3)
    first = {int(index): int(pid) for _, index, pid in map(str.split, lines(ledger))}

    kill(site, gang, first[1])
    site.wait_until(lambda: len(lines(ledger)) == 5)
    site.agents["desk"].end(signal.SIGKILL)
    site.agents["desk"].start()
    gate.touch()

    (ended,) = site.wait([gang])
    assert (ended["state"], ended["attempt"], ended["failures"], ended["losses"]) == ("succeeded", 2, *counted)
    assert [lease["result"]["result"] for lease in ended["leases"]] == [result, "succeeded"]
    assert ended["leases"][0]["result"]["message"] == message
    told, second = lines(ledger)[3:5], lines(ledger)[5:]
    assert sorted(told) == [f"told {index} {first[index]}" for index in (0, 2)]  # all had gone before any began again
    assert sorted(line.rpartition(" ")[0] for line in second) == ["2 0", "2 1", "2 2"]
    assert [started(pid) for pid in first.values()] == [None, None, None]


@pytest.mark.parametrize("kill", [pytest.param(killer.values[0], id=killer.id) for killer in KILLERS])
def test_an_elastic_job_above_its_min_of_which_one_is_killed_only_shrinks(
    site: Site, tmp_path: Path, kill: Callable[[Site, str, int], None]
) -> None:
    ledger, worlds = tmp_path / "ledger", tmp_path / "worlds"
    command = (
        f"trap 'cat $MUSTER_WORLD >> {worlds}; exit 0' WINCH; echo $MUSTER_INDEX $$ >> {ledger};"
        f" while :; do sleep 0.01; done"
    )
    group = {"name": "worker", "min": 1, "initial": 2, "max": 2, "cpu": "10m", "command": command}
    (elastic,) = site.submit({"name": "elastic", "queue": "a", "freezingWindow": "1h", "groups": [group]})
    site.wait_until(lambda: len(lines(ledger)) == 2)
    first = {int(index): int(pid) for index, pid in map(str.split, lines(ledger))}

    kill(site, elastic, first[1])

    (ended,) = site.wait([elastic])
    assert (ended["state"], ended["attempt"], ended["failures"], ended["losses"]) == ("succeeded", 1, 0, 0)
    assert json.loads(worlds.read_text())["size"] == 1
    assert started(first[1]) is None


def test_jobs_of_an_array_know_their_index_fail_alone_and_are_waited_for_together(site: Site, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    command = (
        f'echo "$MUSTER_ARRAY_INDEX in $MUSTER_ATTEMPT" >> {ledger};'
        " [ $MUSTER_ARRAY_INDEX != 5 ] || [ $MUSTER_ATTEMPT = 2 ]"
    )

    def job(name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "queue": "a", "cpu": "10m", **more}

    *parts, last = site.submit(
        job("part", array="3-7:2", retries=1, command=command),
        job("last", after=["part"], command=f"echo last >> {ledger}"),
    )

    *ended, end = site.wait([*parts, last])
    assert [(one["state"], one["attempt"], one["failures"]) for one in ended] == [
        ("succeeded", 1, 0),
        ("succeeded", 2, 1),
        ("succeeded", 1, 0),
    ]
    assert end["state"] == "succeeded"
    *before, after = lines(ledger)
    assert (sorted(before), after) == (["3 in 1", "5 in 1", "5 in 2", "7 in 1"], "last")


def test_what_comes_after_an_array_of_which_one_failed(site: Site, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    base = {"queue": "a", "cpu": "10m"}
    *_, bad, report, clean = site.submit(
        {**base, "name": "part", "array": "0-1", "command": f"echo part >> {ledger}; exit $MUSTER_ARRAY_INDEX"},
        {**base, "name": "report", "after": ["part"], "command": f"echo report >> {ledger}"},
        {**base, "name": "clean", "after": [{"job": "part", "when": "any"}], "command": f"echo clean >> {ledger}"},
    )

    failed, never, done = site.wait([bad, report, clean])
    assert [job["state"] for job in (failed, never, done)] == ["failed", "cancelled", "succeeded"]
    assert never["reason"] == f"it was to start after {bad} succeeded, but {bad} failed"
    assert lines(ledger) == ["part", "part", "clean"]
