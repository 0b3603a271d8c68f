"""The scheduler's world minds the pods around those it places, and their volumes."""

from __future__ import annotations

from kubeworld import Told, owned_by

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}
WEB = {"labels": {"app": "web"}}


def test_pods_that_keep_away_from_each_other_are_never_decided_on_together() -> None:
    told = Told()
    for host in ("m", "n"):
        told.node(host, labels={"host": host})
    for name in "abc":
        told.pod(name, meta=WEB, affinity=APART)

    places = [place for _ in range(4) for place in told.turn().values()]
    assert sorted(places) == ["m", "n"]
    assert len(told.reasons()) == 1


def test_a_pod_of_others_keeps_ours_away_until_it_is_gone() -> None:
    told = Told()
    told.node("n", labels={"host": "n"})
    told.pod("other", scheduler="default-scheduler", nodeName="n", affinity=APART)
    told.pod("a", meta=WEB)
    told.pod("b")

    assert told.turn() == {"b": "n"}
    assert told.reasons() == {"a": "NEVER_FITS"}
    told.goes("other")
    assert told.turn() == {"a": "n"}


def test_a_gang_whose_pods_mind_each_other_is_not_honoured() -> None:
    told = Told()
    for host in ("m", "n"):
        told.node(host, labels={"host": host})
    told.spec("train", 2)
    for name in "ab":
        told.pod(name, meta={**WEB, "ownerReferences": owned_by("train")}, affinity=APART)

    assert told.turn() == {}
    assert told.reasons() == {"a": "UNSUPPORTED", "b": "UNSUPPORTED"}


PORT = [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]


def test_a_gang_whose_pods_may_share_no_node_starts_on_as_many() -> None:
    told = Told("m", "n", "o", cpu=8)
    told.spec("train", 3)
    for name in "abc":
        told.pod(name, meta={"ownerReferences": owned_by("train")}, containers=PORT)

    assert sorted(told.turn().values()) == ["m", "n", "o"]


def test_a_gang_whose_pods_may_share_no_node_waits_for_as_many() -> None:
    told = Told("m", "n", cpu=8)
    told.spec("train", 3)
    for name in "abc":
        told.pod(name, meta={"ownerReferences": owned_by("train")}, containers=PORT)
    assert told.turn() == {}

    told.node("o", cpu=8)
    assert sorted(told.turn().values()) == ["m", "n", "o"]


def test_others_go_to_nodes_of_a_gang_whose_pods_may_share_none() -> None:
    told = Told("n", "m", cpu=8)
    told.spec("train", 2)
    for name in "ab":
        told.pod(name, meta={"ownerReferences": owned_by("train")}, containers=PORT)
    told.turn()
    told.pod("c", cpu=8)
    told.pod("d", cpu=8)
    told.pod("e", containers=PORT)

    assert sorted(told.turn()) == ["c", "d"]
    told.goes("a")
    assert sorted(told.turn()) == ["e"]


def test_a_pod_waits_for_its_claim_and_goes_where_its_volume_is() -> None:
    told = Told("m", "n")
    told.pod("a", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    assert told.turn() == {}
    assert told.reasons() == {"a": "VOLUME_MISSING"}

    told.volume("data", on="n")
    assert told.turn() == {"a": "n"}


DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def test_a_volume_for_one_pod_goes_from_one_to_the_next() -> None:
    told = Told("n", cpu=8)
    told.volume("data", on="n", modes=["ReadWriteOncePod"])
    told.pod("a", volumes=DATA)
    told.pod("b", volumes=DATA)

    [first] = told.turn()
    assert told.turn() == {}
    assert list(told.reasons().values()) == ["VOLUME_MISSING"]
    told.ends(first)
    assert set(told.turn()) == {"a", "b"} - {first}


def test_a_gang_that_shares_a_volume_for_one_pod_is_not_honoured() -> None:
    told = Told("n", cpu=8)
    told.volume("data", on="n", modes=["ReadWriteOncePod"])
    told.spec("train", 2)
    told.gang("train", "a", "b", volumes=DATA)

    assert told.turn() == {}
    assert told.reasons() == {"a": "UNSUPPORTED", "b": "UNSUPPORTED"}
