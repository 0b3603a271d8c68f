"""Where its volumes let a pod go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from muster.kubernetes.asks import ask_of
from muster.kubernetes.objects import Meta, Pod
from muster.kubernetes.storage import CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass
from muster.kubernetes.volumes import Volumes

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
NODES = {"a": {ZONE: "x"}, "b": {ZONE: "y"}, "c": {OLD_ZONE: "x", ZONE: "z"}, "d": {}}

BOUND = "metadata: {name: data, namespace: ns, annotations: {pv.kubernetes.io/bind-completed: 'yes'}}"
CLAIM = f"{BOUND}\nspec: {{volumeName: v}}"
IN_X = f"{{matchExpressions: [{{key: {ZONE}, operator: In, values: [x]}}]}}"
USES = "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"


def known(claim: str = CLAIM, volume: str = "spec: {}", limited: str = "few") -> Volumes:
    """One claim, one volume that is called v, a class for each mode, a driver with a limit."""
    made = [msgspec.convert(yaml.safe_load(claim), PersistentVolumeClaim)] if claim else []
    shape: dict[str, Any] = {"metadata": {"name": "v"}, **yaml.safe_load(volume)}
    shape["metadata"]["name"] = "v"
    modes = {"late": "WaitForFirstConsumer", "soon": "Immediate"}
    classes = [StorageClass(metadata=Meta(name=n), volume_binding_mode=m) for n, m in modes.items()]
    drivers = {"drivers": [{"name": "free", "allocatable": {}}, {"name": limited, "allocatable": {"count": 8}}]}
    return Volumes(
        claims={each.metadata.key: each for each in made},
        volumes={("", "v"): msgspec.convert(shape, PersistentVolume)},
        classes={each.metadata.key: each for each in classes},
        node_drivers={("", "a"): msgspec.convert({"metadata": {"name": "a"}, "spec": drivers}, CsiNode)},
    )


def a_pod(spec: str = USES) -> Pod:
    shape = {"metadata": {"name": "p", "namespace": "ns", "uid": "u1"}, "spec": yaml.safe_load(spec)}
    return msgspec.convert(shape, Pod)


@pytest.mark.parametrize(
    "volume, names",
    [
        pytest.param("spec: {}", "abcd", id="a volume that is everywhere"),
        pytest.param(
            f"spec: {{nodeAffinity: {{required: {{nodeSelectorTerms: [{IN_X}]}}}}}}", "a", id="one that is in a zone"
        ),
        pytest.param(
            f"spec: {{nodeAffinity: {{required: {{nodeSelectorTerms: [{IN_X}, {{matchExpressions: "
            f"[{{key: {ZONE}, operator: DoesNotExist}}]}}]}}}}}}",
            "ad",
            id="one of several terms is enough",
        ),
        pytest.param(
            f"metadata: {{labels: {{{ZONE}: x__y}}}}", "abd", id="labels of zones hold where nodes have zones"
        ),
        pytest.param(
            f"metadata: {{labels: {{{OLD_ZONE}: x}}}}",
            "acd",
            id="old labels hold for the new ones, where only those are",
        ),
        pytest.param("spec: {csi: {driver: free}}", "abcd", id="a driver that takes any number"),
    ],
)
def test_a_bound_claim_ties_its_pod_to_where_its_volume_is(volume: str, names: str) -> None:
    ask = ask_of(a_pod(), volumes=known(volume=volume))
    assert (ask.waits, ask.unsupported) == ("", "")
    assert "".join(name for name, labels in NODES.items() if ask.constraint.refuses(name, labels, ()) is None) == names


def test_volumes_and_the_pods_own_affinity_both_hold() -> None:
    affinity = (
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        "[{matchFields: [{key: metadata.name, operator: In, values: [a]}]}, "
        "{matchFields: [{key: metadata.name, operator: In, values: [b]}]}, {matchExpressions: []}]}}}"
    )
    volume = f"spec: {{nodeAffinity: {{required: {{nodeSelectorTerms: [{IN_X}]}}}}}}"
    ask = ask_of(a_pod(f"{USES}\n{affinity}"), volumes=known(volume=volume))
    assert [name for name, labels in NODES.items() if ask.constraint.refuses(name, labels, ()) is None] == ["a"]


PATH = "spec.volumes[0].persistentVolumeClaim"
ONE_POD = f"{BOUND}\nspec: {{volumeName: v, accessModes: [ReadWriteOncePod]}}"


def used(volumes: Volumes, name: str) -> Volumes:
    """The same, with a pod that is on a node and uses the claim."""
    pod = a_pod()
    volumes.users.put(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name)))
    return volumes


@pytest.mark.parametrize(
    "world, pod, waits, unsupported",
    [
        pytest.param(known(claim=""), a_pod(), f"{PATH}: there is no claim data", "", id="no claim"),
        pytest.param(
            known(claim=f"{CLAIM}\nstatus: {{phase: Lost}}"), a_pod(), f"{PATH}: there is no claim data", "", id="lost"
        ),
        pytest.param(
            known(claim=f"{BOUND}\nspec: {{volumeName: w}}"),
            a_pod(),
            f"{PATH}: there is no volume w",
            "",
            id="no volume",
        ),
        pytest.param(
            known(claim="metadata: {name: data, namespace: ns}\nspec: {storageClassName: soon}"),
            a_pod(),
            f"{PATH}: the claim data is not bound",
            "",
            id="a claim that others will bind",
        ),
        pytest.param(
            known(claim="metadata: {name: data, namespace: ns}\nspec: {storageClassName: late}"),
            a_pod(),
            "",
            f"{PATH}: the claim data is WaitForFirstConsumer, and volumes that are there already are not chosen",
            id="a claim that waits for its first consumer",
        ),
        pytest.param(known(claim=ONE_POD), a_pod(), "", "", id="a volume for one pod only, which nobody uses"),
        pytest.param(
            used(known(claim=ONE_POD), "p"), a_pod(), "", "", id="a volume for one pod only, which it uses itself"
        ),
        pytest.param(
            used(known(claim=ONE_POD), "q"),
            a_pod(),
            f"{PATH}: the claim data is ReadWriteOncePod, and ns/q uses it",
            "",
            id="a volume for one pod only, which another uses",
        ),
        pytest.param(
            known(volume="spec: {csi: {driver: few}}"),
            a_pod(),
            "",
            f"{PATH}: the volumes of few on a node are not counted",
            id="a driver with a limit",
        ),
        pytest.param(
            known(volume="spec: {awsElasticBlockStore: {}}"),
            a_pod(),
            "",
            f"{PATH}: the volumes of awsElasticBlockStore on a node are not counted",
            id="a disk with a limit",
        ),
        pytest.param(
            known(),
            a_pod("volumes: [{name: v, csi: {driver: few}}]"),
            "",
            "spec.volumes[0].csi.driver: the volumes of few on a node are not counted",
            id="a driver with a limit, named in the pod",
        ),
        pytest.param(
            known(claim=CLAIM.replace("name: data", "name: p-data")),
            a_pod("volumes: [{name: data, ephemeral: {}}]"),
            "spec.volumes[0].ephemeral: the claim p-data belongs to another pod",
            "",
            id="somebody else's claim has the name of a volume's own",
        ),
        pytest.param(
            known(claim=CLAIM.replace("name: data", "name: p-data, ownerReferences: [{uid: u1, controller: true}]")),
            a_pod("volumes: [{name: data, ephemeral: {}}]"),
            "",
            "",
            id="a volume that lives as long as its pod",
        ),
    ],
)
def test_a_claim_that_leads_nowhere_says_why(world: Volumes, pod: Pod, waits: str, unsupported: str) -> None:
    ask = ask_of(pod, volumes=world)
    assert (ask.waits, ask.unsupported) == (waits, unsupported)
