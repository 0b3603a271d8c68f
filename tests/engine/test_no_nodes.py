"""A cluster or a pool without nodes makes a job wait: that it could never start nobody can say (design.md 5.1)."""

from __future__ import annotations

from typing import Any

import pytest
from story import job, story, world

EMPTY = {"name": "east", "nodes": []}
SMALL = {"name": "east", "nodes": [{"name": "n", "cpu": 4}]}
VISION = {"name": "east", "nodes": [{"name": "v", "cpu": 4, "labels": {"team": "vision"}}]}
POOL = {"name": "vision", "nodeSelector": {"team": "vision"}}
KEPT = {**POOL, "disableSharing": True}
NONE_YET = "there are no nodes for it yet: "


def cpus(cpu: int, **fields: Any) -> dict[str, Any]:
    return job("job", cpu=cpu, **fields)


def told(clusters: list[Any], asks: dict[str, Any], **rest: Any) -> Any:
    return story(world(clusters=clusters, jobs=[asks], config={"overShare": "off"}, **rest))


@pytest.mark.parametrize(
    "clusters, pools, asks, reason, sentence",
    [
        pytest.param([EMPTY], [], cpus(1), "NO_NODES", f"{NONE_YET}none in east", id="a cluster without nodes"),
        pytest.param(
            [EMPTY, {"name": "west", "nodes": []}],
            [],
            cpus(99),
            "NO_NODES",
            f"{NONE_YET}none in east, west",
            id="two of them, however much it asks for",
        ),
        pytest.param(
            [VISION],
            [KEPT],
            cpus(1),
            "NO_NODES",
            f"{NONE_YET}its pool default has none in east",
            id="all nodes are of a pool that lends nothing",
        ),
        pytest.param(
            [VISION],
            [POOL],
            cpus(8),
            "NO_NODES",
            f"{NONE_YET}its pool default has none in east",
            id="all nodes are of a pool that lends, but they are too small",
        ),
        pytest.param(
            [SMALL],
            [POOL],
            cpus(8, pool="vision"),
            "NO_NODES",
            f"{NONE_YET}its pool vision has none in east",
            id="a pool of its own that has no nodes",
        ),
        pytest.param(
            [SMALL, {"name": "west", "nodes": []}],
            [],
            cpus(8),
            "NO_NODES",
            "fits no cluster that has nodes, even an empty one, and there are no nodes yet in west",
            id="one cluster is too small, the other has no nodes",
        ),
        pytest.param(
            [SMALL, {"name": "west", "nodes": []}],
            [],
            cpus(8, cluster="east"),
            "NEVER_FITS",
            "fits no cluster, even an empty one: cpu is short (asked 8, at most 4 on a matching node)",
            id="the one it may go to is too small",
        ),
        pytest.param(
            [SMALL],
            [],
            cpus(1, nodeSelector={"zone": "a"}),
            "NEVER_FITS",
            "fits no cluster, even an empty one: no node is admitted by its nodeSelector",
            id="no node has its label",
        ),
    ],
)
def test_without_nodes_a_job_waits_for_nodes(clusters, pools, asks, reason, sentence):
    it = told(clusters, asks, pools=pools)
    _, plan = it.turns[0]
    verdict = plan.verdicts["job"]

    assert it.reason("job") == verdict.reason.name == reason
    assert verdict.reason.explain(verdict.facts) == sentence


@pytest.mark.parametrize(
    "clusters, pools, event",
    [
        pytest.param(
            [EMPTY], [], {"addNodes": {"cluster": "east", "nodes": [{"name": "n", "cpu": 4}]}}, id="a node is added"
        ),
        pytest.param(
            [VISION], [KEPT], {"addNodes": {"cluster": "east", "nodes": [{"name": "n", "cpu": 4}]}}, id="to its pool"
        ),
        pytest.param([VISION], [KEPT], {"labelNode": {"node": "v", "labels": {"team": ""}}}, id="a node changes pools"),
        pytest.param(
            [VISION], [KEPT], {"setPool": {"name": "vision", "nodeSelector": {"a": "b"}}}, id="a pool changes"
        ),
        pytest.param([VISION], [KEPT], {"setPool": {"name": "vision", "disableSharing": False}}, id="a pool lends"),
        pytest.param([VISION], [KEPT], {"deletePool": "vision"}, id="a pool is deleted"),
    ],
)
def test_it_starts_when_there_are_nodes(clusters, pools, event):
    it = told(clusters, cpus(1), pools=pools, events=[{"at": 60, **event}], until=120)

    assert (it.reasons("job"), it.starts()) == (["NO_NODES"], {"job": 60})


def test_a_pool_without_nodes_borrows_when_others_end():
    full = job("full", cpu=4, pool="vision", runtime=60, at=0)
    it = story(world(clusters=[VISION], pools=[POOL], jobs=[full, cpus(2, at=1)], until=120))
    verdict = next(plan.verdicts["job"] for _, plan in it.turns if "job" in plan.verdicts)

    assert verdict.reason.explain(verdict.facts) == (
        "there are no nodes for it yet: its pool default has none in east, and no other pool lends it room now"
    )
    assert (it.reasons("job"), it.starts()) == (["NO_NODES"], {"full": 0, "job": 60})


def test_it_holds_back_nobody_and_is_entitled_to_nothing():
    """A queue of jobs without nodes counts as having nothing waiting."""
    bare = job("bare", "A", cpu=4, count=3, pool="vision", priorityClass="high")
    pools = [{**POOL, "disableBorrowing": True}]
    jobs = [bare, job("b", "B", cpu=1, count=4, lifetime=0)]
    it = story(world(clusters=[SMALL], pools=pools, jobs=jobs, priorityClasses={"high": 9}, until=10))

    assert it.running() == ["b-0", "b-1", "b-2", "b-3"]
    assert it.shares().entitled["A"] == 0


def test_an_admitted_job_whose_pool_loses_its_nodes_waits_in_its_queue():
    jobs = [job("first", cpu=4, expectedRuntime=600), job("job", cpu=4, at=1)]
    it = story(
        world(
            clusters=[SMALL],
            jobs=jobs,
            events=[
                {"at": 5, "removeNode": "n"},
                {"at": 60, "addNodes": {"cluster": "east", "nodes": [{"name": "m", "cpu": 8}]}},
            ],
            until=120,
        )
    )

    assert it.reasons("job") == ["RESERVED", "NO_NODES"]
    assert it.starts()["job"] == 60
