"""How wide elastic jobs run, told as small stories; every turn is held to the independent checker."""

from __future__ import annotations

import pytest
from story import job, story, world
from worlds import ms

from muster.model.calendar import DAY_MS, Window
from muster.model.resources import Resources

OFF = {"overShare": "off"}
PEACE = {**OFF, "preemption": "off"}


def elastic(name, least, most, *, initial=None, queue="A", asks=None, **fields):
    """An elastic job of one group of workers."""
    group = {"name": "w", "min": least, "initial": initial or least, "max": most, **(asks or {"cpu": 1})}
    return {"name": name, "queue": queue, "groups": [group], **fields}


def nodes(cpu, count=1, **more):
    """Nodes of one kind."""
    return [{"name": "n", "count": count, "cpu": cpu, **more}]


def widths(told, at=None):
    """How wide each running job is."""
    return {name: told.width(name, at) for name in told.running(at)}


def changes(told, name):
    """When the job's width changed, and to what."""
    return [(line["t"], line["to"]) for line in told.log if line["event"] == "resized" and line["job"] == name]


# --- growth -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "jobs, more, expected",
    [
        pytest.param([elastic("a", 1, 8)], {}, {"a": 8}, id="alone it takes all there is"),
        pytest.param([elastic("a", 1, 4)], {}, {"a": 4}, id="but no more than its max"),
        pytest.param([elastic("a", 1, 8), elastic("b", 1, 8)], {}, {"a": 4, "b": 4}, id="two of a level take turns"),
        pytest.param(
            [elastic("a", 1, 8), elastic("b", 1, 8, queue="B")],
            {"queues": [{"name": "A", "quota": {"cpu": 2}}, {"name": "B"}]},
            {"a": 2, "b": 6},
            id="no further than the quota of the queue",
        ),
        pytest.param(
            [elastic("a", 1, 8, user="u"), elastic("b", 1, 8, user="v")],
            {"users": {"u": {"quota": {"cpu": 3}}}},
            {"a": 3, "b": 5},
            id="no further than the quota of the user",
        ),
        pytest.param(
            [elastic("a", 1, 8), elastic("b", 1, 8, queue="B")],
            {"queues": [{"name": "A", "cordoned": False}, {"name": "B"}], "events": [{"at": 1, "cordonQueue": "A"}]},
            {"a": 1, "b": 7},
            id="a cordoned queue gets nothing more",
        ),
        pytest.param(
            [elastic("a", 1, 8), elastic("b", 1, 8, queue="B")],
            {"queues": [{"name": "A"}, {"name": "B", "weight": 3}]},
            {"a": 2, "b": 6},
            id="queues below their entitled share come first",
        ),
        pytest.param(
            [elastic("a", 1, 8, asks={"cpu": 1, "maxHops": 0}), job("b", "B", cpu=4)],
            {},
            {"a": 4, "b": 1},
            id="tasks that must stay on one node do",
        ),
    ],
)
def test_growth(jobs, more, expected):
    told = story(world(nodes=nodes(8), config=OFF, jobs=jobs, until=30, **more))

    assert widths(told) == expected


def test_close_groups_grow_only_where_they_are_near():
    machines = [{"name": "n", "count": 4, "cpu": 2, "topology": "s/l{i//2}"}]

    told = story(world(nodes=machines, jobs=[elastic("a", 1, 8, asks={"cpu": 1, "maxHops": 2})], until=10))

    assert told.width("a") == 4
    assert told.nodes_of("a") == ["n-0", "n-1"]


def test_of_several_groups_the_one_furthest_from_its_max_grows():
    groups = [
        {"name": "few", "min": 1, "initial": 1, "max": 3, "cpu": 1},
        {"name": "many", "min": 1, "initial": 1, "max": 9, "cpu": 1},
    ]

    told = story(world(nodes=nodes(8), config=OFF, jobs=[{"name": "a", "queue": "A", "groups": groups}], until=10))

    assert sorted(task.partition("-")[0] for task in told.tasks()["a"]) == ["few"] * 3 + ["many"] * 5


