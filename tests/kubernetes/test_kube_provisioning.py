"""Volumes that are made where their first pod goes: without a cluster, turn by turn."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from kubeworld import Told, owned_by

from muster.kubernetes.cache import Change
from muster.kubernetes.storage import CsiDriver, PersistentVolume, PersistentVolumeClaim, StorageClass

SELECTED = "volume.kubernetes.io/selected-node"
LATE = {"provisioner": "disks.example.dev", "volumeBindingMode": "WaitForFirstConsumer"}


def uses(claim: str) -> list[dict[str, Any]]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


class Claimed(Told):
    """A world in which claims have their volumes made late."""

    def __init__(self, *nodes: str, **storage: Any) -> None:
        super().__init__(*nodes)
        self.claims: dict[str, PersistentVolumeClaim] = {}
        made = msgspec.convert({"metadata": {"name": "late"}, **LATE, **storage}, StorageClass)
        self.world.surroundings.hear_class(Change(None, made))

    def claim(self, name: str, *, volume: str = "", **annotations: str) -> None:
        """A claim, which may have its volume."""
        notes = {SELECTED: annotations["selected"]} if annotations.get("selected") else {}
        notes |= {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
        meta = {"name": name, "namespace": "team", "uid": f"uid-of-{name}", "annotations": notes}
        spec = {"storageClassName": "late", "volumeName": volume}
        made = msgspec.convert({"metadata": meta, "spec": spec}, PersistentVolumeClaim)
        self.world.surroundings.hear_claim(Change(self.claims.get(name), made))
        self.claims[name] = made

    def provide(self, name: str, node: str) -> None:
        """The volume of a claim is made on a node, and the claim bound to it."""
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchFields": [here]}]}}
        volume = {"metadata": {"name": f"of-{name}"}, "spec": {"nodeAffinity": affinity}}
        self.world.surroundings.hear_volume(Change(None, msgspec.convert(volume, PersistentVolume)))
        self.claim(name, volume=f"of-{name}", selected=node)

    def selects(self, after_s: float = 0.1) -> list[tuple[str, str]]:
        """Where a turn has volumes made; nobody is bound in it."""
        orders = self.orders(after_s)
        assert orders.binds == []
        return [(selection.key[1], selection.node) for selection in orders.selections]


def test_a_node_is_chosen_said_once_and_the_pod_is_bound_when_its_volume_is_there() -> None:
    told = Claimed("n")
    told.claim("data")
    told.pod("a", volumes=uses("data"))

    assert told.selects() == [("data", "n")]
    told.claim("data", selected="n")
    assert told.selects() == []
    told.pod("b", cpu=4)
    assert told.turn() == {}  # its place is taken while it waits
    told.provide("data", "n")
    assert told.turn() == {"a": "n"}


def test_who_cannot_have_its_volume_there_stands_in_line_again_after_a_while() -> None:
    told = Claimed("n")
    told.claim("data")
    told.pod("a", volumes=uses("data"))
    told.selects()
    told.claim("data", selected="n")
    told.selects()

    told.claim("data")  # whoever makes volumes could not

    assert told.selects() == []
    assert told.selects(2) == [("data", "n")]


def test_a_claim_that_the_api_server_would_not_have_annotated_is_tried_again() -> None:
    told = Claimed("n")
    told.claim("data")
    told.pod("a", volumes=uses("data"))
    told.selects()

    told.world.surroundings.provisioning.turn_down(("team", "data"))

    assert told.selects() == []
    assert told.selects(2) == [("data", "n")]


def test_a_volume_that_was_made_elsewhere_is_followed() -> None:
    told = Claimed("m", "n")
    told.claim("data")
    told.pod("a", volumes=uses("data"))
    [(_, node)] = told.selects()
    [other] = {"m", "n"} - {node}

    told.provide("data", other)

    assert told.turn() == {}
    assert told.turn(2) == {"a": other}


def test_what_another_scheduler_said_holds() -> None:
    told = Claimed("m", "n")
    told.claim("data", selected="n")
    told.pod("a", volumes=uses("data"))

    assert told.selects() == []
    told.provide("data", "n")
    assert told.turn() == {"a": "n"}


def test_pods_that_share_a_claim_have_it_made_on_one_node() -> None:
    told = Claimed("m", "n")
    told.claim("data")
    for name in "abc":
        told.pod(name, cpu=2, volumes=uses("data"))

    [(_, node)] = [each for _ in range(4) for each in told.selects()]
    told.provide("data", node)
    bound = [name for _ in range(3) for name, where in told.turn().items() if where == node]
    assert len(bound) == 2


def test_of_a_gang_nobody_is_bound_until_all_have_their_volumes() -> None:
    told = Claimed("m", "n")
    told.spec("train", 2)
    for name in "ab":
        told.claim(name)
        told.pod(name, cpu=4, volumes=uses(name), meta={"ownerReferences": owned_by("train")})

    places = dict(told.selects())
    assert set(places) == {"a", "b"}
    told.provide("a", places["a"])
    assert told.turn() == {}
    told.provide("b", places["b"])
    assert told.turn() == places


def test_nobody_waits_for_ever() -> None:
    told = Claimed("n")
    told.claim("data")
    told.pod("a", volumes=uses("data"))
    assert told.selects() == [("data", "n")]

    assert told.selects(599) == []
    assert told.selects(2) == [("data", "n")]  # it was back in line, and is first there


@pytest.mark.parametrize(
    "storage, goes",
    [
        pytest.param({}, {"m", "n"}, id="anywhere"),
        pytest.param(
            {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["x"]}]}]},
            {"n"},
            id="allowedTopologies",
        ),
    ],
)
def test_where_volumes_of_a_class_can_be(storage: dict[str, Any], goes: set[str]) -> None:
    told = Claimed("m", **storage)
    told.node("n", labels={"zone": "x"})
    told.claim("data")
    told.pod("a", volumes=uses("data"))

    [(_, node)] = told.selects()
    assert node in goes


@pytest.mark.parametrize(
    "storage, capacity, said",
    [
        pytest.param(
            {"provisioner": "kubernetes.io/no-provisioner"},
            False,
            "are not chosen",
            id="volumes that are there already",
        ),
        pytest.param({}, True, "has room left is not looked at", id="a driver that says where it has room"),
    ],
)
def test_what_is_not_honoured(storage: dict[str, Any], capacity: bool, said: str) -> None:
    told = Claimed("n", **storage)
    driver = {"metadata": {"name": "disks.example.dev"}, "spec": {"storageCapacity": capacity}}
    told.world.surroundings.hear_driver(Change(None, msgspec.convert(driver, CsiDriver)))
    told.claim("data")
    told.pod("a", volumes=uses("data"))

    assert told.selects() == []
    [member] = told.world.waiting.values()
    assert member.hold is not None
    assert (member.hold.reason, said in member.hold.message) == ("UNSUPPORTED", True)
