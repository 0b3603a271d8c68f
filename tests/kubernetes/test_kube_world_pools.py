"""Pools of a Kubernetes cluster: whose nodes and pods, who borrows and gives back, and how pools stand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeworld import Told

from muster.kubernetes.cache import Change
from muster.kubernetes.objects import Pod
from muster.kubernetes.pools import Pool, is_asked_anew
from muster.model.policy import Preemption
from muster.state.pools import pool_table, told

CPU = 4
A, B = {"a": "true"}, {"b": "true"}


def two_pools(**a: Any) -> Told:
    """Pools a and b with a node of four cores each, and one of no pool."""
    cluster = Told(preemption=a.pop("preemption", Preemption.ON))
    cluster.node("na", labels=A)
    cluster.node("nb", labels=B)
    cluster.node("nn")
    cluster.pool("a", **a)
    cluster.pool("b")
    return cluster


def of(pool: str, cluster: Told, name: str, cpu: int = CPU, **more: Any) -> Pod:
    meta = {"annotations": {"resource.aibee.cn/pool": pool}} if pool else {}
    return cluster.pod(name, cpu=cpu, scheduler="ai-scheduler", meta=meta, **more)


# --- whose node, whose pod -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels, pool",
    [
        pytest.param(A, "a", id="the pool that selects it"),
        pytest.param({}, "default", id="no pool selects it"),
        pytest.param(A | B, "default", id="two pools select it"),
        pytest.param({"a": "false"}, "default", id="another value"),
        pytest.param({"card": "h100"}, "big", id="by an expression"),
        pytest.param({"card": "t4"}, "default", id="by an expression, with another value"),
    ],
)
def test_a_node_is_in_the_pool_that_alone_selects_it(labels: dict[str, str], pool: str) -> None:
    cluster = Told()
    cluster.pool("a")
    cluster.pool("b")
    big = {"key": "card", "operator": "In", "values": ["a100", "h100"]}
    cluster.pool("big", nodeSelector={"matchExpressions": [big]})
    cluster.node("n", labels=labels)
    cluster.turn()

    assert {name for name in ("default", "a", "b", "big") if cluster.stands(name, "nodes").get("capacity")} == {pool}


@pytest.mark.parametrize(
    "annotations, pool",
    [
        pytest.param({"resource.aibee.cn/pool": "a"}, "a", id="the document's annotation"),
        pytest.param({"muster.dev/pool": "a"}, "a", id="our own"),
        pytest.param({}, "default", id="none"),
        pytest.param({"resource.aibee.cn/pool": "default"}, "default", id="the default pool, by its name"),
        pytest.param({"resource.aibee.cn/pool": "nowhere"}, "default", id="a pool that is not there"),
    ],
)
def test_a_pod_is_of_the_pool_that_it_names(annotations: dict[str, str], pool: str) -> None:
    cluster = two_pools(disableBorrowing=True)
    cluster.pod("p", cpu=3, meta={"annotations": annotations})

    assert cluster.turn() == {"p": {"a": "na", "default": "nn"}[pool]}
    assert cluster.stands(pool)["used"] == "3"
    assert "shared" not in cluster.stands(pool)


# --- who borrows ----------------------------------------------------------------------------------


def test_who_finds_no_room_at_home_borrows_and_its_bind_says_so() -> None:
    cluster = two_pools(borrowingPools=["b"])
    of("a", cluster, "at-home")
    of("a", cluster, "borrower")

    binds = {bind.key[1]: (bind.node, bind.lender) for bind in cluster.orders().binds}

    assert binds == {"at-home": ("na", None), "borrower": ("nb", "b")}


@pytest.mark.parametrize(
    "a, b, node",
    [
        pytest.param({}, {}, "nn", id="from the first by name of those that are as idle"),
        pytest.param({"borrowingPools": ["b"]}, {}, "nb", id="only from pools that its own names"),
        pytest.param({"disableBorrowing": True}, {}, None, id="not if its pool does not borrow"),
        pytest.param(
            {"borrowingPools": ["b"]}, {"disableSharing": True}, None, id="not from a pool that does not share"
        ),
        pytest.param({"borrowingPools": ["default"]}, {}, "nn", id="the default pool has that name"),
        pytest.param({"borrowingPools": ["b"]}, {"keep": {"cpu": 1}}, None, id="not what a pool keeps back"),
        pytest.param({"borrowingPools": ["b"]}, {"keep": {"gpu": "8"}}, "nb", id="that holds for what is kept only"),
        pytest.param({"borrowingPools": ["c"]}, {}, None, id="from nobody, if none of those is there"),
    ],
)
def test_from_whom_pods_borrow(a: dict[str, Any], b: dict[str, Any], node: str | None) -> None:
    cluster = two_pools(**a)
    cluster.pool("b", **b)
    of("a", cluster, "at-home")
    of("a", cluster, "borrower")

    assert cluster.turn().get("borrower") == node


def test_what_is_lent_is_taken_back_and_the_borrower_stands_at_home_again() -> None:
    cluster = two_pools(borrowingPools=["b"])
    of("a", cluster, "at-home", priority=1000)
    of("a", cluster, "borrower", priority=1000)
    cluster.turn()
    assert (cluster.stands("a")["borrowed"], cluster.stands("b")["shared"]) == ("4", "4")

    of("b", cluster, "owner")
    (eviction,) = cluster.orders().evictions
    assert eviction.key[1] == "borrower", "its priority does not help it"
    assert cluster.stands("a")["borrowed"] == "4", "until it is gone it is of its own pool"
    cluster.goes("borrower")
    assert cluster.turn() == {"owner": "nb"}

    of("a", cluster, "again")
    assert cluster.turn() == {}
    assert cluster.stands("a") == {"capacity": "4", "allocatable": "4", "used": "4", "pending": "4", "total": "12"}


def test_a_scheduler_that_starts_again_knows_who_borrows() -> None:
    cluster = two_pools()
    of("a", cluster, "borrower", nodeName="nb")
    assert cluster.turn() == {}
    assert (cluster.stands("a")["borrowed"], cluster.stands("b")["shared"]) == ("4", "4")

    of("b", cluster, "owner")

    assert [each.key[1] for each in cluster.orders().evictions] == ["borrower"]


@pytest.mark.parametrize(
    "b, preemption",
    [
        pytest.param({"disablePreemption": True}, Preemption.ON, id="in that pool"),
        pytest.param({}, Preemption.OFF, id="for the whole scheduler"),
    ],
)
def test_nothing_is_taken_back_where_preemption_is_off(b: dict[str, Any], preemption: Preemption) -> None:
    cluster = two_pools(preemption=preemption, borrowingPools=["b"])
    cluster.pool("b", disableBorrowing=True, **b)
    of("a", cluster, "at-home")
    of("a", cluster, "borrower")
    cluster.turn()
    of("b", cluster, "owner")
    of("a", cluster, "high", priority=1000)

    orders = cluster.orders()

    assert orders.binds == []
    assert [each.key[1] for each in orders.evictions] == (["at-home"] if preemption is Preemption.ON else [])
    marks = {name: it["preemption"] for name, it in cluster.world.pools.statuses(cluster.world.state).items()}
    is_on = preemption is Preemption.ON
    assert marks == {"default": is_on, "a": is_on, "b": False}


# --- pools that change ----------------------------------------------------------------------------


def test_a_deleted_pool_leaves_its_nodes_and_its_pods_to_the_default_pool() -> None:
    cluster = Told()
    cluster.node("na", labels=A)
    cluster.pool("a", disableBorrowing=True, disableSharing=True)
    cluster.pool("b")
    cluster.pod("nobody's", cpu=1)
    of("b", cluster, "waits", 1)
    assert cluster.turn() == {}

    cluster.pool_goes("a")

    assert cluster.turn() == {"nobody's": "na", "waits": "na"}
    assert cluster.stands("default")["shared"] == "1"


def test_another_selector_makes_a_borrower_of_who_runs_there() -> None:
    cluster = two_pools()
    of("a", cluster, "was-at-home")
    cluster.turn()
    assert "shared" not in cluster.stands("b")

    cluster.pool("a", labels={"a": "nobody"}, disableBorrowing=True)
    cluster.pool("b", labels=A)
    of("b", cluster, "owner")

    assert [each.key[1] for each in cluster.orders().evictions] == ["was-at-home"]
    assert cluster.stands("b")["shared"] == "4"
    assert cluster.stands("default")["capacity"] == "8"  # with the node that was b's
    assert cluster.world.pools.statuses(cluster.world.state)["b"]["observedGeneration"] == 2


def test_another_label_moves_a_node() -> None:
    cluster = two_pools()
    of("a", cluster, "p", 1)
    cluster.turn()
    cluster.node("na", labels=B)
    cluster.turn()

    assert cluster.stands("a") == {"borrowed": "1", "total": "12"}
    assert cluster.stands("b") == {"capacity": "8", "allocatable": "8", "used": "1", "shared": "1", "total": "12"}


def test_a_status_is_nothing_to_take_a_turn_for() -> None:
    cluster = Told()
    cluster.pool("a")
    made = cluster.pools["a"]
    counted = msgspec.structs.replace(made, status={"sharing": True})
    cluster.pool("a", disableSharing=False)  # the same as before, in more words

    assert not is_asked_anew(Change(made, counted))
    assert is_asked_anew(Change(counted, msgspec.structs.replace(made, spec=Pool().spec)))
    assert is_asked_anew(Change(counted, cluster.pools["a"]))
    assert is_asked_anew(Change(None, made))
    assert is_asked_anew(Change(made, None))


# --- what is counted ------------------------------------------------------------------------------


def test_without_pools_the_default_pool_is_the_cluster_and_preempts() -> None:
    cluster = Told("n", cpu=CPU)
    cluster.pool("default", labels={})  # the object that holds its status is no pool beside it
    of("", cluster, "low", 3)
    cluster.turn()
    of("", cluster, "high", 3, priority=10)

    assert [each.key[1] for each in cluster.orders().evictions] == ["low"]
    status = cluster.world.pools.statuses(cluster.world.state)
    assert [*status] == ["default"]
    assert [status["default"][switch] for switch in ("preemption", "borrowing", "sharing")] == [True, True, True]


def test_the_switches_of_the_default_pool_are_those_of_its_object_as_long_as_it_is_there() -> None:
    cluster = Told("n", cpu=CPU)
    cluster.pool("default", labels={}, disablePreemption=True)
    cluster.pool("a")
    of("", cluster, "low", 3)
    cluster.turn()
    of("", cluster, "high", 3, priority=10)

    assert cluster.orders().evictions == []
    cluster.pool_goes("default")
    assert [each.key[1] for each in cluster.orders().evictions] == ["low"]


def test_capacity_is_what_nodes_have_and_allocatable_what_they_leave_to_pods() -> None:
    cluster = Told()
    cluster.pool("a")
    cluster.node("n1", cpu=4, gpus=2, labels=A, kept_cpu=1)
    cluster.node("n2", cpu=4, labels=A)
    cluster.pod("other", cpu=1, scheduler="kube-scheduler", nodeName="n1")
    of("a", cluster, "own", 2)
    of("a", cluster, "large", 5)
    cluster.turn()

    assert cluster.stands("a") == {
        "capacity": "9", "allocatable": "8", "used": "3", "shared": "1", "pending": "5", "total": "8"
    }  # fmt: skip
    assert cluster.stands("a", "gpu") == {"capacity": "2", "allocatable": "2", "total": "2"}
    assert cluster.stands("a", "pods")["pending"] == "1"
    cluster.node("n2", cpu=4, labels=A, kept_cpu=2)
    cluster.turn()
    assert cluster.stands("a")["capacity"] == "11"


POOLS = st.sampled_from(["", "a", "b"])
STEPS = st.one_of(
    st.tuples(st.just("pod"), POOLS, st.integers(1, CPU), st.sampled_from([0, 0, 9])),
    st.tuples(st.just("foreign"), st.sampled_from(["n0", "n1", "n2"])),
    st.tuples(st.just("end"), st.integers(0, 5)),
    st.tuples(st.just("label"), st.sampled_from(["n0", "n1", "n2"]), POOLS),
    st.tuples(st.just("node goes"), st.sampled_from(["n0", "n1"])),
    st.tuples(
        st.just("pool"), st.sampled_from(["a", "b"]), st.sampled_from(["a", "b", "c"]), st.booleans(), st.booleans()
    ),
    st.tuples(st.just("pool goes"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("turn")),
)


def take_a_step(cluster: Told, number: int, what: str, *more: Any) -> None:
    match what:
        case "pod":
            of(more[0], cluster, f"p{number}", more[1], priority=more[2])
        case "foreign" if more[0] in cluster.nodes:
            cluster.pod(f"f{number}", cpu=1, scheduler="other", nodeName=more[0])
        case "end" if len(cluster.pods) > more[0]:
            cluster.goes(list(cluster.pods)[more[0]])
        case "label":
            cluster.node(more[0], labels={more[1]: "true"} if more[1] else {})
        case "node goes" if more[0] in cluster.nodes:
            cluster.node_goes(more[0])
            cluster.goes(*[name for name, pod in cluster.pods.items() if pod.spec.node_name == more[0]])
        case "pool":
            cluster.pool(more[0], labels={more[1]: "true"}, disableSharing=more[2], disableBorrowing=more[3])
        case "pool goes" if more[0] in cluster.pools:
            cluster.pool_goes(more[0])
        case "turn":
            settle(cluster)


def settle(cluster: Told) -> None:
    """Take turns until nothing happens: what is bound is bound, what is evicted gone."""
    while (orders := cluster.orders()).binds or orders.evictions:
        cluster.carry_out(orders.binds)
        cluster.goes(*(each.key[1] for each in orders.evictions))


@given(steps=st.lists(STEPS, min_size=5, max_size=30))
def test_property_what_is_kept_is_what_a_look_at_everything_finds(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    cluster = Told("n0", "n1", "n2", cpu=CPU)
    for number, step in enumerate(steps):
        take_a_step(cluster, number, *step)
        if step[0] == "turn":
            state = cluster.world.state
            kept = told(cluster.world.pools.tally.table(state.fleet, state.policy))
            assert kept == told(pool_table(state.freeze(cluster.now_ms)))
