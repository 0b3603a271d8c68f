"""What ends attempts is counted by kind on a real server, a restart of it included, and shown wherever people look."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import MUSTER, Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as running:
        running.queue("a")
        running.agent(seconds=600)
        yield running


def preempt(site: Site, job_id: str) -> None:
    site.ask("POST", f"/jobs/{job_id}/preempt")


def lose(site: Site, job_id: str) -> None:
    """The agent goes down, and knows when it is back that what ran is gone."""
    site.wait_until(lambda: site.job(job_id)["leases"][-1]["state"] == "running")
    agent = site.agents["lab"]
    agent.end(signal.SIGKILL)
    agent.start()


def counts(job: dict[str, Any]) -> tuple[str, int, int, int, int]:
    return job["state"], job["attempt"], job["failures"], job["losses"], job["preemptions"]


@pytest.mark.parametrize(
    "setback, cause, after_one, after_two",
    [
        pytest.param(preempt, "preempted", (0, 0, 1), (0, 0, 2), id="preempted"),
        pytest.param(lose, "lost", (0, 1, 0), (0, 2, 0), id="lost"),
    ],
)
def test_what_is_forgiven_once_is_not_forgiven_twice_by_a_server_that_was_killed_in_between(
    site: Site,
    setback: Callable[[Site, str], None],
    cause: str,
    after_one: tuple[int, int, int],
    after_two: tuple[int, int, int],
) -> None:
    (job_id,) = site.submit({"name": "x", "queue": "a", "cpu": 1, "retries": {cause: 1}})
    site.wait([job_id], "running")
    setback(site, job_id)
    site.wait_until(lambda: counts(site.job(job_id)) == ("running", 2, *after_one))

    site.server.end(signal.SIGKILL)
    site.start()
    assert counts(site.job(job_id)) == ("running", 2, *after_one)
    setback(site, job_id)

    (job,) = site.wait([job_id])
    reason = f"{cause} 2 times; retries.{cause} allows 1"
    assert (counts(job), job["reason"]) == (("failed", 2, *after_two), reason)
    assert site.ask("GET", f"/jobs/{job_id}/why")["text"] == f"{job_id} failed: {reason}."
    shown = subprocess.run(
        [*MUSTER, "job", job_id, "--server", site.url, "--token-file", str(site.token_file)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert f"2 (retries.{cause} allows 1)" in shown
