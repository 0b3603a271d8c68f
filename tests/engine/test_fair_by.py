"""Whose turn it is, by service: over hours nobody starves, and each queue gets its weight's part (design.md 4.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from worlds import World, a_job, a_world, ms

from muster.model import events as ev
from muster.model.policy import FairBy

MINUTE_MS = 60_000


def saturated(machines: int, fair_by: FairBy = FairBy.SERVICE, **policy: int) -> World:
    """Machines of one core each, and nothing of the past."""
    return a_world(fair_by=fair_by, over_share=None, **policy).with_node(count=machines, cpu=1)


def lines_up(world: World, queue: str, jobs: int, tasks: int = 1, weight: int = 1, **runs: float) -> World:
    """A queue with so many jobs in line, of lifetime 0, whose run times nobody knows."""
    if world.state.queue(queue) is None:
        world.with_queues(queue, weight=weight)
    many = (a_job(queue).cpu(1).tasks(tasks).lifetime().runs(**runs) for _ in range(jobs))
    return world.with_jobs(*many)


def starts(world: World, until_ms: int) -> Iterator[tuple[int, str]]:
    """Live on until that moment: when jobs of which queue start."""
    moment_ms: int | None = world.now_ms
    while moment_ms is not None and moment_ms < until_ms:
        for event in world.run.step(moment_ms).events:
            if isinstance(event, ev.JobStarted):
                yield moment_ms, event.job.split("-")[0]
        moment_ms = world.run.next_moment_ms()
    world.now_ms = until_ms


@pytest.mark.parametrize(
    "machines, weights, hours, expected",
    [
        pytest.param(1, {"a": 1, "b": 1}, 6, {"a": (18, 19), "b": (18, 19)}, id="two equal queues on one machine"),
        pytest.param(
            2, {"a": 1, "b": 3}, 6, {"a": (9, 10), "b": (27, 28)}, id="weights of 1 and 3, gangs of the whole fleet"
        ),
        pytest.param(
            4, dict.fromkeys("abcdef", 1), 6, dict.fromkeys("abcdef", (6, 7)), id="six equal queues on four machines"
        ),
    ],
)
def test_no_queue_of_whole_fleet_jobs_starves(
    machines: int, weights: dict[str, int], hours: int, expected: dict[str, tuple[int, int]]
) -> None:
    world = saturated(machines)
    for name, weight in weights.items():
        lines_up(world, name, 60, tasks=machines, weight=weight, minutes=10)

    counts = Counter(queue for _, queue in starts(world, ms(hours=hours)))

    for name, (least, most) in expected.items():
        assert least <= counts[name] <= most, (name, counts)


def test_a_gang_larger_than_its_queues_part_has_its_turn_beside_small_jobs() -> None:
    world = saturated(4)
    lines_up(world, "gangs", 9, tasks=3, minutes=30)
    for name in ("a", "b"):
        lines_up(world, name, 60, minutes=30)

    counts = Counter(queue for _, queue in starts(world, ms(hours=9)))

    assert counts["gangs"] * 3 >= 0.9 * (4 * 18) / 3, counts


def test_by_flow_the_first_name_wins_every_tie() -> None:
    world = saturated(1, FairBy.FLOW, reservations=0)
    for name in ("a", "b"):
        lines_up(world, name, 20, minutes=10)

    counts = Counter(queue for _, queue in starts(world, ms(hours=2)))

    assert counts == {"a": 12}


def test_a_newcomer_comes_first_for_a_while_only() -> None:
    world = lines_up(saturated(1), "old", 100, minutes=10)
    assert {queue for _, queue in starts(world, ms(hours=6))} == {"old"}
    lines_up(world, "new", 100, minutes=10)

    held, *order = [queue for _, queue in starts(world, ms(hours=12))]

    assert held == "old"  # it was promised the machine before anyone else came
    # Two half times of its half of the machine are 20 minutes, after which they take turns.
    first = order.index("old")
    assert order[:first] == ["new"] * first
    assert 2 <= first <= 4
    later = Counter(order[first:])
    assert abs(later["old"] - later["new"]) <= 1


def test_what_was_had_in_excess_is_remembered_by_a_queue_that_went_empty() -> None:
    world = lines_up(saturated(1), "a", 6, minutes=10)
    assert [queue for _, queue in starts(world, ms(minutes=30))] == ["a"] * 3
    lines_up(world, "b", 100, minutes=10)
    ended = [queue for _, queue in starts(world, ms(hours=3))]
    world.with_jobs(*(a_job("a").cpu(1).lifetime().runs(minutes=10) for _ in range(30)))

    held, *order = [queue for _, queue in starts(world, ms(hours=5))]

    assert (Counter(ended)["a"], held) == (3, "b")  # all it had; and b was promised the machine
    assert order[0] == "a"  # by now b has had more
    assert abs(Counter(order)["a"] - Counter(order)["b"]) <= 8


def test_a_queue_that_a_limit_closes_holds_no_place_in_line() -> None:
    world = saturated(2).with_queues("capped", quota={"cpu": 1000})
    lines_up(world, "capped", 4, minutes=600)
    for name in ("a", "b"):
        lines_up(world, name, 80, minutes=10)

    counts = Counter(queue for _, queue in starts(world, ms(hours=9)))

    assert counts["capped"] == 1
    assert abs(counts["a"] - counts["b"]) <= 1
    standing = {name: books.state().stands_since_ms for name, books in world.state.books.items()}
    assert standing["capped"] is None
    assert None not in (standing["a"], standing["b"])


def test_a_queue_of_jobs_that_never_fit_holds_no_place_in_line() -> None:
    world = lines_up(saturated(1), "huge", 2, tasks=5, minutes=10)
    lines_up(world, "a", 3, minutes=10).then()

    standing = {name: books.state().stands_since_ms for name, books in world.state.books.items()}

    assert standing == {"huge": None, "a": 0}


def test_a_queue_whose_weight_changes_stays_where_it_stands() -> None:
    world = saturated(1)
    for name in ("a", "b"):
        lines_up(world, name, 100, minutes=10)
    list(starts(world, ms(hours=4)))
    world.happens(ev.QueueChanged(queue="a", changes={"weight": 3_000_000}))

    counts = Counter(queue for _, queue in starts(world, ms(hours=12)))

    assert counts["a"] == pytest.approx(36, abs=1)
    assert counts["b"] == pytest.approx(12, abs=1)


def test_of_equals_the_one_whose_last_start_is_oldest_comes_first() -> None:
    world = saturated(1)
    for name in ("c", "b", "a"):
        lines_up(world, name, 10, minutes=10)

    order = [queue for _, queue in starts(world, ms(minutes=60))]

    assert order == ["a", "b", "c"] * 2