def test_widths_may_be_left_alone():
    told = story(world(nodes=nodes(8), config={**OFF, "elasticEvery": "off"}, jobs=[elastic("a", 1, 8)], until=600))

    assert told.events("resized") == []


def test_growth_uses_promised_room_only_until_it_can_shrink_again():
    jobs = [
        job("busy", "A", cpu=4, runtime=1200, expectedRuntime=1200),
        job("whole", "B", at=1, cpu=8, runtime=60, expectedRuntime=60),
        elastic("patient", 1, 4, queue="C", at=2, freezingWindow="40m", lifetime=0, runtime={"work": "8h"}),
        elastic("quick", 1, 4, queue="C", at=2, freezingWindow="5m", lifetime=0, runtime={"work": "8h"}),
    ]

    told = story(world(nodes=nodes(8, count=2), config=OFF, jobs=jobs, until=1300))

    assert told.starts()["whole"] in (1.0, 1200.0)
    assert told.preempted() == []


# --- shrinking ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "comer, expected",
    [
        pytest.param(job("new", "B", at=400, cpu=1), {"a": 7, "new": 1}, id="as few as are enough"),
        pytest.param(job("new", "B", at=400, cpu=6), {"a": 2, "new": 1}, id="down to its min"),
        pytest.param(job("new", "B", at=400, cpu=7), {"a": 8}, id="not at all if that would not do"),
        pytest.param(job("new", "B", at=200, cpu=1), {"a": 8}, id="not within its window"),
    ],
)
def test_shrinking_for_a_job_that_waits(comer, expected):
    jobs = [elastic("a", 2, 8), comer]

    told = story(world(nodes=nodes(8), config=PEACE, jobs=jobs, until=comer["at"] + 1))

    assert widths(told) == expected
    assert told.preempted() == []


def test_who_waits_for_a_window_to_end_starts_when_it_does():
    jobs = [elastic("a", 2, 8), job("new", "B", at=200, cpu=1)]

    told = story(world(nodes=nodes(8), config=PEACE, jobs=jobs, until=400))

    assert told.starts()["new"] == 305
    assert changes(told, "a") == [(5, 8), (305, 7)]


def test_jobs_in_a_silent_cluster_are_left_alone():
    events = [{"at": 350, "silentCluster": {"name": "east", "for": "10m"}}]
    jobs = [elastic("a", 2, 8), job("new", "B", at=400, cpu=1)]

    told = story(world(nodes=nodes(8), config=OFF, jobs=jobs, events=events, until=500))

    assert widths(told) == {"a": 8}


def test_a_lost_node_makes_a_job_narrower_and_starts_its_window_anew():
    events = [{"at": 100, "removeNode": "n-1"}, {"at": 200, "addNodes": {"cluster": "east", "nodes": nodes(4)}}]

    told = story(world(nodes=nodes(4, count=2), config=OFF, jobs=[elastic("a", 2, 8)], events=events, until=500))

    assert changes(told, "a") == [(5, 8), (100, 4), (400, 8)]


# --- evening out --------------------------------------------------------------------------------


def test_a_change_of_level_is_felt_within_a_minute():
    """What was given before it stays as it is: only what comes from then on counts by the new level."""
    jobs = [elastic("a", 1, 8, initial=4), elastic("b", 1, 8, initial=4)]
    events = [{"at": 600, "setJob": {"name": "b", "level": "Production"}}]

    told = story(world(nodes=nodes(8), config=OFF, jobs=jobs, events=events, until=660))

    assert widths(told, at=604) == {"a": 4, "b": 4}
    assert widths(told) == {"a": 1, "b": 7}


def test_the_same_level_and_width_is_left_as_it_is():
    told = story(world(nodes=nodes(8), config=OFF, jobs=[elastic("a", 1, 8), elastic("b", 1, 8)], until="4h"))

    assert widths(told) == {"a": 4, "b": 4}
    assert len(told.events("resized")) == 2


# --- work ---------------------------------------------------------------------------------------


