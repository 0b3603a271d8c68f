"""Reservations that rest on guesses keep their nodes and their start; higher classes may take them (design.md 4.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from story import Story, gang, job, story, world

from muster.model.jobs import Reservation
from muster.model.plan import Admit, Promise

QUIET = {"overShare": "off", "preemption": "off"}
HOUR = 3600


def told(cores: Iterable[int], jobs: Iterable[dict[str, Any]], until: int, **config: Any) -> Story:
    nodes = [{"name": f"n{number}", "cpu": cpu} for number, cpu in enumerate(cores)]
    return story(
        world(nodes=nodes, jobs=list(jobs), config=QUIET | config, until=until, priorityClasses={"high": 1000})
    )


def stream(runtime: int, until: int, **rest: Any) -> list[dict[str, Any]]:
    """One-core jobs of queue S, four at a time; nobody says how long they run."""
    return [job(f"s-{at}", "S", at=at, runtime=runtime, count=4, **rest) for at in range(60, until, runtime // 2)]


def promised(told: Story, name: str) -> list[Reservation]:
    """What the job was promised, one after the other."""
    actions = [action for _, plan in told.turns for action in plan.actions if isinstance(action, Admit | Promise)]
    return [it.reservation for it in actions if it.job == name and it.reservation is not None]


def nodes(reservation: Reservation) -> set[str]:
    return {task.node for task in reservation.tasks}


# --- drains ---------------------------------------------------------------------------------------


def test_a_gang_gets_its_nodes_beside_a_stream_of_jobs_of_unknown_run_time() -> None:
    first = [job(f"f-{n}", "F", runtime=1000 * n) for n in range(1, 9)]

    starts = told([4, 4], [*first, gang("big", 1, "G", cpu=4, at=50), *stream(3000, 20_000)], 20_000).starts()

    assert starts["big"] <= 8000  # the longest of those that ran at first


def test_the_guess_does_not_slide() -> None:
    """Everyone's run time is unknown, and others come and go on the node that is not drained."""
    first = [job(f"f-{n}", "F", runtime=5000) for n in range(2)]

    story_ = told([2, 4], [*first, gang("big", 1, "G", cpu=6, at=50), *stream(400, 4000)], 1000, reservations=1)
    assert promised(story_, "big") == []  # it fits no node at all

    story_ = told([4, 4], [*first, job("wide", "G", cpu=4, at=50, count=2), *stream(400, 4000)], 4000)
    assert len({it.start_ms for it in promised(story_, "wide-1")}) <= 1


def test_a_drain_goes_to_a_node_where_fewer_have_still_to_end() -> None:
    """Four one-core jobs on one node, one of four cores on the other, which no guess tells from them."""
    first = [job(f"f-{n}", "F", runtime=9000) for n in range(4)]

    story_ = told([4, 4], [*first, job("whole", "F", cpu=4, at=1, runtime=2000), job("big", "G", cpu=4, at=50)], 10_000)

    assert [nodes(it) for it in promised(story_, "big")][-1] == {"n1"}
    assert story_.starts()["big"] == 2001


def test_an_exchange_makes_progress_and_ties_keep() -> None:
    first = [job(f"f-{n}", "F", runtime=1000 * (n + 1)) for n in range(8)]

    story_ = told([4, 4], [*first, job("big", "G", cpu=4, at=50)], 9000)

    assert len({frozenset(nodes(it)) for it in promised(story_, "big")}) == 1


@pytest.mark.parametrize(
    "preemption, passed",
    [
        pytest.param("on", True, id="who may be evicted in time passes until its start"),
        pytest.param("off", False, id="who may not be evicted does not pass at all"),
    ],
)
def test_short_lifetimes_do_not_pass_the_head_for_ever(preemption: str, passed: bool) -> None:
    head = job("big", "G", cpu=4, at=50, runtime=100)
    short = stream(5000, 9000, lifetime="5m")

    starts = told([4], [job("f", "F", cpu=2, runtime=4000), head, *short], 9000, preemption=preemption).starts()

    assert starts["big"] == 4000
    assert bool([name for name, at in starts.items() if name.startswith("s-") and at < 4000]) == passed
    assert not [name for name, at in starts.items() if name.startswith("s-") and 1000 <= at < 4000]


def test_jobs_of_lifetime_zero_use_what_a_drain_waits_with_and_leave_at_once() -> None:
    head = job("big", "G", cpu=4, at=50, runtime=100)
    late = [job("zero", "S", at=3000, runtime=5000, count=2, lifetime=0), job("long", "S", at=3000, lifetime="1h")]

    story_ = told([4], [job("f", "F", cpu=2, runtime=4000), head, *late], 5000, preemption="on")

    starts = story_.starts()
    assert (starts["zero-0"], starts["zero-1"], starts["big"]) == (3000, 3000, 4000)
    assert "long" not in starts or starts["long"] > 4000
    assert sorted(story_.preempted(at=4000)) == ["zero-0", "zero-1"]


