"""What blocks a head is told by counts made for others only where these cannot be wrong about it."""

from __future__ import annotations

import pytest

from muster.engine.placement import Shortage
from muster.engine.scarcity import Scarcity
from muster.model.jobs import Profile, TaskGroup
from muster.model.nodes import Request


def asking(cpu: int, memory: int, *, tasks: int = 1, gpus: int = 0, close: bool = False) -> Profile:
    """A profile of one group."""
    request = Request.of({"cpu": cpu, "memory": memory, "gpu": 1000 * gpus})
    group = TaskGroup(name="g", min=tasks, initial=tasks, max=tasks, request=request, prefers_close=close)
    return Profile(groups=(group,))


def counted(profile: Profile, cpu: int, memory: int, placed: int = 0) -> Shortage:
    """So many of 1,000 nodes have too little of each."""
    return Shortage(
        dimension="cpu",
        group=profile.groups[0],
        short=cpu,
        matching=1000,
        placed=placed,
        needed=profile.tasks_min,
        lacking={"cpu": cpu, "memory": memory, "pods": 0, "gpu": 0},
    )


@pytest.mark.parametrize(
    "job, moved, blocks",
    [
        pytest.param(asking(4, 4), 0, "cpu", id="as counted"),
        pytest.param(asking(4, 4), 49, "cpu", id="the counts are 100 apart, 49 moves bring them together by 98"),
        pytest.param(asking(4, 4), 50, None, id="after 50 moves they may be equal"),
        pytest.param(asking(4, 2), 0, "cpu", id="less memory is lacked on fewer nodes"),
        pytest.param(asking(4, 8), 0, None, id="more memory may be lacked on more nodes than cores"),
        pytest.param(asking(2, 4), 0, None, id="fewer cores may be lacked on fewer nodes than memory"),
        pytest.param(asking(4, 4, tasks=51), 0, None, id="a gang may place 50 tasks before one finds no room"),
        pytest.param(asking(4, 4, gpus=1), 0, None, id="who asks for devices is counted apart"),
        pytest.param(asking(4, 4, close=True), 0, None, id="who keeps close may lack that first"),
    ],
)
def test_counts_for_others_tell_what_blocks(job, moved, blocks):
    scarcity = Scarcity(keeps_cores=False)
    scarcity.note(counted(asking(4, 4), cpu=500, memory=400), "c")
    scarcity.moved(moved)
    assert scarcity.of(job, "c") == blocks
    assert scarcity.of(job, "another cluster") is None


def test_where_cores_are_kept_for_gpus_only_counts_for_the_same_task_tell():
    scarcity = Scarcity(keeps_cores=True)
    scarcity.note(counted(asking(4, 4), cpu=500, memory=400), "c")
    assert scarcity.of(asking(4, 4), "c") == "cpu"
    assert scarcity.of(asking(4, 2), "c") is None


def test_nothing_is_told_once_rooms_changed_by_nobody_knows_how_much():
    scarcity = Scarcity(keeps_cores=False)
    scarcity.note(counted(asking(4, 4), cpu=500, memory=400), "c")
    scarcity.forget()
    assert scarcity.of(asking(4, 4), "c") is None
