"""cases.md 2.3 and 2.6: whose job starts next. Nodes of 32 CPUs and 256 GiB, jobs of 1 CPU and 4 GiB."""

from __future__ import annotations

import pytest
from story import job, single, small, story, world

from muster.sim.scenario.problems import ScenarioError

WHOLE = {"cpu": 32, "lifetime": 0}


# --- empty cluster ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nodes, queues, placed, reason",
    [
        pytest.param(1, {"A": (1, 33)}, {"A": 32}, "RESERVED", id="PF-1 one node takes 32 of 33"),
        pytest.param(1, {"A": (1, 32), "B": (1, 32)}, {"A": 16, "B": 16}, "RESERVED", id="PF-2 equal queues halve it"),
        pytest.param(
            1,
            {"A": (1, 32), "B": (1, 32), "C": (1, 32)},
            {"A": 11, "B": 11, "C": 10},
            "NO_ROOM",
            id="PF-3 the odd slots go by name",
        ),
        pytest.param(
            3, {"A": (1, 96), "B": (0.5, 96)}, {"A": 64, "B": 32}, "RESERVED", id="PF-4 half the weight, half the slots"
        ),
    ],
)
def test_progressive_filling(nodes, queues, placed, reason):
    """A queue's factor is one over its weight. Who comes next and does not fit is told why."""
    told = story(
        world(
            nodes=nodes,
            queues=[{"name": name, "weight": weight} for name, (weight, _) in queues.items()],
            jobs=[small(name, count) for name, (_, count) in queues.items()],
            until=10,
        )
    )

    assert told.running_by_queue() == placed
    assert told.starts().keys() == set(told.running())
    assert told.reason(f"a-{placed['A']}") == reason


@pytest.mark.parametrize(
    "held, placed",
    [
        pytest.param(0, {"A": 16, "B": 16}, id="PF-6 who holds nothing elsewhere gets half"),
        pytest.param(100, {"A": 0, "B": 32}, id="PF-6 who holds 100 CPUs elsewhere gets nothing here"),
    ],
)
def test_what_a_queue_holds_elsewhere_counts(held, placed):
    elsewhere = [job("elsewhere", "A", cpu=held, cluster="west", lifetime=0)] if held else []

    told = story(
        world(
            clusters=[
                {"name": "east", "nodes": [{"name": "n", "cpu": 32, "memory": "256Gi"}]},
                {"name": "west", "nodes": [{"name": "w", "cpu": 100}]},
            ],
            jobs=[*elsewhere, small("A", 32, at=10, cluster="east"), small("B", 32, at=10, cluster="east")],
            until=10,
        )
    )
    here = [name for name in told.running() if name != "elsewhere"]

    assert {queue: sum(told.queue_of(name) == queue for name in here) for queue in placed} == placed


# --- jobs that do not fit -----------------------------------------------------------------------


BETWEEN_BIG_ONES = [
    small("A", 1, "first", priority=2),
    job("big", "A", count=10, priority=1, **WHOLE),
    small("A", 1, "last"),
]


@pytest.mark.parametrize(
    "config, last, running, reason",
    [
        pytest.param({"reservations": 0}, {}, ["first-0", "last-0"], None, id="PF-8 greedy: big ones block nobody"),
        pytest.param(
            {}, {"expectedRuntime": "10m"}, ["first-0", "last-0"], None, id="PF-8 who ends in time passes the big one"
        ),
        pytest.param({}, {}, ["first-0"], "WOULD_DELAY", id="PF-8 who might not end would delay the big one"),
    ],
)
def test_who_passes_jobs_that_do_not_fit(config, last, running, reason):
    jobs = [*BETWEEN_BIG_ONES[:2], BETWEEN_BIG_ONES[2] | {"lifetime": "1h"} | last]

    told = story(world(nodes=1, config=config, jobs=jobs, until=0))

    assert told.running() == running
    assert told.reason("big-0") == ("RESERVED" if not config else "NO_ROOM")
    assert told.reasons("big-1") == (["NO_ROOM"] if not config else [])  # one look per profile and turn
    assert told.reason("last-0") == reason


