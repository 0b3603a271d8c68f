"""What would happen if, asked of a real server: nothing changes, and the answer is what the engine would do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from serving import Site

HOUR_S = 3600.0
JOB = {"queue": "a", "cpu": 4, "expectedRuntime": "1h", "lifetime": "10h"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two nodes of 8 cores, full for about an hour, and four jobs that wait."""
    with Site(tmp_path_factory.mktemp("site")) as running:
        running.queue("a")
        running.queue("b")
        running.agent(nodes="2xcpu=8,memory=32Gi", seconds=6000)
        runs = running.submit(*({**JOB, "name": f"run-{index}"} for index in range(4)))
        running.wait(runs, "running")
        names = ("first", "second", "third", "fourth")
        first, *_ = running.submit(*({**JOB, "name": name, "cpu": 8} for name in names))
        # Once a turn has looked at them room is kept for the first: who asks before that may get it instead.
        running.wait_until(lambda: running.ask("GET", f"/jobs/{first}/why")["reason"] == "RESERVED")
        yield running


def ask(site: Site, status: int = 200, **question: Any) -> Any:
    return site.ask("POST", "/whatif", question, status=status)


def named(site: Site, name: str) -> str:
    """The id of the job of that name."""
    (found,) = [job["id"] for job in site.ask("GET", f"/jobs?text={name}-")["jobs"]]
    return str(found)


def of(answer: Any, job: str) -> Any:
    (found,) = [it for it in answer["jobs"] if it["job"] == job]
    return found


def test_a_job_that_nobody_submitted_is_told_when_and_where_it_would_start_and_why_not_now(site: Site) -> None:
    before = site.ask("GET", "/audit")
    answer = ask(site, jobs=[{"name": "mine", "queue": "b", "cpu": 8, "expectedRuntime": "10m"}])

    mine = of(answer, "mine")
    assert (mine["new"], mine["asked"], mine["without"]) == (True, True, None)
    (start,) = mine["with"]["starts"]
    assert 0 < start - answer["at"] <= HOUR_S
    assert (mine["with"]["cluster"], len(mine["with"]["nodes"])) == ("lab", 1)
    assert mine["with"]["reason"] == "NO_ROOM"
    assert "no node has room" in mine["with"]["text"]
    assert (answer["complete"], answer["paused"]) == (True, False)
    assert site.ask("GET", "/audit") == before
    assert site.ask("GET", "/jobs?queue=b")["jobs"] == []


def test_a_job_that_finds_room_would_start_now(site: Site) -> None:
    room = {"addNodes": {"cluster": "lab", "nodes": [{"name": "more", "cpu": 32}]}}
    answer = ask(site, jobs=[{"name": "mine", "queue": "b", "cpu": 4}], events=[room])

    assert of(answer, "mine")["with"]["starts"] == [answer["at"]]
    assert of(answer, "mine")["with"]["nodes"] == ["more"]
    first = of(answer, named(site, "first"))
    assert first["without"]["starts"][0] > answer["at"]
    assert first["with"]["starts"] == [answer["at"]]
    assert answer["earlier"] == 4


def test_a_job_with_another_priority_starts_before_others(site: Site) -> None:
    fourth = named(site, "fourth")
    answer = ask(site, events=[{"setJob": {"name": fourth, "priority": 9}}])

    assert of(answer, fourth)["asked"]
    assert of(answer, fourth)["earlier"] > 0
    assert answer["earlier"] == answer["later"] == 1


def test_a_drain_shows_who_would_start_again_and_when(site: Site) -> None:
    answer = ask(site, events=[{"drainNode": "lab-0"}])

    gone = {it["job"] for it in answer["preempted"]["with"]}
    assert {it["rule"] for it in answer["preempted"]["with"]} == {"drain"}
    assert answer["preempted"]["without"] == []
    assert len(gone) == 2
    for job in gone:
        told = of(answer, job)
        assert told["without"]["runningSince"] is not None
        assert told["with"]["starts"][0] > answer["at"]
        assert told["earlier"] < 0
    assert not site.ask("GET", "/nodes")[0]["cordoned"]


