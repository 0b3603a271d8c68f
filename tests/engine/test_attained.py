"""Least attained service: who was given least before it had to leave comes first, among equals in priority."""

from __future__ import annotations

from typing import Any

import pytest
from story import Entry, Story, job, story, world

URGENT = {"priorityClass": "high", "queue": "urgent", "cpu": 4}


def told(order: Any, *jobs: Entry) -> Story:
    """What becomes of jobs on four cores."""
    config = {"order": order, "overShare": "off", "elasticEvery": "off"}
    nodes = [{"name": "n", "cpu": 4}]
    return story(world(nodes=nodes, jobs=jobs, config=config, priorityClasses={"high": 10}, until=1000))


LONG = job("long", cpu=4)  # held four cores for 100 s when it had to leave
FIRST_ALARM = job("alarm-1", at=100, runtime=20, **URGENT)
FRESH = job("fresh", cpu=4, at=110)


@pytest.mark.parametrize(
    "order, after",
    [
        pytest.param("arrival", "long", id="by arrival who came first comes back first"),
        pytest.param("leastAttained", "fresh", id="who was given nothing goes before who was given 400 core-seconds"),
        pytest.param({"attained": -1}, "long", id="most attained service: who has begun is to get done"),
    ],
)
def test_who_had_to_leave_after_long_service_comes_after_who_got_less(order: Any, after: str):
    assert told(order, LONG, FIRST_ALARM, FRESH).started(at=120) == [after]


@pytest.mark.parametrize(
    "second_alarm_at, after",
    [
        pytest.param(210, "fresh", id="90 s of four cores are less than 100 s"),
        pytest.param(230, "long", id="110 s are more"),
    ],
)
def test_service_is_usage_times_time(second_alarm_at: int, after: str):
    second = job("alarm-2", at=second_alarm_at, runtime=20, **URGENT)

    ended = told("leastAttained", LONG, FIRST_ALARM, FRESH, second)

    assert ended.preempted() == ["long", "fresh"]
    assert ended.started(at=second_alarm_at + 20) == [after]


@pytest.mark.parametrize(
    "cpu, after",
    [
        pytest.param(1, "slim", id="one core for 150 s is less than four for 100 s"),
        pytest.param(3, "long", id="three cores for 150 s are more"),
    ],
)
def test_a_slim_job_is_given_less_in_the_same_time(cpu: int, after: str):
    slim = job("slim", cpu=cpu, at=110)
    second = job("alarm-2", at=270, runtime=20, **URGENT)

    ended = told("leastAttained", LONG, FIRST_ALARM, slim, second)

    assert ended.preempted() == ["long", "slim"]
    assert ended.started(at=290)[0] == after


def test_service_of_all_attempts_counts():
    alarms = [job(f"alarm-{at}", at=at, runtime=20, **URGENT) for at in (100, 180, 300)]
    # long: 100 s, then it waits; fresh: 120 to 180, then 200 to 300, which makes 160 s
    ended = told("leastAttained", LONG, FRESH, *alarms)

    assert ended.preempted() == ["long", "fresh", "fresh"]
    assert ended.started(at=320) == ["long"]


def test_a_higher_priority_goes_before_who_was_given_less():
    ended = told("leastAttained", {**LONG, "priority": 1}, FIRST_ALARM, FRESH)

    assert ended.started(at=120) == ["long"]


def test_an_elastic_job_was_given_what_it_held_at_each_width():
    wide = {"name": "wide", "queue": "A", "groups": [{"name": "w", "min": 1, "initial": 4, "max": 4, "cpu": 1}]}
    # 4 cores for 50 s, then 2 for 50 s beside `pair`, which takes two by its class: 300 core-seconds
    pair = job("pair", "urgent", at=50, runtime=70, priorityClass="high", cpu=2)
    rest = job("rest", "urgent", at=100, runtime=20, priorityClass="high", cpu=2)
    fresh = job("fresh", cpu=4, at=110)
    alarms = [job(f"alarm-{at}", at=at, runtime=20, **URGENT) for at in (200,)]  # fresh: 120 to 200, 320 core-seconds

    ended = told("leastAttained", wide, pair, rest, fresh, *alarms)

    assert ended.preempted()[-1] == "fresh"
    assert ended.started(at=220) == ["wide"]


def test_where_the_order_does_not_ask_nothing_is_counted():
    ended = told("arrival", LONG, FIRST_ALARM, FRESH)

    assert {run.job.attained for run in ended.snapshot().running} == {0}
    assert {run.job.attained for run in told({"attained": -1}, LONG, FIRST_ALARM, FRESH).snapshot().running} == {
        400 * 1_000_000
    }
