"""Where the pods around it let a pod go: host ports, inter-pod (anti-)affinity, spread."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kube_neighbours import (
    NODES,
    PLAIN,
    REQUIRED,
    WEB,
    WEB_POD,
    WEBS,
    a_pod,
    admitted,
    close,
    far,
    neighbours,
    ports,
    spread,
)

from muster.kubernetes.neighbours import Neighbours
from muster.kubernetes.objects import Pod
from muster.model.labels import Taint
from muster.model.nodes import Node
from muster.model.resources import NOTHING


@pytest.mark.parametrize(
    "there, pod, names",
    [
        # host ports
        pytest.param(
            [("a", a_pod(spec=ports("hostPort: 80")))], a_pod(spec=ports("hostPort: 80")), "bcd", id="a port is taken"
        ),
        pytest.param(
            [("a", a_pod(spec=ports("hostPort: 80")))],
            a_pod(spec=ports("hostPort: 80, protocol: UDP", "hostPort: 81")),
            "abcd",
            id="another protocol or number is another port",
        ),
        pytest.param(
            [("a", a_pod(spec=ports("hostPort: 80, hostIP: 10.0.0.1"))), ("b", a_pod(spec=ports("hostPort: 80")))],
            a_pod(spec=ports("hostPort: 80, hostIP: 10.0.0.2")),
            "acd",
            id="a port of another address is free, that of any address is not",
        ),
        pytest.param(
            [("a", a_pod(spec=ports("hostPort: 80, hostIP: 10.0.0.1")))],
            a_pod(spec=ports("hostPort: 80, hostIP: 0.0.0.0")),
            "bcd",
            id="who wants any address wants each",
        ),
        pytest.param(
            [
                ("a", a_pod(spec=ports("hostPort: 80", container="initContainers"))),
                ("b", a_pod(spec=ports("hostPort: 80", container="initContainers", also="restartPolicy: Always,"))),
            ],
            a_pod(spec=ports("hostPort: 80")),
            "acd",
            id="sidecars keep their ports, other init containers do not",
        ),
        # far
        pytest.param([("a", WEBS)], a_pod(spec=far(f"topologyKey: host, {WEB}")), "bcd", id="not on its node"),
        pytest.param([("a", WEBS)], a_pod(spec=far(f"topologyKey: zone, {WEB}")), "cd", id="not in its zone"),
        pytest.param([("d", WEBS)], a_pod(spec=far(f"topologyKey: zone, {WEB}")), "abcd", id="no zone, no distance"),
        pytest.param(
            [("a", a_pod(labels={"app": "web"}, namespace="other"))],
            a_pod(spec=far(f"topologyKey: zone, {WEB}")),
            "abcd",
            id="pods of other namespaces are not meant",
        ),
        pytest.param(
            [("a", a_pod(labels={"app": "web"}, namespace="other")), ("c", WEBS)],
            a_pod(spec=far(f"topologyKey: zone, namespaces: [other], {WEB}")),
            "cd",
            id="unless they are named, and then the own one is not",
        ),
        pytest.param(
            [("a", a_pod(labels={"app": "web"}, namespace="other"))],
            a_pod(spec=far(f"topologyKey: host, namespaceSelector: {{}}, {WEB}")),
            "bcd",
            id="every namespace",
        ),
        pytest.param(
            [
                ("a", a_pod(labels={"app": "web"}, namespace="red")),
                ("b", a_pod(labels={"app": "web"}, namespace="blue")),
            ],
            a_pod(spec=far(f"topologyKey: host, namespaceSelector: {{matchLabels: {{team: red}}}}, {WEB}")),
            "bcd",
            id="namespaces by their labels",
        ),
        pytest.param([("a", WEBS)], a_pod(spec=far("topologyKey: host")), "abcd", id="no selector means nobody"),
        pytest.param(
            [("a", PLAIN)], a_pod(spec=far("topologyKey: host, labelSelector: {}")), "bcd", id="an empty one everybody"
        ),
        pytest.param(
            [("a", a_pod(spec=far(f"topologyKey: zone, {WEB}")))], WEBS, "cd", id="who keeps others away is respected"
        ),
        pytest.param(
            [("a", a_pod(spec=far(f"topologyKey: zone, {WEB}")))], PLAIN, "abcd", id="by those who are meant only"
        ),
        pytest.param(
            [("a", a_pod(spec=far(f"topologyKey: zone, {WEB}"), namespace="other"))],
            WEBS,
            "abcd",
            id="whose namespace is that of the pod that says it",
        ),
        # close
        pytest.param([("a", WEBS)], a_pod(spec=close(f"topologyKey: zone, {WEB}")), "ab", id="in its zone"),
        pytest.param([], a_pod(spec=close(f"topologyKey: zone, {WEB}")), "", id="nowhere while nobody is there"),
        pytest.param(
            [],
            a_pod(spec=close(f"topologyKey: zone, {WEB}"), **WEB_POD),
            "abc",
            id="the first of a kind chooses a zone",
        ),
        pytest.param(
            [("c", WEBS)],
            a_pod(spec=close(f"topologyKey: zone, {WEB}"), **WEB_POD),
            "c",
            id="those that follow go there",
        ),
        pytest.param(
            [("a", WEBS), ("c", a_pod(labels={"app": "web", "tier": "one"}))],
            a_pod(
                spec=close(f"topologyKey: zone, {WEB}", "topologyKey: zone, labelSelector: {matchLabels: {tier: one}}")
            ),
            "c",
            id="one pod must be meant by all terms",
        ),
        pytest.param(
            [("a", WEBS)],
            a_pod(spec=close(f"topologyKey: zone, {WEB}", f"topologyKey: host, {WEB}")),
            "a",
            id="each term has its own distance",
        ),
        # spread
        pytest.param(
            [("a", WEBS)], a_pod(spec=spread(f"maxSkew: 1, topologyKey: zone, {WEB}"), **WEB_POD), "c", id="evenly"
        ),
        pytest.param(
            [("a", WEBS)], a_pod(spec=spread(f"maxSkew: 2, topologyKey: zone, {WEB}"), **WEB_POD), "abc", id="almost"
        ),
        pytest.param(
            [("a", WEBS)],
            a_pod(spec=spread(f"maxSkew: 1, topologyKey: zone, {WEB}")),
            "abc",
            id="who is not meant does not add to it",
        ),
        pytest.param(
            [("a", WEBS)],
            a_pod(spec=spread(f"maxSkew: 1, topologyKey: zone, {WEB}") + "\nnodeSelector: {zone: x}", **WEB_POD),
            "ab",
            id="zones that it cannot go to do not count",
        ),
        pytest.param(
            [("a", WEBS)],
            a_pod(
                spec=spread(f"maxSkew: 1, topologyKey: zone, nodeAffinityPolicy: Ignore, {WEB}")
                + "\nnodeSelector: {zone: x}",
                **WEB_POD,
            ),
            "",
            id="unless it is told so",
        ),
        pytest.param(
            [("a", WEBS), ("c", WEBS)],
            a_pod(spec=spread(f"maxSkew: 1, topologyKey: zone, minDomains: 3, {WEB}"), **WEB_POD),
            "",
            id="with fewer zones than wanted, one that is missing is empty",
        ),
        pytest.param(
            [("a", a_pod(labels={"app": "web"}, deletionTimestamp="2026-01-01T00:00:00Z"))],
            a_pod(spec=spread(f"maxSkew: 1, topologyKey: zone, {WEB}"), **WEB_POD),
            "abc",
            id="who is leaving is not counted",
        ),
        pytest.param(
            [("a", a_pod(labels={"app": "web", "version": "1"}))],
            a_pod(
                spec=spread(f"maxSkew: 1, topologyKey: zone, matchLabelKeys: [version, absent], {WEB}"),
                labels={"app": "web", "version": "2"},
            ),
            "abc",
            id="pods of another version are spread by themselves",
        ),
        pytest.param(
            [("a", WEBS)],
            a_pod(
                spec=spread(f"maxSkew: 1, topologyKey: zone, {WEB}", f"maxSkew: 1, topologyKey: fast, {WEB}"), **WEB_POD
            ),
            "c",
            id="only nodes with all labels count for any",
        ),
    ],
)
def test_where_the_pods_around_let_a_pod_go(there: list[tuple[str, Pod]], pod: Pod, names: str) -> None:
    around = neighbours(*there)
    around.relabel("red", {"team": "red"})
    assert admitted(around, pod) == names


@pytest.mark.parametrize(
    "policy, names",
    [
        pytest.param("", "", id="the empty zone is counted, though the pod cannot go there"),
        pytest.param("nodeTaintsPolicy: Ignore,", "", id="as if that was said"),
        pytest.param("nodeTaintsPolicy: Honor,", "abc", id="unless taints are honoured"),
    ],
)
def test_a_spread_over_tainted_nodes(policy: str, names: str) -> None:
    tainted = Node(
        name="e",
        cluster="here",
        allocatable=NOTHING,
        labels={"zone": "z", "host": "e"},
        taints=(Taint(key="ill", effect="NoSchedule"),),
    )
    around = Neighbours({**NODES, "e": tainted})
    around.put(a_pod("one", **WEB_POD), "a")
    around.put(a_pod("two", **WEB_POD), "c")
    pod = a_pod(spec=spread(f"maxSkew: 1, topologyKey: zone, {policy} {WEB}"), **WEB_POD)

    assert admitted(around, pod) == names


def test_the_field_that_forbids_is_named() -> None:
    around = neighbours(
        ("a", a_pod(spec=ports("hostPort: 80"), **WEB_POD)), ("c", a_pod(spec=far(f"topologyKey: host, {WEB}")))
    )
    pod = a_pod(spec="\n".join((ports("hostPort: 80"), far(f"topologyKey: zone, {WEB}"))), **WEB_POD)

    assert {name: around.refuses(pod, node) for name, node in NODES.items()} == {
        "a": "spec.containers.ports.hostPort",
        "b": f"spec.affinity.podAntiAffinity.{REQUIRED}[0]",
        "c": "spec.affinity.podAntiAffinity of other pods",
        "d": "",
    }


def test_a_pod_that_is_over_is_nobodys_neighbour() -> None:
    around = Neighbours(NODES)
    around.put(a_pod("web", **WEB_POD), "a")
    over = msgspec.structs.replace(
        a_pod("web", **WEB_POD), status=msgspec.structs.replace(PLAIN.status, phase="Succeeded")
    )
    around.put(over, "a")
    assert admitted(around, a_pod(spec=far(f"topologyKey: host, {WEB}"))) == "abcd"


SPECS = [
    "{}",
    ports("hostPort: 80"),
    ports("hostPort: 80, hostIP: 10.0.0.1"),
    far(f"topologyKey: host, {WEB}"),
    far(f"topologyKey: zone, namespaceSelector: {{matchLabels: {{team: red}}}}, {WEB}"),
    close(f"topologyKey: zone, {WEB}"),
    spread(f"maxSkew: 1, topologyKey: zone, {WEB}"),
]
PODS = [
    a_pod(spec=spec, labels=labels, namespace=namespace)
    for spec in SPECS
    for labels in ({}, {"app": "web"})
    for namespace in ("ns", "red")
]
happenings = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("pqrst"), st.sampled_from(PODS), st.sampled_from("abcd")),
        st.tuples(st.sampled_from("pqrst"), st.none(), st.none()),
        st.tuples(st.just("red"), st.just({}), st.sampled_from([{}, {"team": "red"}])),
    ),
    max_size=20,
)


@given(happenings)
def test_what_is_kept_is_what_would_be_counted_anew(happened: list[tuple[str, Any, Any]]) -> None:
    kept = Neighbours(NODES)
    there: dict[str, tuple[Pod, str]] = {}
    labels: dict[str, str] = {}
    for name, what, where in happened:
        if isinstance(what, Pod):
            pod = msgspec.structs.replace(
                what, metadata=msgspec.structs.replace(what.metadata, name=name, namespace="ns")
            )
            there[name] = (pod, where)
            kept.put(pod, where)
        elif what is None:
            there.pop(name, None)
            kept.remove(("ns", name))
        else:
            labels = where
            kept.relabel(name, where)
        fresh = Neighbours(NODES)
        fresh.relabel("red", labels)
        for pod, node in there.values():
            fresh.put(pod, node)
        assert [list(kept.demands(pod)) for pod in PODS] == [list(fresh.demands(pod)) for pod in PODS]
