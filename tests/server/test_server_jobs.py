"""A job's way through a real server and a real (simulated) agent, over HTTP."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from serving import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as running:
        running.queue("a")
        yield running


def events_of(site: Site) -> list[dict[str, object]]:
    """Everything that happened so far."""
    assert site._client is not None
    sent = site._client.get("/events", params={"after": 0, "follow": False}).text
    return [json.loads(line.removeprefix("data: ")) for line in sent.splitlines() if line.startswith("data: ")]


def test_jobs_run_on_an_agent_and_succeed(site: Site) -> None:
    site.agent()
    ids = site.submit(*({"name": f"j{number}", "queue": "a", "cpu": 1} for number in range(40)))

    assert {job["state"] for job in site.wait(ids)} == {"succeeded"}
    kinds = Counter(event["event"] for event in events_of(site))
    del kinds["admitted"]  # whoever was promised room while others ran
    assert kinds == {"submitted": 40, "started": 40, "succeeded": 40}


def test_a_failing_job_is_tried_again_as_often_as_it_says(site: Site) -> None:
    site.agent()
    (job_id,) = site.submit({"name": "bad", "queue": "a", "cpu": 1, "command": ["exit", "3"], "retries": 2})

    (job,) = site.wait([job_id])
    assert (job["state"], job["attempt"], job["failures"], job["reason"]) == (
        "failed",
        3,
        3,
        "exit code 3 (failed 3 times; retries.failed allows 2)",
    )


def test_a_job_starts_after_those_it_names_and_not_when_they_fail(site: Site) -> None:
    site.agent()
    first, second, bad, never = site.submit(
        {"name": "first", "queue": "a", "cpu": 1},
        {"name": "second", "queue": "a", "cpu": 1, "after": ["first"]},
        {"name": "bad", "queue": "a", "cpu": 1, "command": ["exit", "1"]},
        {"name": "never", "queue": "a", "cpu": 1, "after": ["bad"]},
    )

    one, two, _, ended = site.wait([first, second, bad, never])
    assert two["started"] >= one["ended"]
    assert (ended["state"], ended["started"], ended["attempt"]) == ("cancelled", None, 0)
    said = f"{never} was cancelled: it was to start after {bad} succeeded, but {bad} failed."
    assert site.ask("GET", f"/jobs/{never}/why")["text"] == said


def test_cancelling_stops_what_runs_and_what_waits(site: Site) -> None:
    site.agent(nodes="1xcpu=1,memory=1Gi", seconds=600)
    running, waiting = site.submit(*({"name": n, "queue": "a", "cpu": 1} for n in ("running", "waiting")))
    site.wait([running], "running")

    assert set(site.ask("POST", "/jobs/cancel", {"jobs": [running, waiting]})["jobs"]) == {running, waiting}
    assert site.ask("POST", "/jobs/cancel", {"jobs": [running]})["jobs"] == []
    (next_one,) = site.submit({"name": "next", "queue": "a", "cpu": 1, "command": ["sleep", "0"]})
    assert site.wait([next_one])[0]["state"] == "succeeded"
    ended = [json.loads(line) for line in site.ledger().read_text(encoding="utf-8").splitlines()]
    assert ["ended", running, 1, "stopped"] in ended


def test_why_says_what_is_short(site: Site) -> None:
    site.agent(nodes="2xcpu=4,memory=8Gi")
    (job_id,) = site.submit({"name": "big", "queue": "a", "cpu": 100})
    site.wait([job_id], "queued")

    why = site.ask("GET", f"/jobs/{job_id}/why")
    assert why["reason"] == "NEVER_FITS"
    assert "cpu is short (asked 100, at most 4" in why["text"]


def test_the_same_key_submits_once(site: Site) -> None:
    jobs = [{"name": "x", "queue": "a", "cpu": 1}, {"name": "y", "queue": "a", "cpu": 1}]

    assert site.submit(*jobs, key="k1") == site.submit(*jobs, key="k1")
    assert site.submit(*jobs, key="k2") != site.submit(*jobs, key="k1")
    assert len(site.ask("GET", "/jobs")["jobs"]) == 4


def test_an_array_is_one_job_for_each_index(site: Site) -> None:
    ids = site.submit({"name": "sweep", "queue": "a", "cpu": 1, "array": "0-4"})

    assert [job_id.rpartition("-")[0] for job_id in ids] == [f"sweep-{index}" for index in range(5)]


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
def test_jobs_of_one_submission_start_in_the_order_of_the_list_and_of_the_index(site: Site, restarted: bool) -> None:
    site.ask("PATCH", "/settings", {"paused": True})
    names = ["zebra", "ant", "mole", "bee"]
    ids = site.submit(*({"name": name, "queue": "a", "cpu": 1} for name in names))
    ids += site.submit({"name": "sweep", "queue": "a", "cpu": 1, "array": "0-11"}, {"queue": "a", "cpu": 2})
    if restarted:
        site.server.end(signal.SIGKILL)
        site.start()
    site.agent(nodes="1xcpu=2,memory=8Gi", seconds=0)
    site.ask("PATCH", "/settings", {"paused": False})
    site.wait(ids)

    began = [json.loads(line) for line in site.ledger().read_text(encoding="utf-8").splitlines()]
    assert [job for what, job, _, _ in began if what == "began"] == ids


def test_what_comes_after_an_array_waits_for_all_of_it(site: Site) -> None:
    *parts, last = site.submit(
        {"name": "part", "queue": "a", "cpu": 1, "array": "0-3"},
        {"name": "last", "queue": "a", "cpu": 1, "after": ["part"]},
    )
    site.agent()

    *firsts, end = site.wait([*parts, last])
    assert end["started"] >= max(job["ended"] for job in firsts)
    (later,) = site.submit({"name": "later", "queue": "a", "cpu": 1, "after": [last]})
    assert site.wait([later])[0]["state"] == "succeeded"


def test_a_job_cannot_come_after_one_that_nobody_knows(site: Site) -> None:
    job = {"name": "x", "queue": "a", "cpu": 1, "after": ["nobody"]}
    error = site.ask("POST", "/jobs", {"jobs": [job]}, status=422)["error"]

    assert error["problems"][0]["field"] == "jobs[0].after"
    assert "'nobody' is not allowed" in error["message"]


def test_a_held_job_waits_until_it_is_released(site: Site) -> None:
    (job_id,) = site.submit({"name": "x", "queue": "a", "cpu": 1})
    site.ask("POST", f"/jobs/{job_id}/hold")
    site.agent()
    (other,) = site.submit({"name": "y", "queue": "a", "cpu": 1})
    site.wait([other])

    assert site.ask("GET", f"/jobs/{job_id}/why")["reason"] == "HELD"
    site.ask("POST", f"/jobs/{job_id}/release")
    assert site.wait([job_id])[0]["state"] == "succeeded"


def test_a_preempted_job_runs_again_and_loses_no_retry(site: Site) -> None:
    site.agent(seconds=600)
    (job_id,) = site.submit({"name": "x", "queue": "a", "cpu": 1})
    site.wait([job_id], "running")
    site.ask("POST", f"/jobs/{job_id}/preempt")
    (job,) = site.wait([job_id], "running")

    assert (job["attempt"], job["failures"]) == (2, 0)


def test_a_paused_server_takes_jobs_in_and_starts_none(site: Site) -> None:
    site.agent()
    site.ask("PATCH", "/settings", {"paused": True})
    (job_id,) = site.submit({"name": "x", "queue": "a", "cpu": 1})
    site.ask("PUT", "/queues/b", {})  # a turn has come and gone

    assert site.job(job_id)["state"] == "queued"
    site.ask("PATCH", "/settings", {"paused": False})
    assert site.wait([job_id])[0]["state"] == "succeeded"


def test_pools_keep_their_nodes_for_their_own(site: Site) -> None:
    site.agent(nodes="1xcpu=4,memory=8Gi")
    site.ask("PUT", "/pools/gold", {"nodeSelector": {"tier": "gold"}, "disableSharing": True})

    assert [(pool["name"], pool["nodes"]) for pool in site.ask("GET", "/pools")] == [("gold", 0)]
    kept = site.ask("PUT", "/pools/gold", {"nodeSelector": {"tier": "gold"}, "keep": {"cpu": 1.5, "gpu": 2}})["keep"]
    assert kept == {"cpu": "1500m", "nvidia.com/gpu": "2"}
    refused = site.ask("PUT", "/pools/gold", {"nodeSelector": {"tier": "gold"}, "keep": {"gpu": 0.5}}, status=422)
    assert refused["error"]["problems"][0]["field"] == "keep.gpu"
    site.ask("DELETE", "/pools/gold", status=204)
    assert site.ask("GET", "/pools") == []


def test_jobs_of_a_cluster_that_is_declared_lost_run_elsewhere_and_its_late_agent_must_stop_them(site: Site) -> None:
    lost = site.agent("lost", nodes="1xcpu=4,memory=8Gi", seconds=600)
    (job_id,) = site.submit({"name": "x", "queue": "a", "cpu": 1})
    site.wait([job_id], "running")
    lost.process.send_signal(signal.SIGSTOP)
    assert site.ask("POST", "/clusters/lost/lost") == [job_id]
    site.agent("spare", nodes="1xcpu=4,memory=8Gi")

    (job,) = site.wait([job_id])
    assert (job["state"], job["attempt"], job["cluster"]) == ("succeeded", 2, "spare")
    lost.process.send_signal(signal.SIGCONT)
    site.wait_until(lambda: site.has_noted("lost", "ended", job_id, 1, "stopped"))


def test_of_a_cluster_that_stays_silent_only_jobs_that_want_it_run_elsewhere(tmp_path: Path) -> None:
    with Site(tmp_path, "", "--silent-after", "2s", "--lost-after", "6s") as site:
        site.queue("a")
        silent = site.agent("silent", nodes="1xcpu=2,memory=8Gi", seconds=600)
        job = {"queue": "a", "cpu": 1, "cluster": "silent"}
        again, stays = site.submit({**job, "name": "again", "onLost": "rerun"}, {**job, "name": "stays"})
        site.wait([again, stays], "running")
        assert silent.process is not None
        silent.process.send_signal(signal.SIGSTOP)
        site.wait_until(lambda: site.job(again)["attempt"] == 1 and site.job(again)["state"] == "queued")

        assert (site.job(again)["reason"], site.job(stays)["state"]) == ("lost", "running")
        silent.process.send_signal(signal.SIGCONT)  # a late agent must stop what it still has before it gets more
        site.wait_until(lambda: site.has_noted("silent", "ended", again, 1, "stopped"))
        (job_again,) = site.wait([again], "running")
        assert (job_again["attempt"], site.job(stays)["attempt"]) == (2, 1)


def test_an_idle_agent_is_heard_of_often_enough_not_to_be_silent(tmp_path: Path) -> None:
    with Site(tmp_path, "", "--silent-after", "5s") as site:
        site.agent()
        first = site.ask("GET", "/clusters")[0]["heard"]
        seen: list[dict[str, object]] = []
        site.wait_until(lambda: bool(seen.extend(site.ask("GET", "/clusters")) or seen[-1]["heard"] > first + 6))

        assert {cluster["silent"] for cluster in seen} == {False}


def test_a_queue_says_what_it_holds_and_what_is_its_due(site: Site) -> None:
    site.queue("b", weight=3)
    site.agent(nodes="1xcpu=8,memory=1Gi", seconds=600)
    site.submit(*({"name": "x", "queue": queue, "cpu": 1} for queue in ("a", "b") for _ in range(8)))
    site.wait_until(lambda: sum(queue["jobs"].get("running", 0) for queue in site.ask("GET", "/queues")) == 8)

    first, second = site.ask("GET", "/queues")
    assert (first["holds"]["cpu"], second["holds"]["cpu"]) == ("2", "6")
    assert second["share"] == pytest.approx(3 * first["share"])
    assert second["entitled"] == pytest.approx(3 * first["entitled"])


def test_a_raised_priority_goes_first(site: Site) -> None:
    low, high = site.submit(*({"name": n, "queue": "a", "cpu": 8, "command": ["sleep", "0"]} for n in ("low", "high")))
    site.ask("PATCH", f"/jobs/{high}", {"priority": 5})
    site.agent(nodes="1xcpu=8,memory=1Gi")

    first, second = site.wait([high, low])
    assert first["started"] < second["started"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "told to end"])
def test_a_server_that_comes_back_goes_on_where_it_was(site: Site, how: signal.Signals) -> None:
    site.agent(nodes="2xcpu=2,memory=8Gi", seconds=0.3)
    ids = site.submit(*({"name": f"j{number}", "queue": "a", "cpu": 1} for number in range(12)))
    site.wait(ids[:1])

    code = site.server.end(how)
    site.start()

    assert code == (0 if how == signal.SIGTERM else -signal.SIGKILL)
    assert {(job["state"], job["attempt"]) for job in site.wait(ids)} == {("succeeded", 1)}
    began = Counter(line for line in site.ledger().read_text(encoding="utf-8").splitlines() if '"began"' in line)
    assert set(began.values()) == {1}


def test_a_server_that_is_interrupted_twice_ends_as_well_as_after_the_first_time(site: Site) -> None:
    site.agent(nodes="1xcpu=4,memory=8Gi", seconds=600)
    site.wait(site.submit({"name": "j", "queue": "a", "cpu": 1}), "running")
    assert site.server.process is not None

    site.server.process.send_signal(signal.SIGINT)
    site.wait_until(lambda: not _answers(site.url))

    assert site.server.end(signal.SIGINT) == 0
    assert "Traceback" not in site.server.log()


def _answers(url: str) -> bool:
    try:
        httpx2.get(f"{url}/healthz")
    except httpx2.TransportError:
        return False
    return True


def test_an_agent_that_was_killed_tells_what_is_lost_and_the_jobs_run_again(site: Site) -> None:
    agent = site.agent(nodes="1xcpu=4,memory=8Gi", seconds=600)
    ids = site.submit(*({"name": f"j{number}", "queue": "a", "cpu": 1} for number in range(4)))
    site.wait(ids, "running")

    agent.end(signal.SIGKILL)
    site.agent(nodes="1xcpu=4,memory=8Gi", seconds=0)

    assert {(job["state"], job["attempt"]) for job in site.wait(ids)} == {("succeeded", 2)}