@pytest.mark.parametrize(
    "shapes, looked_at",
    [
        pytest.param(3, True, id="PF-9 three shapes that do not fit hide nobody"),
        pytest.param(99, True, id="PF-9 nor do 99"),
        pytest.param(100, False, id="PF-9 behind 100 shapes nobody is looked at"),
    ],
)
def test_a_turn_looks_100_profiles_deep(shapes, looked_at):
    jobs = [
        small("A", 1, "first", priority=2),
        *(job(f"big-{index}", "A", cpu=32, memory=f"{index + 1}Gi", priority=1) for index in range(shapes)),
        small("A", 1, "last"),
    ]

    told = story(world(nodes=1, config={"reservations": 0}, jobs=jobs, until=0))

    assert told.reason(f"big-{shapes - 1}") == "NO_ROOM"
    assert ("last-0" in told.running()) == looked_at
    assert told.reasons("last-0") == []


@pytest.mark.parametrize(
    "others, looked_at",
    [
        pytest.param(98, "new", id="up to there a new profile is looked at"),
        pytest.param(99, "", id="and then only profiles of which longer jobs were"),
    ],
)
def test_at_its_depth_a_turn_still_looks_at_shorter_jobs_of_the_profiles_it_knows(others, looked_at):
    jobs = [
        job("now", "A", cpu=16, priority=9, expectedRuntime="1h"),
        job("big", "A", cpu=32, priority=8),  # room is kept for it in an hour
        *(job(f"other-{index}", "A", cpu=32, memory=f"{index + 1}Gi", priority=7) for index in range(others)),
        job("long", "A", cpu=4, priority=6, expectedRuntime="2h"),
        job("new", "A", cpu=5, priority=5, expectedRuntime="10m"),
        job("short", "A", cpu=4, priority=4, expectedRuntime="10m"),
    ]

    told = story(world(nodes=1, jobs=jobs, until=0))

    assert told.reason("big") == "RESERVED"
    assert told.reason("long") == "WOULD_DELAY"
    assert told.running() == sorted(["now", "short", *filter(None, [looked_at])])


@pytest.mark.parametrize("winner", [pytest.param("p20", id="PF-10 the highest priority is the most urgent")])
def test_priority_orders_inside_a_queue(winner):
    jobs = [job(f"p{priority}", "A", priority=priority, **WHOLE) for priority in (10, 1, 20)]

    told = story(world(nodes=1, jobs=jobs, until=10))

    assert told.started() == [winner]
    assert (told.reason("p10"), told.reason("p1")) == ("RESERVED", "NO_ROOM")  # p10 is in line for good, and p1 next


# --- rate limits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config, by_turn, reason",
    [
        pytest.param({"startsPerTurn": 16}, [16, 16, 0], "RATE_LIMIT", id="PF-11 sixteen a turn, not one more"),
        pytest.param({"startsPerQueue": 16}, [16, 16, 0], "RATE_LIMIT", id="PF-11 the same for each queue"),
        pytest.param({}, [32, 0, 0], None, id="PF-11 without a limit all at once"),
    ],
)
def test_rate_limit_counts_starts(config, by_turn, reason):
    told = story(world(nodes=1, config=config, jobs=[small("A", 32)], until=2))

    assert [len(told.started(at=second)) for second in range(3)] == by_turn
    assert told.reason("a-16") == reason


@pytest.mark.parametrize(
    "by_turn",
    [
        pytest.param(
            [["first-0", "last-0"], ["last-1", "last-2"], ["last-3"]],
            id="PF-12 two a turn, whatever did not fit in between",
        )
    ],
)
def test_jobs_that_do_not_fit_use_up_no_rate(by_turn):
    jobs = [
        small("A", 1, "first", priority=2),
        job("big", "A", count=10, priority=1, **WHOLE),
        small("A", 4, "last"),
    ]

    told = story(world(nodes=1, config={"startsPerTurn": 2, "reservations": 0}, jobs=jobs, until=2))

    assert [told.started(at=second) for second in range(3)] == by_turn
    assert told.reason("last-1") == "RATE_LIMIT"
    assert told.reasons("last-3") == ["RATE_LIMIT"]


# --- order of sizes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes, first",
    [
        pytest.param({"A": 16, "B": 1}, "B", id="PF-15 the smaller head goes first, always"),
        pytest.param({"A": 1, "B": 16}, "A", id="PF-15 whatever the queues are called"),
    ],
)
def test_the_smaller_head_goes_first(sizes, first):
    jobs = [job(queue.lower(), queue, cpu=cpus, lifetime=0) for queue, cpus in sizes.items()]

    told = story(world(nodes=[{"name": "n", "cpu": 16}], jobs=jobs, until=10))

    assert told.started() == [first.lower()]
    assert told.reason("b" if first == "A" else "a") == "RESERVED"


