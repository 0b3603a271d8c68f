"""cases.md 5.1 to 5.4: which node is whose, what is counted where, who borrows from whom, and what one attempt brings.

Each node has labels of its pools; a pool selects the nodes with a label of its name. A job fills a node of 4 cores
unless it says otherwise, and runs until the end.
"""

from __future__ import annotations

from typing import Any

import pytest
from story import Story, job, story, world

from muster.model.pools import called
from muster.state.pools import pool_table
from muster.state.pools import told as told_pools

QUIET = {"overShare": "off"}
CLASSES = {"low": 1, "middle": 2, "high": 3}
UNTIL = 300


def node(name: str, *pools: str, **has: Any) -> dict[str, Any]:
    """A node with labels of these pools."""
    return {"name": name, "labels": dict.fromkeys(pools, "yes"), **({"cpu": 4} | has)}


def pool(name: str, **settings: Any) -> dict[str, Any]:
    """A pool of the nodes with a label of its name."""
    return {"name": name, "nodeSelector": {name: "yes"}, **settings}


def of(home: str, name: str, **fields: Any) -> dict[str, Any]:
    """A job of a pool."""
    asks = {} if {"cpu", "gpu"} & set(fields) else {"cpu": 4}
    return job(name, pool=home, **asks, **fields)


def told(nodes: list[Any], pools: list[Any], *jobs: dict[str, Any], events: list[Any] | None = None) -> Story:
    rest = {"config": QUIET, "priorityClasses": CLASSES, "events": events or [], "until": UNTIL}
    return story(world(nodes=nodes, pools=pools, jobs=jobs, **rest))


def members(it: Story) -> dict[str, list[str]]:
    """The nodes of each pool at the end."""
    return {called(name): list(part.nodes) for name, part in it.simulation.state.fleet.parts.items()}


def resources(it: Story, name: str) -> dict[str, Any]:
    """What the table of pools says of a pool at the end."""
    return told_pools(pool_table(it.simulation.state.freeze(UNTIL * 1000)))[name]["resources"]


def borrowed(it: Story, name: str) -> list[str]:
    """The pools that lent their nodes to starts of a job, in order."""
    return [line["pool"] for line in it.log if line["event"] == "borrowed" and line["job"] == name]


def starts(it: Story, name: str) -> list[tuple[float, str]]:
    """When and where each attempt of a job started."""
    return [
        (line["t"], line["tasks"]["main-0"]) for line in it.log if line["event"] == "started" and line["job"] == name
    ]


# --- whose node -----------------------------------------------------------------------------------

PLAIN = [node("n1", "p1"), node("n2", "p1"), node("n3", "p2")]
MIXED = [node("n1", "p1"), node("n2", "p1", "p2", "p3"), node("n3", "p2"), node("n4", "p3")]
TWO = [pool("p1"), pool("p2")]
THREE = [*TWO, pool("p3")]


@pytest.mark.parametrize(
    "nodes, pools, event, then",
    [
        pytest.param(
            PLAIN,
            TWO[:1],
            {"setPool": pool("p2")},
            {"default": [], "p1": ["n1", "n2"], "p2": ["n3"]},
            id="AIB-N1 a new pool takes its nodes",
        ),
        pytest.param(
            [node("n1", "p1"), node("n2", "p1", "p2"), node("n3", "p2")],
            TWO[:1],
            {"setPool": pool("p2")},
            {"default": ["n2"], "p1": ["n1"], "p2": ["n3"]},
            id="AIB-N2 a node that two pools select is in the default pool",
        ),
        pytest.param(
            MIXED,
            TWO,
            {"setPool": pool("p3")},
            {"default": ["n2"], "p1": ["n1"], "p2": ["n3"], "p3": ["n4"]},
            id="AIB-N3 so is one that three pools select",
        ),
        pytest.param(
            PLAIN,
            TWO,
            {"deletePool": "p2"},
            {"default": ["n3"], "p1": ["n1", "n2"]},
            id="AIB-N4 a deleted pool leaves its nodes to the default pool",
        ),
        pytest.param(
            MIXED,
            THREE,
            {"deletePool": "p3"},
            {"default": ["n2", "n4"], "p1": ["n1"], "p2": ["n3"]},
            id="AIB-N6 a node that still two pools select stays in the default pool",
        ),
        pytest.param(
            PLAIN,
            TWO,
            {"setPool": {"name": "p2", "nodeSelector": {}}},
            {"default": ["n3"], "p1": ["n1", "n2"], "p2": []},
            id="AIB-N7 a selector without labels selects nothing",
        ),
        pytest.param(
            PLAIN,
            TWO,
            {"labelNode": {"node": "n1", "labels": {"p2": "yes"}}},
            {"default": ["n1"], "p1": ["n2"], "p2": ["n3"]},
            id="AIB-N10 a node that gains the label of a second pool goes to the default pool",
        ),
    ],
)
def test_whose_node_it_is(
    nodes: list[Any], pools: list[Any], event: dict[str, Any], then: dict[str, list[str]]
) -> None:
    assert members(told(nodes, pools, events=[{"at": 10, **event}])) == then


