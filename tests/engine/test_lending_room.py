"""Room is lent, not pools (design.md 5.3): what the jobs of a pool cannot use others may borrow."""

from __future__ import annotations

from typing import Any

import pytest
from story import gang, job, story, world

CARDS = {"name": "g", "cpu": 128, "gpu": 8, "labels": {"has": "cards"}}
NODES = [{"name": "h", "cpu": 4}, CARDS]


def cards(**settings: Any) -> dict[str, Any]:
    return {"name": "cards", "nodeSelector": {"has": "cards"}, **settings}


def cluster(*nodes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": "east", "nodes": list(nodes)}]


def trains(count: int, **fields: Any) -> dict[str, Any]:
    """Jobs of one GPU and a core each."""
    return job("train", "A", count=count, cpu=1, gpu=1, pool="cards", lifetime=0, **fields)


def sweeps(count: int, **fields: Any) -> dict[str, Any]:
    """Jobs of four cores of the default pool."""
    return job("sweep", "B", count=count, lifetime=0, **{"cpu": 4, **fields})


def told(pools: list[dict[str, Any]], *jobs: dict[str, Any], nodes: list[Any] | None = None, **rest: Any) -> Any:
    rest = {"until": 60, **rest}
    return story(
        world(clusters=cluster(*(nodes or NODES)), pools=pools, jobs=jobs, config={"overShare": "off"}, **rest)
    )


def lent(it: Any) -> int:
    """How many starts were on borrowed nodes."""
    return sum(line["event"] == "borrowed" for line in it.log)


@pytest.mark.parametrize(
    "pool, waiting, expected",
    [
        pytest.param({}, 0, 30, id="all GPUs are in use, nobody waits: the cores beside them are lent"),
        pytest.param({}, 1, 30, id="a GPU job waits: its pool lends the cores that it cannot use all the same"),
        pytest.param({}, 50, 30, id="so it does if many wait: they can take it back at once"),
        pytest.param(
            {"disablePreemption": True}, 1, 30, id="nobody gives way there: a reservation takes what another leaves"
        ),
        pytest.param(
            {"disablePreemption": True},
            50,
            28,
            id="what others ask for is kept for them, as much as fits there once others end",
        ),
        pytest.param({"keep": {"cpu": 100}}, 0, 5, id="what the pool keeps back is never lent"),
        pytest.param({"keep": {"cpu": 1000}}, 0, 0, id="it may keep all"),
        pytest.param(
            {"keep": {"gpu": 8}}, 0, 30, id="what is kept of one resource does not matter to who asks no such"
        ),
        pytest.param({"disableSharing": True}, 0, 0, id="a pool that does not share lends nothing"),
    ],
)
def test_room_is_lent(pool, waiting, expected):
    it = told([cards(**pool)], trains(8 + waiting), sweeps(40))

    assert lent(it) == expected


def test_what_a_reservation_needs_is_not_lent():
    """A gang of two nodes waits for the first of them; the second is kept for it, and the third, too small, is lent."""
    nodes = [{"name": "h", "cpu": 4}, *({**CARDS, "name": f"g-{n}", "cpu": n, "gpu": 0} for n in (4, 8, 9))]
    first = job("first", "A", cpu=9, pool="cards", runtime=30, expectedRuntime=30)
    pair = gang("pair", 2, "A", cpu=8, pool="cards", at=1, runtime=10, expectedRuntime=10)
    it = told([cards()], first, pair, sweeps(9, at=2), nodes=nodes, until=29)

    assert lent(it) == 1
    assert [it.nodes_of(f"sweep-{n}") for n in range(3)] == [["h"], ["g-4"], []]
    assert told([cards()], first, pair, sweeps(9, at=2), nodes=nodes).starts()["pair"] == 30


def test_a_home_job_takes_lent_room_back_at_once():
    it = told([cards()], trains(8), sweeps(40), job("more", "A", cpu=100, pool="cards", at=10))

    assert it.starts()["more"] == 10
    assert lent(it) >= 30


def test_where_nobody_gives_way_lending_delays_no_home_job():
    pools = [cards(disablePreemption=True)]
    ends = {"runtime": 20, "expectedRuntime": 20}
    jobs = trains(20, **ends), job("big", "A", cpu=60, pool="cards", **ends), sweeps(60, at=1)

    assert {name: at for name, at in told(pools, *jobs).starts().items() if name[:5] != "sweep"} == {
        name: at
        for name, at in told([cards(disablePreemption=True, disableSharing=True)], *jobs).starts().items()
        if name[:5] != "sweep"
    }


def test_the_default_pool_keeps_back_too():
    pools = [cards(disablePreemption=True), {"name": "default", "keep": {"cpu": 3}}]
    it = told(pools, job("x", "A", cpu=1, count=200, pool="cards", lifetime=0))

    assert lent(it) == 1


def test_a_pool_that_is_kept_back_less_lends_more():
    pools = [cards(keep={"cpu": 100})]
    events = [{"at": 30, "setPool": {"name": "cards", "keep": {}}}]
    it = told(pools, trains(8), sweeps(40), events=events)

    assert lent(it) == 30
