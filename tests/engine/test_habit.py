"""Queues of short jobs first: among queues, how long their jobs usually run counts beside flow per weight."""

from __future__ import annotations

from typing import Any

import pytest
from story import Story, job, story, world

from muster.model.habit import NO_HABIT, Habit
from muster.model.policy import Policy
from muster.model.resources import MICRO

MINUTE_MS = 60_000
NEW = {"name": "m", "cpu": 4}


def told(short_first: float, *jobs: dict[str, Any], **rest: Any) -> Story:
    """What becomes of jobs on four cores, where nobody says how long anything runs and nothing is remembered."""
    config = {"shortFirst": short_first, "halfTime": "1ms", "fairBy": "flow", "overShare": "off", "preemption": "off"}
    return story(world(nodes=[{"name": "n", "cpu": 4}], jobs=jobs, config=config, until=2000, **rest))


TAUGHT = [job("l-0", "long", cpu=1, runtime=100), job("s-0", "short", cpu=1, runtime=1)]
"""A job of each queue that ends before anyone has to wait."""


@pytest.mark.parametrize(
    "short_first, first",
    [
        pytest.param(0, "l-1", id="not asked for: the queue's name decides among equals"),
        pytest.param(0.5, "s-1", id="asked for: the queue whose last job ran for a second goes first"),
        pytest.param(1, "s-1", id="the more so the larger it is"),
    ],
)
def test_among_queues_that_hold_nothing_the_one_of_short_jobs_goes_first(short_first: float, first: str):
    all_of_it = job("z", "other", cpu=4, at=200, runtime=100)
    waiting = [job("l-1", "long", cpu=4, at=210, runtime=1), job("s-1", "short", cpu=4, at=210, runtime=1)]

    assert told(short_first, *TAUGHT, all_of_it, *waiting).started(at=300) == [first]


@pytest.mark.parametrize(
    "short_first, first",
    [
        pytest.param(0.25, "l-1", id="a quarter: 100^0.25 = 3.2 is not worth four cores to one"),
        pytest.param(0.5, "s-1", id="a half: 100^0.5 = 10 is"),
    ],
)
def test_what_a_queue_holds_still_counts(short_first: float, first: str):
    """The queue of short jobs holds three of four cores when one becomes free."""
    held = [job("s-held", "short", cpu=3, at=200, runtime=1500), job("z", "other", cpu=1, at=200, runtime=100)]
    waiting = [job("l-1", "long", cpu=1, at=210, runtime=1), job("s-1", "short", cpu=1, at=210, runtime=1)]

    assert told(short_first, *TAUGHT, *held, *waiting).started(at=300)[0] == first


def test_what_a_job_will_run_for_is_not_known_before():
    """Only what has ended counts: the queue called long is the shorter one by then, whatever comes."""
    ended = [job("l-0", "long", cpu=1, runtime=1), job("s-0", "short", cpu=1, runtime=100)]
    all_of_it = job("z", "other", cpu=4, at=200, runtime=100)
    waiting = [job("l-1", "long", cpu=4, at=210, runtime=900), job("s-1", "short", cpu=4, at=210, runtime=1)]

    assert told(1, *ended, all_of_it, *waiting).started(at=300) == ["l-1"]


@pytest.mark.parametrize(
    "short_first, happens, habit",
    [
        pytest.param(1, [], Habit(ends=1, mean_ms=100_000), id="a job that ended is counted"),
        pytest.param(0, [], NO_HABIT, id="nothing is counted where nobody asks"),
        pytest.param(
            1,
            [{"at": 30, "failTask": "l-0/main-0"}],
            Habit(ends=1, mean_ms=30_000),
            id="so is one that failed by itself",
        ),
        pytest.param(1, [{"at": 50, "cancel": "l-0"}], NO_HABIT, id="who was cancelled says nothing of others"),
        pytest.param(
            1,
            [{"at": 40, "removeNode": "n"}, {"at": 50, "addNodes": {"cluster": "east", "nodes": [NEW]}}],
            Habit(ends=1, mean_ms=100_000),
            id="an attempt that was lost is no end, and the next one counts from its own start",
        ),
    ],
)
def test_what_is_learned(short_first: float, happens: list[dict[str, Any]], habit: Habit):
    once = job("l-0", "long", cpu=1, runtime=100)

    ended = told(short_first, once, job("later", "long", at=1000, runtime=600), events=happens)

    states = {state.queue.name: state for state in ended.snapshot(at=1500).queues}
    assert states["long"].habit == habit


def test_an_attempt_that_failed_and_is_tried_again_counts_as_the_next_one_does():
    once = job("l-0", "long", cpu=1, runtime=100, retries=1)

    ended = told(1, once, job("later", "long", at=1000), events=[{"at": 30, "failTask": "l-0/main-0"}])

    (state,) = ended.snapshot(at=1500).queues
    assert state.habit == Habit(ends=2, mean_ms=65_000)


def test_of_many_jobs_the_last_ones_count_most():
    habit = NO_HABIT
    for _ in range(1000):
        habit = habit.after(10 * MINUTE_MS)
    assert habit == Habit(ends=256, mean_ms=10 * MINUTE_MS)

    for _ in range(256):
        habit = habit.after(0)

    assert habit.ends == 256
    assert 3 * MINUTE_MS < habit.mean_ms < 4 * MINUTE_MS  # (255/256)^256 = 0.37 of what it was


@pytest.mark.parametrize(
    "short_first, habit, part",
    [
        pytest.param(0, Habit(ends=1, mean_ms=100_000), 1, id="not asked for: the weight itself"),
        pytest.param(1000, Habit(ends=1, mean_ms=1000), 1, id="a second"),
        pytest.param(1000, Habit(ends=1, mean_ms=3), 1, id="less counts as a second"),
        pytest.param(1000, Habit(ends=1, mean_ms=100_000), 100, id="a hundred seconds"),
        pytest.param(500, Habit(ends=1, mean_ms=100_000), 10, id="their square root"),
        pytest.param(1000, NO_HABIT, 600, id="nobody has ended: what unknown run times are taken for"),
    ],
)
def test_flow_is_compared_per_weight_and_usual_run_time(short_first: int, habit: Habit, part: int):
    policy = Policy(short_first=short_first)

    compared = policy.per_weight(8 * MICRO, 2 * MICRO, habit)

    assert float(compared) == pytest.approx(4 * part, rel=1e-4)
