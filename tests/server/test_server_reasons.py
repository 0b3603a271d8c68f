"""Why jobs wait, as turns wrote it down: asked for one job, for a turn, by Prometheus, and after a restart."""

from __future__ import annotations

import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A server whose only node is in use for ever, and for whose room everyone else waits."""
    with Site(tmp_path) as running:
        running.queue("a")
        running.queue("b", weight=2)
        running.ask("PUT", "/users/ana", {"quota": {"cpu": "1"}})
        running.agent(nodes="1xcpu=4,memory=8Gi", seconds=600)
        (job,) = running.submit({"name": "wide", "queue": "a", "cpu": 4, "lifetime": "1h", "expectedRuntime": "1h"})
        running.wait([job], "running")
        yield running


def latest(site: Site) -> dict[str, Any]:
    """The last turn that was written down."""
    (turn,) = site.ask("GET", "/turns", params={"limit": 1})
    found: dict[str, Any] = site.ask("GET", f"/turns/{turn['number']}")
    return found


def waiting_in(site: Site) -> Counter[str]:
    """By reason, how many the last written turn says wait."""
    return Counter(latest(site)["waiting"])


def reason_of(site: Site, job: str) -> dict[str, Any]:
    found: dict[str, Any] = site.ask("GET", f"/jobs/{job}/why")
    return found


def metrics(site: Site) -> dict[str, int]:
    assert site._client is not None
    text = site._client.get(f"{site.url}/metrics").text
    return {name: int(many) for name, many in re.findall(r'muster_waiting_jobs{reason="(\w+)"} (\d+)', text)}


def test_turns_say_why_everyone_waits_and_it_survives_a_kill_before_the_next_turn(site: Site) -> None:
    same = [{"name": f"same-{n}", "queue": "b", "cpu": 4, "lifetime": "1h", "expectedRuntime": "1h"} for n in range(5)]
    jobs = site.submit(
        *same,
        {"name": "never", "queue": "b", "cpu": 99},
        {"name": "after", "queue": "b", "cpu": 1, "after": ["never"]},
        {"name": "quota", "queue": "b", "cpu": 2, "user": "ana", "lifetime": "0s"},
        {"name": "held", "queue": "b", "cpu": 1},
    )
    names = dict(
        zip(["first", "second", "third", "fourth", "fifth", "never", "after", "quota", "held"], jobs, strict=True)
    )
    site.ask("POST", f"/jobs/{names['held']}/hold")
    site.wait_until(lambda: waiting_in(site).total() == 9 and waiting_in(site)["HELD"] == 1)

    before = {name: reason_of(site, job) for name, job in names.items()}
    expected = {"never": "NEVER_FITS", "after": "DEPENDENCY", "quota": "USER_QUOTA", "held": "HELD"}
    expected |= {"first": "RESERVED", "fifth": "BEHIND"}
    assert {name: before[name]["reason"] for name in expected} == expected
    assert f"as of turn {before['held']['turn']}, " in before["held"]["text"]
    table = latest(site)
    lines = {(line["queue"], line["asks"], line["reason"]): line for line in table["reasons"]}
    assert lines["b", "1 task of 99 cpu", "NEVER_FITS"]["jobs"] == 1
    assert "fits no cluster" in lines["b", "1 task of 99 cpu", "NEVER_FITS"]["text"]
    assert sum(line["jobs"] for line in table["reasons"]) == sum(table["waiting"].values()) == 9
    assert metrics(site) == table["waiting"]

    site.agents["lab"].end(signal.SIGKILL)
    site.server.end(signal.SIGKILL)
    site.start()

    assert site.ask("GET", "/status")["turns"] == 0
    after = {name: reason_of(site, names[name]) for name in before}
    assert {name: (it["reason"], it["facts"]) for name, it in after.items()} == {
        name: (it["reason"], it["facts"]) for name, it in before.items()
    }
    assert {it["turn"] for it in after.values()} == {table["number"]}
    assert metrics(site) == table["waiting"]


def test_a_turn_that_says_nothing_new_names_the_one_that_did(site: Site) -> None:
    site.submit(*({"name": f"j{n}", "queue": "a", "cpu": 4} for n in range(3)))
    site.wait_until(lambda: waiting_in(site).total() == 3)
    said = latest(site)

    site.ask("PUT", "/queues/c", {"cordoned": True})  # a turn that changes nothing for anyone, nor any share
    site.wait_until(lambda: latest(site)["number"] > said["number"])
    turn = latest(site)

    assert (turn["reasonsOf"], turn["reasons"]) == (said["number"], said["reasons"])
    assert site.ask("GET", "/turns", params={"limit": 1})[0]["waiting"] == said["waiting"]
    site.ask("GET", "/turns/999999", status=404)
    site.ask("GET", "/turns/0", status=422)


def test_only_lines_of_queues_that_one_may_view_are_shown(site: Site) -> None:
    site.submit({"name": "j", "queue": "a", "cpu": 4}, {"name": "j", "queue": "b", "cpu": 99})
    site.wait_until(lambda: waiting_in(site).total() == 2)
    token = site.ask("POST", "/tokens", {"name": "bo", "queues": {"b": ["view"]}}, status=201)["token"]
    number = latest(site)["number"]

    seen = site.ask("GET", f"/turns/{number}", headers={"Authorization": f"Bearer {token}"})
    assert {line["queue"] for line in seen["reasons"]} == {"b"}


def test_a_paused_server_says_so_and_keeps_what_was_decided(site: Site) -> None:
    (job,) = site.submit({"name": "j", "queue": "a", "cpu": 4})
    site.wait_until(lambda: waiting_in(site).total() == 1)
    before = reason_of(site, job)
    site.ask("PATCH", "/settings", {"paused": True})

    paused = reason_of(site, job)
    assert (paused["reason"], "the server is paused" in paused["text"]) == (before["reason"], True)
    (late,) = site.submit({"name": "late", "queue": "a", "cpu": 1})
    assert site.job(late)["state"] == "queued"


def test_many_who_ask_at_once_are_all_answered(site: Site) -> None:
    jobs = site.submit(*({"name": f"j{n}", "queue": "a", "cpu": 1 + n % 4} for n in range(40)))
    site.wait_until(lambda: reason_of(site, jobs[-1])["reason"] is not None)
    found: list[str] = []
    asking = [threading.Thread(target=lambda job=job: found.append(reason_of(site, job)["reason"])) for job in jobs]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()

    assert len(found) == len(jobs)
    assert None not in found
