"""Sums in plain numbers say what the values would, one event after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.model.flow import Account
from muster.model.jobs import Profile, Task, TaskGroup, least_usage_of, resources_of, usage_of
from muster.model.nodes import Request
from muster.model.resources import DEFAULT_WEIGHTS, NOTHING, Resources
from muster.state.tally import Measures, Meter, Tally

AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), st.integers(0, 10**15)).map(Resources.of)
HALF_TIME_MS = 60_000


@given(st.lists(st.tuples(AMOUNTS, st.integers(0, 3), st.booleans())))
def test_property_a_tally_adds_up_as_resources_do(steps: list[tuple[Resources, int, bool]]) -> None:
    tally, total = Tally(), NOTHING
    for resources, times, stays in steps:
        tally.add(resources, times)
        copy = tally.copy()
        copy.add(resources, 1)
        total = total + resources * times
        assert tally.amounts() == total
        if not stays:
            tally.add(resources, -times)
            total = total - resources * times
            assert tally.amounts() == total
        assert {name: tally.get(name) for name in ("cpu", "gpu")} == {"cpu": total.get("cpu"), "gpu": 0}


@given(st.lists(st.tuples(st.integers(0, 10**12), st.sampled_from([0, 0, 1, 999, 60_000, 10**7]))))
def test_property_a_meter_follows_usage_as_accounts_do(steps: list[tuple[int, int]]) -> None:
    meter, account, now_ms = Meter(HALF_TIME_MS), Account(), 0
    for usage, later_ms in steps:
        now_ms += later_ms
        meter.copy().change(1, now_ms)
        meter.change(usage - account.usage, now_ms)
        account = account.with_usage(usage, now_ms, HALF_TIME_MS)
        assert meter.account() == account


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy")), max_size=6))
def test_property_tasks_measure_what_they_use_and_hold(tasks: list[tuple[str, str]]) -> None:
    measures = Measures(DEFAULT_WEIGHTS)
    groups = [
        TaskGroup(name=name, min=1, initial=2, max=3, request=Request.of({"cpu": 1001 * cores, "memory": 7}))
        for cores, name in enumerate("ab", 1)
    ]
    for profile in (Profile(groups=tuple(groups)), Profile(groups=(groups[0],))):
        known = {group.name for group in profile.groups}
        there = tuple(Task(group=group, index=0, node=node) for group, node in tasks if group in known)
        for _ in range(2):
            measure = measures.of(profile, there)
            assert measure.usage == usage_of(profile, there, DEFAULT_WEIGHTS)
            assert measure.resources == resources_of(profile, there)
            assert measures.least_usage(profile) == least_usage_of(profile, DEFAULT_WEIGHTS)