def test_a_node_moves_with_its_usage() -> None:
    event = {"at": 10, "labelNode": {"node": "n1", "labels": {"p1": "no", "p2": "yes"}}}

    it = told([node("n1", "p1")], TWO, of("p1", "mine", cpu=1), events=[event])

    assert members(it) == {"default": [], "p1": [], "p2": ["n1"]}
    assert resources(it, "p1")["cpu"]["allocatable"] == resources(it, "p1")["cpu"]["used"] == "0"
    assert resources(it, "p2")["cpu"]["used"] == resources(it, "p2")["cpu"]["shared"] == "1"
    assert it.running() == ["mine"]


# --- what is counted ------------------------------------------------------------------------------


def test_used_is_everything_and_shared_what_others_hold() -> None:
    foreign = [{"at": 10, "foreign": {"node": "n", "cpu": "200m", "memory": "1Ki"}} for _ in range(2)]

    it = told([node("n", "p", memory="8Ki")], [pool("p")], of("p", "own", cpu="100m", memory=500), events=foreign)

    row = resources(it, "p")
    assert [row[kind]["used"] for kind in ("cpu", "memory", "pods")] == ["500m", "2548", "3"]
    assert [row[kind]["shared"] for kind in ("cpu", "memory", "pods")] == ["400m", "2Ki", "2"]


# --- whom to borrow from ----------------------------------------------------------------------------

IDLE = [node("n1", "p1", cpu=1, memory="1000Mi"), node("n2", "p2", cpu=2, memory="2000Mi")]
MIXED_ROOM = [node("n1", "p1", cpu=8), node("n2", "p2", cpu=4, gpu=4)]


@pytest.mark.parametrize(
    "nodes, settings, asks, lender",
    [
        pytest.param(IDLE, {}, {"cpu": 1}, ["p2"], id="AIB-B2 the most idle pool lends"),
        pytest.param(
            IDLE, {"p3": {"borrowingPools": ["p2"]}}, {"cpu": 1}, ["p2"], id="AIB-B5 the pool that is named lends"
        ),
        pytest.param(
            IDLE,
            {"p3": {"borrowingPools": ["p1"]}},
            {"cpu": 1},
            ["p1"],
            id="AIB-B5 the pool that is named lends though another is more idle",
        ),
        pytest.param(
            IDLE,
            {"p2": {"disableSharing": True}},
            {"cpu": 1},
            ["p1"],
            id="AIB-B7 a pool that does not share is left out",
        ),
        pytest.param(MIXED_ROOM, {}, {"gpu": 1}, ["p2"], id="AIB-B9 a job that wants a GPU goes where there is one"),
        pytest.param(
            MIXED_ROOM,
            {},
            {"cpu": 1},
            ["p1"],
            id="AIB-B9 a job that wants none goes where there is none",
        ),
        pytest.param(
            [node("n1", "p1", cpu=4), node("n2", "p2", cpu=64, gpu=8)],
            {},
            {"cpu": 1},
            ["p1"],
            id="AIB-B9 however many cores lie idle beside GPUs",
        ),
        pytest.param(
            [node("n1", "p1", cpu=4, memory="512Gi"), node("n2", "p2", cpu=8, memory="8Gi")],
            {},
            {"cpu": 1},
            ["p2"],
            id="AIB-B9 idle is what the job asks for: of cores there are more, of memory nobody asked",
        ),
    ],
)
def test_who_lends(nodes: list[Any], settings: dict[str, Any], asks: dict[str, Any], lender: list[str]) -> None:
    pools = [pool(name, **settings.get(name, {})) for name in ("p1", "p2", "p3")]

    assert borrowed(told(nodes, pools, of("p3", "guest", **asks)), "guest") == lender


