"""Raced jobs in the loop: quotas, retries, dependencies, silence, and what the summary says. Told through scenarios."""

from __future__ import annotations

import json

import pytest
from story import story

from muster.model import events as ev
from muster.sim.lines import lines
from muster.sim.scenario.loader import parse
from muster.sim.simulate import Simulation
from muster.sim.summary import Summary

OPAQUE = [{"name": "west", "kind": "opaque", "priority": 80}, {"name": "east", "kind": "opaque", "priority": 20}]


def raced(name="j", west=(), east=(), **fields):
    """A job raced over two clusters; `west` and `east` are their sightings."""
    clusters = {"west": {"sightings": list(west)}, "east": {"sightings": list(east)}}
    return {"name": name, "gpu": 2, **fields, "race": {"guard": "10m", "timeScale": "1m", "clusters": clusters}}


def told(*jobs, clusters=(), **rest):
    """(minute, event, job, cluster) of each line but submissions."""
    log = story({"clusters": [*OPAQUE, *clusters], "jobs": list(jobs), **rest}).log
    skipped = ("submitted", "submitted_to", "admitted")
    return [
        (line["t"] / 60, line["event"], line["job"], line.get("cluster", line.get("reason", "")))
        for line in log
        if line["event"] not in skipped
    ]


def summed_up(scenario):
    simulation = Simulation(parse(json.dumps(scenario)))
    summary = Summary(simulation)
    for tick in simulation:
        summary.add(tick)
    return summary.totals()


FAST = [["1m", "RUNNING"], ["30m", "SUCCEEDED"]]


def test_a_race_waits_for_its_quota_and_begins_when_there_is_room():
    queues = [{"name": "q", "quota": {"gpu": 3}}]

    log = told(raced("a", west=FAST, queue="q"), raced("b", west=FAST, queue="q"), queues=queues)

    assert log == [
        (0, "waiting", "b", "QUOTA"),
        (11, "cancelled_at", "a", "east"),
        (11, "won", "a", "west"),
        (30, "succeeded", "a", ""),
        (41, "cancelled_at", "b", "east"),  # its clusters' times count from its own beginning
        (41, "won", "b", "west"),
        (60, "succeeded", "b", ""),
    ]


def test_a_race_pays_once_at_its_largest_specialisation():
    job = raced(west=FAST, queue="q")
    job["race"]["clusters"]["east"]["gpu"] = 4
    queues = [{"name": "q", "quota": {"gpu": 5}}]
    placed = {"name": "p", "queue": "q", "gpu": 2, "runtime": "1m"}
    nodes = [{"name": "home", "nodes": [{"name": "n", "gpu": 8}]}]

    log = told(job, placed, clusters=nodes, queues=queues)

    # 2 for west and 4 for east make 4, not 6: 1 is left, and the job on our own nodes waits for it.
    assert (0, "waiting", "p", "QUOTA") in log
    assert (30, "started", "p", "home") in log


def test_the_quota_of_a_user_and_a_cordon_hold_races_back_too():
    users = {"ada": {"quota": {"gpu": 1}}}
    log = told(raced("a", west=FAST, user="ada"), users=users)
    assert log == [(0, "waiting", "a", "USER_QUOTA")]

    log = told(
        raced("a", west=FAST, queue="q"),
        queues=[{"name": "q", "cordoned": True}],
        events=[{"at": "5m", "uncordonQueue": "q"}],
    )
    assert [line[:2] for line in log] == [(0, "waiting"), (16, "cancelled_at"), (16, "won"), (35, "succeeded")]


def test_a_race_needs_no_queue():
    nodes = [{"name": "home", "nodes": [{"name": "n", "cpu": 1}]}]
    first = {"name": "first", "queue": "q", "cpu": 1, "runtime": "1m"}
    scenario = {"queues": [{"name": "q"}], "events": [{"at": "5m", "setJob": {"name": "j", "priority": 1}}]}

    log = told(first, raced(west=FAST, after=["first"], user="ada"), clusters=nodes, **scenario)

    assert [line[1:3] for line in log if line[1] in ("won", "succeeded")][1:] == [("won", "j"), ("succeeded", "j")]


def test_races_count_no_usage():
    totals = summed_up({"clusters": OPAQUE, "queues": [{"name": "q"}], "jobs": [raced(west=FAST, queue="q")]})

    assert totals["queues"]["q"] == {"started": 1, "usage": 0.0, "share": 0.0}


def test_a_race_that_failed_begins_anew_as_long_as_it_has_retries():
    log = told(raced(west=[["2m", "FAILED"]], east=[["5m", "FAILED"]], retries=1))

    assert log == [(5, "requeued", "j", ""), (10, "failed", "j", "")]