def test_a_drain_stays_when_another_queue_comes_first() -> None:
    """A queue that has had nothing yet is ahead of it from 100 s on, with jobs that could take each core as it ends."""
    first = [job(f"f-{n}", "G", runtime=500 * (n + 1)) for n in range(4)]
    others = [job(f"o-{at}", "O", at=at, runtime=3000) for at in range(100, 3000, 50)]

    assert told([4], [*first, job("big", "G", cpu=4, at=50), *others], 3000).starts()["big"] == 2000


def test_a_drain_is_given_up_with_its_job() -> None:
    held = [{"at": 100, "cancel": "big"}]
    first = [job(f"f-{n}", "F", runtime=500 * (n + 1)) for n in range(4)]
    late = job("late", "S", at=200, runtime=100)
    nodes_ = [{"name": "n", "cpu": 4}]

    story_ = story(
        world(nodes=nodes_, jobs=[*first, job("big", "G", cpu=4, at=50), late], config=QUIET, events=held, until=3000)
    )

    assert story_.starts()["late"] == 500


# --- classes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "of_low, starts",
    [
        pytest.param({"timeLimit": 11 * HOUR}, 100, id="of a firm reservation"),
        pytest.param({}, 100, id="of a drain"),
        pytest.param({"priorityClass": "high"}, 10_000, id="but not of one of its own class"),
    ],
)
def test_a_higher_class_takes_the_nodes_of_a_reservation(of_low: dict[str, Any], starts: int) -> None:
    """Two cores are free, and the low job has them and two more promised for when the first job ends."""
    ends = {} if not of_low else {"timeLimit": 10_000}
    first = job("first", "F", cpu=2, runtime=10_000, **ends)
    low = job("low", "L", cpu=4, at=50, runtime=100, **of_low)
    high = job("high", "H", cpu=2, at=100, runtime=30_000, priorityClass="high")

    assert told([4], [first, low, high], 20_000).starts()["high"] == starts + (100 if starts > 100 else 0)


def test_who_was_promised_a_node_that_a_higher_class_takes_is_promised_others_at_once() -> None:
    first = [
        job("f-0", "F", cpu=3, runtime=10_000, timeLimit=10_000),
        job("f-1", "F", cpu=4, runtime=15_000, timeLimit=15_000),
    ]
    low = job("low", "L", cpu=4, at=50, runtime=100, timeLimit=100)
    high = job("high", "H", at=100, runtime=30_000, priorityClass="high")

    story_ = told([4, 4], [*first, low, high], 40_000)

    before, after = promised(story_, "low")
    assert nodes(before) != nodes(after)
    assert (story_.starts()["high"], story_.starts()["low"]) == (100, 15_000)


def test_after_twice_the_ageing_time_a_reservation_yields_to_nobody() -> None:
    """A stream of a higher class takes each core that ends, until the low job has waited for two hours."""
    first = [job(f"f-{n}", "F", runtime=500 * (n + 1)) for n in range(4)]
    low = job("low", "L", cpu=4, at=50, runtime=100)
    high = [job(f"h-{at}", "H", at=at, runtime=2000, priorityClass="high") for at in range(60, 12_000, 400)]

    starts = told([4], [*first, low, *high], 12_000, agingAfter="1h").starts()

    assert 2 * HOUR < starts["low"] <= 50 + 2 * HOUR + 2000


@pytest.mark.parametrize(
    "gpu_first, starts",
    [
        pytest.param("on", 100, id="which comes first on nodes with GPUs"),
        pytest.param("off", 10_100, id="unless it does not, by policy"),
    ],
)
def test_a_reservation_of_a_job_without_gpus_leaves_gpu_nodes_to_a_gpu_job(gpu_first: str, starts: int) -> None:
    node = {"name": "g", "cpu": 8, "gpu": 4}
    first = job("first", "F", cpu=6, runtime=10_000, timeLimit=10_000)
    cores = job("cores", "C", cpu=8, at=50, runtime=100, timeLimit=100)
    gpus = job("gpus", "G", cpu=1, gpu=4, at=100, runtime=30_000, timeLimit=30_000)

    told = story(world(nodes=[node], jobs=[first, cores, gpus], config=QUIET | {"gpuFirst": gpu_first}, until=40_000))

    assert told.starts()["gpus"] == starts
