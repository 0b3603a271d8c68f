"""The log says whose nodes a job started on, where they are not its own pool's (scenario.md: `borrowed`)."""

from __future__ import annotations

import io
from typing import Any

import pytest
from story import job, story, world

from muster.sim.scenario.loader import parse
from muster.sim.simulate import Simulation
from muster.state.record import Record, Recorder, Replay

ROOM = [{"name": "n", "count": 2, "cpu": 4, "labels": {"pool": "q"}}]
POOLS = [{"name": "p"}, {"name": "q", "nodeSelector": {"pool": "q"}}]


def told(pool: str, **rest: Any) -> list[str]:
    """What the log says of a job of that pool, which starts at once."""
    log = story(world(nodes=ROOM, jobs=[job("a", pool=pool, runtime=60)], **rest)).log
    return [line["event"] + (f" {line['pool']}" if "pool" in line else "") for line in log]


@pytest.mark.parametrize(
    "pool, pools, borrowed",
    [
        pytest.param("p", POOLS, ["borrowed q"], id="a pool without nodes borrows"),
        pytest.param("q", POOLS, [], id="nodes of its own pool are not borrowed"),
        pytest.param("p", [POOLS[0]], ["borrowed default"], id="the default pool lends under its name"),
        pytest.param("p", [], [], id="without pools nothing is borrowed"),
    ],
)
def test_a_start_says_whose_nodes_it_is_on(pool: str, pools: list[Any], borrowed: list[str]) -> None:
    assert told(pool, pools=pools) == ["submitted", "admitted", "started", *borrowed, "succeeded"]


def test_borrowed_starts_are_recorded_and_replayed() -> None:
    text = (
        "clusters: [{name: east, nodes: [{name: n, cpu: 4, labels: {pool: q}}]}]\n"
        "pools: [{name: p}, {name: q, nodeSelector: {pool: q}}]\n"
        "jobs: [{name: a, cpu: 1, pool: p, runtime: 60}]\n"
        "events: [{at: 10, setPool: {name: q, disableSharing: true}}, {at: 20, deletePool: p}]"
    )
    scenario, file = parse(text), io.BytesIO()
    with Recorder(file, scenario.policy) as recorder:
        for _ in Simulation(scenario, listener=recorder):
            pass

    turns = list(Replay(Record(io.BytesIO(file.getvalue()))))

    assert turns
    assert not any(turn.difference for turn in turns)
