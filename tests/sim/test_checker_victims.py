"""The checker finds what is wrong with evictions by class and of borrowers, and with budgets violated needlessly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from worlds import a_job, a_world

from muster.engine import plan
from muster.model.budgets import Budget, EvictionLimit
from muster.model.plan import Action, Evict, Plan, Rule
from muster.model.snapshot import Lane, Snapshot
from muster.sim.checker import check


def a_moment() -> tuple[Snapshot, Plan]:
    """head is about to take the place of new; old would do as well."""
    there = a_world(over_share=None).with_node(cpu=1, count=2)
    there.with_jobs(a_job("a").named("old").cpu(1)).turn()
    there.at(seconds=10).with_jobs(a_job("a").named("new").cpu(1)).turn()
    there.at(seconds=20).with_jobs(a_job("b").named("head").cpu(1).of(priority_class=5))
    snapshot = there.snapshot()
    return snapshot, plan(snapshot)


def with_evictions(made: Plan, change: Callable[[Evict], Action]) -> Plan:
    return replace(made, actions=tuple(change(it) if isinstance(it, Evict) else it for it in made.actions))


def test_what_the_engine_does_is_right() -> None:
    snapshot, made = a_moment()

    assert [it.job for it in made.actions if isinstance(it, Evict)] == ["new"]
    assert check(snapshot, made) == []


@pytest.mark.parametrize(
    "rule, problem",
    [
        pytest.param(Rule.BORROWER, "new: is evicted as a borrower, but is none", id="no borrower"),
        pytest.param(Rule.FAIR_SHARE, "new: is evicted whole within its lifetime", id="a lifetime counts for fairness"),
    ],
)
def test_another_rule(rule: Rule, problem: str) -> None:
    snapshot, made = a_moment()

    assert problem in check(snapshot, with_evictions(made, lambda it: it._replace(rule=rule)))


@pytest.mark.parametrize(
    "change, problem",
    [
        pytest.param({"preempted_by": ("head",)}, "new: gives way to head for the second time", id="twice"),
        pytest.param({"protected_until_ms": 60_000}, "new: is evicted while it is protected", id="safe"),
    ],
)
def test_another_victim(change: dict[str, object], problem: str) -> None:
    snapshot, made = a_moment()
    running = [replace(run, **change) if run.job.id == "new" else run for run in snapshot.running]

    assert problem in check(replace(snapshot, running=running), made)


def test_a_victim_of_the_same_class() -> None:
    snapshot, made = a_moment()
    running = [replace(run, job=replace(run.job, priority_class=5)) for run in snapshot.running]

    assert "new: is evicted by class, but is not of a lower one than head" in check(
        replace(snapshot, running=running), made
    )


def test_a_budget_that_need_not_be_violated() -> None:
    snapshot, made = a_moment()
    budget = Budget(job="new", group="task", min_available=1)

    assert check(replace(snapshot, budgets=(budget,)), made) == [
        "new: its disruption budget is violated for head, but old could go"
    ]


def test_more_evictions_than_a_limit_allows() -> None:
    snapshot, made = a_moment()
    limit = EvictionLimit(name="web", allowed=0, covers=(("new", 1),))

    assert check(replace(snapshot, eviction_limits=(limit,)), made) == [
        "1 tasks are evicted that web covers, which allows 0"
    ]


def test_a_head_that_may_not_preempt() -> None:
    snapshot, made = a_moment()
    queues = tuple(replace(state, lanes=tuple(map(made_meek, state.lanes))) for state in snapshot.queues)

    assert "head: evicts others, but may not preempt" in check(replace(snapshot, queues=queues), made)


def made_meek(lane: Lane) -> Lane:
    return replace(lane, jobs=tuple(replace(job, profile=replace(job.profile, may_preempt=False)) for job in lane.jobs))


def test_a_task_keeps_its_limit_when_another_one_of_its_job_goes() -> None:
    """Each task of the elastic job has a limit of its own; only the second of them may go, and so may one more."""
    there = a_world(over_share=None, elastic_every_ms=None)
    for name in "xyz":
        there.with_node(f"n-{name}", cpu=1, labels={"node": name})
    there.with_jobs(a_job("a").named("wide").tasks(1, 3).cpu(1)).turn()
    urgent = a_job("b").cpu(1).of(priority_class=5)
    there.at(seconds=10).with_jobs(urgent.named("first").on(node="y"), urgent.named("second").on(node="z"))
    snapshot = there.snapshot()
    (wide,) = snapshot.running
    assert [task.node for task in wide.tasks] == ["n-x", "n-y", "n-z"]
    limits = [EvictionLimit(name=f"at most {many}", allowed=many, covers=(("wide", 1),)) for many in (0, 2, 0)]

    made = plan(replace(snapshot, eviction_limits=tuple(limits)))

    assert [(it.by, it.tasks[0].node) for it in made.actions if isinstance(it, Evict)] == [("first", "n-y")]
