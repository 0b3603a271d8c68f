"""The table of pools: what each has, uses, lends, borrows and waits for (ai-scheduler-pools.md; cases.md 5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import amounts

from muster.model import events as ev
from muster.model.after import After
from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, Task, TaskGroup
from muster.model.nodes import Node, Request
from muster.model.policy import Policy, Preemption
from muster.model.pools import Pool
from muster.model.queues import Queue
from muster.model.resources import CPU, MEMORY, PODS, Resources
from muster.state.pools import NODES, PoolTable, pool_table, told
from muster.state.state import State


def a_state(*pools: Pool, clusters: tuple[str, ...] = ("c",)) -> State:
    """A world of one queue with these pools and no nodes."""
    state = State(Policy())
    happen(state, *(ev.ClusterSet(cluster=Cluster(name=name)) for name in clusters))
    happen(state, ev.QueueSet(queue=Queue(name="q")), *(ev.PoolSet(pool=pool) for pool in pools))
    return state


def happen(state: State, *events: ev.Event) -> None:
    for event in events:
        state.apply(event, 0)


def a_pool(name: str, **settings: Any) -> Pool:
    """A pool of the nodes that have a label of its name."""
    return Pool(name=name, selector={name: "yes"}, **settings)


def a_node(name: str, *pools: str, **given: object) -> ev.Event:
    marks = {"cordoned": bool(given.pop("cordoned", False)), "cluster": str(given.pop("cluster", "c"))}
    has = amounts(**(given or {"cpu": 4, "memory": "8Ki", "pods": 110}))
    node = Node(name=name, allocatable=Resources.of(has), labels=dict.fromkeys(pools, "yes"), **marks)
    return ev.NodeAdded(node=node)


def a_job(name: str, pool: str, *, tasks: int = 1, after: tuple[str, ...] = (), **asks: object) -> ev.JobSubmitted:
    request = Request.of(amounts(**asks))
    group = TaskGroup(name="w", min=tasks, initial=tasks + 1, max=tasks + 2, request=request)
    profile = Profile(groups=(group,), pool=pool)
    return ev.JobSubmitted(job=Job(id=name, queue="q", profile=profile, after=after))


def starts(state: State, submitted: ev.JobSubmitted, *nodes: str) -> None:
    """The job starts with one task on each node."""
    name = submitted.job.id
    tasks = tuple(Task("w", index, node) for index, node in enumerate(nodes))
    happen(
        state,
        submitted,
        ev.JobAdmitted(job=name, attempt=1, cluster="c", place=0),
        ev.JobStarted(job=name, attempt=1, cluster="c", tasks=tasks),
    )


def foreign(name: str, node: str, **asks: object) -> ev.Event:
    return ev.ForeignPlaced(id=name, node=node, amounts=Resources.of({PODS: 1, **amounts(**asks)}))


def table_of(state: State) -> PoolTable:
    return pool_table(state.freeze(0))


def column(state: State, pool: str, name: str) -> tuple[int, int, int, int]:
    """(cpu, memory, nodes, pods) of one column of a pool."""
    found = getattr(table_of(state).standings[pool], name)
    return found.get(CPU), found.get(MEMORY), found.get(NODES), found.get(PODS)


def members(state: State) -> dict[str, list[str]]:
    return {name: list(part.nodes) for name, part in state.fleet.parts.items()}


# --- accounting ---------------------------------------------------------------------------------


def test_aib_acc_used_is_everything_and_shared_is_what_others_hold() -> None:
    state = a_state(a_pool("p"))
    happen(state, a_node("n", "p"))
    starts(state, a_job("own", "p", cpu="100m", memory=500), "n")
    happen(state, foreign("one", "n", cpu="200m", memory="1Ki"), foreign("two", "n", cpu="200m", memory="1Ki"))

    assert column(state, "p", "used") == (500, 2548, 1, 3)
    assert column(state, "p", "shared") == (400, 2048, 1, 2)


def test_aib_acc_jobs_that_name_no_pool_are_others() -> None:
    state = a_state(a_pool("p"))
    happen(state, a_node("n", "p"))
    starts(state, a_job("own", "p", cpu="100m", memory=500), "n")
    starts(state, a_job("one", "", cpu="200m", memory="1Ki"), "n")
    starts(state, a_job("two", "", cpu="200m", memory="1Ki"), "n")

    assert column(state, "p", "used") == (500, 2548, 1, 3)
    assert column(state, "p", "shared") == (400, 2048, 1, 2)
    assert column(state, "", "borrowed") == (400, 2048, 1, 2)


def test_what_one_pool_borrows_another_shares() -> None:
    state = a_state(a_pool("p"), a_pool("q"))
    happen(state, a_node("n1", "p"), a_node("n2", "q"), a_node("n3", "q"))
    starts(state, a_job("abroad", "p", tasks=2, cpu=1), "n2", "n3")
    starts(state, a_job("home", "p", cpu=1), "n1")

    assert column(state, "p", "used") == (1000, 0, 1, 1)
    assert column(state, "p", "borrowed") == (2000, 0, 2, 2)
    assert column(state, "q", "shared") == column(state, "q", "used") == (2000, 0, 2, 2)
    assert column(state, "p", "shared") == column(state, "q", "borrowed") == (0, 0, 0, 0)


def test_cordoned_nodes_are_capacity_but_not_allocatable() -> None:
    state = a_state(a_pool("p"), clusters=("c", "d"))
    happen(state, a_node("n1", "p"), a_node("n2", "p", cordoned=True), a_node("n3", "p", cluster="d"), a_node("n4"))
    happen(state, ev.ClusterSilent(cluster="d", silent=True))

    assert column(state, "p", "capacity") == (12_000, 3 * 8192, 3, 330)
    assert column(state, "p", "allocatable") == (4000, 8192, 1, 110)
    assert table_of(state).total.allocatable == Resources.of({CPU: 8000, MEMORY: 2 * 8192, NODES: 2, PODS: 220})


def test_jobs_that_wait_are_pending_at_their_min_in_their_own_pool() -> None:
    state = a_state(a_pool("p"))
    happen(
        state,
        a_node("n", "p"),
        a_job("queued", "p", tasks=3, cpu=2),
        a_job("admitted", "p", cpu=1),
        a_job("later", "p", after=(After("queued"),), cpu=1),
        a_job("lost", "nowhere", cpu=5),
        ev.JobAdmitted(job="admitted", attempt=1, cluster="c", place=0),
    )

    assert column(state, "p", "pending") == (7000, 0, 0, 4)
    assert column(state, "", "pending") == (5000, 0, 0, 1)


def test_a_world_without_pools_is_one_pool() -> None:
    state = a_state()
    happen(state, a_node("n"))
    starts(state, a_job("a", "p", cpu=1), "n")
    table = table_of(state)

    assert list(table.standings) == [""]
    assert table.total == table.standings[""]
    assert column(state, "", "used") == (1000, 0, 1, 1)
    assert column(state, "", "shared") == (0, 0, 0, 0)


def test_the_default_pool_comes_first_and_all_pools_add_up() -> None:
    state = a_state(a_pool("b", preempts=False), a_pool("a"))
    happen(state, a_node("n1", "a"), a_node("n2", "b"), a_node("n3"))
    starts(state, a_job("x", "a", cpu=1), "n2")
    table = table_of(state)

    assert list(table.pools) == ["", "a", "b"]
    assert (table.pools["b"].preempts, table.pools["a"].preempts) == (False, True)
    assert table.total.capacity.get(CPU) == 12_000
    assert table.total.shared == table.total.borrowed == table.total.used


# --- nodes that move ----------------------------------------------------------------------------


def test_aib_n4_a_deleted_pool_leaves_its_nodes_to_the_default_pool() -> None:
    state = a_state(a_pool("p1"), a_pool("p2"))
    happen(state, a_node("n1", "p1"), a_node("n2", "p1"), a_node("n3", "p2"))
    happen(state, ev.PoolDeleted(pool="p2"))

    assert members(state) == {"": ["n3"], "p1": ["n1", "n2"]}


def test_aib_n7_a_selector_without_labels_selects_nothing() -> None:
    state = a_state(a_pool("p1"), a_pool("p2"))
    happen(state, a_node("n1", "p1"), a_node("n2", "p1"), a_node("n3", "p2"))
    happen(state, ev.PoolChanged(pool="p2", changes={"selector": {}}))

    assert members(state) == {"": ["n3"], "p1": ["n1", "n2"], "p2": []}


def test_aib_n9_a_node_moves_with_its_usage() -> None:
    state = a_state(a_pool("p1"), a_pool("p2"))
    happen(state, a_node("n1", "p1"))
    starts(state, a_job("a", "p1", cpu=1, memory="1Ki"), "n1")
    happen(state, ev.NodeLabelled(node="n1", labels={"p1": "no", "p2": "yes"}))

    assert column(state, "p1", "allocatable") == column(state, "p1", "used") == (0, 0, 0, 0)
    assert column(state, "p2", "allocatable") == (4000, 8192, 1, 110)
    assert column(state, "p2", "used") == column(state, "p2", "shared") == (1000, 1024, 1, 1)
    assert column(state, "p1", "borrowed") == (1000, 1024, 1, 1)


def test_aib_n10_a_node_with_labels_of_two_pools_is_in_the_default_pool() -> None:
    state = a_state(a_pool("p1"), a_pool("p2"))
    happen(state, a_node("n1", "p1"), ev.NodeLabelled(node="n1", labels={"p2": "yes"}))

    assert members(state) == {"": ["n1"], "p1": [], "p2": []}


@pytest.mark.parametrize(
    "limits, pods",
    [
        pytest.param([{"cpu": 1, "pods": 5}, {"cpu": 1, "pods": 6}], 11, id="limits add up"),
        pytest.param([{"cpu": 1, "pods": 5}, {"cpu": 1}], None, id="one without a limit is enough for none at all"),
    ],
)
def test_how_many_pods_a_pool_takes(limits: list[dict[str, object]], pods: int | None) -> None:
    state = a_state(a_pool("p"))
    happen(state, *(a_node(f"n{number}", "p", **given) for number, given in enumerate(limits)))
    row = told(table_of(state))["p"]["resources"]["pods"]

    assert row["capacity"] == row["total"] == (None if pods is None else str(pods))


@pytest.mark.parametrize(
    "preemption, marks",
    [
        pytest.param(Preemption.ON, {"default": True, "p": True, "q": False}, id="as each pool says"),
        pytest.param(Preemption.OFF, {"default": False, "p": False, "q": False}, id="nowhere, if it is off for all"),
        pytest.param(Preemption.DRY_RUN, {"default": False, "p": False, "q": False}, id="nowhere, if it is only said"),
    ],
)
def test_where_preemption_is_on(preemption: Preemption, marks: dict[str, bool]) -> None:
    state = a_state(a_pool("p"), a_pool("q", preempts=False))
    state.policy = replace(state.policy, preemption=preemption)

    assert {name: pool["preemption"] for name, pool in told(table_of(state)).items()} == marks