def test_a_race_begins_when_what_it_comes_after_has_succeeded_and_others_may_come_after_it():
    nodes = [{"name": "home", "nodes": [{"name": "n", "cpu": 1}]}]
    first = {"name": "first", "cpu": 1, "runtime": "5m"}
    last = {"name": "last", "cpu": 1, "after": ["j"], "runtime": "1m"}

    log = told(first, raced(west=FAST, after=["first"]), last, clusters=nodes)

    assert [line[:3] for line in log if line[1] in ("started", "won", "succeeded")] == [
        (0, "started", "first"),
        (5, "succeeded", "first"),
        (16, "won", "j"),
        (35, "succeeded", "j"),
        (35, "started", "last"),
        (36, "succeeded", "last"),
    ]


def test_a_race_that_waits_can_be_cancelled_and_changed():
    queues = [{"name": "q", "quota": {"gpu": 2}}]
    jobs = [raced(name, west=FAST, queue="q") for name in ("a", "b", "c")]
    events = [{"at": "1m", "setJob": {"name": "c", "priority": 5}}, {"at": "40m", "cancel": "b"}]

    log = told(*jobs, queues=queues, events=events)

    assert [line[2] for line in log if line[1] == "won"] == ["a", "c"]
    assert (40, "cancelled", "b", "") in log


def test_a_race_under_way_can_be_reprioritised_without_harm():
    log = told(raced(west=FAST), events=[{"at": "5m", "setJob": {"name": "j", "priority": 5}}])

    assert [line[:2] for line in log] == [(11, "cancelled_at"), (11, "won"), (30, "succeeded")]


def test_a_job_that_is_cancelled_after_it_won_stops_the_winner():
    log = told(raced(west=[["1m", "RUNNING"]]), events=[{"at": "20m", "cancel": "j"}])

    assert log[-2:] == [(20, "cancelled", "j", ""), (20, "cancelled_at", "j", "west")]


@pytest.mark.parametrize(
    "silence, outcome",
    [
        pytest.param(("5m", "20m"), [(32, "cancelled_at"), (32, "won")], id="unseen time earns no guard"),
        pytest.param(
            ("0s", "8m"), [(18, "cancelled_at"), (18, "won")], id="a submission is sent again until it arrives"
        ),
    ],
)
def test_silence(silence, outcome):
    at, span = silence
    log = told(raced(west=[["2m", "RUNNING"]]), events=[{"at": at, "silentCluster": {"name": "west", "for": span}}])

    assert [line[:2] for line in log] == outcome


def test_the_summary_tells_of_a_race():
    job = summed_up({"clusters": OPAQUE, "jobs": [raced(west=FAST, east=[["6m", "RUNNING"]])]})

    assert job["jobs"]["j"]["race"] == {
        "submittedTo": ["east", "west"],
        "cancelledAt": ["east"],
        "winner": "west",
        "cause": None,
        "wastedGpuSeconds": 600.0,  # two GPUs for five minutes
    }
    assert (job["jobs"]["j"]["state"], job["jobs"]["j"]["start"], job["jobs"]["j"]["end"]) == ("succeeded", 60, 1800)
    assert job["totals"]["wastedGpuSeconds"] == 600.0
    assert job["clusters"]["west"]["races"] == {"submitted": 1, "won": 1, "cancelled": 0}


def test_a_race_that_is_not_over_has_a_verdict():
    totals = summed_up({"clusters": OPAQUE, "jobs": [raced(east=[["1m", "RUNNING"]])], "until": "20m"})

    assert totals["jobs"]["j"]["state"] == "pending"
    assert totals["jobs"]["j"]["lastVerdict"] == {
        "verdict": "racing",
        "leader": "east",
        "why": "east leads; west could still win until t = 4260 s",
    }


def test_polls_that_bring_nothing_may_be_left_out():
    scenario = json.dumps(
        {
            "clusters": OPAQUE,
            "jobs": [raced(f"j{i}", [[f"{7 * i + 3}s", "RUNNING"]], [[f"{11 * i}s", "RUNNING"]]) for i in range(5)],
            "events": [{"at": "2m", "silentCluster": {"name": "west", "for": "95s"}}, {"at": "13m", "cancel": "j4"}],
        }
    )
    logs, polls = [], []
    for skips in (True, False):
        simulation = Simulation(parse(scenario), skips_turns=skips)
        ticks = list(simulation)
        logs.append([line for tick in ticks for line in lines(tick)])
        polls.append(sum(isinstance(event, ev.RaceSeen) for tick in ticks for event in tick.moment.events))

    assert logs[0] == logs[1]
    assert polls[0] < polls[1] / 3
