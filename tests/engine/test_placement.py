"""Where tasks go: the tightest fit, gangs whole, devices apart, closeness (design.md 5.4)."""

from __future__ import annotations

import pytest
from worlds import a_job, a_world

from muster.engine.placement import step
from muster.model.labels import Taint
from muster.model.nodes import Node, hops
from muster.model.plan import Start, Waiting
from muster.model.resources import NOTHING


def where(plan):
    """job → its nodes, in order of tasks."""
    return {it.job: [task.node for task in it.tasks] for it in plan.actions if isinstance(it, Start)}


def why(plan, job):
    verdict = plan.verdicts[job]
    assert isinstance(verdict, Waiting)
    return verdict.reason.name, verdict.facts["dimension"]


@pytest.mark.parametrize(
    "nodes, job, placed",
    [
        pytest.param({"big": 16, "small": 4}, a_job("q").cpu(2), ["small"], id="the tightest node loses least"),
        pytest.param({"n-10": 8, "n-2": 8}, a_job("q").cpu(2), ["n-2"], id="equal nodes go by number, not by letter"),
        pytest.param(
            {"a": 4, "b": 4, "c": 8},
            a_job("q").cpu(2).tasks(4),
            ["a", "a", "b", "b"],
            id="a gang fills node after node",
        ),
        pytest.param(
            {"a": 4, "b": 4}, a_job("q").cpu(3).tasks(1, 4), ["a", "b"], id="an elastic gang starts as wide as fits"
        ),
        pytest.param(
            {"a": 4, "b": 8}, a_job("q").cpu(1).whole_node().tasks(2), ["a", "b"], id="whole nodes are one task each"
        ),
    ],
)
def test_tasks_go_where_least_is_lost(nodes, job, placed):
    world = a_world().with_queues("q")
    for name, cpu in nodes.items():
        world.with_node(name, cpu=cpu)

    plan = world.with_jobs(job.named("job")).turn()

    assert where(plan) == {"job": placed}


def test_gpu_nodes_come_last_for_those_who_ask_for_none():
    world = a_world().with_queues("q").with_node("gpu", cpu=2, gpu=4).with_node("plain", cpu=32)

    plan = world.with_jobs(a_job("q").cpu(1).named("cpu"), a_job("q").cpu(1).gpu(1).named("gpu")).turn()

    assert where(plan) == {"cpu": ["plain"], "gpu": ["gpu"]}


@pytest.mark.parametrize(
    "asks, started",
    [
        pytest.param([(1, 600), (1, 600), (1, 600)], 2, id="two halves of different devices are no whole"),
        pytest.param([(1, 500), (1, 500), (1, 1000)], 3, id="fractions share a device first"),
        pytest.param([(2, 500), (2, 500)], 2, id="two devices, half of each, twice"),
        pytest.param([(1, 300), (2, 1000)], 1, id="a fraction keeps its device from whole requests"),
        pytest.param([(3, 100)], 0, id="three devices are not there, however little of each is asked"),
    ],
)
def test_devices_are_told_apart(asks, started):
    world = a_world().with_queues("q").with_node("n", cpu=32, gpu=2)

    jobs = [a_job("q").cpu(1).gpu(count, milli).named(f"j-{index}") for index, (count, milli) in enumerate(asks)]
    plan = world.with_jobs(*jobs).turn()

    assert len(where(plan)) == started


SWITCHES = {"n-0": "s0/l0", "n-1": "s0/l0", "n-2": "s0/l1", "n-3": "s0/l1", "n-4": "s1/l2", "n-5": "s1/l2"}