def test_work_is_done_sooner_the_wider_a_job_runs():
    jobs = [elastic("a", 1, 4, runtime={"work": "400s"}), job("b", "B", cpu=2, runtime=55)]

    told = story(world(nodes=nodes(4), config=OFF, jobs=[{**jobs[0], "freezingWindow": "10s"}, jobs[1]]))

    # 5 s with one task, 50 s with two, then four: 5 + 100 + 4 × (end − 55) = 400
    assert changes(told, "a") == [(5, 2), (55, 4)]
    assert [line["t"] for line in told.log if line["event"] == "succeeded" and line["job"] == "a"] == [128.75]


def test_work_begins_anew_after_an_attempt_was_lost():
    events = [{"at": 50, "removeNode": "n"}, {"at": 60, "addNodes": {"cluster": "east", "nodes": nodes(1)}}]

    told = story(world(nodes=nodes(1), jobs=[elastic("a", 1, 2, runtime={"work": "100s"})], events=events))

    assert [line["t"] for line in told.log if line["event"] == "succeeded"] == [160.0]


# --- the calendar -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "moment, in_force, next_edge",
    [
        pytest.param(0, False, ms(hours=7, minutes=50), id="at night it is not in force"),
        pytest.param(ms(hours=7, minutes=50), True, ms(hours=20), id="ahead of its opening it is"),
        pytest.param(ms(hours=20), False, DAY_MS + ms(hours=7, minutes=50), id="at its end no more"),
        pytest.param(5 * DAY_MS + ms(hours=9), False, 7 * DAY_MS + ms(hours=7, minutes=50), id="nor at the weekend"),
    ],
)
def test_a_window_of_the_week(moment, in_force, next_edge):
    window = Window(
        cluster="east",
        days=frozenset(range(5)),
        from_ms=ms(hours=8),
        to_ms=ms(hours=20),
        withhold=Resources.of({"cpu": 1}),
        ahead_ms=ms(minutes=10),
    )

    assert window.in_force(moment) == in_force
    assert window.next_edge_ms(moment) == next_edge


def test_a_window_may_go_on_past_midnight():
    window = Window(
        cluster="east", days=frozenset({6}), from_ms=ms(hours=22), to_ms=ms(hours=6), withhold=Resources.of({"cpu": 1})
    )

    assert window.in_force(6 * DAY_MS + ms(hours=23))
    assert window.in_force(7 * DAY_MS + ms(hours=5))
    assert not window.in_force(7 * DAY_MS + ms(hours=6))


@pytest.mark.parametrize(
    "jobs, starts",
    [
        pytest.param([job("a", cpu=4)], {"a": 0.0}, id="what is left is for us"),
        pytest.param([job("a", cpu=5)], {"a": 600.0}, id="what is withheld is not"),
        pytest.param(
            [job("a", cpu=1, count=5)], {f"a-{n}": 0.0 for n in range(4)} | {"a-4": 600.0}, id="nor bit by bit"
        ),
    ],
)
def test_withheld_room_is_not_for_those_who_start(jobs, starts):
    calendar = [{"from": "00:00", "to": "00:10", "withhold": {"cpu": 4}}]

    told = story(world(nodes=nodes(8), config=OFF, calendar=calendar, jobs=jobs, until=700))

    assert told.starts() == starts


# --- cores beside GPUs --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gpu_jobs, running",
    [
        pytest.param(0, 4, id="two cores are left for each of two idle GPUs"),
        pytest.param(1, 4, id="a GPU job uses its own"),
        pytest.param(2, 4, id="and so do two"),
    ],
)
def test_jobs_without_gpus_leave_cores_for_idle_ones(gpu_jobs, running):
    jobs = [job("small", "B", count=8, at=1)]
    if gpu_jobs:
        jobs.append(job("train", "A", count=gpu_jobs, gpu=1))

    told = story(world(nodes=nodes(8, gpu=2), config={**OFF, "coresPerGpu": 2, "reservations": 0}, jobs=jobs, until=10))

    assert told.running_by_queue()["B"] == running
    assert told.reason("small-4") == "NO_ROOM"
    assert told.facts("small-4")["dimension"] == "cpu"
