"""The checker knows the rules of pools: it finds nothing wrong with honest plans, and every forgery that breaks one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import World, a_job, a_world

from muster.engine import plan
from muster.model import events as ev
from muster.model.jobs import Reservation, Task
from muster.model.plan import Action, Evict, Promise, Resize, Rule, Start, Waiting, Why
from muster.model.pools import DEFAULT_POOL, Pool
from muster.model.reasons import Reason
from muster.sim.checker import check

A_LATER_MOMENT_MS = 1000


def a_world_of_pools() -> World:
    """p (node a) may borrow from q (node b) and the default pool (node d); r (node c) keeps to itself, and lies alone
    in another cluster. The default pool borrows from nobody, and nobody is evicted there. Each node has 8 cores."""
    world = a_world(over_share=None).with_queues("x")
    world.with_node("a", cpu=8, labels={"p": "yes"}).with_node("b", cpu=8, labels={"q": "yes"}).with_node("d", cpu=8)
    world.with_node("c", cluster="other", cpu=8, labels={"r": "yes"})
    world.happens(ev.PoolSet(pool=Pool(name=DEFAULT_POOL, borrows=False, preempts=False)))
    world.with_pools("p").with_pools("q", preempts=False)
    return world.with_pools("r", shares=False, borrows=False)


def tasks_on(*nodes: str, first: int = 0) -> tuple[Task, ...]:
    return tuple(Task("task", number, node) for number, node in enumerate(nodes, start=first))


def start_on(job: str, *nodes: str, cluster: str = "main", by_preemption: bool = False) -> Start:
    tasks = tasks_on(*nodes)
    return Start(job=job, queue="x", attempt=1, cluster=cluster, tasks=tasks, by_preemption=by_preemption)


def evict(job: str, *nodes: str, by: str) -> Evict:
    return Evict(job=job, attempt=1, tasks=tasks_on(*nodes), rule=Rule.FAIR_SHARE, by=by, whole=True)


def problems(world: World, *actions: Action, waiting: str = "") -> list[str]:
    """What the checker says when a turn decides just this, and that someone waits for room."""
    snapshot = world.snapshot()
    verdicts = {waiting: Waiting(reason=Reason.NO_ROOM)} if waiting else {}
    return check(snapshot, replace(plan(snapshot), actions=actions, verdicts=verdicts))


def about_pools(found: list[str]) -> list[str]:
    return [problem for problem in found if "pool" in problem]


@pytest.mark.parametrize(
    "pool, start, says",
    [
        pytest.param("p", start_on("j", "a", "a"), [], id="at home"),
        pytest.param("p", start_on("j", "b", "b"), [], id="in a pool that shares"),
        pytest.param("p", start_on("j", "d", "d"), [], id="in the default pool"),
        pytest.param(
            "nowhere", start_on("j", "d", "d"), [], id="who names no pool there is at home in the default pool"
        ),
        pytest.param(
            "p",
            start_on("j", "a", "b"),
            ["j: its tasks lie in the pools p, q, but a job starts in one"],
            id="half at home, half abroad",
        ),
        pytest.param(
            "",
            start_on("j", "a", "a"),
            ["j: is of pool default, which may not borrow from p"],
            id="the default pool does not borrow where it may not",
        ),
        pytest.param(
            "p",
            start_on("j", "c", "c", cluster="other"),
            [
                "j: is of pool p, which may not borrow from r",
                "j: starts in cluster other, which does not have its pool p",
            ],
            id="in a pool that does not share, in a cluster without its own",
        ),
        pytest.param(
            "r",
            start_on("j", "c", "c", cluster="other"),
            [],
            id="a pool that shares nothing is there for its own jobs",
        ),
        pytest.param(
            "p",
            start_on("j", "b", "b", by_preemption=True),
            ["j: starts by preemption in pool q, which is not its own"],
            id="a borrower that preempts",
        ),
    ],
)
def test_where_a_job_may_start(pool: str, start: Start, says: list[str]) -> None:
    world = a_world_of_pools().with_jobs(a_job("x").named("j").cpu(1).tasks(2).of_pool(pool))

    assert about_pools(problems(world, start)) == says


def test_a_pool_lends_only_to_those_that_borrow_from_it_by_name() -> None:
    world = a_world_of_pools().with_pools("s", borrows_from=("",))
    world.with_jobs(a_job("x").named("j").cpu(1).of_pool("s"))

    assert about_pools(problems(world, start_on("j", "d"))) == []
    assert about_pools(problems(world, start_on("j", "b"))) == ["j: is of pool s, which may not borrow from q"]


@pytest.mark.parametrize(
    "own, changes, reason, says",
    [
        pytest.param(
            a_job("x").cpu(8),
            {},
            Reason.NO_ROOM,
            ["guest: borrows on b what jobs that wait in pool q ask for"],
            id="what waits at home could use it once others end, and nobody gives way there",
        ),
        pytest.param(
            a_job("x").cpu(8), {"preempts": True}, Reason.NO_ROOM, [], id="where who borrows gives way it may"
        ),
        pytest.param(a_job("x").cpu(16), {}, Reason.NO_ROOM, [], id="what waits at home could never use it"),
        pytest.param(
            a_job("x").cpu(8),
            {"preempts": True},
            Reason.RATE_LIMIT,
            ["guest: borrows from pool q, whose own own waits for the next turn only"],
            id="what waits at home would start if more might",
        ),
        pytest.param(
            a_job("x").memory(1),
            {"keep": {"cpu": 8000}},
            Reason.NO_ROOM,
            ["guest: borrows cpu from pool q, which keeps 1000 more of it"],
            id="the pool keeps all of it",
        ),
        pytest.param(a_job("x").memory(1), {"keep": {"cpu": 7000}}, Reason.NO_ROOM, [], id="it keeps the rest"),
    ],
)
def test_what_a_pool_needs_or_keeps_is_not_lent(own, changes, reason, says) -> None:
    world = a_world_of_pools().happens(ev.PoolChanged(pool="q", changes=changes))
    world.with_jobs(own.named("own").of_pool("q"), a_job("x").named("guest").cpu(1).of_pool("p"))
    snapshot = world.snapshot()
    verdicts = {"own": Waiting(reason=reason)}

    found = check(snapshot, replace(plan(snapshot), actions=(start_on("guest", "b"),), verdicts=verdicts))

    assert [it for it in found if it.startswith("guest: borrows")] == says


def test_nobody_waits_for_room_that_another_pool_would_lend() -> None:
    world = a_world_of_pools()
    world.with_jobs(a_job("x").named("own").cpu(8).of_pool("p")).turn()
    world.with_jobs(a_job("x").named("guest").cpu(8).of_pool("p"))
    snapshot = world.snapshot()

    assert check(snapshot, plan(snapshot)) == []
    assert about_pools(problems(world, waiting="guest")) == [
        "guest: finds no room, but pool default would lend it some",
        "guest: finds no room, but pool q would lend it some",
    ]


@pytest.mark.parametrize(
    "victim, node, head, says",
    [
        pytest.param("p", "a", "p", [], id="in its own pool a job may evict"),
        pytest.param(
            "q",
            "b",
            "q",
            ["victim: task-0 is evicted from pool q, where preemption is off"],
            id="where preemption is off nobody goes",
        ),
        pytest.param(
            "",
            "d",
            "",
            ["victim: task-0 is evicted from pool default, where preemption is off"],
            id="nor from the default pool where it is off",
        ),
        pytest.param(
            "p",
            "a",
            "r",
            ["victim: is evicted for head of pool r, where it has no task"],
            id="nobody is evicted for jobs of other pools",
        ),
    ],
)
def test_where_jobs_may_be_evicted(victim: str, node: str, head: str, says: list[str]) -> None:
    world = a_world_of_pools()
    world.with_jobs(a_job("x").named("victim").cpu(8).of_pool(victim).lifetime()).turn()
    assert [task.node for task in world.state.running["victim"].tasks] == [node]
    world.at(seconds=5).with_jobs(a_job("x").named("head").cpu(8).of_pool(head).of(priority_class=9))

    found = problems(world, evict("victim", node, by="head"), start_on("head", node, by_preemption=True))

    assert [problem for problem in found if problem.startswith("victim: ") and "pool" in problem] == says


def test_from_a_default_pool_alone_jobs_may_be_evicted() -> None:
    world = a_world(over_share=None).with_node("n", cpu=8)
    world.with_jobs(a_job("x").named("victim").cpu(8).lifetime()).turn()
    world.at(seconds=5).with_jobs(a_job("x").named("head").cpu(8).of(priority_class=9))

    found = problems(world, evict("victim", "n", by="head"), start_on("head", "n", by_preemption=True))

    assert about_pools(found) == []


def test_the_default_pool_beside_others_is_a_pool_like_any_other() -> None:
    world = a_world(over_share=None).with_node("d", cpu=8).with_node("b", cpu=8, labels={"q": "yes"}).with_pools("q")
    world.with_jobs(a_job("x").named("victim").cpu(8).lifetime()).turn()
    assert [task.node for task in world.state.running["victim"].tasks] == ["d"]
    world.at(seconds=5).with_jobs(a_job("x").named("head").cpu(8).of(priority_class=9))

    evicts = problems(world, evict("victim", "d", by="head"), start_on("head", "d", by_preemption=True))
    borrows = problems(world, start_on("head", "b"))

    assert about_pools(evicts) == about_pools(borrows) == []


def test_room_is_promised_at_home_only() -> None:
    world = a_world_of_pools()
    world.with_jobs(a_job("x").named("long").cpu(8).lasts(minutes=5).of_pool("p")).turn()
    world.with_jobs(a_job("x").named("j").cpu(8).of_pool("p"))
    promise = Reservation(cluster="main", start_ms=A_LATER_MOMENT_MS, tasks=tasks_on("b"), is_firm=True)
    world.happens(ev.JobAdmitted(job="j", attempt=1, cluster="main", place=0))

    found = problems(world, Promise(job="j", attempt=1, reservation=promise))

    assert about_pools(found) == ["j: is promised room outside of its pool p"]


def test_a_job_grows_where_it_is() -> None:
    world = a_world_of_pools()
    world.with_jobs(a_job("x").named("j").cpu(1).tasks(1, 1, 4).of_pool("p")).turn()
    more = tasks_on("b", first=1)
    grown = Resize(job="j", attempt=1, group="task", before=1, after=2, why=Why.GROWTH, added=more)

    assert "j: grows into q, where it is not" in problems(world.at(seconds=5), grown)
