"""Preemption for fairness pays: it takes what it may keep, and each eviction protects for longer (design.md 4.6)."""

from __future__ import annotations

from typing import Any

import pytest
from story import Story, job, single, story, world

from muster.model.jobs import Job, Profile
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


def test_the_only_job_of_a_queue_is_left_alone_by_one_as_large() -> None:
    """Whose turn it is goes by service; by shares the two would stop each other for ever."""
    both = [job(name, name.upper(), cpu=4, at=at, lifetime=0) for name, at in (("a", 0), ("b", 100))]

    assert told(4, both, 2 * HOUR).preempted() == []


# --- protection that doubles ----------------------------------------------------------------------


def two_halves(lifetime: Any, hours: float, **rest: Any) -> Story:
    """A holds four cores, of which a job of that lifetime has two; B has one of two cores for ten minutes at times."""
    hours_of_b = enumerate((0, 1.5, 4, 8, 16, 32, 64))
    others = [job(f"b-{n}", "B", cpu=2, at=100 + HOUR * at, runtime=600) for n, at in hours_of_b]
    mine = [job("keeps", "A", cpu=2), job("a", "A", cpu=2, lifetime=lifetime)]
    return told(4, [*mine, *others], hours * HOUR, **rest)


def protected(lifetime: Any, hours: int) -> list[float]:
    """For how long each attempt of a job ran that others took the place of, in hours."""
    log = two_halves(lifetime, hours).log
    starts = [line["t"] for line in log if line["event"] == "started" and line["job"] == "a"]
    ends = [line["t"] for line in log if line["event"] == "preempted" and line["job"] == "a"]
    return [(end - start) / HOUR for start, end in zip(starts, ends, strict=False)]


def test_each_eviction_for_fairness_doubles_what_protects_a_job() -> None:
    assert protected("1h", 60)[:4] == [1, 2, 4, 8]


def test_a_lifetime_of_zero_stays_zero() -> None:
    log = two_halves(0, 60).log

    waited = [line["t"] for line in log if line["event"] == "started" and line["job"].startswith("b-")]
    assert waited == [100 + HOUR * at for at in (0, 1.5, 4, 8, 16, 32)]


def test_it_doubles_six_times_at_most() -> None:
    job_ = Job(id="a", queue="A", profile=Profile(groups=()), lifetime_ms=60_000)

    assert job_.doubled(9).lifetime_ms == 64 * 60_000


def test_a_budget_is_charged_for_the_lifetime_as_declared() -> None:
    queues = [{"name": "A", "excessBudget": 10_000}, {"name": "B"}]

    story_ = two_halves("1h", 60, queues=queues)

    starts = [it for _, plan in story_.turns for it in plan.actions if isinstance(it, Start) and it.job == "a"]
    assert len(starts) > 2
    assert len({start.charge for start in starts} - {0}) == 1


def test_a_job_runs_with_the_lifetime_that_protects_it_now() -> None:
    run = two_halves("1h", 2).simulation.state.running["a"]

    assert (run.job.lifetime_ms, run.job.declared_lifetime_ms) == (2 * HOUR * 1000, HOUR * 1000)
