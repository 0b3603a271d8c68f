"""Which node belongs to which pool, and what that leaves to jobs (design.md 5.1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.model.fleet import Cluster, Fleet
from muster.model.jobs import Profile, TaskGroup
from muster.model.labels import Expression
from muster.model.nodes import Node, Request
from muster.model.pools import DEFAULT, Pool
from muster.model.resources import Resources
from muster.sim.checker.pools import Pools


def _node(name: str, *pools: str, cluster: str = "c") -> Node:
    labels = dict.fromkeys(pools, "yes")
    return Node(name=name, cluster=cluster, allocatable=Resources.of({"cpu": 1000}), labels=labels)


def _pool(name: str, label: str | None = None, *, borrows_from: tuple[str, ...] = (), shares: bool = True) -> Pool:
    return Pool(name=name, selector={label or name: "yes"}, borrows_from=borrows_from, shares=shares)


def _profile(pool: str, *clusters: str) -> Profile:
    group = TaskGroup(name="main", min=1, initial=1, max=1, request=Request.of({"cpu": 1000}))
    return Profile(groups=(group,), clusters=tuple((name, 50) for name in clusters), pool=pool)


def _members(fleet: Fleet) -> dict[str, list[str]]:
    return {name: list(part.nodes) for name, part in fleet.parts.items() if part.nodes}


TWO = [_node("n1", "p1"), _node("n2", "p1"), _node("n3", "p2")]
SHARED = [_node("n1", "p1"), _node("n2", "p1", "p2", "p3"), _node("n3", "p2"), _node("n4", "p3")]


@pytest.mark.parametrize(
    "nodes, pools, members",
    [
        pytest.param(TWO, ["p1"], {"": ["n3"], "p1": ["n1", "n2"]}, id="a node that no pool selects is in the default"),
        pytest.param(TWO, ["p1", "p2"], {"p1": ["n1", "n2"], "p2": ["n3"]}, id="AIB-N1 a new pool takes its nodes"),
        pytest.param(
            SHARED[:3],
            ["p1", "p2"],
            {"": ["n2"], "p1": ["n1"], "p2": ["n3"]},
            id="AIB-N2 a node that two pools select is in the default",
        ),
        pytest.param(
            SHARED,
            ["p1", "p2", "p3"],
            {"": ["n2"], "p1": ["n1"], "p2": ["n3"], "p3": ["n4"]},
            id="AIB-N3 a node that three pools select is in the default",
        ),
        pytest.param(
            SHARED,
            ["p1", "p2"],
            {"": ["n2", "n4"], "p1": ["n1"], "p2": ["n3"]},
            id="AIB-N6 a pool less leaves its nodes",
        ),
    ],
)
def test_every_node_is_in_one_pool(nodes: list[Node], pools: list[str], members: dict[str, list[str]]) -> None:
    fleet = Fleet([Cluster(name="c")], nodes, [_pool(name) for name in pools])
    assert _members(fleet) == members
    assert {name: fleet.pool_of(name) for name in fleet.nodes} == {
        node: pool for pool, names in members.items() for node in names
    }


def test_a_selector_without_labels_selects_nothing() -> None:
    fleet = Fleet([Cluster(name="c")], TWO, [_pool("p1"), Pool(name="p2")])
    assert _members(fleet) == {"": ["n3"], "p1": ["n1", "n2"]}
    assert fleet.parts["p2"].nodes == {}


@pytest.mark.parametrize(
    "operator, values, members",
    [
        pytest.param("In", ("a100", "h100"), ["n1", "n2"], id="one of these values"),
        pytest.param("NotIn", ("a100",), ["n2", "n3"], id="none of these values, or none at all"),
        pytest.param("Exists", (), ["n1", "n2"], id="any value"),
        pytest.param("DoesNotExist", (), ["n3"], id="no value"),
    ],
)
def test_a_pool_may_select_by_expressions_besides_labels(
    operator: str, values: tuple[str, ...], members: list[str]
) -> None:
    cards = [{"card": "a100"}, {"card": "h100"}, {}, {"card": "h100", "team": "other"}]
    nodes = [
        replace(_node(f"n{number}"), labels={"team": "vision", **labels}) for number, labels in enumerate(cards, 1)
    ]
    demand = Expression(key="card", operator=operator, values=values)
    pool = Pool(name="p", selector={"team": "vision"}, expressions=(demand,))

    assert list(Fleet([Cluster(name="c")], nodes, [pool]).parts["p"].nodes) == members
    assert [
        name for name, home in Pools({}, {node.name: node for node in nodes}, {"p": pool}, DEFAULT).of.items() if home
    ] == members


@pytest.mark.parametrize(
    "profile, home, clusters",
    [
        pytest.param(_profile("p1"), "p1", ("east",), id="a job goes only to clusters that have its pool"),
        pytest.param(_profile("p1", "west"), "", ("west",), id="where none has it, the default pool"),
        pytest.param(_profile("nobody"), "", ("east", "west"), id="a pool that is nowhere is the default pool"),
        pytest.param(_profile(""), "", ("east", "west"), id="who names no pool belongs to the default pool"),
        pytest.param(_profile("empty"), "empty", ("east", "west"), id="a pool without nodes is everywhere"),
    ],
)
def test_pools_resolve_by_cluster(profile: Profile, home: str, clusters: tuple[str, ...]) -> None:
    nodes = [_node("n1", "p1", cluster="east"), _node("n2", cluster="west")]
    fleet = Fleet([Cluster(name="east"), Cluster(name="west")], nodes, [_pool("p1"), _pool("empty")])
    assert fleet.home(profile) == home
    assert fleet.parts[home].candidates(profile) == clusters


@pytest.mark.parametrize(
    "said, preempts_in",
    [
        pytest.param([], {"east", "west"}, id="where nobody says anything of it"),
        pytest.param([Pool(name="", preempts=False)], set(), id="not where that is off"),
    ],
)
def test_the_default_pool_preempts_as_any_other(said: list[Pool], preempts_in: set[str]) -> None:
    nodes = [_node("n1", "p1", cluster="east"), _node("n2", cluster="west"), _node("n3", cluster="east")]
    fleet = Fleet([Cluster(name="east"), Cluster(name="west")], nodes, [_pool("p1"), *said])
    assert fleet.parts[""].preempts_in == preempts_in
    assert fleet.parts["p1"].preempts_in == {"east"}
    assert Fleet([Cluster(name="west")], nodes[1:2], said).preempts_in == preempts_in & {"west"}


@pytest.mark.parametrize(
    "pools, lenders",
    [
        pytest.param([_pool("a"), _pool("b"), _pool("c")], ("", "b", "c"), id="everyone who shares, the default too"),
        pytest.param([_pool("a", borrows_from=("b",)), _pool("b"), _pool("c")], ("b",), id="only those it names"),
        pytest.param([_pool("a"), _pool("b", shares=False), _pool("c")], ("", "c"), id="not who does not share"),
        pytest.param([Pool(name="a", selector={"a": "yes"}, borrows=False), _pool("b")], (), id="nobody if it may not"),
    ],
)
def test_who_may_lend(pools: list[Pool], lenders: tuple[str, ...]) -> None:
    fleet = Fleet([Cluster(name="c")], [_node("n1", "a"), _node("n2", "b")], pools)
    assert fleet.lenders(_profile("a")) == lenders


@pytest.mark.parametrize(
    "default, lenders",
    [
        pytest.param(Pool(name=""), ("a", "c"), id="everyone who shares"),
        pytest.param(Pool(name="", borrows_from=("c",)), ("c",), id="only those it names"),
        pytest.param(Pool(name="", borrows=False), (), id="nobody if it may not"),
    ],
)
def test_who_lends_to_the_default_pool(default: Pool, lenders: tuple[str, ...]) -> None:
    pools = [default, _pool("a"), _pool("b", shares=False), _pool("c")]
    fleet = Fleet([Cluster(name="c")], [_node("n1", "a"), _node("n2", "b")], pools)
    assert fleet.lenders(_profile("")) == lenders


def test_a_default_pool_that_does_not_share_lends_nothing() -> None:
    fleet = Fleet([Cluster(name="c")], [_node("n1", "a")], [_pool("a"), Pool(name="", shares=False)])
    assert fleet.lenders(_profile("a")) == ()
