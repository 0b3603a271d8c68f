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

FAR = "spec.affinity.podAntiAffinity"
HOSTNAME = "kubernetes.io/hostname"


def named(spec: str = "{}", **metadata: Any) -> list[Pod]:
    """Two pods of one template."""
    return [a_pod(name, spec=spec, **metadata) for name in "pq"]


@pytest.mark.parametrize(
    "gang, field, apart",
    [
        pytest.param([*named(**WEB_POD), a_pod("r")], "", "", id="nobody minds"),
        pytest.param(named(far(f"topologyKey: zone, {WEB}")), "", "", id="they mind others"),
        pytest.param(
            [*named(far(f"topologyKey: {HOSTNAME}, {WEB}"), **WEB_POD), a_pod("r")],
            FAR,
            "pq",
            id="those that may share no node are kept apart",
        ),
        pytest.param(
            [*named(far(f"topologyKey: {HOSTNAME}, {WEB}")), a_pod("r", **WEB_POD)],
            FAR,
            "pqr",
            id="and those they mean",
        ),
        pytest.param(
            [*named(ports("hostPort: 80")), a_pod("r", spec=ports("hostPort: 81"))],
            "spec.containers.ports.hostPort",
            "pq",
            id="the same port",
        ),
        pytest.param(
            [a_pod(address, spec=ports(f"hostPort: 80, hostIP: 10.0.0.{address}")) for address in "12"],
            "",
            "",
            id="the same port of different addresses",
        ),
        pytest.param(
            [a_pod("p", spec=far(f"topologyKey: {HOSTNAME}, {WEB}"), **WEB_POD)], "", "", id="one alone minds nobody"
        ),
        pytest.param(named(far(f"topologyKey: zone, {WEB}"), **WEB_POD), FAR, None, id="apart by zones"),
        pytest.param(
            named(far(f"topologyKey: {HOSTNAME}, {WEB}", f"topologyKey: zone, {WEB}"), **WEB_POD),
            FAR,
            None,
            id="apart by zones too",
        ),
        pytest.param(
            named(close(f"topologyKey: {HOSTNAME}, {WEB}"), **WEB_POD), "spec.affinity.podAffinity", None, id="close"
        ),
        pytest.param(
            named(spread(f"maxSkew: 1, topologyKey: {HOSTNAME}, {WEB}"), **WEB_POD),
            "spec.topologySpreadConstraints",
            None,
            id="spread",
        ),
    ],
)
def test_pods_of_a_gang_that_mind_each_other(gang: list[Pod], field: str, apart: str | None) -> None:
    around = neighbours(("a", WEBS))
    assert around.among(gang) == field
    assert around.apart(gang) == (None if apart is None else {("ns", name) for name in apart})


def test_pods_that_are_kept_apart_never_share_a_node() -> None:
    node = node_of(objects.Node(status=objects.NodeStatus(allocatable={"pods": 9})), "here")
    plain, apart = Request.of({}), kept_apart(Request.of({}))

    room = node.empty().take(apart, ())

    assert (room.fits(plain), room.fits(apart)) == (True, False)
    assert room.take(plain, ()).give(apart, (), node.empty()).fits(apart)
