"""Jobs that come after others on a real server: whoever was faster, whatever was restarted, whatever is still kept."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import MUSTER, Site

FAILS = {"name": "bad", "queue": "a", "cpu": 1, "command": ["exit", "1"]}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as running:
        running.queue("a")
        running.agent()
        yield running


def restart(site: Site) -> None:
    site.server.end(signal.SIGKILL)
    site.start()


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
def test_what_is_submitted_after_the_end_ends_as_if_it_had_come_before(site: Site, restarted: bool) -> None:
    (bad,) = site.submit(FAILS)
    site.wait([bad])
    if restarted:  # and nobody but the store knows of the job any more
        restart(site)
    never, chained, alert, clean = site.submit(
        {"name": "never", "queue": "a", "cpu": 1, "jobSet": "s", "after": [bad]},
        {"name": "chained", "queue": "a", "cpu": 1, "after": ["never"]},
        {"name": "alert", "queue": "a", "cpu": 1, "after": [{"job": bad, "when": "failed"}]},
        {"name": "clean", "queue": "a", "cpu": 1, "after": [{"job": "chained", "when": "any"}]},
    )

    ended = site.wait([never, chained, alert, clean])
    assert [(job["state"], job["reason"]) for job in ended] == [
        ("cancelled", f"it was to start after {bad} succeeded, but {bad} failed"),
        ("cancelled", f"it was to start after {never} succeeded, but {never} was cancelled"),
        ("succeeded", ""),
        ("succeeded", ""),
    ]

    def in_queue() -> dict[str, int]:
        (queue,) = site.ask("GET", "/queues")
        return {state: jobs for state, jobs in queue["jobs"].items() if jobs}

    site.wait_until(lambda: in_queue() == {"succeeded": 2, "failed": 1, "cancelled": 2})


def test_who_waits_when_the_server_is_killed_ends_with_what_it_comes_after(site: Site) -> None:
    (first,) = site.submit({"name": "first", "queue": "a", "cpu": 1, "command": ["sleep", "600"]})
    never, clean = site.submit(
        {"name": "never", "queue": "a", "cpu": 1, "after": [first]},
        {"name": "clean", "queue": "a", "cpu": 1, "after": [{"job": first, "when": "any"}]},
    )
    restart(site)
    waits = site.ask("GET", f"/jobs/{clean}/why")
    site.ask("POST", "/jobs/cancel", {"jobs": [first]})

    assert (waits["reason"], waits["facts"]) == ("DEPENDENCY", {"after": [f"{first} (any)"]})
    ended, ran = site.wait([never, clean])
    assert (ended["state"], ran["state"]) == ("cancelled", "succeeded")
    assert ended["reason"] == f"it was to start after {first} succeeded, but {first} was cancelled"


def test_what_is_not_kept_any_more_was_fulfilled(tmp_path: Path) -> None:
    with Site(tmp_path, "", "--keep", "1s") as site:
        site.queue("a")
        site.agent(seconds=600)
        done, long = site.submit(
            {"name": "done", "queue": "a", "cpu": 1, "command": ["sleep", "0"]},
            {"name": "long", "queue": "a", "cpu": 1},
        )
        (last,) = site.submit({"name": "last", "queue": "a", "cpu": 1, "after": [done, {"job": long, "when": "any"}]})
        site.wait([long], "running")
        site.wait_until(lambda: all(job["id"] != done for job in site.ask("GET", "/jobs")["jobs"]))
        restart(site)
        site.wait_until(lambda: site.ask("GET", f"/jobs/{last}/why")["facts"] == {"after": [f"{long} (any)"]})
        site.ask("POST", "/jobs/cancel", {"jobs": [long]})

        assert site.wait([last], "running")[0]["attempt"] == 1
        refused = site.ask("POST", "/jobs", {"jobs": [{"queue": "a", "cpu": 1, "after": [done]}]}, status=422)
        assert "the id of one before that is still kept" in refused["error"]["message"]


def test_the_command_line_says_how_the_other_job_must_end(site: Site) -> None:
    def submit(*options: str) -> str:
        where = ["--server", site.url, "--token-file", str(site.token_file)]
        command = [*MUSTER, "submit", *where, "--queue", "a", "--cpu", "1", *options, "--", "exit", "1"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    bad = submit("--name", "bad", "--retries", "1", "--retries-lost", "2", "--retries-preempted", "0")
    ids = [submit(option, bad) for option in ("--after", "--after-any", "--after-failed")]

    assert [(job["state"], job["spec"]["after"]) for job in site.wait(ids)] == [
        ("cancelled", [bad]),
        ("failed", [{"job": bad, "when": "any"}]),
        ("failed", [{"job": bad, "when": "failed"}]),
    ]
    job = site.job(bad)
    assert (job["spec"]["retries"], job["failures"]) == ({"failed": 1, "lost": 2, "preempted": 0}, 2)
