"""Nodes that operators close and empty, on a real server with simulated and with real processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Site

LONG_S = 600.0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as running:
        running.queue("a")
        yield running


def node(site: Site, name: str) -> dict[str, Any]:
    return next(it for it in site.ask("GET", "/nodes") if it["name"] == name)


def node_of(site: Site, job: str, attempt: int) -> list[str]:
    """Where an attempt of a job is."""
    (lease,) = [it for it in site.job(job)["leases"] if it["attempt"] == attempt]
    return list(lease["nodes"])


def is_drained(site: Site, name: str) -> bool:
    found = node(site, name)
    return found["drain"] is not None and not found["jobs"] and not found["drain"]["leaving"]


def test_what_runs_on_a_drained_node_starts_elsewhere_and_loses_no_retry(site: Site) -> None:
    site.agent(nodes="2xcpu=8,memory=32Gi", seconds=LONG_S)
    (job_id,) = site.submit({"name": "x", "queue": "a", "cpu": 8, "retries": 0})
    site.wait([job_id], "running")
    (home,) = node_of(site, job_id, 1)

    said = site.ask("POST", f"/nodes/{home}/drain")
    site.wait_until(lambda: site.job(job_id)["attempt"] == 2)

    assert (said["cordoned"], said["drain"]["by"]) == (True, "admin")
    assert node_of(site, job_id, 2) != [home]
    assert site.job(job_id)["failures"] == 0
    site.wait_until(lambda: is_drained(site, home))
    first = next(it for it in site.job(job_id)["leases"] if it["attempt"] == 1)
    assert first["reason"] == f"preempted: node {home} is drained"
    opened = site.ask("POST", f"/nodes/{home}/uncordon")
    assert (opened["cordoned"], opened["drain"]) == (False, None)


def test_an_elastic_job_gives_up_its_tasks_there_and_goes_on(site: Site) -> None:
    site.agent(nodes="2xcpu=4,memory=32Gi", seconds=LONG_S)
    group = {"name": "w", "min": 1, "initial": 2, "max": 2, "cpu": 4, "command": "sleep 600"}
    (job_id,) = site.submit({"name": "e", "queue": "a", "groups": [group]})
    site.wait([job_id], "running")
    site.wait_until(lambda: len(node_of(site, job_id, 1)) == 2)

    site.ask("POST", "/nodes/lab-0/drain")
    site.wait_until(lambda: is_drained(site, "lab-0"))

    assert node_of(site, job_id, 1) == ["lab-1"]
    assert (site.job(job_id)["state"], site.job(job_id)["attempt"]) == ("running", 1)


def test_until_the_grace_is_over_everything_goes_on_and_a_restart_forgets_neither(site: Site) -> None:
    site.agent(nodes="2xcpu=8,memory=32Gi", seconds=LONG_S)
    (job_id,) = site.submit({"name": "x", "queue": "a", "cpu": 8})
    site.wait([job_id], "running")
    (home,) = node_of(site, job_id, 1)
    site.ask("POST", f"/nodes/{home}/drain", {"grace": 3600})

    site.server.end(signal.SIGKILL)
    site.start()

    found = node(site, home)
    assert (found["cordoned"], found["jobs"]) == (True, [job_id])
    assert found["drain"]["leaves"] == pytest.approx(found["drain"]["since"] + 3600)
    site.ask("POST", f"/nodes/{home}/drain")  # in a hurry after all
    site.wait_until(lambda: site.job(job_id)["attempt"] == 2)
    site.wait_until(lambda: is_drained(site, home))


def test_a_drain_that_comes_due_while_the_server_is_down_is_carried_out_when_it_is_back(site: Site) -> None:
    site.agent(nodes="2xcpu=8,memory=32Gi", seconds=LONG_S)
    (job_id,) = site.submit({"name": "x", "queue": "a", "cpu": 8})
    site.wait([job_id], "running")
    (home,) = node_of(site, job_id, 1)
    said = site.ask("POST", f"/nodes/{home}/drain", {"grace": 1.5})
    assert said["jobs"] == [job_id]  # still there
    site.server.end(signal.SIGKILL)
    site.start()

    site.wait_until(lambda: site.job(job_id)["attempt"] == 2)
    site.wait_until(lambda: is_drained(site, home))
    assert site.job(job_id)["state"] == "running"


def test_who_uncordons_in_time_keeps_everything_where_it_is(site: Site) -> None:
    site.agent(nodes="1xcpu=8,memory=32Gi", seconds=LONG_S)
    (job_id,) = site.submit({"name": "x", "queue": "a", "cpu": 4})
    site.wait([job_id], "running")
    site.ask("POST", "/nodes/lab-0/drain", {"grace": 3600})
    (waits,) = site.submit({"name": "y", "queue": "a", "cpu": 4})
    assert site.job(waits)["state"] == "queued"

    site.ask("POST", "/nodes/lab-0/uncordon")

    site.wait([waits], "running")
    assert (site.job(job_id)["attempt"], node(site, "lab-0")["drain"]) == (1, None)


def test_an_agent_that_starts_again_does_not_open_what_an_operator_closed(site: Site) -> None:
    agent = site.agent(nodes="2xcpu=8,memory=32Gi", seconds=LONG_S)
    site.ask("POST", "/nodes/lab-0/cordon")
    site.ask("POST", "/nodes/lab-1/drain")
    agent.end(signal.SIGKILL)
    site.agent(nodes="2xcpu=8,memory=32Gi", seconds=LONG_S)

    assert [it["cordoned"] for it in site.ask("GET", "/nodes")] == [True, True]
    assert [it["drain"] is None for it in site.ask("GET", "/nodes")] == [True, False]


@pytest.mark.parametrize(
    "path, body, status, said",
    [
        pytest.param("/nodes/nowhere/drain", {}, 404, "nowhere", id="a node that is not there"),
        pytest.param("/nodes/lab-0/drain", {"grace": -1}, 422, "grace", id="a grace below zero"),
        pytest.param("/nodes/lab-0/drain", {"grace": 1e9}, 422, "grace", id="a grace of years"),
        pytest.param("/nodes/lab-0/drain", {"force": True}, 422, "force", id="something nobody knows"),
    ],
)
def test_what_cannot_be_drained_is_said(site: Site, path: str, body: Any, status: int, said: str) -> None:
    site.agent(nodes="1xcpu=8,memory=32Gi")

    assert said in site.ask("POST", path, body, status=status)["error"]["message"]
    assert not node(site, "lab-0")["cordoned"]


def test_only_an_admin_may_drain(site: Site) -> None:
    site.agent(nodes="1xcpu=8,memory=32Gi")
    made = site.ask("POST", "/tokens", {"name": "ana", "queues": {"a": ["submit"]}}, status=201)

    site.ask("POST", "/nodes/lab-0/drain", status=403, headers={"Authorization": f"Bearer {made['token']}"})


def test_real_processes_are_told_to_leave_and_start_on_the_other_node(site: Site, tmp_path: Path) -> None:
    site.local_agent("--nodes", "2")
    told = tmp_path / "told"
    command = (
        f"trap 'cat $MUSTER_NOTICE >> {told}; exit 0' TERM; echo > {tmp_path}/began.$MUSTER_ATTEMPT;"
        " while :; do sleep 0.01; done"
    )
    (job_id,) = site.submit({"name": "x", "queue": "a", "cpu": "10m", "command": command})
    site.wait_until((tmp_path / "began.1").exists)
    (home,) = node_of(site, job_id, 1)

    site.ask("POST", f"/nodes/{home}/drain")
    site.wait_until((tmp_path / "began.2").exists)
    site.wait_until(lambda: is_drained(site, home))

    assert f"preempted: node {home} is drained" in told.read_text()
    assert node_of(site, job_id, 2) == [it["name"] for it in site.ask("GET", "/nodes") if it["name"] != home]
    assert len(site.supervisors()) == 1
    site.ask("POST", "/jobs/cancel", {"jobs": [job_id]})
    site.wait_until(lambda: not site.supervisors())