# --- what a queue deserves ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "running", [pytest.param({"A": 6, "B": 2}, id="PR-1 three to one on eight CPUs, as many as they ask")]
)
def test_weights_divide_a_node(running):
    told = story(
        world(
            nodes=[{"name": "n", "cpu": 8}],
            queues=[{"name": "A", "weight": 3}, {"name": "B", "weight": 1}],
            jobs=[job("a", "A", count=6), job("b", "B", count=2)],
            until=10,
        )
    )

    assert told.running_by_queue() == running
    assert told.evictions() == []


@pytest.mark.parametrize("tasks", [pytest.param({"q1": 1, "q2": 9}, id="PR-3 a gang runs on what others leave idle")])
def test_idle_room_may_be_used_beyond_the_share(tasks):
    gang = [{"name": "w", "count": 8, "cpu": "250m"}]
    told = story(
        world(
            nodes=[{"name": "n", "cpu": 4}],
            jobs=[
                job("one", "q1", cpu="250m"),
                job("two", "q2", cpu="250m"),
                job("gang", "q2", at=10, groups=gang),
            ],
            until=10,
        )
    )

    assert told.tasks_by_queue() == tasks
    assert told.starts()["gang"] == 10


@pytest.mark.parametrize(
    "name, reasons",
    [
        pytest.param("p4-2", ["QUOTA"], id="PR-4 the queue's P4s are used up"),
        pytest.param("v100", [], id="PR-4 its V100 job still runs"),
        pytest.param("plain", [], id="PR-4 its CPU job too"),
    ],
)
def test_a_quota_holds_back_only_who_asks_for_it(name, reasons):
    told = story(
        world(
            nodes=[{"name": "n", "cpu": 32, "nvidia.com/p4": 8, "nvidia.com/v100": 8}],
            queues=[{"name": "A", "quota": {"nvidia.com/p4": 2}}],
            jobs=[
                job("p4", "A", count=3, priority=1, **{"nvidia.com/p4": 1}),
                job("v100", "A", **{"nvidia.com/v100": 1}),
                job("plain", "A"),
            ],
            until=10,
        )
    )

    assert told.reasons(name) == reasons
    assert (name in told.running()) == (not reasons)


@pytest.mark.parametrize(
    "running",
    [pytest.param({"A": 2, "B": 25}, id="PR-6 much of one resource and little of the other fill side by side")],
)
def test_dimensions_fill_side_by_side(running):
    """A asks for more CPUs than its half and hardly any memory, B the other way round."""
    told = story(
        world(
            nodes=1,
            jobs=[
                job("a", "A", count=3, cpu=12, memory="1Gi", lifetime=0),
                job("b", "B", count=30, cpu="100m", memory="10Gi", lifetime=0),
            ],
            until=10,
        )
    )

    assert told.running_by_queue() == running


@pytest.mark.parametrize(
    "queue, problem",
    [pytest.param("nobody", "a queue of this file: A", id="AP-17 a job of an unknown queue is refused, not run")],
)
def test_a_job_needs_a_known_queue(queue, problem):
    with pytest.raises(ScenarioError, match=problem):
        story(world(jobs=[single(queue, 8)], queues=[{"name": "A"}]))


def test_whom_a_blocked_head_hides_has_no_turn_before_that_head():
    """A's second job, for which there is no room, stands before its third: B's head comes before both."""
    told = story(
        world(
            nodes=[{"name": "n", "cpu": 8}],
            config={"reservations": 0, "preemption": "off", "overShare": "off"},
            queues=[{"name": "A"}, {"name": "B"}, {"name": "C", "weight": 100}],
            jobs=[
                job("before", "C", cpu=4),
                job("full", "C", at=60, cpu=5),
                *(job(f"a-{cpu}-{at}", "A", at=at, cpu=cpu) for at, cpu in ((50, 1), (51, 5), (52, 1))),
                job("b", "B", at=60, cpu=3),
                job("long", "C", at=0, cpu=4, runtime=60),
            ],
            until=70,
        )
    )

    assert {"a-1-50", "b"} <= set(told.running())
    assert "a-1-52" not in told.running()
