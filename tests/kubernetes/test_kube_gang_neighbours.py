"""Gangs whose own pods mind each other: kept apart where that can be planned, named with their field where not."""

from __future__ import annotations

from typing import Any

import pytest
from kube_neighbours import WEB, WEB_POD, WEBS, a_pod, close, far, neighbours, ports, spread

from muster.kubernetes import objects
from muster.kubernetes.amounts import kept_apart
from muster.kubernetes.nodes import node_of
from muster.kubernetes.objects import Pod
from muster.model.nodes import Request


def named(spec: str = "{}", **metadata: Any) -> list[Pod]:
    """Two pods of one template."""
    return [a_pod(name, spec=spec, **metadata) for name in "pq"]


@pytest.mark.parametrize(
    "gang, apart, unsupported",
    [
        pytest.param([*named(**WEB_POD), a_pod("r")], "", "", id="nobody minds"),
        pytest.param(named(far(f"topologyKey: host, {WEB}")), "", "", id="they mind others"),
        pytest.param(
            [*named(far(f"topologyKey: kubernetes.io/hostname, {WEB}"), **WEB_POD), a_pod("r")],
            "pq",
            "",
            id="those that may share no node are kept apart",
        ),
        pytest.param(
            [*named(far(f"topologyKey: kubernetes.io/hostname, {WEB}")), a_pod("r", **WEB_POD)],
            "pqr",
            "",
            id="and those that they mean",
        ),
        pytest.param(
            [*named(ports("hostPort: 80")), a_pod("r", spec=ports("hostPort: 81"))], "pq", "", id="the same port"
        ),
        pytest.param(
            [a_pod(address, spec=ports(f"hostPort: 80, hostIP: 10.0.0.{address}")) for address in "12"],
            "",
            "",
            id="the same port of different addresses",
        ),
        pytest.param(
            [a_pod(far_one, spec=far(f"topologyKey: kubernetes.io/hostname, {WEB}"), **WEB_POD) for far_one in "p"],
            "",
            "",
            id="one alone has nobody to mind",
        ),
        pytest.param(
            named(far(f"topologyKey: zone, {WEB}"), **WEB_POD), "", "spec.affinity.podAntiAffinity", id="apart by zones"
        ),
        pytest.param(
            named(close(f"topologyKey: zone, {WEB}"), **WEB_POD), "", "spec.affinity.podAffinity", id="close together"
        ),
        pytest.param(
            named(spread(f"maxSkew: 1, topologyKey: zone, {WEB}"), **WEB_POD),
            "",
            "spec.topologySpreadConstraints",
            id="spread together",
        ),
    ],
)
def test_pods_of_a_gang_that_mind_each_other(gang: list[Pod], apart: str, unsupported: str) -> None:
    among = neighbours(("a", WEBS)).among(gang)
    assert among.apart == {("ns", name) for name in apart}
    assert among.unsupported == (f"{unsupported}: pods of one gang mind each other" if unsupported else "")


def test_pods_that_are_kept_apart_never_share_a_node() -> None:
    node = node_of(objects.Node(status=objects.NodeStatus(allocatable={"pods": 9})), "here")
    plain, apart = Request.of({}), kept_apart(Request.of({}))

    room = node.empty().take(apart, ())

    assert (room.fits(plain), room.fits(apart)) == (True, False)
    assert room.take(plain, ()).give(apart, (), node.empty()).fits(apart)