@pytest.mark.parametrize(
    "tasks, max_hops, placed",
    [
        pytest.param(2, 0, None, id="two whole nodes are not one node"),
        pytest.param(2, 2, {"n-0", "n-1"}, id="two fit below one leaf"),
        pytest.param(3, 2, None, id="three do not"),
        pytest.param(4, 4, {"n-0", "n-1", "n-2", "n-3"}, id="four fit below one spine"),
        pytest.param(6, 4, None, id="six need the top"),
        pytest.param(6, 6, {"n-0", "n-1", "n-2", "n-3", "n-4", "n-5"}, id="and get it when it is near enough"),
    ],
)
def test_groups_stay_close(tasks, max_hops, placed):
    world = a_world().with_queues("q")
    for name, path in SWITCHES.items():
        world.with_node(name, cpu=4, topology=tuple(path.split("/")))

    plan = world.with_jobs(a_job("q").cpu(4).tasks(tasks).within(max_hops).named("job")).turn()

    if placed is None:
        assert why(plan, "job") == ("NEVER_FITS", "topology")
    else:
        assert set(where(plan)["job"]) == placed


@pytest.mark.parametrize(
    "one, other, distance",
    [
        pytest.param("s0/l0", "s0/l0", 2, id="under one switch"),
        pytest.param("s0/l0", "s0/l1", 4, id="one level up"),
        pytest.param("s0/l0", "s1/l0", 6, id="two levels up"),
        pytest.param("", "", 2, id="no topology: one switch for all"),
    ],
)
def test_hops_between_two_nodes(one, other, distance):
    def node(name, path):
        return Node(name=name, cluster="c", allocatable=NOTHING, topology=tuple(filter(None, path.split("/"))))

    assert hops(node("a", one), node("b", other)) == distance
    assert hops(node("a", one), node("a", one)) == 0


@pytest.mark.parametrize(
    "node, job, reason",
    [
        pytest.param({"cpu": 4}, a_job("q").cpu(8), ("NEVER_FITS", "cpu"), id="too large for any node"),
        pytest.param({"cpu": 4}, a_job("q").cpu(2).tasks(3), ("NEVER_FITS", "cpu"), id="too many tasks for the fleet"),
        pytest.param({"cpu": 4}, a_job("q").cpu(1).on(zone="z"), ("NEVER_FITS", "nodeSelector"), id="no such label"),
        pytest.param(
            {"cpu": 4, "taints": (Taint.parse("a=b:NoSchedule"),)},
            a_job("q").cpu(1),
            ("NEVER_FITS", "taint"),
            id="a taint nobody tolerates",
        ),
        pytest.param(
            {"cpu": 4, "cordoned": True}, a_job("q").cpu(1), ("NO_ROOM", "cordoned"), id="a cordon may be lifted"
        ),
        pytest.param({"cpu": 4}, a_job("q").cpu(1).gpu(1), ("NEVER_FITS", "nvidia.com/gpu"), id="no GPU anywhere"),
    ],
)
def test_what_does_not_fit_says_what_is_short(node, job, reason):
    world = a_world().with_queues("q").with_node("n", **node)

    plan = world.with_jobs(job.named("job")).turn()

    assert why(plan, "job") == reason
    assert plan.verdicts["job"].explain()


def test_a_gang_that_does_not_fit_leaves_no_trace():
    world = a_world(reservations=0).with_queues("q").with_node("n", cpu=4)
    world.with_jobs(a_job("q").cpu(1).named("first")).turn()

    plan = world.with_jobs(a_job("q").cpu(2).tasks(2).named("gang"), a_job("q").cpu(3).named("single")).turn()

    assert where(plan) == {"single": ["n"]}
    assert plan.verdicts["gang"].reason.name == "GANG_DOES_NOT_FIT"
    # as the turn leaves the node, on which `single` now is
    assert (plan.verdicts["gang"].facts["placed"], plan.verdicts["gang"].facts["needed"]) == (0, 2)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_the_scale_of_tightness_has_its_steps_per_doubling(steps):
    scale = [step(amount, steps) for amount in range(4097)]

    assert scale == sorted(scale)
    assert set(scale) == set(range(scale[-1] + 1))
    assert scale[4096] - scale[2048] == steps
