"""What PodDisruptionBudgets and preemption policies do to who gives way: without a cluster, turn by turn."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from kubeworld import Told, owned_by

from muster.kubernetes.cache import Change
from muster.kubernetes.disruptions import DisruptionBudget

WEB = {"app": "web"}
URGENT = 100


def budget(
    told: Told, allowed: int, name: str = "web", labels: dict[str, str] | None = None, **more: Any
) -> DisruptionBudget:
    """A PodDisruptionBudget of these labels, as its controller left it."""
    spec = {"selector": {"matchLabels": WEB if labels is None else labels}, **more.pop("spec", {})}
    status = {"observedGeneration": 1, "disruptionsAllowed": allowed, **more}
    meta = {"name": name, "namespace": "team", "generation": 1}
    made = msgspec.convert({"metadata": meta, "spec": spec, "status": status}, DisruptionBudget)
    told.world.disruptions.hear(Change(None, made))
    return made


def runs(told: Told, name: str, node: str, *, ready: bool = True) -> None:
    """A pod of the budget that runs on a node."""
    is_there(told, name, node, ready=ready)
    told.turn()  # at the very moment when it is found, nobody gives way


def gang_runs(told: Told, *, marked: bool = False) -> None:
    """Two pods of a gang, both of the budget."""
    for name, node in (("a", "m"), ("b", "n")):
        is_there(told, name, node, marked=marked, ownerReferences=owned_by("train"))
    told.turn()


def is_there(told: Told, name: str, node: str, *, ready: bool = True, marked: bool = False, **meta: Any) -> None:
    told.pod(name, cpu=4, nodeName=node, meta={"labels": WEB, **meta})
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    if marked:
        conditions.append({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"})
    told.becomes(name, {"phase": "Running", "conditions": conditions})


def evicted(told: Told, after_s: float = 1) -> list[str]:
    return sorted(eviction.key[1] for eviction in told.orders(after_s).evictions)


@pytest.mark.parametrize(
    "allowed, heads, goes",
    [
        pytest.param(0, 1, 0, id="a budget that allows none is not planned against"),
        pytest.param(1, 1, 1, id="what it allows goes"),
        pytest.param(1, 2, 1, id="it is counted over the whole plan"),
        pytest.param(2, 2, 2, id="two of two"),
    ],
)
def test_only_as_many_go_as_the_budget_allows(allowed: int, heads: int, goes: int) -> None:
    told = Told("m", "n")
    budget(told, allowed)
    runs(told, "a", "m")
    runs(told, "b", "n")
    for number in range(heads):
        told.pod(f"high-{number}", cpu=4, priority=URGENT)

    assert len(evicted(told)) == goes
    assert evicted(told) == []


@pytest.mark.parametrize(
    "status, spec, goes",
    [
        pytest.param({"currentHealthy": 1, "desiredHealthy": 1}, {}, ["a"], id="not ready, enough others are"),
        pytest.param({"currentHealthy": 0, "desiredHealthy": 1}, {}, [], id="not ready, and too few others are"),
        pytest.param(
            {"desiredHealthy": 1},
            {"unhealthyPodEvictionPolicy": "AlwaysAllow"},
            ["a"],
            id="not ready, and its budget does not mind those",
        ),
    ],
)
def test_pods_that_are_not_ready(status: dict[str, Any], spec: dict[str, Any], goes: list[str]) -> None:
    told = Told("n")
    budget(told, 0, spec=spec, **status)
    runs(told, "a", "n", ready=False)
    told.pod("high", cpu=4, priority=URGENT)

    assert evicted(told) == goes


def test_a_pod_of_several_budgets_never_goes_since_the_api_would_not_have_it() -> None:
    told = Told("n")
    budget(told, 5)
    budget(told, 5, "other", {})
    runs(told, "a", "n")
    told.pod("high", cpu=4, priority=URGENT)

    assert evicted(told) == []


def test_a_budget_whose_controller_has_not_seen_it_allows_nothing() -> None:
    told = Told("n")
    budget(told, 5, observedGeneration=0)
    runs(told, "a", "n")
    told.pod("high", cpu=4, priority=URGENT)

    assert evicted(told) == []


def test_who_waits_starts_once_the_budget_allows_it_or_is_gone() -> None:
    told = Told("m", "n")
    made = budget(told, 0)
    runs(told, "a", "m")
    runs(told, "b", "n")
    told.pod("high", cpu=4, priority=URGENT)
    assert evicted(told) == []

    budget(told, 1)
    assert len(evicted(told)) == 1
    told.pod("higher", cpu=4, priority=URGENT + 1)
    assert evicted(told) == []  # the first has not been counted by the budget yet, but was by us
    told.world.disruptions.hear(Change(made, None))
    assert len(evicted(told)) == 1


def test_another_goes_if_it_is_not_in_the_budget() -> None:
    told = Told("m", "n")
    budget(told, 0)
    runs(told, "a", "m")
    told.pod("b", cpu=4, nodeName="n", priority=1)
    told.turn()
    told.pod("high", cpu=4, priority=URGENT)

    assert evicted(told) == ["b"]


def test_a_gang_goes_only_if_all_of_it_may() -> None:
    told = Told("m", "n")
    told.spec("train", 2)
    budget(told, 1)
    gang_runs(told)
    told.pod("high", cpu=4, priority=URGENT)

    assert evicted(told) == []
    budget(told, 2)
    assert evicted(told) == ["a", "b"]


# --- gangs of which a part was evicted ---------------------------------------------------------


def half_evicted(told: Told, *, marked: bool = True) -> None:
    """What is left of a gang of three."""
    told.spec("train", 3)
    gang_runs(told, marked=marked)


def test_a_gang_that_was_half_evicted_before_we_came_is_evicted_whole() -> None:
    told = Told("m", "n")
    half_evicted(told)

    assert (evicted(told), evicted(told, 58)) == ([], [])
    assert evicted(told, 2) == ["a", "b"]


def test_a_gang_that_was_half_evicted_and_is_whole_again_stays() -> None:
    told = Told("m", "n", "o")
    half_evicted(told)
    told.pod("again", cpu=4, meta={"ownerReferences": owned_by("train")})

    assert told.turn() == {"again": "o"}
    assert evicted(told, 100) == []


def test_a_gang_that_lost_a_pod_in_another_way_is_left_alone() -> None:
    told = Told("m", "n")
    half_evicted(told, marked=False)

    assert (evicted(told), evicted(told, 100)) == ([], [])


def test_refused_for_too_long_a_gang_of_which_some_are_gone_is_tried_again() -> None:
    told = Told("m", "n")
    told.spec("train", 2)
    gang_runs(told)
    told.pod("high", cpu=4, priority=URGENT)
    evictions = told.orders(1).evictions
    told.becomes("b", {"phase": "Running", "conditions": [_GIVES_WAY, _READY]})
    told.goes("a")
    budget(told, 0)  # made meanwhile

    told.world.stay(next(it for it in evictions if it.key[1] == "b"))
    assert told.turn() == {"high": "m"}
    assert evicted(told, 61) == ["b"]


_READY = {"type": "Ready", "status": "True"}
_GIVES_WAY = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


# --- who never takes from others ---------------------------------------------------------------


@pytest.mark.parametrize(
    "policy, goes",
    [
        pytest.param("PreemptLowerPriority", ["low"], id="the usual"),
        pytest.param("Never", [], id="preemptionPolicy: Never"),
    ],
)
def test_a_pod_that_never_preempts_waits(policy: str, goes: list[str]) -> None:
    told = Told("n")
    told.pod("low", cpu=4)
    told.turn()
    told.pod("high", cpu=4, priority=URGENT, preemptionPolicy=policy)

    assert evicted(told) == goes
    told.goes("low")
    assert told.turn() == {"high": "n"}


@pytest.mark.parametrize(
    "pods, goes",
    [
        pytest.param({"high": URGENT, "meek": URGENT}, ["low"], id="one like it that came before takes its right"),
        pytest.param({"meek": URGENT, "high": URGENT + 1}, ["low"], id="and so does one that is more urgent"),
        pytest.param({"meek": URGENT, "high": URGENT}, [], id="who comes after it waits behind it"),
    ],
)
def test_a_pod_that_never_preempts_keeps_its_place_in_line(pods: dict[str, int], goes: list[str]) -> None:
    told = Told("n")
    told.pod("low", cpu=4)
    told.turn()
    for name, priority in pods.items():
        policy = "Never" if name == "meek" else "PreemptLowerPriority"
        told.pod(name, cpu=4, priority=priority, preemptionPolicy=policy)

    assert evicted(told) == goes


def test_a_gang_whose_scheduling_spec_names_a_class_that_never_preempts_waits() -> None:
    told = Told("n")
    told.priority_class("meek", URGENT, preemptionPolicy="Never")
    told.spec("train", 1, priorityClassName="meek")
    told.pod("low", cpu=4)
    told.turn()
    told.gang("train", "a", cpu=4)

    assert evicted(told) == []
    told.priority_class("meek", URGENT)
    assert evicted(told) == ["low"]
