"""Schedulers that are killed, meet refusals or run beside each other: nothing is half done for long, or done twice."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from cutting import Cutting
from kube import MUSTER, PATIENCE_S, a_client, kept, run
from scheduling import CPU, LEASE, a_scheduler, access_to, refused, scheduler, scheduler_process, space

from muster.kubernetes.cache import Cache
from muster.kubernetes.dev.cluster import Cluster
from muster.kubernetes.election import LEASES, LeadLost, Lease, Times
from muster.kubernetes.kinds import PODS, Scope
from muster.kubernetes.objects import Key
from muster.kubernetes.orders import HandOver, Orders
from muster.model.policy import Policy


def test_a_scheduler_that_is_killed_in_the_middle_of_a_gang_is_followed_by_one_that_completes_it(
    schedulable: Cluster,
) -> None:
    async def story() -> None:
        async with space(schedulable) as here:
            names = await here.gang("train", 3, cpu=2)
            async with refused(here, "binding", "train-2"):
                with scheduler_process(schedulable) as process:
                    await here.are_bound("train-0", "train-1")
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                assert set(here.bound()) == {"train-0", "train-1"}
            async with scheduler(access_to(schedulable)):
                await here.are_bound(*names)
                assert max((await here.held()).values()) <= CPU * 1000

    run(story())


def test_killed_between_deciding_and_binding_nothing_is_lost_or_bound_on_top(schedulable: Cluster) -> None:
    """All pods are decided on in one turn; the scheduler is killed as soon as the first of them is bound."""

    async def story() -> None:
        async with space(schedulable) as here:
            names = [f"p{number}" for number in range(40)]
            for name in names:
                await here.pod(name, cpu=0.25)
            with scheduler_process(schedulable) as process:
                await here.when(lambda pods: any(pod.spec.node_name for pod in pods.values()))
                process.send_signal(signal.SIGKILL)
                process.wait()
            async with scheduler(access_to(schedulable)):
                await here.when(lambda pods: sum(bool(pod.spec.node_name) for pod in pods.values()) == 32)
                waiting = next(name for name in names if name not in here.bound())
                await here.says(waiting)
                assert set((await here.held()).values()) == {CPU * 1000}

    run(story())


def test_of_two_schedulers_one_leads_and_the_other_goes_on_where_it_ended(schedulable: Cluster) -> None:
    async def story() -> list[str]:
        holders: list[str] = []
        async with space(schedulable) as here, kept(Cache(here.client, LEASES, Scope(namespace=LEASE))) as leases:

            def hear() -> str:
                lease = leases.objects.get((LEASE, "muster-test"))
                return lease.spec.holder_identity if lease is not None else ""

            async with scheduler(access_to(schedulable), "second"):
                await leases.until(lambda _: hear() == "second")
                async with scheduler(access_to(schedulable), "third"):
                    for number in range(8):
                        await here.pod(f"a{number}", cpu=0.5)
                    await here.are_bound(*(f"a{number}" for number in range(8)))
                    holders.append(hear())
            await leases.until(lambda _: not hear())
            async with scheduler(access_to(schedulable), "fourth"):
                for number in range(12):
                    await here.pod(f"b{number}", cpu=0.5)
                await here.when(lambda pods: sum(bool(pod.spec.node_name) for pod in pods.values()) == 16)
                holders.append(hear())
                assert set((await here.held()).values()) == {CPU * 1000}
        return holders

    assert run(story()) == ["second", "fourth"]


def test_told_to_end_it_gives_the_lease_back(schedulable: Cluster) -> None:
    async def story() -> tuple[int, str]:
        async with space(schedulable) as here, kept(Cache(here.client, LEASES, Scope(namespace=LEASE))) as leases:
            with scheduler_process(schedulable) as process:
                await here.pod("a")
                await here.are_bound("a")
                process.send_signal(signal.SIGTERM)
                code = process.wait()
            await leases.until(lambda there: not there[LEASE, "muster-test"].spec.holder_identity)
            return code, leases.objects[LEASE, "muster-test"].spec.holder_identity

    assert run(story()) == (0, "")


def test_an_api_server_that_restarts_is_waited_for(schedulable: Cluster) -> None:
    async def story() -> None:
        async with space(schedulable) as here, scheduler(access_to(schedulable)):
            await here.pod("a", cpu=3)
            await here.are_bound("a")
            await asyncio.to_thread(schedulable.stop_apiserver)
            await asyncio.to_thread(schedulable.start_apiserver)
            for name in "bc":
                await here.pod(name, cpu=3)
            await here.when(lambda pods: sum(bool(pod.spec.node_name) for pod in pods.values()) == 2)
            await here.says(next(name for name in "bc" if name not in here.bound()))
            assert max((await here.held()).values()) <= CPU * 1000

    run(story())


def test_one_that_cannot_renew_its_lease_ends_and_the_next_begins(schedulable: Cluster) -> None:
    async def story() -> None:
        with Cutting(schedulable.url) as proxy:
            access = replace(access_to(schedulable), server=proxy.url)
            async with space(schedulable) as here, a_client(access) as client:
                cut_off = asyncio.ensure_future(a_scheduler(client, "cut off", Times.lasting(6)).run())
                await here.pod("a")
                await here.are_bound("a")
                with proxy.refusing(), pytest.raises(LeadLost):
                    await cut_off
                async with scheduler(access_to(schedulable), "next"):
                    await here.pod("b")
                    await here.are_bound("b")

    run(story())


def test_a_turn_that_takes_long_does_not_cost_the_lease(schedulable: Cluster) -> None:
    """The first turn goes on until the lease was renewed after it began, for longer than it would hold."""

    async def story() -> None:
        async with space(schedulable) as here, kept(Cache(here.client, LEASES, Scope(namespace=LEASE))) as leases:
            has_begun, may_end = threading.Event(), threading.Event()
            await here.pod("a")
            async with scheduler(access_to(schedulable), "slow", Times(holds_s=6, acts_s=5, every_s=0.1)) as slow:
                take_turn = slow.world.take_turn

                def long_turn(now_ms: int, hand_over: HandOver) -> None:
                    has_begun.set()
                    assert may_end.wait(PATIENCE_S)
                    take_turn(now_ms, hand_over)

                slow.world.take_turn = long_turn  # type: ignore[method-assign]
                await asyncio.to_thread(has_begun.wait)
                seen: set[str] = set()

                def is_renewed(there: Mapping[Key, Lease]) -> bool:
                    lease = there[LEASE, "muster-test"]
                    seen.add(lease.metadata.resource_version)
                    return lease.spec.holder_identity == "slow" and len(seen) > 60

                await leases.until(is_renewed)
                may_end.set()
                await here.are_bound("a")

    run(story())


def test_kernels_are_compiled_before_the_lease_is_taken(schedulable: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """While they are, the lease is free for others; what takes so long here is whether the test lets it end."""
    has_begun, may_end = threading.Event(), threading.Event()

    def warm_up(_: Policy) -> None:
        has_begun.set()
        assert may_end.wait(PATIENCE_S)

    monkeypatch.setattr("muster.kubernetes.scheduler.is_worth_it", lambda nodes, _: nodes >= 2)
    monkeypatch.setattr("muster.kubernetes.scheduler.warm_up", warm_up)

    async def story() -> None:
        async with space(schedulable) as here, kept(Cache(here.client, LEASES, Scope(namespace=LEASE))) as leases:
            await here.pod("a")
            async with scheduler(access_to(schedulable), "cold", lease="cold"):
                await asyncio.to_thread(has_begun.wait)
                assert (LEASE, "cold") not in leases.objects
                may_end.set()
                await leases.until(
                    lambda there: (LEASE, "cold") in there and there[LEASE, "cold"].spec.holder_identity == "cold"
                )
                await here.are_bound("a")

    run(story())


def test_two_leaders_with_different_leases_bind_nothing_twice_and_heal_a_node_that_both_filled(
    schedulable: Cluster,
) -> None:
    """The first decides where `b` goes, and is held up until the second has put `a` there."""

    async def story() -> None:
        async with space(schedulable) as here:
            await here.pod("other", 3, schedulerName="nobody", nodeName="node-1")
            has_decided, may_end = threading.Event(), threading.Event()
            async with scheduler(access_to(schedulable), "first", lease="first") as first:
                take_turn = first.world.take_turn

                def long_turn(now_ms: int, hand_over: HandOver) -> None:
                    orders = Orders()
                    take_turn(now_ms, orders.add)
                    if orders.binds:
                        has_decided.set()
                        assert may_end.wait(PATIENCE_S)
                    hand_over(orders)

                first.world.take_turn = long_turn  # type: ignore[method-assign]
                await here.pod("b", 3)
                await asyncio.to_thread(has_decided.wait)
                await here.pod("a", 3, priorityClassName="system-cluster-critical")
                async with scheduler(access_to(schedulable), "second", lease="second"):
                    assert await here.are_bound("a") == {"a": "node-0"}
                    may_end.set()
                    await here.when(lambda pods: "b" not in pods)
                    assert max((await here.held()).values()) <= CPU * 1000
                    await here.pod("c", 1)
                    await here.are_bound("c")
                    assert set(here.bound()) == {"other", "a", "c"}

    run(story())


def test_connections_that_are_cut_lose_no_pod_and_bind_none_twice(schedulable: Cluster) -> None:
    """One in thirty pieces meets trouble: answers to binds are lost, watches break, renewals fail."""

    async def story() -> int:
        with Cutting(schedulable.url, chance=Random(3), every=30) as proxy:
            access = replace(access_to(schedulable), server=proxy.url)
            async with space(schedulable) as here, scheduler(access):
                for number in range(40):
                    await here.pod(f"p{number}", cpu=0.25)
                await here.when(lambda pods: sum(bool(pod.spec.node_name) for pod in pods.values()) == 32)
                assert set((await here.held()).values()) == {CPU * 1000}
                gone = sorted(here.bound())[:8]
                for name in gone:
                    await here.client.delete(PODS, name, here.name, grace_s=0)
                await here.when(lambda pods: len(pods) == 32 and all(pod.spec.node_name for pod in pods.values()))
                assert set((await here.held()).values()) == {CPU * 1000}
        return proxy.met.total()

    assert run(story()) > 0


@pytest.mark.parametrize(
    "options, said",
    [
        pytest.param(["--lease", "nowhere"], "--lease", id="a lease without a namespace"),
        pytest.param(["--kubeconfig", "/no/such/file"], "kubeconfig", id="a kubeconfig that is not there"),
        pytest.param(["--lease-duration", "1"], "--lease-duration", id="a lease that ends before it is renewed"),
        pytest.param(["--lease-duration", "inf"], "--lease-duration", id="a lease that never ends"),
        pytest.param(["--preemption", "maybe"], "--preemption", id="a preemption that is neither on nor off"),
    ],
)
def test_bad_input_is_named(options: list[str], said: str) -> None:
    done = subprocess.run([*MUSTER, "kube-scheduler", *options], capture_output=True, text=True, check=False)

    assert (done.returncode, said in done.stderr) == (2, True)
    assert options[1] in done.stderr
