"""Preemption for fairness pays: it takes what it may keep, and each eviction protects for longer (design.md 4.6)."""

from __future__ import annotations

from typing import Any

import pytest
from story import Story, job, single, story, world

from muster.model.plan import Start

HOUR = 3600


def told(cpu: int, jobs: list[dict[str, Any]], until: float, **rest: Any) -> Story:
    config = {"overShare": "off", "reservations": 0}
    return story(world(nodes=[{"name": "n", "cpu": cpu}], jobs=jobs, config=config, until=until, **rest))


# --- hysteresis -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "held, size, evicted",
    [
        pytest.param(2, 2, 2, id="a queue that stays within its half takes what it wants"),
        pytest.param(2, 3, 0, id="one that would come above it takes nothing"),
        pytest.param(0, 4, 4, id="one that holds nothing takes all its half"),
        pytest.param(0, 5, 0, id="however large its head, it leaves others their half"),
    ],
)
def test_a_queue_takes_only_what_it_may_keep(held: int, size: int, evicted: int) -> None:
    mine = [job("b-held", "B", cpu=held, lifetime="10h")] if held else []
    theirs = single("A", 8 - held, at=1)

    story_ = told(8, [*mine, theirs, job("head", "B", cpu=size, at=100)], 200)

    assert len(story_.preempted(at=100)) == evicted


def test_one_that_holds_nothing_may_come_above_its_part_with_what_two_queues_spare() -> None:
    """Twelve cores, four for each queue: A and C hold six, and B wants four of what they have too much."""
    story_ = told(12, [single("A", 6), single("C", 6), job("head", "B", cpu=4, at=100)], 200)

    assert sorted(name[0] for name in story_.preempted(at=100)) == ["a", "a", "c", "c"]


@pytest.mark.parametrize(
    "lifetime, starts",
    [
        pytest.param("1h", HOUR, id="its only job goes for one as large that lacks no less"),
        pytest.param(None, None, id="not if it has no lifetime"),
    ],
)
def test_jobs_of_the_whole_fleet_take_turns(lifetime: str | None, starts: float | None) -> None:
    rest = {"lifetime": lifetime} if lifetime else {}

    story_ = told(4, [job("a", "A", cpu=4, **rest), job("b", "B", cpu=4, at=100, **rest)], 2 * HOUR)

    assert story_.starts().get("b") == starts


# --- protection that doubles ----------------------------------------------------------------------


def protected(lifetime: Any, hours: int) -> list[float]:
    """For how long each attempt of a job of the whole fleet ran that others of a queue took the place of, in hours."""
    others = job("b", "B", cpu=4, at=100, count=40, runtime=HOUR)
    log = told(4, [job("a", "A", cpu=4, lifetime=lifetime), others], hours * HOUR).log
    starts = [line["t"] for line in log if line["event"] == "started" and line["job"] == "a"]
    ends = [line["t"] for line in log if line["event"] == "preempted" and line["job"] == "a"]
    return [(end - start) / HOUR for start, end in zip(starts, ends, strict=False)]


def test_each_eviction_for_fairness_doubles_what_protects_a_job() -> None:
    assert protected("1h", 24)[:4] == [1, 2, 4, 8]


def test_it_doubles_six_times_at_most() -> None:
    assert max(protected("1m", 40)) == 64 / 60


def test_a_lifetime_of_zero_stays_zero() -> None:
    assert max(protected(0, 24)[1:]) <= 60 / HOUR


def test_a_budget_is_charged_for_the_lifetime_as_declared() -> None:
    queues = [{"name": "A", "excessBudget": 10_000}, {"name": "B"}]
    others = job("b", "B", cpu=4, at=100, count=40, runtime=HOUR)

    story_ = told(4, [job("a", "A", cpu=4, lifetime="1h"), others], 24 * HOUR, queues=queues)

    starts = [it for _, plan in story_.turns for it in plan.actions if isinstance(it, Start) and it.job == "a"]
    assert len(starts) > 2
    assert len({start.charge for start in starts}) == 1


def test_why_tells_from_when_on_a_job_may_be_preempted_as_it_is_now() -> None:
    both = [job(name, name.upper(), cpu=4, at=at, lifetime="1h") for name, at in (("a", 0), ("b", 100))]

    story_ = told(4, both, 2.5 * HOUR)

    (run,) = story_.simulation.state.running.values()
    assert (run.job.id, run.job.lifetime_ms, run.job.doublings) == ("a", 2 * HOUR * 1000, 1)
