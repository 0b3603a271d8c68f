"""cases.md 1: how wide elastic jobs run, as EDL's autoscaler and the document's CFS would have it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from story import job, story, world
from worlds import a_job

from muster.engine.elastic.tree import Tree
from muster.engine.elastic.unit import Unit
from muster.engine.kernels.growing import Growing, neediest
from muster.model.jobs import Running, usage_of
from muster.model.resources import DEFAULT_WEIGHTS, MICRO
from muster.model.width import Serving

OFF = {"overShare": "off"}


def elastic(name, least, most, *, initial=None, queue="A", asks=None, **fields):
    """An elastic job of one group of workers."""
    group = {"name": "w", "min": least, "initial": initial or least, "max": most, **(asks or {"cpu": 1})}
    return {"name": name, "queue": queue, "groups": [group], **fields}


# --- fulfilment and order -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "width, fulfilled",
    [
        pytest.param((1, 2, 2), Fraction(1), id="EDL-F1 at its max"),
        pytest.param((1, 2, 1), Fraction(0), id="EDL-F2 at its min"),
        pytest.param((1, 3, 2), Fraction(1, 2), id="EDL-F3 half way"),
    ],
)
def test_of_the_groups_of_one_job_the_least_fulfilled_grows(width, fulfilled):
    """Fulfilment orders the groups of one job; jobs are ordered by what they were given (design.md 5.6)."""
    others = [(0, 8, part) for part in range(9)]
    for other in others:
        columns = np.array([width, other]).T
        growing = Growing(
            *[np.zeros(2, np.int64)] * 6,
            np.zeros(2, np.int64),
            columns[2],
            columns[0],
            columns[1],
            *[np.zeros(2, np.int64)] * 3,
        )

        assert neediest(growing, 0, 2) == (0 if fulfilled <= Fraction(other[2], 8) else 1)


def test_a_job_whose_min_is_its_max_is_never_scaled():
    """EDL-F4"""
    told = story(world(jobs=[elastic("fixed", 2, 2, initial=2)], until=600))

    assert told.width("fixed") == 2
    assert told.events("resized") == []


def unit(name, *, level=1000, score=None, seconds=60, asks=None, width=(1, 2, 1)):
    """A unit that has run with one task for so long."""
    least, most, now = width
    builder = a_job("a").named(name).tasks(least, now, most)
    for resource, amount in (asks or {"cpu": 1}).items():
        builder = getattr(builder, resource)(amount)
    made = builder.of(level=level).built(0, 0).job
    tasks = ()
    usage = (
        score * MICRO
        if score
        else sum(now * DEFAULT_WEIGHTS.usage(group.request.resources) for group in made.profile.groups)
    )
    serving = Serving(entered=0, since_ms=0, usage=usage // now, served=0)
    run = Running(job=made, attempt=1, cluster="main", started_ms=0, tasks=tasks, serving=serving)
    assert usage_of(made.profile, tasks, DEFAULT_WEIGHTS) == 0
    return Unit(run, 0, serving.virtual_at(seconds * 1000, level), 0, True, tasks)


def order(*units):
    return [it.run.job.id for it in Tree(units).traverse()]


@pytest.mark.parametrize(
    "units, expected",
    [
        pytest.param(
            [unit("a", width=(1, 2, 2)), unit("b", width=(1, 20, 2)), unit("c", width=(1, 10, 2))],
            ["a", "b", "c"],
            id="EDL-S1 who was given the same stands in order of name, however far from its max",
        ),
        pytest.param(
            [unit("a", asks={"gpu": 1}), unit("b"), unit("c"), unit("d")],
            ["b", "c", "d", "a"],
            id="EDL-S2 jobs with and without GPUs stand in one tree",
        ),
        pytest.param(
            [
                unit("a", asks={"gpu": 1}),
                unit("b", asks={"cpu": 1, "memory": "1Gi"}),
                unit("c", asks={"cpu": 10, "memory": "1Gi"}),
                unit("d", asks={"cpu": 1, "memory": "2Gi"}),
            ],
            ["b", "d", "c", "a"],
            id="EDL-S3 after the same time who asks for less was given less",
        ),
        pytest.param(
            [unit("P", level=10_000, score=1, seconds=100_000), unit("E", level=10, score=1, seconds=1000)],
            ["P", "E"],
            id="CFS-1 Production comes first: levels divide",
        ),
        pytest.param([unit("Y", score=8), unit("X", score=1)], ["X", "Y"], id="CFS-2 who uses less was given less"),
    ],
)
def test_the_order_of_the_tree(units, expected):
    assert order(*units) == expected


def test_a_newcomer_enters_at_the_minimum_of_the_tree():
    """CFS-3"""
    tree = Tree([unit("old", score=1, seconds=5000)])
    minimum = tree.left_most().virtual

    tree.enter(new := unit("new", seconds=0))

    assert (new.virtual, minimum) == (minimum, 5 * MICRO)
    assert len(tree) == 2


# --- one step -----------------------------------------------------------------------------------


def width_after(node, asks, widths, *, foreign=None, load=1.0, until=60):
    """How wide a job is that runs on one node beside pods that are not ours, which came after it."""
    least, most, now = widths
    events = [{"at": 1, "foreign": {"node": "n", **foreign}}] if foreign else []
    told = story(
        world(
            nodes=[{"name": "n", **node}],
            config={**OFF, "maxLoad": load},
            jobs=[elastic("job", least, most, initial=now, asks=asks)],
            events=events,
            until=until,
        )
    )
    assert told.idle_turns(since=5)
    return told.width("job")


@pytest.mark.parametrize(
    "node, asks, widths, foreign, width",
    [
        pytest.param({"cpu": 4}, {"cpu": 1}, (1, 2, 2), None, 2, id="EDL-1 at its max it stays"),
        pytest.param({"cpu": 3}, {"cpu": 1}, (1, 3, 1), {"cpu": "100m"}, 2, id="EDL-2 one more fits"),
        pytest.param({"cpu": 2}, {"cpu": 1}, (1, 3, 1), {"cpu": 1}, 1, id="EDL-3 no core is free"),
        pytest.param(
            {"cpu": 2, "gpu": 10}, {"cpu": 1, "gpu": 1}, (1, 3, 1), None, 2, id="EDL-4 one more GPU task fits"
        ),
        pytest.param(
            {"cpu": 4, "gpu": 10}, {"cpu": 1, "gpu": 1}, (1, 3, 1), {"gpu": 9}, 1, id="EDL-5 every GPU is taken"
        ),
        pytest.param(
            {"cpu": 8}, {"cpu": 1}, (1, 3, 3), {"cpu": 5}, 3, id="EDL-6 no wider than its max in the first place"
        ),
        pytest.param({"cpu": 4}, {"cpu": 1}, (1, 3, 3), {"cpu": 2}, 2, id="EDL-8 over-committed by one core, one goes"),
        pytest.param(
            {"cpu": 4, "memory": "1Gi"},
            {"cpu": 1, "memory": "512Mi"},
            (1, 3, 1),
            {"memory": "512Mi"},
            1,
            id="EDL-9 no memory is free",
        ),
    ],
)
def test_one_step(node, asks, widths, foreign, width):
    assert width_after(node, asks, widths, foreign=foreign) == width


@pytest.mark.parametrize(
    "node, asks, widths, foreign, load, width",
    [
        pytest.param(
            {"cpu": 2, "memory": "1Gi"},
            {"cpu": 1, "memory": "1Mi"},
            (1, 3, 1),
            {"memory": "1023Mi"},
            1.0,
            1,
            id="EDL-A1 memory is full",
        ),
        pytest.param({"cpu": 4}, {"cpu": 1}, (1, 3, 1), None, 1.0, 3, id="EDL-A2 up to its max"),
        pytest.param({"cpu": 3}, {"cpu": 1}, (1, 3, 1), None, 0.8, 2, id="EDL-A3 no further than the load allows"),
        pytest.param(
            {"cpu": 3, "gpu": 10},
            {"cpu": 1, "gpu": 1},
            (1, 3, 1),
            {"cpu": 1, "gpu": 7},
            1.0,
            2,
            id="EDL-A5 one is left",
        ),
        pytest.param({"cpu": 2}, {"cpu": "995m"}, (1, 3, 1), None, 1.0, 2, id="EDL-A6 ten millicores are left over"),
        pytest.param(
            {"cpu": 8, "gpu": 10},
            {"cpu": "100m", "gpu": 1},
            (1, 10, 8),
            None,
            0.8,
            8,
            id="EDL-D1 at the very load nothing goes up or down",
        ),
        pytest.param(
            {"cpu": 8, "memory": "1000Mi"},
            {"cpu": "100m", "memory": "100Mi"},
            (1, 10, 8),
            None,
            0.8,
            8,
            id="EDL-D2 the same with memory",
        ),
    ],
)
def test_a_whole_plan(node, asks, widths, foreign, load, width):
    assert width_after(node, asks, widths, foreign=foreign, load=load) == width


# --- several jobs -------------------------------------------------------------------------------


def test_no_job_is_planned_below_its_min_however_much_is_over_committed():
    """EDL-I1"""
    jobs = [elastic(f"j-{number}", 2, 20, initial=4) for number in range(10)]
    told = story(
        world(
            nodes=[{"name": "n", "cpu": 40}],
            config=OFF,
            jobs=jobs,
            events=[{"at": 60, "foreign": {"node": "n", "cpu": 40}}],
            until=600,
        )
    )

    assert {told.width(f"j-{number}") for number in range(10)} == {2}


def test_the_most_served_shrink_until_the_newcomer_fits():
    """EDL-I2"""
    jobs = [
        elastic("old", 1, 8, initial=8),
        elastic("young", 1, 8, initial=8, level="Production"),
        elastic("new", 6, 8, initial=8, at=400),
    ]

    told = story(world(nodes=[{"name": "n", "cpu": 16}], config=OFF, jobs=jobs, until=401))

    assert {name: told.width(name) for name in ("old", "young", "new")} == {"old": 2, "young": 8, "new": 6}


def test_a_wide_job_makes_room_for_another_on_a_full_cluster():
    """EDL-I3"""
    jobs = [elastic("A", 50, 500, initial=500), elastic("B", 50, 200, at=600)]

    told = story(world(nodes=[{"name": "n", "count": 5, "cpu": 100}], config=OFF, jobs=jobs, until=601))

    assert (told.width("A"), told.width("B")) == (450, 50)
    assert told.preempted() == []


@pytest.mark.parametrize(
    "small, widths",
    [
        pytest.param(
            {"cpu": 1}, {"big": 1, "small": 4}, id="CFS-4 who does not fit is passed over, and the round goes on"
        ),
    ],
)
def test_the_least_served_may_not_fit(small, widths):
    jobs = [
        elastic("big", 1, 4, asks={"cpu": 4}, level="Production"),
        elastic("small", 1, 4, asks=small, level="Experiment"),
    ]

    told = story(world(nodes=[{"name": "n", "cpu": 8}], config=OFF, jobs=jobs, until=10))

    assert {name: told.width(name) for name in widths} == widths


def test_nothing_changes_within_a_freezing_window_but_the_end_of_the_job():
    """CFS-5"""
    jobs = [
        elastic("job", 1, 4, freezingWindow="300s", runtime={"work": "1000s"}),
        job("busy", "B", cpu=2, runtime=195),
    ]

    told = story(world(nodes=[{"name": "n", "cpu": 4}], config=OFF, jobs=jobs))
    changes = [(line["t"], line["from"], line["to"]) for line in told.log if line["event"] == "resized"]

    assert changes == [(5.0, 1, 2), (305.0, 2, 4)]
    assert told.events("succeeded") == ["succeeded busy", "succeeded job"]


# --- what others were tested with ---------------------------------------------------------------


def test_three_elastic_jobs_all_reach_their_min():
    """GE-3; the third waits until the freezing windows of the others end, who were evened out at 700."""
    jobs = [elastic(f"j{number}", 2, 8, initial=8, at=400 * number) for number in range(3)]

    told = story(world(nodes=[{"name": "n", "cpu": 8}], config=OFF, jobs=jobs, until=1001))

    assert all(told.width(f"j{number}") >= 2 for number in range(3))
    assert sum(told.width(f"j{number}") for number in range(3)) == 8
    assert told.preempted() == []


@pytest.mark.parametrize(
    "comers, widths",
    [
        pytest.param(["high"], {"low": 7, "high": 1}, id="KP-5 the newcomer starts at its min"),
        pytest.param(["high", "other"], {"low": 6, "high": 1, "other": 1}, id="KP-6 so do two"),
    ],
)
def test_elastic_jobs_of_a_higher_class_start_in_the_place_of_surplus(comers, widths):
    jobs = [elastic("low", 1, 8, initial=8)]
    jobs += [elastic(name, 1, 8, at=600, queue=name, priorityClass="high") for name in comers]

    told = story(world(nodes=[{"name": "n", "cpu": 8}], config=OFF, priorityClasses={"high": 9}, jobs=jobs, until=601))

    assert {name: told.width(name) for name in widths} == widths
    assert told.preempted() == []
