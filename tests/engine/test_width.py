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


def test_a_freezing_window_may_be_said_anew_while_the_job_runs():
    more = {"at": 20, "addNodes": {"cluster": "east", "nodes": nodes(4, name="m")}}
    events = [more, {"at": 60, "setJob": {"name": "a", "freezingWindow": "30s"}}]
    jobs = [elastic("a", 1, 8, freezingWindow="1h")]

    told = story(world(nodes=nodes(4), config=OFF, jobs=jobs, events=events, until=600))

    assert changes(told, "a") == [(5, 4), (60, 8)]


def test_the_same_level_and_width_is_left_as_it_is():
    told = story(world(nodes=nodes(8), config=OFF, jobs=[elastic("a", 1, 8), elastic("b", 1, 8)], until="4h"))

    assert widths(told) == {"a": 4, "b": 4}
    assert len(told.events("resized")) == 2


@pytest.mark.parametrize("history", [pytest.param("1h", id="an hour"), pytest.param("10d", id="ten days")])
@pytest.mark.parametrize(
    "queue, level, expected",
    [
        pytest.param("A", "Production", {"old": 1, "new": 49}, id="Production has all but an Experiment's min"),
        pytest.param("A", "Experiment", {"old": 25, "new": 25}, id="jobs of a level come to halves"),
        pytest.param("B", "Production", {"old": 25, "new": 25}, id="each queue has its half, whatever the levels"),
        pytest.param("B", "Experiment", {"old": 25, "new": 25}, id="or none"),
    ],
)
def test_a_newcomer_is_as_wide_as_is_its_due_however_long_others_ran(history, queue, level, expected):
    since = {"1h": 3600, "10d": 864_000}[history]
    jobs = [elastic("old", 1, 50, level="Experiment"), elastic("new", 1, 50, queue=queue, level=level, at=since)]

    told = story(world(nodes=nodes(50), config=OFF, jobs=jobs, until=since + 3 * 300 + 60))

    assert widths(told) == expected


def test_a_queue_below_its_share_gets_its_width_in_one_round():
    jobs = [elastic("old", 1, 50), elastic("new", 1, 50, queue="B", at=3600)]

    told = story(world(nodes=nodes(50), config=OFF, jobs=jobs, until=4000))

    assert changes(told, "new") == [(3900, 25)]
    assert changes(told, "old")[-2:] == [(3600, 49), (3900, 25)]


def test_several_small_tasks_make_room_for_a_large_one():
    jobs = [elastic("old", 1, 32), elastic("new", 1, 4, queue="B", at=3600, asks={"cpu": 8})]

    told = story(world(nodes=nodes(16, count=2), config=OFF, jobs=jobs, until=4000))

    assert widths(told) == {"old": 16, "new": 2}


def test_a_newcomer_does_not_make_up_for_what_jobs_at_their_max_never_wanted():
    """`small` is served least, for it wants no more. Who comes after ten days begins where `wide` is."""
    jobs = [
        elastic("wide", 1, 30, level="Experiment"),
        elastic("small", 1, 3, level="Production"),
        elastic("new", 1, 30, level="Experiment", at=864_000),
    ]

    told = story(world(nodes=nodes(30), config=OFF, jobs=jobs, until=864_000 + 1800))

    assert widths(told) == {"wide": 14, "small": 3, "new": 13} or widths(told) == {"wide": 13, "small": 3, "new": 14}


def test_a_job_that_gave_way_keeps_what_it_was_given():
    """`greedy` had the node for an hour; nobody starts anew by being evicted."""
    jobs = [
        elastic("greedy", 1, 8, initial=8),
        job("urgent", "B", at=3600, cpu=8, runtime=600, priorityClass="high"),
    ]

    told = story(world(nodes=nodes(8), config=OFF, priorityClasses={"high": 9}, jobs=jobs, until=4300))

    assert told.preempted() == ["greedy"]
    served = told.simulation.state.running["greedy"].serving
    assert served.entered == 8 * 3600 * 1_000_000 // 1000
    assert served.served == 0


# --- quotas -------------------------------------------------------------------------------------


QUOTA = {"queues": [{"name": "A", "quota": {"cpu": 8}}, {"name": "B"}]}
USERS = {"users": {"u": {"quota": {"cpu": 8}}}}


@pytest.mark.parametrize(
    "jobs, more, starts, expected",
    [
        pytest.param(
            [elastic("e", 1, 20), job("urgent", "A", at=100, priority=5, cpu=4)],
            QUOTA,
            305.0,
            {"e": 4, "urgent": 1},
            id="of its queue, when the window has ended",
        ),
        pytest.param(
            [elastic("e", 1, 20, user="u"), job("urgent", "B", at=400, cpu=4, user="u")],
            USERS,
            400.0,
            {"e": 4, "urgent": 1},
            id="of its user, in whatever queue",
        ),
        pytest.param(
            [elastic("e", 1, 20), elastic("other", 1, 20, queue="B"), job("urgent", "A", at=400, cpu=4)],
            {**QUOTA, "nodes": nodes(28)},
            400.0,
            {"e": 4, "other": 20, "urgent": 1},
            id="nobody else shrinks for it",
        ),
        pytest.param(
            [
                elastic("e", 1, 20),
                elastic("other", 1, 3, queue="B", asks={"cpu": 1, "memory": "4Gi"}),
                job("urgent", "A", at=400, cpu=4, memory="8Gi"),
            ],
            {**QUOTA, "nodes": nodes(32, memory="16Gi")},
            400.0,
            {"e": 4, "other": 2, "urgent": 1},
            id="and others as well if it needs room",
        ),
        pytest.param(
            [elastic("e", 2, 20), job("urgent", "A", at=400, cpu=7)],
            QUOTA,
            None,
            {"e": 8},
            id="not at all if that would not do",
        ),
    ],
)
def test_shrinking_for_a_job_that_waits_for_quota(jobs, more, starts, expected):
    told = story(world(config=PEACE, jobs=jobs, until=700, **{"nodes": nodes(32), **more}))

    assert told.starts().get("urgent") == starts
    assert widths(told) == expected
    if starts is None:
        assert told.reason("urgent") == "QUOTA"


def test_what_falls_free_of_a_quota_adds_up_for_a_job_that_waits_for_it():
    """Two grow by turns into all that ends of the queue; the job that waits needs what both have."""
    jobs = [
        elastic("e", 1, 20),
        elastic("f", 1, 20, at=1),
        *(job(f"end-{number}", "A", at=2, cpu=1, runtime=100 + 170 * number) for number in range(6)),
        job("urgent", "A", at=60, priority=5, cpu=6),
    ]

    told = story(world(nodes=nodes(32), config=PEACE, jobs=jobs, until=4000, **QUOTA))

    assert told.starts()["urgent"] <= 2 + 100 + 170 * 5 + 305
    assert told.width("e") == told.width("f") == 1


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
