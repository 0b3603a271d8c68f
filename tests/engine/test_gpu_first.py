"""GPU jobs come first on nodes with GPUs (paddle-trainingjob.md): who asks for none takes those after them."""

from __future__ import annotations

from typing import Any

import pytest
from story import job, story, world

NODES = [{"name": "c", "cpu": 8}, {"name": "g", "cpu": 8, "gpu": 8}]
FULL = job("full", "full", cpu=8, nodeSelector={"kind": "cpu"}, runtime=10, expectedRuntime=10)
PLAIN = {"cpu": 8, "runtime": 30, "expectedRuntime": 30}
CARD = {"cpu": 1, "gpu": 1, "runtime": 30, "expectedRuntime": 30}


def starts(*jobs: dict[str, Any], config: dict[str, Any] | None = None, nodes: Any = None) -> dict[str, float]:
    nodes = [{"labels": {"kind": "gpu" if "gpu" in each else "cpu"}, **each} for each in nodes or NODES]
    told = story(
        world(
            nodes=nodes,
            jobs=[FULL, *jobs],
            config={"overShare": "off", **(config or {})},
            priorityClasses={"high": 9},
            until=120,
        )
    )
    return {name: at for name, at in told.starts().items() if name != "full"}


@pytest.mark.parametrize(
    "queues, config, expected",
    [
        pytest.param(("a", "a"), {}, {"card": 1, "plain": 10}, id="in one queue a younger GPU job comes first"),
        pytest.param(("a", "b"), {}, {"card": 1, "plain": 10}, id="so it does in another queue"),
        pytest.param(("a", "a"), {"gpuFirst": "off"}, {"plain": 1, "card": 31}, id="not if the policy says otherwise"),
    ],
)
def test_a_gpu_job_goes_before_an_older_job_on_gpu_nodes(queues, config, expected):
    plain, card = job("plain", queues[0], at=1, **PLAIN), job("card", queues[1], at=1, priority=-1, **CARD)

    assert starts(plain, card, config=config) == expected


def test_without_gpu_jobs_others_use_gpu_nodes_at_once():
    assert starts(job("plain", "a", at=1, **PLAIN)) == {"plain": 1}


def test_beside_gpu_jobs_there_is_room_for_others():
    small = {**PLAIN, "cpu": 7}

    assert starts(job("plain", "a", at=1, **small), job("card", "a", at=1, **CARD)) == {"plain": 1, "card": 1}


def test_a_job_of_a_higher_class_does_not_give_way():
    plain = job("plain", "a", at=1, priorityClass="high", **PLAIN)

    assert starts(plain, job("card", "b", at=1, **CARD)) == {"plain": 1, "card": 31}


def test_gpu_jobs_that_find_no_room_hold_back_nobody():
    large = {**CARD, "gpu": 16}

    assert starts(job("plain", "a", at=1, **PLAIN), job("card", "b", at=1, **large)) == {"plain": 1}
