"""What a task is given, how it ends, and what is told of that."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from serving import Site

from muster.local.processes import started

HUNGRY = "held = []\nwhile True: held.append(bytearray(b'x' * (4 << 20)))"


def job(**more: object) -> dict[str, object]:
    return {"name": "job", "queue": "a", "cpu": "10m", **more}


def run(site: Site, **more: object) -> dict[str, Any]:
    (ended,) = site.wait(site.submit(job(**more)))
    return ended


def output(site: Site, ended: dict[str, Any], task: str = "main.0", name: str = "out") -> str:
    folder = site.folder / "agent-desk"
    where = f"{ended['id']}.{ended['attempt']}/{task}/{name}"
    found = next(path for path in (folder / "over" / where, folder / "live" / where) if path.exists())
    return found.read_text()


@pytest.mark.parametrize(
    "given, state, reason, code",
    [
        pytest.param({"command": ["true"]}, "succeeded", "", 0, id="an end with 0 is success"),
        pytest.param({"command": "exit 3"}, "failed", "exit code 3", 3, id="another exit code is told"),
        pytest.param({"command": "kill -SEGV $$"}, "failed", "killed by SIGSEGV", 139, id="so is a signal"),
        pytest.param(
            {"command": ["no-such-program"]},
            "failed",
            "command no-such-program: No such file or directory",
            127,
            id="a program that is not there is named",
        ),
        pytest.param(
            {"command": ["/etc/passwd"]}, "failed", "command /etc/passwd: Permission denied", 126, id="or is none"
        ),
        pytest.param(
            {"command": ["true"], "workdir": "/no/such/folder"},
            "failed",
            "workdir /no/such/folder: No such file or directory",
            127,
            id="so is a folder that is not there",
        ),
        pytest.param(
            {}, "failed", "group main has no command: a local agent runs commands, no pods", 127, id="no command"
        ),
    ],
)
def test_how_a_task_ends(site: Site, given: dict[str, object], state: str, reason: str, code: int) -> None:
    ended = run(site, **given)

    assert (ended["state"], ended["reason"]) == (state, reason)
    assert ended["leases"][0]["result"]["exitCode"] == code


def test_who_takes_longer_than_its_time_limit_is_ended_and_then_killed(site: Site) -> None:
    command = "trap 'echo heard $(cat $MUSTER_NOTICE)' TERM; while :; do sleep 0.01; done"

    ended = run(site, command=command, timeLimit="300ms", grace="300ms")

    assert (ended["state"], ended["reason"]) == ("failed", "time limit")
    site.wait_until(lambda: site.job(ended["id"])["leases"][0]["state"] == "ended")
    assert '"reason": "time limit"' in output(site, ended)


def test_a_task_is_given_arguments_environment_and_folder(site: Site, tmp_path: Path) -> None:
    script = "import os, sys; print(sys.argv[1:], os.environ['COLOUR'], os.getcwd(), sys.stdin.read())"

    ended = run(
        site,
        command=[sys.executable, "-c", script],
        args=["one", "two words"],
        env={"COLOUR": "a b"},
        workdir=str(tmp_path),
    )

    assert output(site, ended) == f"['one', 'two words'] a b {tmp_path} \n"


def test_a_task_learns_who_it_is_and_no_secrets(site: Site) -> None:
    ended = run(site, command="env")

    told = dict(line.split("=", 1) for line in output(site, ended).splitlines() if "=" in line)
    assert told["MUSTER_JOB"] == ended["id"]
    assert (told["MUSTER_ATTEMPT"], told["MUSTER_QUEUE"], told["MUSTER_GROUP"], told["MUSTER_INDEX"]) == (
        "1",
        "a",
        "main",
        "0",
    )
    assert (told["MUSTER_RANK"], told["MUSTER_WORLD_SIZE"]) == ("0", "1")
    assert "RANK" not in told  # nothing that makes a program believe it has peers
    assert "MUSTER_TOKEN" not in told


def test_children_die_with_their_task_also_those_that_left_its_group(site: Site, tmp_path: Path) -> None:
    children = tmp_path / "children"
    run(site, command=f"sleep 1000 & echo $! >> {children}; setsid sleep 1000 & echo $! >> {children}; exit 0")

    assert [started(int(pid)) for pid in children.read_text().split()] == [None, None]


def test_a_time_limit_holds_while_the_agent_is_dead(site: Site, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    (name,) = site.submit(job(command=f"echo > {begun}; sleep 1000", timeLimit="1500ms", grace="100ms"))
    end = site.folder / "agent-desk" / "live" / f"{name}.1" / "main.0" / "end.json"
    site.wait_until(begun.exists)

    site.agents["desk"].end(signal.SIGKILL)
    site.wait_until(end.exists)
    assert json.loads(end.read_text())["how"] == "time limit"
    site.agents["desk"].start()

    (ended,) = site.wait([name])
    assert (ended["state"], ended["reason"], ended["attempt"]) == ("failed", "time limit", 1)


def test_whoever_takes_more_memory_than_asked_for_is_told_so(site: Site) -> None:
    ended = run(site, command=[sys.executable, "-c", HUNGRY], memory="100Mi")

    assert ended["state"] == "failed"
    assert ended["reason"].startswith("OUT_OF_MEMORY: it used ")
    assert ended["reason"].endswith(" and its limit is 100Mi")
    why = site.ask("GET", f"/jobs/{ended['id']}/why")["text"]
    assert "OUT_OF_MEMORY" in why


def test_a_task_below_its_limit_is_left_alone(site: Site) -> None:
    ended = run(site, command=[sys.executable, "-c", "held = bytearray(30 << 20)"], memory="100Mi")

    assert ended["state"] == "succeeded"


def test_a_cancelled_task_gets_a_notice_with_the_reason(site: Site, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    script = f"trap 'cat $MUSTER_NOTICE; exit 0' TERM; echo > {begun}; while :; do sleep 0.01; done"
    (name,) = site.submit(job(command=script, grace="20s"))
    site.wait_until(begun.exists)

    site.ask("POST", "/jobs/cancel", {"jobs": [name]})

    site.wait_until(lambda: site.job(name)["leases"][0]["state"] == "ended")
    notice = json.loads(output(site, site.job(name)))
    assert notice["reason"] == "cancelled"
    assert notice["grace"] == 20.0


def test_who_does_not_listen_is_killed_after_the_grace(site: Site, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    (name,) = site.submit(job(command=f"trap '' TERM; echo $$ > {begun}; sleep 1000", grace="300ms"))
    site.wait_until(lambda: begun.exists() and bool(begun.read_text()))

    site.ask("POST", "/jobs/cancel", {"jobs": [name]})

    site.wait_until(lambda: site.job(name)["leases"][0]["state"] == "ended")
    assert site.job(name)["state"] == "cancelled"
    assert started(int(begun.read_text())) is None


CHECKPOINTING = """
import json, os, pathlib, signal, sys, time
saved, ledger = pathlib.Path(sys.argv[1]), open(sys.argv[2], "a", buffering=1)
step = int(saved.read_text()) if saved.exists() else 0
def save(*_):
    reason = json.loads(pathlib.Path(os.environ["MUSTER_NOTICE"]).read_text())["reason"]
    saved.write_text(str(step))
    print("saved at", step, "because", reason, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
while step < 30 or not saved.exists():
    step += 1
    ledger.write(f"{step}\\n")
    time.sleep(0.02)
"""


def test_a_preempted_job_goes_on_from_its_checkpoint(site: Site, tmp_path: Path) -> None:
    saved, ledger = tmp_path / "saved", tmp_path / "ledger"
    (name,) = site.submit(job(command=[sys.executable, "-c", CHECKPOINTING, str(saved), str(ledger)]))
    site.wait_until(lambda: ledger.exists() and len(ledger.read_text().splitlines()) > 3)

    site.ask("POST", f"/jobs/{name}/preempt")

    (ended,) = site.wait([name])
    assert (ended["state"], ended["attempt"], ended["failures"]) == ("succeeded", 2, 0)
    done = [int(line) for line in ledger.read_text().splitlines()]
    assert done == list(range(1, len(done) + 1))  # no step twice, none left out
    first = output(site, {"id": name, "attempt": 1})
    assert first == f"saved at {saved.read_text()} because preempted\n"


def test_the_next_waits_until_the_room_is_really_free(site: Site, tmp_path: Path) -> None:
    """To the server a preempted job's room is free at once; here somebody is still saving."""
    begun, gate, ledger = tmp_path / "begun", tmp_path / "gate", tmp_path / "ledger"
    os.mkfifo(gate)
    cores = site.ask("GET", "/nodes")[0]["allocatable"]["cpu"]
    leave = f"read line < {gate}; echo out >> {ledger}; exit 0"
    slow = f"[ $MUSTER_ATTEMPT = 1 ] || exit; trap '{leave}' TERM; echo > {begun}; while :; do sleep 0.01; done"
    (first,) = site.submit({**job(command=slow, priorityClass="low", lifetime=0), "cpu": cores})
    site.wait_until(begun.exists)

    (second,) = site.submit({**job(command=f"echo in >> {ledger}", priorityClass="high"), "cpu": cores})
    site.wait_until(lambda: any(lease["state"] == "accepted" for lease in site.job(second)["leases"]))
    gate.write_text("go\n")

    site.wait([first, second])
    assert ledger.read_text().splitlines() == ["out", "in"]
