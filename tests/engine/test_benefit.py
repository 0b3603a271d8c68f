"""Width by marginal benefit, told as small stories; every turn is held to the independent checker."""

from __future__ import annotations

import pytest
from story import story, world

CONFIG = {"overShare": "off", "preemption": "off", "width": "benefit"}
LINEAR = {1: 1, 8: 8}
FLAT = {1: 1, 2: 1.2, 8: 1.3}
KNEE = {1: 1, 4: 4}
TOGETHER = {1: 1, 3: 1, 4: 5}  # two or three tasks are no better than one, four are


def scaling(name, speeds, most=8, *, queue="A", **fields):
    """An elastic job of one group of workers that states how it scales."""
    group = {"name": "w", "min": 1, "initial": 1, "max": most, "cpu": 1}
    if speeds is not None:
        group["scalability"] = speeds
    return {"name": name, "queue": queue, "groups": [group], **fields}


def told_of(jobs, *, cpu=8, until=30, **more):
    config = {**CONFIG, **more.pop("config", {})}
    nodes = [{"name": "n", "count": 1, "cpu": cpu}]
    return story(world(nodes=nodes, config=config, jobs=jobs, until=until, **more))


def widths(told):
    return {name: told.width(name) for name in told.running()}


@pytest.mark.parametrize(
    "jobs, expected",
    [
        pytest.param([scaling("a", LINEAR)], {"a": 8}, id="alone it takes all that makes it faster"),
        pytest.param([scaling("a", KNEE)], {"a": 4}, id="and no more than that"),
        pytest.param(
            [scaling("a", LINEAR), scaling("b", FLAT)], {"a": 7, "b": 1}, id="whom a task makes faster gets it"
        ),
        pytest.param([scaling("a", KNEE), scaling("b", FLAT)], {"a": 4, "b": 4}, id="what is left makes others faster"),
        pytest.param(
            [scaling("a", None), scaling("b", FLAT)], {"a": 7, "b": 1}, id="who says nothing counts as linear"
        ),
        pytest.param(
            [scaling("a", TOGETHER, 4), scaling("b", FLAT)], {"a": 4, "b": 4}, id="steps that only pay together"
        ),
        pytest.param(
            [scaling("a", {1: 1, 2: 1.05}, 2), scaling("b", {1: 1, 2: 1.9}, 2)],
            {"a": 1, "b": 2},
            id="a growth that does not pay for its cost is not made",
        ),
    ],
)
def test_room_is_divided_by_benefit(jobs, expected):
    assert widths(told_of(jobs, config={"resizeCost": "20s"})) == expected


@pytest.mark.parametrize(
    "cost, expected",
    [
        pytest.param("0s", {"a": 2}, id="free of charge any gain will do"),
        pytest.param("10s", {"a": 2}, id="a cost that is earned back within the window"),
        pytest.param("30s", {"a": 1}, id="one that is not"),
    ],
)
def test_a_resize_must_earn_back_what_it_costs(cost, expected):
    jobs = [scaling("a", {1: 1, 2: 1.05}, 2, freezingWindow="5m")]

    assert widths(told_of(jobs, config={"resizeCost": cost})) == expected


@pytest.mark.parametrize(
    "uneven, width",
    [
        pytest.param(2, 4, id="a task goes where it is worth twice as much"),
        pytest.param(100, 1, id="not where it is worth a little more"),
    ],
)
def test_tasks_change_hands_only_for_much_more(uneven, width):
    """The old one is of a low level, so that an hour of it counts for a hundred: its claim was halved many times."""
    jobs = [scaling("old", LINEAR, level="Experiment"), scaling("new", KNEE, 4, at=3600, level="Production")]

    told = told_of(jobs, config={"uneven": uneven}, until=3600 + 400)

    assert told.width("new") == width


def test_who_gives_room_that_quotas_keep_from_others_keeps_it():
    jobs = [scaling("a", FLAT), scaling("b", LINEAR, queue="B", at=1)]
    queues = [{"name": "A"}, {"name": "B", "quota": {"cpu": 2}}]

    told = told_of(jobs, queues=queues, until=700)

    assert widths(told) == {"a": 6, "b": 2}


def test_growth_goes_beside_what_is_there():
    nodes = [{"name": "n", "count": 4, "cpu": 4}]
    group = {"name": "w", "min": 1, "initial": 1, "max": 6, "cpu": 1, "preferClose": True}

    told = story(world(nodes=nodes, config=CONFIG, jobs=[{"name": "a", "queue": "A", "groups": [group]}], until=10))

    assert told.width("a") == 6
    assert len(set(told.tasks()["a"].values())) == 2
