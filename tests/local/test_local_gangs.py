"""Gangs find their peers; elastic jobs follow their width."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from serving import Site

ROOT = Path(__file__).parents[2]

ALL_REDUCE = """
import json, os, socket, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
master = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
peers = os.environ["MUSTER_PEERS"].split(",")
assert len(peers) == size and peers[0] == "%s:%d" % master
value = 10 ** rank
if rank == 0:
    with socket.create_server(master) as listener:
        others = [listener.accept()[0] for _ in range(size - 1)]
    total = value + sum(int(other.recv(100)) for other in others)
    for other in others:
        other.sendall(b"%d" % total)
else:
    while True:
        try:
            other = socket.create_connection(master)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    other.sendall(b"%d" % value)
    total = int(other.recv(100))
print(total, flush=True)
if os.environ["MUSTER_ATTEMPT"] == "1":
    if rank == 1:
        sys.exit(7)
    time.sleep(1000)  # as one does whose peer is gone
"""


def test_a_gang_reduces_over_sockets_and_restarts_together_when_it_loses_a_member(site: Site) -> None:
    groups = [{"name": "worker", "count": 2, "cpu": "10m", "command": [sys.executable, "-c", ALL_REDUCE]}]
    (ended,) = site.wait(site.submit({"name": "gang", "queue": "a", "retries": 1, "groups": groups}))

    assert (ended["state"], ended["attempt"], ended["failures"]) == ("succeeded", 2, 1)
    assert ended["leases"][0]["result"]["message"] == "worker/1: exit code 7"
    folder = site.folder / "agent-desk"
    for attempt in (1, 2):
        where = folder / "over" / f"{ended['id']}.{attempt}"
        site.wait_until(where.exists)
        assert [(where / f"worker.{index}" / "out").read_text() for index in (0, 1)] == ["11\n", "11\n"]
    notice = json.loads((folder / "over" / f"{ended['id']}.1" / "worker.0" / "notice.json").read_text())
    assert notice["reason"] == "worker/1: exit code 7"


def test_groups_that_do_not_decide_end_with_those_that_do(site: Site) -> None:
    groups = [
        {"name": "ps", "count": 1, "cpu": "10m", "decides": False, "command": "cat $MUSTER_WORLD; sleep 1000"},
        {
            "name": "worker",
            "count": 2,
            "cpu": "10m",
            "command": "echo $RANK of $WORLD_SIZE, $MUSTER_RANK of $MUSTER_WORLD_SIZE",
        },
    ]
    (ended,) = site.wait(site.submit({"name": "ps", "queue": "a", "groups": groups}))

    assert ended["state"] == "succeeded"
    over = site.folder / "agent-desk" / "over" / f"{ended['id']}.1"
    site.wait_until(over.exists)
    assert [(over / f"worker.{index}" / "out").read_text() for index in (0, 1)] == [
        "0 of 2, 1 of 3\n",
        "1 of 2, 2 of 3\n",
    ]
    world = json.loads((over / "world.json").read_text())
    assert [(task["group"], task["index"], task["rank"]) for task in world["tasks"]] == [
        ("ps", 0, 0),
        ("worker", 0, 1),
        ("worker", 1, 2),
    ]


def test_an_elastic_job_hears_of_its_width_by_a_signal_and_a_file(site: Site) -> None:
    """The example grows from one worker to two, and gives one up to an urgent job."""
    example = ROOT / "examples" / "elastic" / "train.py"
    group = {
        "name": "worker",
        "min": 1,
        "max": 2,
        "cpu": 1,
        "command": [sys.executable, str(example)],
        "env": {"PIECES": "100000", "SECONDS_EACH": "0.005"},
    }
    (elastic,) = site.submit({"name": "elastic", "queue": "a", "freezingWindow": 0, "groups": [group]})
    folder = site.folder / "agent-desk" / "live" / f"{elastic}.1"

    def said(pattern: str) -> list[str]:
        return [line for path in sorted(folder.glob(pattern)) for line in path.read_text().splitlines()]

    site.wait_until(lambda: any("worker 0 of 2" in line for line in said("worker.0/out")))
    site.wait_until(lambda: any("worker 1 of 2" in line for line in said("worker.1*/out")))
    (urgent,) = site.submit({"name": "urgent", "queue": "a", "priorityClass": "high", "cpu": 1, "command": "sleep 1"})
    site.wait([urgent], "running", "succeeded")
    site.wait_until(lambda: said("worker.0/out")[-1].endswith("worker 0 of 1"))

    site.wait_until(lambda: said("worker.1*/out")[-1] == "leaving: fewer tasks")
    assert site.job(elastic)["attempt"] == 1
    site.ask("POST", "/jobs/cancel", {"jobs": [elastic]})
    site.wait_until(lambda: site.job(elastic)["leases"][0]["state"] == "ended")


def test_an_elastic_job_goes_on_without_a_worker_that_failed(site: Site, tmp_path: Path) -> None:
    gone, done = tmp_path / "gone", tmp_path / "done"
    command = (
        f"if [ $MUSTER_INDEX = 1 ]; then [ -e {gone} ] && sleep 1000; echo > {gone}; exit 1; fi;"
        f" trap 'cat $MUSTER_WORLD >> {done}; exit 0' WINCH; while :; do sleep 0.01; done"
    )
    group = {"name": "worker", "min": 1, "initial": 2, "max": 2, "cpu": "10m", "command": command}
    (ended,) = site.wait(site.submit({"name": "elastic", "queue": "a", "groups": [group]}))

    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
    assert json.loads(done.read_text())["size"] == 1