def test_a_pool_that_may_not_borrow_waits_at_home() -> None:
    pools = [pool("p1", disableBorrowing=True), pool("p2")]

    it = told(IDLE, pools, of("p1", "first", cpu=1, runtime=100), of("p1", "second", cpu=1))

    assert starts(it, "second") == [(100, "n1")]
    assert borrowed(it, "second") == []


def test_a_borrower_that_may_borrow_no_more_goes_home() -> None:
    nodes = [node("n1", "p1"), node("n2", "p2", cpu=8), node("n3", "p2")]
    events = [{"at": 10, "setPool": {"name": "p1", "disableBorrowing": True}}, {"at": 20, "removeNode": "n2"}]
    jobs = [of("p1", "first", runtime=100), of("p1", "second", at=1)]
    blocker = of("p2", "blocker", cpu=4, runtime=5)

    it = told(nodes, TWO, *jobs, blocker, events=events)

    assert starts(it, "second") == [(1, "n2"), (100, "n1")]
    assert borrowed(it, "second") == ["p2"]


def test_a_job_in_the_default_pool_goes_home_when_its_pool_appears() -> None:
    events = [
        {"at": 10, "setPool": pool("p1")},
        {"at": 10, "addNodes": {"cluster": "east", "nodes": [node("n1", "p1")]}},
    ]

    pools = [pool("p2", disableSharing=True)]

    it = told([node("d"), node("n2", "p2")], pools, job("first", cpu=4), of("p1", "second"), events=events)

    assert starts(it, "second") == [(10, "n1")]
    assert borrowed(it, "second") == []


# --- one attempt ------------------------------------------------------------------------------------

PAIR = [node("a", "p1"), node("b", "p2")]


def test_who_can_preempt_at_home_does_not_borrow() -> None:
    it = told(PAIR, THREE, of("p3", "guest"), of("p1", "own", at=10))

    assert starts(it, "guest") == [(0, "a"), (11, "b")]  # who was evicted waits for the next turn
    assert [(one.job, one.by) for one in it.evictions()] == [("guest", "own")]
    assert starts(it, "own") == [(10, "a")]
    assert borrowed(it, "own") == []


def test_who_finds_neither_room_nor_victims_borrows() -> None:
    it = told(PAIR, TWO, of("p1", "first"), of("p1", "second", at=10))

    assert starts(it, "second") == [(10, "b")]
    assert borrowed(it, "second") == ["p2"]
    assert it.evictions() == []


def test_own_jobs_come_before_borrowers() -> None:
    it = told(PAIR, TWO, of("p1", "first"), of("p1", "second", at=10), of("p2", "their", at=10, priority=-1))

    assert starts(it, "their") == [(10, "b")]
    assert starts(it, "second") == []


HIGH_AND_LOW = [of("p1", "first", priorityClass="high", runtime=100), of("p2", "low", priorityClass="low")]


@pytest.mark.parametrize(
    "more, where",
    [
        pytest.param([node("c", "p3")], (10, "c"), id="AIB-A3 the next pool has room"),
        pytest.param([], (100, "a"), id="AIB-A3 no pool has room: it waits at home"),
    ],
)
def test_borrowers_never_preempt(more: list[Any], where: tuple[float, str]) -> None:
    it = told([*PAIR, *more], THREE, *HIGH_AND_LOW, of("p1", "second", priorityClass="high", at=10))

    assert starts(it, "second") == [where]
    assert it.evictions() == []


def test_where_preemption_is_disabled_own_jobs_borrow_and_borrowers_stay() -> None:
    pools = [pool("p1", disablePreemption=True), *THREE[1:]]

    it = told(PAIR, pools, of("p3", "guest"), of("p1", "own", at=10))

    assert (starts(it, "guest"), starts(it, "own")) == ([(0, "a")], [(10, "b")])
    assert borrowed(it, "own") == ["p2"]
    assert it.evictions() == []