def test_an_event_may_come_later(site: Site) -> None:
    room = {"addNodes": {"cluster": "lab", "nodes": [{"name": "more", "cpu": 32}]}}
    answer = ask(site, events=[{"at": "10m", **room}])

    assert of(answer, named(site, "first"))["with"]["starts"] == [pytest.approx(answer["at"] + 600)]


def test_where_run_times_were_not_stated_the_answer_says_so(site: Site) -> None:
    wide = {"queue": "b", "cpu": 8, "lifetime": "10h"}
    answer = ask(site, jobs=[{**wide, "name": f"wide-{index}"} for index in range(3)])

    assert [of(answer, f"wide-{index}")["with"]["assumed"] for index in (0, 2)] == [False, True]


@pytest.mark.parametrize(
    "question, field, said",
    [
        pytest.param({}, "body", "what if what", id="nothing"),
        pytest.param({"events": [{"cordonNode": "x"}]}, "events[0].cordonNode", "lab-0, lab-1", id="no such node"),
        pytest.param({"events": [{"cordonNod": "x"}]}, "events[0].cordonNod", "did you mean", id="a misspelt event"),
        pytest.param({"events": [{"cancel": "x"}]}, "events[0].cancel", "a job of this server", id="no such job"),
        pytest.param(
            {"events": [{"setQueue": {"name": "a", "weight": -1}}]},
            "events[0].setQueue.weight",
            "a number",
            id="no weight",
        ),
        pytest.param(
            {"events": [{"addNodes": {"cluster": "lab", "nodes": [{"name": "lab-0", "cpu": 1}]}}]},
            "events[0].addNodes.nodes[0].name",
            "is there",
            id="a node that is there",
        ),
        pytest.param({"jobs": [{"queue": "zzz", "cpu": 1}]}, "jobs[0].queue", "a, b", id="no such queue"),
        pytest.param({"jobs": [{"queue": "a", "cpu": "x"}]}, "jobs[0].cpu", "quantity", id="no amount"),
        pytest.param({"jobs": [{"queue": "a", "after": ["x"]}]}, "jobs[0].after", "before it", id="after nobody"),
        pytest.param({"job": "x"}, "job", "", id="a key nobody knows"),
    ],
)
def test_what_makes_no_sense_is_named_with_what_is_allowed(site: Site, question: Any, field: str, said: str) -> None:
    problems = ask(site, 422, **question)["error"]["problems"]

    assert [it["field"] for it in problems] == [field]
    assert said in problems[0]["allowed"]


@pytest.mark.parametrize(
    "queues, question, status",
    [
        pytest.param({"b": ["submit"]}, {"jobs": [{"queue": "b", "cpu": 1}]}, 200, id="who may submit may try"),
        pytest.param({"b": ["view"]}, {"jobs": [{"queue": "b", "cpu": 1}]}, 422, id="who may only look may not"),
        pytest.param({"b": ["view"]}, {"events": [{"cordonNode": "lab-0"}]}, 200, id="everyone sees the machines"),
        pytest.param({"b": ["view"]}, {"events": [{"setQueue": {"name": "a", "weight": 2}}]}, 403, id="not that queue"),
        pytest.param({"a": ["view"]}, {"events": [{"setQueue": {"name": "a", "weight": 2}}]}, 200, id="that queue"),
        pytest.param({"b": ["submit"]}, {"events": [{"cancel": "first"}]}, 403, id="not that job"),
    ],
)
def test_who_may_ask_what(site: Site, queues: Any, question: Any, status: int) -> None:
    made = site.ask("POST", "/tokens", {"name": "ana", "queues": queues}, status=201)
    for event in question.get("events", ()):
        if "cancel" in event:
            event["cancel"] = named(site, "first")

    headers = {"Authorization": f"Bearer {made['token']}"}
    answer = site.ask("POST", "/whatif", question, status=status, headers=headers)

    if status == 200 and "a" not in queues:
        assert {it["queue"] for it in answer["jobs"]} <= {"b"}
        assert answer["hidden"] == answer["earlier"] + answer["later"]
