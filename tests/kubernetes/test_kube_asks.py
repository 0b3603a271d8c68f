"""What pods ask for, and what nodes have: as Kubernetes counts it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import yaml

from muster.kubernetes.amounts import PLACE_APART
from muster.kubernetes.asks import Ask, ask_of
from muster.kubernetes.nodes import node_of
from muster.kubernetes.objects import Node, Pod
from muster.model import nodes as model

GIB = 1 << 30


def pod_of(spec: str, **metadata: Any) -> Pod:
    """A pod as the API server gives it."""
    return msgspec.convert({"metadata": {"name": "p", **metadata}, "spec": yaml.safe_load(spec) or {}}, Pod)


def asked_by(spec: str) -> dict[str, int]:
    """What it takes of a node, besides its place."""
    amounts = dict(ask_of(pod_of(spec)).request.resources.items())
    assert amounts.pop("pods") == 1
    return amounts


@pytest.mark.parametrize(
    "spec, asked",
    [
        pytest.param("containers: [{name: a}]", {}, id="who asks for nothing takes a place"),
        pytest.param(
            """
            containers:
            - {name: a, resources: {requests: {cpu: 500m, memory: 1Gi}}}
            - {name: b, resources: {requests: {cpu: "1.5", ephemeral-storage: 1k}}}
            """,
            {"cpu": 2000, "memory": GIB, "ephemeral-storage": 1000},
            id="containers run together, and add up",
        ),
        pytest.param(
            """
            initContainers:
            - {name: i, resources: {requests: {cpu: "3", memory: 1}}}
            - {name: j, resources: {requests: {cpu: "2", memory: 5}}}
            containers: [{name: a, resources: {requests: {cpu: "1", memory: 9}}}]
            """,
            {"cpu": 3000, "memory": 9},
            id="init containers run one by one before the others: the largest counts, of each resource",
        ),
        pytest.param(
            """
            initContainers:
            - {name: early, resources: {requests: {cpu: "4"}}}
            - {name: side, restartPolicy: Always, resources: {requests: {cpu: "1"}}}
            - {name: late, resources: {requests: {cpu: "4"}}}
            containers: [{name: a, resources: {requests: {cpu: "2"}}}]
            """,
            {"cpu": 5000},
            id="an init container runs beside the sidecars that began before it",
        ),
        pytest.param(
            """
            initContainers:
            - {name: side, restartPolicy: Always, resources: {requests: {cpu: "1"}}}
            - {name: beside, restartPolicy: Always, resources: {requests: {cpu: "1"}}}
            containers: [{name: a, resources: {requests: {cpu: "2"}}}]
            """,
            {"cpu": 4000},
            id="sidecars go on running beside the containers",
        ),
        pytest.param(
            """
            overhead: {cpu: 250m, memory: 8}
            initContainers: [{name: i, resources: {requests: {cpu: "3"}}}]
            containers: [{name: a, resources: {requests: {cpu: "1"}}}]
            """,
            {"cpu": 3250, "memory": 8},
            id="the overhead comes on top of whatever is largest",
        ),
        pytest.param(
            """
            resources: {requests: {cpu: "1", hugepages-2Mi: 4Mi, example.com/odd: 7}}
            overhead: {cpu: 1m}
            containers: [{name: a, resources: {requests: {cpu: "4", memory: 6, example.com/odd: 2}}}]
            """,
            {"cpu": 1001, "memory": 6, "hugepages-2Mi": 4 << 20, "example.com/odd": 2},
            id="what a pod states itself counts instead, of those that a pod can state",
        ),
        pytest.param(
            "containers: [{name: a, resources: {requests: {nvidia.com/gpu: 2, amd.com/gpu: 1}}}]",
            {"nvidia.com/gpu": 2000, "amd.com/gpu": 1},
            id="devices come whole",
        ),
    ],
)
def test_a_pod_asks_for_what_kubernetes_says_it_does(spec: str, asked: dict[str, int]) -> None:
    assert asked_by(spec) == asked


def test_gpus_are_whole_devices() -> None:
    asking = "resources: {requests: {nvidia.com/gpu: 2}}"
    request = ask_of(pod_of(f"containers: [{{name: a, {asking}}}, {{name: b, {asking}}}]")).request
    assert (request.gpus, request.gpu_milli) == (4, 1000)


def test_an_amount_that_cannot_be_read_is_named_with_its_field() -> None:
    spec = "containers: [{name: a}, {name: b, resources: {requests: {memory: 8Ei}}}]"
    assert ask_of(pod_of(spec)).unsupported == (
        "spec.containers[1].resources.requests.memory: '8Ei': overflow: quantities must be below 2^63"
    )


# --- where it may go ---------------------------------------------------------------------------

NODES = """
- {metadata: {name: a, labels: {zone: x, cores: "8"}}}
- {metadata: {name: b, labels: {zone: y, cores: "16"}}}
- {metadata: {name: c, labels: {zone: y}}, spec: {taints: [{key: gpu, value: "yes", effect: NoSchedule}]}}
- {metadata: {name: d}, spec: {taints: [{key: ill, effect: NoExecute}, {key: meh, effect: PreferNoSchedule}]}}
"""


def node_from(shape: dict[str, Any]) -> Node:
    """A healthy node, unless the shape says otherwise."""
    ready = {"allocatable": {"cpu": "4", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({**shape, "status": {**ready, **shape.get("status", {})}}, Node)


def admitted(ask: Ask, nodes: str = NODES) -> str:
    """The names of the nodes that it may go to."""
    found = [node_of(node_from(shape), "here") for shape in yaml.safe_load(nodes)]
    return "".join(each.name for each in found if ask.constraint.refuses(each.name, each.labels, each.taints) is None)


def required(terms: str) -> str:
    return (
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        f"{terms}}}, preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 1, preference: {{}}}}]}}}}"
    )


@pytest.mark.parametrize(
    "spec, names",
    [
        pytest.param("", "ab", id="hard taints keep away who does not tolerate them"),
        pytest.param("nodeSelector: {zone: y}", "b", id="a selector"),
        pytest.param(
            "tolerations: [{key: gpu, operator: Equal, value: 'yes', effect: NoSchedule}]",
            "abc",
            id="a taint, by value",
        ),
        pytest.param("tolerations: [{key: gpu, value: 'no'}]", "ab", id="another value is another taint"),
        pytest.param("tolerations: [{key: ill, operator: Exists}]", "abd", id="any value, any effect"),
        pytest.param(
            "tolerations: [{key: ill, operator: Exists, effect: NoSchedule}]", "ab", id="NoExecute is an effect too"
        ),
        pytest.param("tolerations: [{operator: Exists}]", "abcd", id="everything is tolerated"),
        pytest.param(required("[{matchExpressions: [{key: cores, operator: Gt, values: ['8']}]}]"), "b", id="Gt"),
        pytest.param(required("[{matchExpressions: [{key: cores, operator: Lt, values: ['9']}]}]"), "a", id="Lt"),
        pytest.param(required("[{matchExpressions: [{key: zone, operator: NotIn, values: [x]}]}]"), "b", id="NotIn"),
        pytest.param(
            "tolerations: [{operator: Exists}]\n"
            + required("[{matchExpressions: [{key: zone, operator: DoesNotExist}]}]"),
            "d",
            id="DoesNotExist",
        ),
        pytest.param(
            required("[{matchExpressions: [{key: cores, operator: Exists}, {key: zone, operator: In, values: [y]}]}]"),
            "b",
            id="all demands of a term hold",
        ),
        pytest.param(
            required("[{matchFields: [{key: metadata.name, operator: In, values: [a]}]}, {matchExpressions: []}]"),
            "a",
            id="one term is enough, and an empty one matches nothing",
        ),
        pytest.param(
            "nodeSelector: {zone: y}\n"
            + required("[{matchFields: [{key: metadata.name, operator: NotIn, values: [b]}]}]"),
            "",
            id="selector and affinity both hold",
        ),
        pytest.param(
            """
            affinity:
              podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {}}]}
            topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
            """,
            "ab",
            id="preferences forbid nothing",
        ),
    ],
)
def test_a_pod_may_go_where_kubernetes_lets_it(spec: str, names: str) -> None:
    ask = ask_of(pod_of(spec))
    assert (admitted(ask), ask.waits, ask.unsupported) == (names, "", "")


@pytest.mark.parametrize(
    "spec, unsupported",
    [
        pytest.param(
            "resourceClaims: [{name: gpu}]", "spec.resourceClaims: claims of devices are not honoured", id="claims"
        ),
        pytest.param(
            "{hostNetwork: true, hostUsers: false}",
            "spec.hostUsers: false beside hostNetwork is for nodes that declare it, which is not looked at",
            id="users of its own on the network of the host",
        ),
        pytest.param(
            "containers: [{name: a}, {name: b, restartPolicyRules: [{action: RestartAllContainers}]}]",
            "spec.containers[1].restartPolicyRules: RestartAllContainers is for nodes that declare it, "
            "which is not looked at",
            id="containers that restart all others",
        ),
        pytest.param(
            "tolerations: [{operator: Exists}, {key: a, operator: Gt, value: '5'}]",
            "spec.tolerations[1].operator: Gt is not honoured",
            id="numeric tolerations",
        ),
        pytest.param(
            "containers: [{name: a, ports: [{containerPort: 80, hostPort: 80}]}]",
            "spec.containers.ports.hostPort: what depends on other pods is not honoured",
            id="host ports, if nobody knows the pods around",
        ),
        pytest.param(
            "volumes: [{name: e, emptyDir: {}}, {name: v, persistentVolumeClaim: {claimName: data}}]",
            "spec.volumes[1].persistentVolumeClaim: claims of volumes are not honoured",
            id="claims of volumes, if nobody knows them",
        ),
        pytest.param(
            "volumes: [{name: v, iscsi: {iqn: x}}]",
            "spec.volumes[0].iscsi: how many a node has, and who shares them, is not counted",
            id="disks that are named in the pod",
        ),
    ],
)
def test_what_is_not_honoured_is_named_with_its_field(spec: str, unsupported: str) -> None:
    assert ask_of(pod_of(spec)).unsupported == unsupported


def test_gates_are_told() -> None:
    assert ask_of(pod_of("schedulingGates: [{name: a/b}, {name: c}]")).gates == ("a/b", "c")


def test_the_priority_is_what_its_class_came_to() -> None:
    assert ask_of(pod_of("{priority: 2000001000, priorityClassName: system-node-critical}")).priority == 2_000_001_000


# --- nodes -------------------------------------------------------------------------------------


def given_by(node: model.Node) -> dict[str, int]:
    """What it has, besides a place for a gang whose pods may not meet."""
    return dict((node.allocatable - PLACE_APART).items())


def test_a_node_has_what_it_can_give_away() -> None:
    allocatable = {"cpu": "3500m", "memory": "1Gi", "pods": "9", "nvidia.com/gpu": "2", "hugepages-1Gi": "0"}
    shape = {
        "metadata": {"name": "n", "labels": {"zone": "x"}},
        "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]},
        "status": {"allocatable": allocatable, "capacity": {"cpu": "4"}},
    }

    node = node_of(node_from(shape), "here")

    assert (node.name, node.cluster, node.labels, node.cordoned) == ("n", "here", {"zone": "x"}, False)
    assert given_by(node) == {"cpu": 3500, "memory": GIB, "nvidia.com/gpu": 2000, "pods": 9}
    assert node.empty().devices == (1000, 1000)
    assert [str(taint) for taint in node.taints] == ["a=b:NoSchedule"]


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param({"spec": {"unschedulable": True}}, id="cordoned"),
        pytest.param({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, id="not ready"),
        pytest.param({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, id="fallen silent"),
        pytest.param({"status": {"conditions": []}}, id="never heard of"),
        pytest.param({"metadata": {"deletionTimestamp": datetime(2026, 1, 1, tzinfo=UTC)}}, id="being deleted"),
        pytest.param({"status": {"allocatable": {"cpu": "4"}}}, id="without a place for any pod"),
    ],
)
def test_a_node_takes_nothing_while_it_is(shape: dict[str, Any]) -> None:
    assert node_of(node_from(shape), "here").cordoned


def test_a_node_has_nothing_of_what_cannot_be_read() -> None:
    node = node_of(node_from({"status": {"allocatable": {"cpu": "4", "memory": "8Ei", "pods": "1"}}}), "here")
    assert given_by(node) == {"cpu": 4000, "pods": 1}
