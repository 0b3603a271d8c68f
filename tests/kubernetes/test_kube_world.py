"""What the scheduler decides from what caches tell it, and how it counts: without a cluster, turn by turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kubeworld import LATER, Told, named, owned_by

from muster.kubernetes.orders import Orders
from muster.kubernetes.world import HANDED_OVER

Tell = Callable[[Told], None]


def grouped_by_label(told: Told) -> None:
    for name in "abc":
        told.pod(name, cpu=2, meta={"labels": {"scheduling.x-k8s.io/pod-group": "train"}})


def grouped_natively(told: Told) -> None:
    for name in "abc":
        told.pod(name, cpu=2, schedulingGroup={"podGroupName": "train"})


def grouped_by_controller(told: Told) -> None:
    told.gang("train", "a", "b", "c", cpu=2)


GANGS = [
    pytest.param(grouped_by_controller, lambda told: told.spec("train", 3), id="a SchedulingSpec"),
    pytest.param(grouped_by_label, lambda told: told.plugin_group("train", 3), id="a PodGroup of scheduler-plugins"),
    pytest.param(
        grouped_natively, lambda told: told.native_group("train", {"gang": {"minCount": 3}}), id="a native PodGroup"
    ),
]


def test_pods_are_bound_where_there_is_room_and_others_say_why_they_wait() -> None:
    told = Told("n", cpu=2)
    told.pod("a")
    told.pod("b")
    told.pod("c")

    assert told.turn() == {"a": "n", "b": "n"}
    assert told.reasons() == {"c": "RESERVED"}
    told.ends("a")
    assert told.turn() == {"c": "n"}


def test_a_pod_of_another_scheduler_counts_once_it_is_bound() -> None:
    told = Told("n", cpu=2)
    told.pod("foreign", scheduler="default-scheduler", cpu=2)
    assert told.turn() == {}
    told.is_bound("foreign", "n")
    told.pod("ours")

    assert told.turn() == {}
    told.ends("foreign")
    assert told.turn() == {"ours": "n"}


def test_no_turn_is_due_at_once_where_nobody_stands_behind_those_that_started() -> None:
    told = Told("n", cpu=2)
    told.pod("a")

    assert told.turn() == {"a": "n"}
    due_ms = told.world.next_ms()
    assert due_ms is not None
    assert due_ms > told.world.plan.now_ms


def test_places_of_very_many_pods_are_handed_over_in_parts() -> None:
    told, parts = Told("k", "l", "m", "n", cpu=110), list[Orders]()
    for number in range(2 * HANDED_OVER + 1):
        told.pod(f"pod-{number}")

    told.world.take_turn(told.now_ms + 1, parts.append)

    assert [len(part.binds) for part in parts] == [HANDED_OVER, HANDED_OVER, 1]
    assert len({bind.uid for part in parts for bind in part.binds}) == 2 * HANDED_OVER + 1


def test_pods_of_one_second_start_in_the_order_in_which_they_were_made() -> None:
    told = Told("n", cpu=2)
    for name in "cadb":
        told.pod(name)

    assert told.turn() == {"c": "n", "a": "n"}
    told.pod("aa")  # of the same second, in a later turn
    told.ends("c")
    told.ends("a")
    assert told.turn() == {"d": "n", "b": "n"}


@pytest.mark.parametrize("pods, terms", GANGS)
def test_a_gang_waits_whole_and_starts_whole(pods: Tell, terms: Tell) -> None:
    told = Told("m", "n", cpu=2)
    terms(told)
    pods(told)

    assert told.turn() == {}
    assert set(told.reasons()) == {"a", "b", "c"}
    assert set(told.reasons().values()) == {"NEVER_FITS"}
    told.node("o", cpu=2)
    assert set(told.turn()) == {"a", "b", "c"}


@pytest.mark.parametrize("pods, terms", GANGS)
def test_a_gang_waits_until_enough_of_its_pods_are_there(pods: Tell, terms: Tell) -> None:
    told = Told("n", cpu=16)
    terms(told)
    pods(told)
    told.goes("b")

    assert told.turn() == {}
    assert told.reasons() == {"a": "GANG_INCOMPLETE", "c": "GANG_INCOMPLETE"}


@pytest.mark.parametrize(
    "pods, reason",
    [
        pytest.param(grouped_by_label, "POD_GROUP_MISSING", id="by label"),
        pytest.param(grouped_natively, "POD_GROUP_MISSING", id="natively"),
        pytest.param(
            lambda told: told.gang("train", "a", "b", "c", scheduler="kar-scheduler"),
            "SCHEDULING_SPEC_MISSING",
            id="kar-scheduler: a controller without a SchedulingSpec",
        ),
        pytest.param(
            lambda told: [told.pod(name, scheduler="kar-scheduler") for name in "abc"],
            "SCHEDULING_SPEC_MISSING",
            id="GA-6 kar-scheduler: pods without a controller",
        ),
    ],
)
def test_pods_wait_for_what_says_how_they_start(pods: Tell, reason: str) -> None:
    told = Told("n", cpu=16)
    pods(told)

    assert told.turn() == {}
    assert set(told.reasons().values()) == {reason}


@pytest.mark.parametrize("scheduler", ["muster", "ai-scheduler"])
def test_elsewhere_pods_of_a_controller_are_gangs_of_one(scheduler: str) -> None:
    told = Told("n", cpu=2)
    told.gang("train", "a", "b", "c", scheduler=scheduler)

    assert len(told.turn()) == 2


def test_a_basic_pod_group_starts_pod_by_pod() -> None:
    told = Told("n", cpu=4)
    told.native_group("train", {"basic": {}})
    grouped_natively(told)

    assert len(told.turn()) == 2


def test_a_spec_that_comes_later_makes_a_gang_of_pods_that_wait() -> None:
    told = Told("n", cpu=2)
    told.gang("train", "a", "b", "c", cpu=3)
    assert told.turn() == {}

    told.spec("train", 2)
    told.node("m", cpu=3)
    assert told.turn() == {}
    assert told.reasons()["c"] == "GANG_FIRST"
    told.node("n", cpu=3)
    assert set(told.turn()) == {"a", "b"}


def test_pods_beyond_the_least_start_by_themselves_once_the_gang_has() -> None:
    told = Told("n", cpu=3)
    told.spec("train", 2)
    told.gang("train", "a", "b", "c", "d")

    assert set(told.turn()) == {"a", "b"}
    assert set(told.turn()) == {"c"}
    assert told.reasons() == {"d": "RESERVED"}


def test_the_terms_of_a_spec_hold_for_its_gang() -> None:
    told = Told("m", cpu=4)
    told.priority_class("urgent", 1000)
    told.spec("train", 2, priorityClassName="urgent", nodeSelector={"zone": "a"})
    told.gang("train", "a", "b", scheduler="kar-scheduler")

    assert told.turn() == {}
    [batch] = told.world.batches.by_id.values()
    assert batch.job.priority_class == 1000
    assert batch.job.profile.groups[0].constraint.selector == (("zone", "a"),)


def test_queue_user_and_pool_are_what_the_pod_says() -> None:
    told = Told("n")
    labels = {"muster.dev/queue": "vision", "muster.dev/user": "ada"}
    told.pod("a", cpu=9, meta={"labels": labels, "annotations": {"resource.aibee.cn/pool": "fast"}})
    told.pod("b", cpu=9)
    told.turn()

    jobs = {name: batch.job for name, batch in told.world.batches.by_id.items()}
    assert (jobs["team/a"].queue, jobs["team/a"].user, jobs["team/a"].profile.pool) == ("vision", "ada", "fast")
    assert jobs["team/b"].queue == "team"


def test_pods_of_others_are_counted_until_they_are_over() -> None:
    told = Told("n", cpu=2)
    told.pod("daemon", scheduler="default-scheduler", nodeName="n")
    told.pod("elsewhere", scheduler="default-scheduler", nodeName="m")
    told.pod("a", cpu=2)

    assert told.turn() == {}
    told.node("m", cpu=2)  # it comes with a pod that was known before it was
    assert told.turn() == {}
    told.ends("daemon")
    assert told.turn() == {"a": "n"}


def test_a_world_that_begins_again_counts_what_is_bound() -> None:
    told = Told("n", cpu=4)
    told.spec("train", 2)
    told.gang("train", "a", "b", nodeName="n")
    told.pod("c", nodeName="n")
    told.pod("d")
    told.pod("e")

    assert len(told.turn()) == 1
    told.goes("a")
    assert len(told.turn()) == 1


def test_gpus_of_bound_pods_are_taken_and_come_back() -> None:
    told = Told()
    told.node("n", gpus=4)
    for name in ("a", "b"):
        told.pod(name, requests={"nvidia.com/gpu": "1"}, nodeName="n")
    told.pod("c", requests={"nvidia.com/gpu": "3"})

    assert told.turn() == {}
    told.goes("a")
    assert told.turn() == {"c": "n"}
    told.node("n", gpus=2)  # two devices broke: whoever is there is counted anew
    told.goes("b")
    told.pod("d", requests={"nvidia.com/gpu": "1"})
    assert told.turn() == {}


def test_what_is_being_bound_is_bound_once_and_its_room_is_taken() -> None:
    told = Told("n", cpu=2)
    told.pod("a", cpu=2)

    assert named(told.orders().binds) == {"a": "n"}
    told.pod("b", cpu=2)
    assert told.orders().binds == []


def test_a_bind_that_was_refused_is_tried_again_after_a_while() -> None:
    told = Told("n", cpu=2)
    told.pod("a", cpu=2)
    [bind] = told.orders().binds

    told.world.refuse(bind, told.now_ms)

    assert told.turn(0.9) == {}
    due_ms = told.world.next_ms()
    assert due_ms is not None
    assert due_ms <= told.now_ms + 100
    assert told.turn(0.1) == {"a": "n"}


def test_a_refusal_that_comes_after_the_pod_was_seen_bound_means_nothing() -> None:
    told = Told("n", "m", cpu=2)
    told.pod("a", cpu=2)
    [bind] = told.orders().binds
    told.is_bound("a", "m")  # by somebody else, wherever we wanted it

    told.world.refuse(bind, told.now_ms)
    told.pod("b", cpu=2)
    assert told.turn(5) == {"b": "n"}


def test_a_pod_that_is_not_honoured_is_never_bound() -> None:
    told = Told("n")
    told.pod("a", resourceClaims=[{"name": "gpu"}])

    assert told.turn() == {}
    assert told.reasons() == {"a": "UNSUPPORTED"}


def test_a_pod_with_gates_is_left_alone_until_they_are_gone() -> None:
    told = Told("n")
    pod = told.pod("a", schedulingGates=[{"name": "quota"}])
    assert (told.turn(), told.reasons()) == ({}, {})

    told.pod("a", meta={"uid": pod.metadata.uid})
    assert told.turn() == {"a": "n"}


# --- gangs of which a part is bound ------------------------------------------------------------


def half_bound(told: Told) -> None:
    told.spec("train", 3)
    told.gang("train", "a", "b", "c", cpu=4)
    told.is_bound("a", "m")
    told.is_bound("b", "n")


def test_a_gang_that_is_half_bound_is_completed_when_there_is_room() -> None:
    told = Told("m", "n", "o")
    half_bound(told)

    assert told.turn() == {"c": "o"}
    assert told.orders(100).evictions == []


def test_a_gang_that_is_half_bound_and_cannot_be_completed_is_evicted() -> None:
    told = Told("m", "n")
    half_bound(told)

    assert (told.turn(), told.orders(59).evictions) == ({}, [])
    assert told.world.next_ms() is not None
    assert {eviction.key[1] for eviction in told.orders(2).evictions} == {"a", "b"}


def test_a_gang_that_lost_a_pod_after_it_ran_is_its_controllers_business() -> None:
    told = Told("m", "n")
    told.spec("train", 3)
    told.gang("train", "a", "b", cpu=4)
    told.is_bound("a", "m")
    told.is_bound("b", "n")
    told.pod("again", cpu=4, made=LATER, meta={"ownerReferences": owned_by("train")})
    told.turn()

    assert told.orders(100).evictions == []


# --- evictions ---------------------------------------------------------------------------------


def with_urgent(told: Told) -> list[str]:
    """A pod runs, and a more urgent one takes its place; who is evicted."""
    told.pod("low", cpu=4)
    told.turn()
    told.pod("high", cpu=2, priority=100)
    orders = told.orders(1)
    assert orders.binds == []
    return [eviction.key[1] for eviction in orders.evictions]


def test_room_is_bound_once_whoever_was_evicted_is_gone_and_kept_until_then() -> None:
    told = Told("n", cpu=4)
    assert with_urgent(told) == ["low"]

    told.pod("late", cpu=2)  # would fit beside `high`, but not while `low` is still there
    assert told.turn() == {}
    told.goes("low")
    assert told.turn() == {"high": "n", "late": "n"}


def test_who_was_evicted_and_does_not_go_stays_and_nobody_is_bound_on_top() -> None:
    told = Told("n", cpu=4)
    told.pod("low", cpu=4)
    told.turn()
    told.pod("high", cpu=2, priority=100)
    [eviction] = told.orders(1).evictions

    told.world.stay(eviction)

    assert told.turn() == {}
    assert set(told.reasons()) == {"high"}
    assert [it.key[1] for it in told.orders(10).evictions] == ["low"]  # it is asked once more


def test_who_waits_too_long_for_another_to_go_is_back_in_line_and_elsewhere_at_once() -> None:
    told = Told("n", cpu=4)
    with_urgent(told)
    told.orders(61)
    told.node("m", cpu=4)

    assert told.turn() == {"high": "m"}


def test_a_node_that_goes_takes_its_pods_along() -> None:
    told = Told("m", "n", cpu=2)
    told.pod("a", cpu=2)
    [bind] = told.orders().binds
    told.carry_out([bind])
    told.node_goes(bind.node)
    told.pod("b", cpu=2)
    told.pod("c", cpu=2)

    assert len(told.turn()) == 1
    told.node(bind.node, cpu=2)  # it is back, with the pod on it
    assert told.turn() == {}


# --- others that bind pods too -----------------------------------------------------------------


def test_a_node_that_two_schedulers_filled_at_once_is_thinned_out_and_whoever_came_last_goes() -> None:
    told = Told("n", cpu=4)
    told.pod("a", cpu=3)
    told.pod("b", cpu=3)
    told.carry_out(told.orders().binds)
    [ours] = [name for name, pod in told.pods.items() if pod.spec.node_name]
    [other] = {"a", "b"} - {ours}
    told.is_bound(other, "n", at=LATER)

    assert [it.key[1] for it in told.orders().evictions] == [other]
    assert told.orders().evictions == []


def test_a_node_is_judged_once_all_that_is_on_its_way_there_has_come() -> None:
    told = Told("n", cpu=4)
    told.pod("a", cpu=3)
    told.pod("b", cpu=3)
    [bind] = told.orders().binds
    [other] = {"a", "b"} - {bind.key[1]}
    told.is_bound(other, "n")

    assert told.orders().evictions == []
    told.world.refuse(bind, told.now_ms)  # by the API server, say: then there is nothing to heal
    assert told.orders().evictions == []


@pytest.mark.parametrize(
    "tell",
    [
        pytest.param(lambda told: told.is_bound("b", "n"), id="somebody binds a pod where there is room for it"),
        pytest.param(lambda told: told.node("n", cpu=2), id="a node shrinks"),
        pytest.param(lambda told: told.pod("c", cpu=4, scheduler="nobody", nodeName="n"), id="pods of others come"),
    ],
)
def test_nobody_goes_for_other_reasons(tell: Tell) -> None:
    told = Told("n", cpu=4)
    told.pod("a", cpu=3)
    told.turn()
    told.pod("b", cpu=1, schedulingGates=[{"name": "quota"}])
    told.turn()
    tell(told)

    assert told.orders().evictions == []
