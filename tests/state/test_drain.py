"""Draining a node, told by scenarios: who leaves it, how, and what that costs them."""

from __future__ import annotations

from typing import Any

import pytest
from story import Eviction, gang, job, story, world

ELASTIC = {"name": "e", "queue": "A", "groups": [{"name": "w", "min": 2, "initial": 4, "max": 4, "cpu": 4}]}
HALVES = [{"name": "n", "count": 3, "cpu": 8}]


def drained(*jobs: dict[str, Any], node: str = "n-0", nodes: Any = HALVES, **rest: Any) -> Any:
    """What becomes of jobs when a node is drained after ten seconds."""
    events = [{"at": 10, "drainNode": node}, *rest.pop("events", ())]
    return story(world(nodes=nodes, jobs=jobs, events=events, config={"overShare": "off"}, until=60, **rest))


@pytest.mark.parametrize(
    "jobs, left, moved",
    [
        pytest.param([job("a", cpu=8)], ["a"], {"a": ["n-1"]}, id="a job starts elsewhere"),
        pytest.param([gang("g", 2, cpu=8)], ["g"], {"g": ["n-1", "n-2"]}, id="a gang moves whole"),
        pytest.param(
            [job("a", cpu=8), job("b", cpu=8)], ["a"], {"a": ["n-2"], "b": ["n-1"]}, id="who is elsewhere stays there"
        ),
        pytest.param([job("a", cpu=8, lifetime="1h")], ["a"], {"a": ["n-1"]}, id="a lifetime protects nobody"),
        pytest.param([job("a", cpu=8, retries=0)], ["a"], {"a": ["n-1"]}, id="it costs no retry"),
    ],
)
def test_what_runs_on_a_drained_node_goes_elsewhere(jobs, left, moved):
    told = drained(*jobs)

    assert told.evictions() == [Eviction(name, "n-0", "drain") for name in left]
    assert {name: told.nodes_of(name) for name in moved} == moved
    assert {name: run.attempt for name, run in told.simulation.state.running.items()} == {
        name: 2 if name in left else 1 for name in moved
    }
    assert all(told.simulation.state.jobs[name].failures == 0 for name in moved)


def test_an_elastic_job_goes_on_without_its_tasks_there():
    told = drained(ELASTIC, nodes=[{"name": "n", "count": 2, "cpu": 8}])

    assert told.nodes_of("e", at=9) == ["n-0", "n-1"]
    assert (told.width("e"), told.nodes_of("e")) == (2, ["n-1"])
    assert told.simulation.state.running["e"].attempt == 1


def test_where_there_is_no_room_elsewhere_it_waits_and_comes_back_once_it_may():
    alone = [{"name": "n-0", "cpu": 8}]
    told = drained(job("a", cpu=8), nodes=alone, events=[{"at": 30, "uncordonNode": "n-0"}])

    assert told.running(at=29) == []
    assert told.nodes_of("a", at=30) == ["n-0"]


def test_who_is_drained_away_keeps_its_place_before_those_who_came_later():
    keep = job("keep", cpu=8, runtime=10)
    told = drained(job("a", cpu=8), keep, job("b", cpu=8, at=10), nodes=[{"name": "n", "count": 2, "cpu": 8}])

    assert told.nodes_of("a", at=10) == ["n-1"]
    assert "b" not in told.starts()


def test_a_drain_is_no_preemption_by_a_job():
    """Nobody gives way to the same job twice; a node is no job, and may be drained as often as need be."""
    told = drained(job("a", cpu=8), events=[{"at": 20, "uncordonNode": "n-0"}, {"at": 30, "drainNode": "n-1"}])

    assert [(it.job, it.by) for it in told.evictions()] == [("a", "n-0"), ("a", "n-1")]
    assert told.simulation.state.preempted_by("a") == ()


def test_draining_an_empty_node_or_the_same_one_twice_does_nothing_more():
    told = drained(job("a", cpu=8), events=[{"at": 20, "drainNode": "n-0"}, {"at": 20, "drainNode": "n-2"}])

    assert told.evictions() == [Eviction("a", "n-0", "drain")]