@pytest.mark.parametrize(
    "said, second, evicted",
    [
        pytest.param([], (10, "d"), ["first"], id="AIB-A6 a pool like any other: the higher class comes first"),
        pytest.param(
            [{"name": "default", "disablePreemption": True}], (10, "a"), [], id="it borrows where it may not preempt"
        ),
        pytest.param(
            [{"name": "default", "disablePreemption": True, "borrowingPools": ["p2"]}],
            (10, "b"),
            [],
            id="only from those that it names",
        ),
        pytest.param(
            [{"name": "default", "disablePreemption": True, "disableBorrowing": True}],
            (100, "d"),
            [],
            id="AIB-A6 it waits where it may do neither",
        ),
    ],
)
def test_what_the_default_pool_does(said: list[Any], second: tuple[int, str], evicted: list[str]) -> None:
    jobs = [job("first", cpu=4, priorityClass="low", runtime=100), job("second", cpu=4, priorityClass="high", at=10)]

    it = told([node("d"), *PAIR], [*TWO, *said], *jobs)

    assert starts(it, "second") == [second]
    assert [one.job for one in it.evictions()] == evicted


def test_a_pool_without_nodes_changes_nothing_for_those_it_does_not_match() -> None:
    jobs = [job("low", cpu=4, priorityClass="low"), job("high", cpu=4, priorityClass="high", at=10)]

    it = told([node("d")], [pool("empty")], *jobs)

    assert starts(it, "high") == [(10, "d")]


def test_a_borrower_on_nodes_of_the_default_pool_is_taken_back() -> None:
    it = told([node("d"), node("a", "p1")], [pool("p1")], of("p1", "one"), of("p1", "two"), job("own", cpu=4, at=10))

    assert borrowed(it, "two") == ["default"]
    assert [(one.job, one.by) for one in it.evictions()] == [("two", "own")]
    assert starts(it, "own") == [(10, "d")]


def test_the_default_pool_is_as_it_was_once_what_was_said_of_it_is_deleted() -> None:
    jobs = [job("first", cpu=4, priorityClass="low", runtime=100), job("second", cpu=4, priorityClass="high", at=10)]
    said = {"name": "default", "disablePreemption": True, "disableBorrowing": True}

    it = told([node("d"), *PAIR], TWO, *jobs, events=[{"at": 5, "setPool": said}, {"at": 50, "deletePool": "default"}])

    assert starts(it, "second") == [(50, "d")]


def test_jobs_of_a_deleted_pool_go_to_the_default_pool() -> None:
    pools = [pool("p1", disableBorrowing=True), pool("p2", disableSharing=True)]
    events = [{"at": 10, "deletePool": "p1"}]

    it = told([node("d"), *PAIR], pools, of("p1", "first"), of("p1", "second"), of("p1", "third"), events=events)

    assert members(it) == {"default": ["a", "d"], "p2": ["b"]}
    assert starts(it, "second") == [(10, "d")]
    assert starts(it, "third") == []


def test_a_job_whose_node_went_to_another_pool_stays_and_is_the_first_to_go() -> None:
    jobs = [of("p1", "mine", priorityClass="high"), of("p2", "low", priorityClass="low")]
    events = [
        {"at": 10, "setPool": {"name": "p1", "nodeSelector": {}}},
        {"at": 10, "labelNode": {"node": "a", "labels": {"p2": "yes"}}},
    ]

    it = told(PAIR, TWO, *jobs, of("p2", "own", priorityClass="middle", at=20), events=events)

    assert starts(it, "mine") == [(0, "a")]
    assert [(one.job, one.by) for one in it.evictions()] == [("mine", "own")]
    assert it.running(at=19) == ["low", "mine"]
    assert starts(it, "own") == [(20, "a")]


@pytest.mark.parametrize(
    "home, warning",
    [
        pytest.param("nowhere", "nowhere", id="a job whose pool no cluster has is told that it counts for the default"),
        pytest.param("p1", None, id="a job whose pool is there is told nothing"),
    ],
)
def test_a_pool_that_is_nowhere_is_the_default_pool_with_a_warning(home: str, warning: str | None) -> None:
    pools = [pool("p1", disableBorrowing=True, disableSharing=True)]

    it = told([node("n1", "p1"), node("n2")], pools, *(of(home, f"j{n}") for n in (1, 2)))

    (waits,) = [line for line in it.log if line["event"] == "waiting" and line["job"] == "j2"]
    assert waits["facts"].get("unknownPool") == warning
    assert starts(it, "j1") == [(0, "n2" if warning else "n1")]
