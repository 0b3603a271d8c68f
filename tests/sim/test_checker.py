"""The checker finds nothing wrong with what the engine decides, and every forgery that breaks a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from worlds import EVERYTHING, Knobs, World, a_job, a_world, amounts, scenarios

from muster.engine import plan
from muster.model import events as ev
from muster.model.after import After
from muster.model.flow import Account
from muster.model.jobs import Job, Profile, Reservation, Task, TaskGroup
from muster.model.nodes import Request
from muster.model.plan import (
    Action,
    Admit,
    Evict,
    Plan,
    Promise,
    Return,
    Rule,
    Start,
    Started,
    StillRunning,
    Verdict,
    Victim,
    Waiting,
    verdicts,
)
from muster.model.policy import FairBy, Preemption
from muster.model.queues import MINUTE_MS
from muster.model.reasons import Reason
from muster.model.resources import MICRO, Resources
from muster.model.snapshot import Snapshot
from muster.sim.checker import check, check_some
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation

Forgery = Callable[[Snapshot, Plan], tuple[Snapshot, Plan]]


# --- worlds ---------------------------------------------------------------------------------------


def free_world() -> World:
    """Room for everyone: a gang, GPUs whole and in parts, a whole node, tasks that must be close."""
    world = a_world(over_share=None).with_queues("a", "b")
    world.with_node("n-0", cpu=8, gpu=2, topology=("s2", "l2"), labels={"disk": "fast"})
    world.with_node("n-1", cpu=8, topology=("s0", "l0")).with_node("n-2", cpu=8, topology=("s0", "l0"))
    world.with_node("n-3", cpu=8, topology=("s1", "l1")).with_node("n-4", cpu=8, cordoned=True)
    world.with_node("far", cluster="other", cpu=8)
    return world.with_jobs(
        a_job("a").named("gang").cpu(1).tasks(2, 3),
        a_job("a").named("gpu").cpu(1).gpu(1),
        a_job("a").named("part").cpu(1).gpu(1, 500),
        a_job("b").named("alone").cpu(1).whole_node(),
        a_job("b").named("close").cpu(4).tasks(2).within(2),
        a_job("b").named("picky").cpu(1).on(disk="fast"),
        replace(a_job("b").named("local").cpu(1), clusters=(("main", 50),)),
    )


def full_world(**policy: Any) -> World:
    """Queue a holds most of the node: with a gang wider than it must be, and jobs that have outlived their lifetime."""
    world = a_world(over_share=None, **policy).with_node(cpu=6).with_queues("a", "b")
    world.with_jobs(a_job("a").named("wide").cpu(1).tasks(2, 3), a_job("b").named("other").cpu(1))
    world.with_jobs(a_job("a").cpu(1).lifetime(), a_job("a").cpu(1).lifetime())
    world.turn()
    return world.at(minutes=5)


def contested_world(**policy: Any) -> World:
    """A job of queue b needs more than anyone of queue a alone would free."""
    return full_world(**policy).with_jobs(a_job("b").named("head").cpu(2))


def two_jobs_deep() -> World:
    """Queue a holds all in large jobs; two jobs of queue b fit in the place of one."""
    world = a_world(over_share=None).with_node(cpu=4).with_queues("a", "b")
    world.with_jobs(*(a_job("a").cpu(1).lifetime() for _ in range(4)))
    world.turn()
    return world.at(minutes=5).with_jobs(a_job("b").named("head").cpu(1))


def promising_world(**policy: Any) -> World:
    """The node is busy for a minute more: `first` has a promise for then, `next` would be in its way."""
    world = a_world(over_share=None, **policy).with_node(cpu=4).with_queues("a", "b")
    world.with_jobs(a_job("a").named("runs").cpu(2).lasts(minutes=2))
    world.turn()
    world.at(minutes=1).with_jobs(a_job("a").named("first").cpu(4).lasts(minutes=1))
    world.turn()
    return world.at(seconds=70).with_jobs(
        a_job("b").named("next").cpu(2).lasts(minutes=5),
        a_job("b").named("short").cpu(2).lasts(seconds=10),
        a_job("b").named("shorter").cpu(2).lasts(seconds=10),
    )


def blocked_world() -> World:
    """Nothing has room, nothing is reserved; `huge` fits nowhere at all."""
    world = a_world(over_share=None, reservations=0).with_node(count=2, cpu=4).with_queues("a", "b")
    world.with_jobs(a_job("a").cpu(3), a_job("a").cpu(3))
    world.turn()
    return world.at(minutes=1).with_jobs(
        a_job("b").named("one").cpu(2),
        a_job("b").named("two").cpu(1).tasks(3),
        a_job("b").named("huge").cpu(5),
        a_job("b").named("one-more").cpu(2),
        a_job("b").named("later").cpu(1).of(after=(After("one"),)),
    )


def limited_world() -> World:
    """Every queue has met a limit of its own; `open` has not."""
    world = a_world(starts_per_queue=2).with_node(cpu=16).with_user("u", cpu=1)
    world.with_queues("over", "open").with_queues("quota", quota=amounts(cpu=1)).with_queues("shut", cordoned=True)
    world.with_queues("poor", excess_budget=10 * MICRO * MINUTE_MS).with_queues("busy", "user")
    return world.with_jobs(
        *(a_job("over").cpu(3) for _ in range(2)),
        *(a_job("quota").cpu(1).lifetime() for _ in range(2)),
        *(a_job("poor").cpu(3).lifetime(minutes=10) for _ in range(2)),
        *(a_job("user").cpu(1).lifetime().of(user="u") for _ in range(2)),
        *(a_job("busy").cpu("100m").lifetime() for _ in range(3)),
        a_job("shut").cpu(1),
        a_job("open").cpu(1).lifetime(),
    )


def queues_in_turn() -> World:
    """Two equal queues with two jobs each, by flow: a-0, b-0, a-1, b-1."""
    world = a_world(over_share=None, reservations=0, fair_by=FairBy.FLOW).with_node(cpu=4)
    return world.with_jobs(*(a_job(queue).cpu(1) for queue in "ab" for _ in range(2)))


def turn_of(world: World) -> tuple[Snapshot, Plan]:
    """What the engine knows and decides."""
    snapshot = world.snapshot()
    return snapshot, plan(snapshot)


# --- forgeries ------------------------------------------------------------------------------------


def acting(change: Callable[[list[Action]], list[Action]]) -> Forgery:
    """Other actions."""
    return lambda snapshot, made: (snapshot, replace(made, actions=tuple(change(list(made.actions)))))


def changed(kind: type[Action], job: str, /, **fields: Any) -> Forgery:
    """One action with other fields; a function gets the old value."""

    def change(action: Action) -> Action:
        if not (isinstance(action, kind) and action.job == job):
            return action
        values = {key: new(getattr(action, key)) if callable(new) else new for key, new in fields.items()}
        return action._replace(**values)

    return acting(lambda actions: [change(action) for action in actions])


def without(kind: type[Action], job: str) -> Forgery:
    """One action less."""
    return acting(lambda actions: [it for it in actions if not (isinstance(it, kind) and it.job == job)])


def twice(kind: type[Action], job: str) -> Forgery:
    """One action again at the end."""
    return acting(lambda actions: [*actions, *(it for it in actions if isinstance(it, kind) and it.job == job)])


def with_actions(*more: Action) -> Forgery:
    """More actions, in front."""
    return acting(lambda actions: [*more, *actions])


def swapped(one: str, other: str) -> Forgery:
    """Two jobs' actions change places."""

    def swap(actions: list[Action]) -> list[Action]:
        theirs = {name: [action for action in actions if action.job == name] for name in (one, other)}
        swapped_name = {one: other, other: one}
        taken = {name: iter(theirs[swapped_name[name]]) for name in theirs}
        return [next(taken[action.job]) if action.job in taken else action for action in actions]

    return acting(swap)


def telling(job: str, verdict: Verdict | None) -> Forgery:
    """Another verdict for the job, or none."""

    def forge(snapshot: Snapshot, made: Plan) -> tuple[Snapshot, Plan]:
        others = {name: given_ for name, given_ in made.verdicts.items() if name != job}
        return snapshot, replace(made, verdicts=others if verdict is None else {**others, job: verdict})

    return forge


def reasoning(job: str, reason: Reason | None = None, **facts: Any) -> Forgery:
    """Another reason or other facts for a waiting job."""

    def forge(snapshot: Snapshot, made: Plan) -> tuple[Snapshot, Plan]:
        given_ = verdicts(snapshot, made)[job]
        assert isinstance(given_, Waiting)
        waiting = replace(given_, reason=reason or given_.reason, facts={**given_.facts, **facts})
        return telling(job, waiting)(snapshot, made)

    return forge


def under(**policy: Any) -> Forgery:
    """The same plan under another policy."""
    return lambda snapshot, made: (replace(snapshot, policy=replace(snapshot.policy, **policy)), made)


def queue_of(name: str, **fields: Any) -> Forgery:
    """The same plan, had the queue been another."""

    def forge(snapshot: Snapshot, made: Plan) -> tuple[Snapshot, Plan]:
        states = [
            replace(state, queue=replace(state.queue, **fields)) if state.queue.name == name else state
            for state in snapshot.queues
        ]
        return replace(snapshot, queues=tuple(states)), made

    return forge


def running_as(job: str, **fields: Any) -> Forgery:
    """The same plan, had a running job been another. Fields of its Job go there, the rest to the run."""
    of_job = {key: value for key, value in fields.items() if key in Job.__slots__}
    of_run = {key: value for key, value in fields.items() if key not in of_job}

    def forge(snapshot: Snapshot, made: Plan) -> tuple[Snapshot, Plan]:
        runs = [
            replace(run, job=replace(run.job, **of_job), **of_run) if run.job.id == job else run
            for run in snapshot.running
        ]
        return replace(snapshot, running=tuple(runs)), made

    return forge


def moved(task: str, node: str, devices: tuple[int, ...] | None = None) -> Callable[[tuple[Task, ...]], Any]:
    """The tasks, with one somewhere else or on other devices."""
    return lambda tasks: tuple(
        it._replace(node=node or it.node, devices=it.devices if devices is None else devices) if it.name == task else it
        for it in tasks
    )


def found(world: World, *forgeries: Forgery) -> list[str]:
    """What the checker says of a forged turn, after it had nothing to say of the true one."""
    snapshot, made = turn_of(world)
    assert check(snapshot, made) == []
    for forge in forgeries:
        snapshot, made = forge(snapshot, made)
    return check(snapshot, made)


def assert_names(problems: list[str], sentence: str) -> None:
    """Some problem says so."""
    assert any(sentence in problem for problem in problems), problems


# --- room and gangs -------------------------------------------------------------------------------


def _crowd(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    return tuple(task._replace(node="n-0") for task in tasks)


@pytest.mark.parametrize(
    "forge, sentence",
    [
        pytest.param(
            changed(Start, "close", tasks=_crowd), "does not fit on node n-0: cpu is over-", id="node too full"
        ),
        pytest.param(
            changed(Start, "gpu", tasks=moved("task-0", "", (7,))), "there is no device 7", id="no such device"
        ),
        pytest.param(
            changed(Start, "part", tasks=moved("task-0", "", (0,))),
            "device 0 is over-committed (0 left, 500 asked)",
            id="device taken already",
        ),
        pytest.param(changed(Start, "gpu", tasks=moved("task-0", "", ())), "asks for 1", id="too few devices"),
        pytest.param(changed(Start, "gpu", tasks=moved("task-0", "", (1, 1))), "asks for 1", id="too many devices"),
        pytest.param(changed(Start, "picky", tasks=moved("task-0", "n-9")), "does not exist", id="no such node"),
        pytest.param(changed(Start, "picky", tasks=moved("task-0", "n-4")), "which is cordoned", id="cordoned node"),
        pytest.param(
            changed(Start, "picky", tasks=moved("task-0", "n-1")), "its nodeSelector forbids", id="selector ignored"
        ),
        pytest.param(changed(Start, "gang", tasks=moved("task-0", "far")), "not in cluster main", id="two clusters"),
        pytest.param(changed(Start, "local", cluster="other"), "other is not a candidate", id="not a candidate"),
        pytest.param(changed(Start, "local", cluster="nowhere"), "is not a candidate", id="no such cluster"),
        pytest.param(changed(Start, "close", tasks=moved("task-1", "n-2")), "6 hops apart", id="too far apart"),
        pytest.param(changed(Start, "gang", tasks=lambda tasks: tasks[:1]), "1 tasks of task", id="gang below min"),
        pytest.param(
            changed(Start, "gang", tasks=lambda tasks: (*tasks, tasks[0]._replace(index=3))),
            "4 tasks of task would start, not 2 to 3",
            id="gang wider than initial",
        ),
        pytest.param(
            changed(Start, "gang", tasks=lambda tasks: (tasks[0], *tasks[:2])), "not numbered 0 to 2", id="task twice"
        ),
        pytest.param(
            changed(Start, "gang", tasks=lambda tasks: tuple(task._replace(group="x") for task in tasks)),
            "has no task group x",
            id="no such group",
        ),
    ],
)
def test_a_task_that_cannot_be_there_is_found(forge: Forgery, sentence: str) -> None:
    assert_names(found(free_world(), forge), sentence)


def _to_the_node_of(other: str) -> Forgery:
    """`local` moves to the node of another job."""

    def forge(snapshot: Snapshot, made: Plan) -> tuple[Snapshot, Plan]:
        tasks = next(action.tasks for action in made.actions if isinstance(action, Start) and action.job == other)
        return changed(Start, "local", tasks=moved("task-0", tasks[0].node))(snapshot, made)

    return forge


def test_a_whole_node_is_not_shared() -> None:
    problems = found(free_world(), _to_the_node_of("alone"))
    assert any("has the whole node" in problem or "is not alone" in problem for problem in problems)


def test_a_silent_cluster_gets_nothing() -> None:
    world = free_world()
    _, made = turn_of(world)
    world.happens(ev.ClusterSilent(cluster="main", silent=True))
    assert_names(check(world.snapshot(), made), "cluster main is silent")


def test_who_was_admitted_in_an_earlier_round_of_the_turn_is_not_charged_again() -> None:
    admitted, charged = Admit(job="gang", attempt=1, cluster="main"), changed(Start, "gang", charge=5)
    assert_names(found(free_world(), with_actions(admitted), charged), "gang: is charged 5, but was admitted before")


@pytest.mark.parametrize(
    "forge, sentence",
    [
        pytest.param(twice(Start, "gang"), "gang: starts twice", id="started twice"),
        pytest.param(changed(Start, "gang", attempt=2), "its next is attempt 1", id="wrong attempt"),
        pytest.param(changed(Start, "gang", job="ghost"), "ghost: starts but is neither", id="unknown job"),
        pytest.param(
            with_actions(Admit(job="ghost", attempt=1, cluster="main")), "ghost: is admitted but not", id="no such job"
        ),
        pytest.param(changed(Start, "gang", queue="b"), "from queue b", id="from another queue"),
        pytest.param(changed(Start, "gang", by_preemption=True), "by preemption is not told", id="no victims"),
        pytest.param(changed(Start, "gang", overtook=("gpu",)), "overtakes by its lifetime", id="overtakes for ever"),
        pytest.param(with_actions(Return(job="gang", attempt=1)), "returned but not pending", id="returned"),
        pytest.param(
            with_actions(Promise(job="gang", attempt=1, reservation=None)), "a promise but is not pend", id="promised"
        ),
        pytest.param(
            lambda snapshot, made: (snapshot, replace(made, now_ms=5)), "the plan is of 5 ms", id="wrong time"
        ),
    ],
)
def test_a_start_that_is_not_the_jobs_own_is_found(forge: Forgery, sentence: str) -> None:
    assert_names(found(free_world(), forge), sentence)


def test_the_next_attempt_has_the_next_number() -> None:
    world = a_world(over_share=None).with_node("n-0", cpu=4).with_node("n-1", cpu=4).with_jobs(a_job("a").cpu(1))
    world.turn()
    world.at(seconds=1).happens(ev.NodeRemoved(node="n-0"))
    assert_names(found(world, changed(Start, "a-0", attempt=1)), "its next is attempt 2")


# --- the snapshot's own books ---------------------------------------------------------------------


def _with_room(snapshot: Snapshot, **fields: Any) -> Snapshot:
    state = snapshot.nodes["n-0"]
    return replace(snapshot, nodes={**snapshot.nodes, "n-0": replace(state, **fields)})


def _with_queue(snapshot: Snapshot, **fields: Any) -> Snapshot:
    return replace(snapshot, queues=tuple(replace(state, **fields) for state in snapshot.queues))


@pytest.mark.parametrize(
    "forge, sentence",
    [
        pytest.param(lambda it: _with_room(it, room=it.nodes["n-0"].empty), "its room is", id="room"),
        pytest.param(lambda it: _with_room(it, held=Resources({})), "its tasks hold", id="what tasks hold"),
        pytest.param(lambda it: _with_queue(it, started=Resources({})), "its jobs hold", id="what queues hold"),
        pytest.param(lambda it: _with_queue(it, demand=Resources({"cpu": 7})), "ask for", id="what queues ask for"),
        pytest.param(lambda it: _with_queue(it, charged=1), "the charges of its jobs is 0", id="charges"),
        pytest.param(lambda it: _with_queue(it, account=Account(usage=1, flow=1)), "the usage of its", id="usage"),
        pytest.param(
            lambda it: _with_queue(it, fixed=Account(usage=1, flow=1)), "the fixed usage of", id="fixed usage"
        ),
        pytest.param(lambda it: replace(it, pending=(*it.pending, *it.pending)), "in 2 places", id="a job twice"),
    ],
)
def test_a_snapshot_that_does_not_add_up_is_found(forge: Callable[[Snapshot], Snapshot], sentence: str) -> None:
    assert_names(found(promising_world(), lambda snapshot, made: (forge(snapshot), made)), sentence)


def test_room_may_be_owed_to_pods_that_are_not_ours() -> None:
    world = full_world()
    world.happens(ev.ForeignPlaced(id="pod", node="n-0", amounts=Resources.of(amounts(cpu=2, pods=1))))
    snapshot, made = turn_of(world)
    assert snapshot.nodes["n-0"].room.debt
    assert check(snapshot, made) == []


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "forge, sentence",
    [
        pytest.param(queue_of("open", cordoned=True), "although queue open is cordoned", id="cordoned queue"),
        pytest.param(queue_of("open", quota={"cpu": 500}), "more cpu than its quota of 500", id="queue's quota"),
        pytest.param(under(over_share=MICRO // 10), "over its limit", id="over-share"),
        pytest.param(changed(Start, "poor-0", charge=5), "is charged 5, not", id="wrong charge"),
        pytest.param(queue_of("poor", excess_budget=1), "queue poor has 1 of its budget left", id="budget"),
        pytest.param(under(starts_per_turn=1), "is start 2 of the turn, which may have 1", id="starts per turn"),
        pytest.param(under(starts_per_queue=1), "is start 2 of queue busy", id="starts per queue"),
    ],
)
def test_a_broken_limit_is_found(forge: Forgery, sentence: str) -> None:
    world = limited_world()
    world.with_queues("poor", excess_budget=100 * MICRO * MINUTE_MS)
    assert_names(found(world, forge), sentence)


def test_a_broken_user_quota_is_found() -> None:
    def forge(snapshot: Snapshot, made: Plan) -> tuple[Snapshot, Plan]:
        users = tuple(replace(state, user=replace(state.user, quota={"cpu": 1})) for state in snapshot.users)
        return replace(snapshot, users=users), made

    assert_names(found(limited_world(), forge), "user u would hold more cpu than the quota of 1")


def test_width_above_min_stays_within_the_quota() -> None:
    forge = queue_of("a", quota=amounts(cpu=2))
    assert_names(found(free_world(), forge), "gang: queue a would hold more cpu than its quota of 2000")


@pytest.mark.parametrize(
    "policy, sentence",
    [
        pytest.param({"preemption": Preemption.OFF}, "although preemption is off", id="off"),
        pytest.param({"preemption": Preemption.DRY_RUN}, "although preemption is dry-run", id="dry run"),
        pytest.param({"evictions_per_turn": 0}, "more than 0 in one turn", id="too many"),
    ],
)
def test_evictions_against_policy_are_found(policy: dict[str, Any], sentence: str) -> None:
    assert_names(found(contested_world(), under(**policy)), sentence)


@pytest.mark.parametrize(
    "policy, sentence",
    [
        pytest.param({"reservations": 0}, "is one of 1 reservations of its kind on main", id="per cluster and kind"),
        pytest.param({"reservations_in_all": 0}, "1 reservations, more than 0 in all", id="in all"),
    ],
)
def test_reservations_against_policy_are_found(policy: dict[str, Any], sentence: str) -> None:
    world = full_world().with_jobs(a_job("a").named("big").cpu(4))
    assert_names(found(world, under(**policy)), sentence)


def test_one_reservation_per_profile() -> None:
    world = promising_world(reservations=2)
    world.with_jobs(a_job("a").named("second").cpu(4).lasts(minutes=1))
    snapshot, made = turn_of(world)
    reservation = snapshot.pending[0].reservation
    assert reservation is not None
    admit = Admit(job="second", attempt=1, cluster="main", reservation=reservation)
    forged = replace(made, actions=(*made.actions, admit), verdicts={**made.verdicts, "second": made.verdicts["first"]})
    assert_names(check(snapshot, forged), "second: another job of its profile has a reservation already")


# --- victims --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "forge, sentence",
    [
        pytest.param(without(Start, "head"), "evicted for it, but it does not start", id="for nobody"),
        pytest.param(without(Evict, "a-1"), "head: task-0 does not fit on node n-0", id="room not made"),
        pytest.param(changed(Evict, "a-1", job="ghost"), "ghost: is evicted but does not run", id="unknown victim"),
        pytest.param(changed(Evict, "a-1", attempt=9), "attempt 9 is evicted, attempt 1 runs", id="wrong attempt"),
        pytest.param(changed(Evict, "a-1", tasks=()), "tasks are evicted that it does not have", id="no tasks"),
        pytest.param(twice(Evict, "a-1"), "a-1: tasks are evicted that it does not have", id="evicted twice"),
        pytest.param(twice(Evict, "a-1"), "evictions do not come first", id="evicted last"),
        pytest.param(changed(Evict, "a-1", whole=False), "with fewer tasks than its min", id="gang torn apart"),
        pytest.param(changed(Evict, "wide", whole=True), "1 of its 3 tasks are evicted", id="not whole"),
        pytest.param(running_as("a-1", lifetime_ms=None), "evicted whole within its lifetime", id="no lifetime"),
        pytest.param(running_as("a-1", lifetime_ms=10**9), "evicted whole within its lifetime", id="too young"),
        pytest.param(running_as("a-1", protected_until_ms=10**9), "while it is protected", id="protected"),
        pytest.param(running_as("a-1", priority_class=1), "is of a higher class than head", id="higher class"),
        pytest.param(changed(Evict, "a-1", rule=Rule.PRIORITY), "is not of lower rank in the queue", id="priority"),
        pytest.param(changed(Evict, "a-1", rule=Rule.RESERVATION), "which it did not overtake", id="reservation"),
        pytest.param(queue_of("a", weight=10 * MICRO), "below its entitled part of cpu", id="victim falls below"),
        pytest.param(changed(Start, "head", by_preemption=False), "by preemption is not told truly", id="hidden"),
        pytest.param(telling("a-1", StillRunning(cluster="main")), "evicted, but its verdict does", id="not told"),
    ],
)
def test_an_eviction_nobody_has_a_right_to_is_found(forge: Forgery, sentence: str) -> None:
    assert_names(found(contested_world(), forge), sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        pytest.param("queue b has its entitled share", id="head's usage"),
        pytest.param("queue b has its entitled part of cpu", id="head's cores"),
        pytest.param("queue a, which is not above its entitled part of cpu", id="victim's cores"),
    ],
)
def test_who_has_its_share_takes_nothing_from_who_has_less(sentence: str) -> None:
    world = contested_world().with_jobs(a_job("a").named("waits").cpu(1))
    assert_names(found(world, queue_of("a", weight=10**12)), sentence)


def test_an_eviction_in_vain_is_found() -> None:
    world = two_jobs_deep()
    snapshot, made = turn_of(world)
    victim = next(action for action in made.actions if isinstance(action, Evict))
    other = next(run for run in snapshot.running if run.job.id != victim.job)
    needless = victim._replace(job=other.job.id, tasks=other.tasks)
    told = telling(other.job.id, Victim(rule=victim.rule, by=victim.by, whole=True))
    assert_names(check(*told(*with_actions(needless)(snapshot, made))), "is evicted needlessly")


def test_inside_a_queue_only_lower_ranks_give_way() -> None:
    world = full_world().with_jobs(a_job("a").named("head").cpu(2).of(priority=1))
    forge = running_as("a-1", priority=1)
    assert_names(found(world, forge), "a-1: is evicted by priority, but is not of lower rank")


# --- order ----------------------------------------------------------------------------------------


def test_the_hungriest_queue_comes_first() -> None:
    assert_names(found(queues_in_turn(), swapped("a-0", "b-0")), "b-0: is admitted before a-0, although queue a is hun")


def test_by_service_the_queue_that_was_served_less_comes_first() -> None:
    world = a_world(over_share=None, reservations=0).with_node(cpu=4)
    world.with_jobs(a_job("a").named("before").cpu(4).runs(minutes=10)).turn()
    world.at(minutes=11).with_jobs(*(a_job(queue).cpu(1) for queue in "ab"))
    assert [action.job for action in turn_of(world)[1].actions] == ["b-0", "a-0"]

    assert_names(found(world, swapped("a-0", "b-0")), "a-0: is admitted before b-0, although queue b is hungrier")


def test_the_lighter_queue_waits() -> None:
    assert_names(found(queues_in_turn(), queue_of("b", weight=2 * MICRO)), "although queue b is hungrier")


def test_a_higher_class_comes_first() -> None:
    world = queues_in_turn().with_jobs(a_job("b").named("urgent").cpu(1).of(priority_class=1))
    assert_names(found(world, swapped("urgent", "a-0")), "a-0: is admitted before urgent, the head of b")


def test_the_aged_are_exempt_from_the_order_of_queues() -> None:
    snapshot, made = turn_of(queues_in_turn())
    aged = under(aging_after_ms=0)(*swapped("a-0", "b-0")(snapshot, made))
    assert check(*aged) == []


def test_the_oldest_of_a_lane_comes_first() -> None:
    world = a_world(over_share=None).with_node(cpu=1).with_jobs(a_job("a").cpu(1), a_job("a").cpu(1))
    snapshot, made = turn_of(world)
    renamed = [action._replace(job="a-1") for action in made.actions if isinstance(action, Admit | Start)]
    problems = check(snapshot, replace(made, actions=tuple(renamed)))
    assert_names(problems, "a-1: is admitted while a-0, older and alike, stays queued")


# --- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "world, forge, sentence",
    [
        pytest.param(free_world, telling("gang", None), "its verdict does not say so", id="a start not told"),
        pytest.param(blocked_world, telling("later", None), "later: has no verdict", id="no verdict"),
        pytest.param(
            blocked_world, telling("ghost", StillRunning(cluster="main")), "is not in the snapshot", id="unknown job"
        ),
        pytest.param(
            blocked_world, telling("one", Started(cluster="main", tasks=())), "says it starts, but", id="never started"
        ),
        pytest.param(
            blocked_world,
            telling("a-0", Victim(rule=Rule.PRIORITY, by="one", whole=True)),
            "says it is a victim, but it is not",
            id="no victim",
        ),
        pytest.param(blocked_world, telling("one", StillRunning(cluster="main")), "says it runs", id="does not run"),
        pytest.param(
            blocked_world, telling("a-0", StillRunning(cluster="x")), "runs on main, not on x", id="elsewhere"
        ),
        pytest.param(
            blocked_world,
            telling("a-0", Waiting(reason=Reason.BEHIND)),
            "says it waits, but it runs",
            id="does not wait",
        ),
        pytest.param(
            blocked_world, telling("one", Waiting(reason=Reason.NO_ROOM)), "NO_ROOM cannot be told", id="facts missing"
        ),
    ],
)
def test_a_verdict_that_the_actions_deny_is_found(world: Callable[[], World], forge: Forgery, sentence: str) -> None:
    assert_names(found(world(), forge), sentence)


def _smaller(snapshot: Snapshot, made: Plan, name: str, cores: int) -> tuple[Snapshot, Plan]:
    """The job asks for less than it did when the plan was made."""
    group = TaskGroup(name="task", min=1, initial=1, max=1, request=Request.of(amounts(cpu=cores)))
    profile = Profile(groups=(group,))

    def changed_lane(lane: Any) -> Any:
        jobs = tuple(replace(job, profile=profile) if job.id == name else job for job in lane.jobs)
        return replace(lane, jobs=jobs)

    states = [replace(state, lanes=tuple(map(changed_lane, state.lanes))) for state in snapshot.queues]
    return replace(snapshot, queues=tuple(states)), made


@pytest.mark.parametrize(
    "world, forge, sentence",
    [
        pytest.param(
            blocked_world, lambda *turn: _smaller(*turn, "one", 1), "would fit, but its reason is NO_ROOM", id="room"
        ),
        pytest.param(
            blocked_world, lambda *turn: _smaller(*turn, "huge", 4), "would fit an empty cluster", id="fits empty ones"
        ),
        pytest.param(
            blocked_world,
            reasoning("huge", group="x"),
            "because of group x, which it does not have",
            id="no such group",
        ),
        pytest.param(blocked_world, reasoning("two", Reason.NO_ROOM), "must start 3 tasks", id="a gang is no task"),
        pytest.param(
            blocked_world, reasoning("one", Reason.GANG_DOES_NOT_FIT), "must start 1 tasks", id="a task is no gang"
        ),
        pytest.param(
            blocked_world,
            reasoning("one", Reason.RESERVED),
            "has a reservation, but is not pending",
            id="unreserved",
        ),
        pytest.param(
            blocked_world,
            reasoning("one", Reason.DEPENDENCY, after=["two"]),
            "waits for no other job",
            id="independent",
        ),
        pytest.param(blocked_world, reasoning("later", after=["two"]), "waits for ['one']", id="waits for another"),
        pytest.param(
            blocked_world,
            reasoning("one", Reason.QUEUE_CORDONED, queue="b"),
            "queue b is not cordoned",
            id="not cordoned",
        ),
        pytest.param(
            blocked_world,
            reasoning("one", Reason.RATE_LIMIT, started=1, limit=1),
            "has not reached the limit",
            id="no rate limit",
        ),
        pytest.param(
            blocked_world,
            reasoning("one", Reason.QUOTA, queue="b", resource="cpu", would="9", quota="1"),
            "is not over a quota of None",
            id="no quota",
        ),
        pytest.param(
            blocked_world,
            reasoning("one", Reason.USER_QUOTA, user="", resource="cpu", would="9", quota="1"),
            "is not over a quota of None",
            id="no user quota",
        ),
        pytest.param(
            blocked_world,
            reasoning("one", Reason.OVER_SHARE, queue="b", share=0.9, limit=0.6),
            "is not over its limit None",
            id="no over-share",
        ),
        pytest.param(
            blocked_world, reasoning("one", Reason.BUDGET, queue="b", cost=5, left=1), "can pay (None)", id="no budget"
        ),
        pytest.param(
            blocked_world,
            reasoning("one", Reason.WOULD_DELAY, reserved=["two"]),
            "would delay ['two']",
            id="nobody is promised anything",
        ),
        pytest.param(
            promising_world,
            reasoning("next", Reason.WOULD_DELAY, reserved=["runs"]),
            "would delay ['runs']",
            id="not a promised job",
        ),
        pytest.param(promising_world, reasoning("first", start=1.0), "starts at 1.0 s", id="another start"),
        pytest.param(promising_world, reasoning("first", cluster="x"), "x, which is not a cand", id="another cluster"),
        pytest.param(promising_world, reasoning("first", Reason.BEHIND), "pending, but its reason is", id="is pending"),
        pytest.param(limited_world, reasoning("over-1", share=0.99), "its share is up to 0.375", id="another share"),
        pytest.param(limited_world, reasoning("over-1", limit=0.99), "its limit is 0.2", id="another share's limit"),
        pytest.param(limited_world, reasoning("poor-0", cost=1), "its cost is 30.0, not 1", id="another cost"),
        pytest.param(
            limited_world, reasoning("poor-0", left=1), "its budget is down to 10.0, not 1", id="another budget"
        ),
        pytest.param(limited_world, reasoning("quota-1", would="7"), "not what it says", id="another amount"),
        pytest.param(limited_world, reasoning("user-1", quota="7"), "not what it says", id="another quota"),
        pytest.param(limited_world, reasoning("busy-2", started=9), "has not reached the limit", id="other starts"),
    ],
)
def test_a_reason_that_is_not_true_is_found(world: Callable[[], World], forge: Forgery, sentence: str) -> None:
    assert_names(found(world(), forge), sentence)


def test_of_some_jobs_only_their_reasons_are_looked_into() -> None:
    turn = reasoning("one", Reason.QUEUE_CORDONED, queue="b")(*turn_of(blocked_world()))

    assert check_some(*turn, {"two", "huge"}) == []
    assert_names(check_some(*turn, {"one"}), "queue b is not cordoned")


def test_of_some_jobs_all_actions_are_looked_at() -> None:
    turn = twice(Start, "gang")(*turn_of(free_world()))

    assert_names(check_some(*turn, ()), "gang: starts twice")


def _headed(queue: str, head: str | None) -> Forgery:
    """Another head for a queue."""

    def forge(snapshot: Snapshot, made: Plan) -> tuple[Snapshot, Plan]:
        heads = {name: job for name, job in made.heads.items() if name != queue}
        return snapshot, replace(made, heads=heads if head is None else {**heads, queue: head})

    return forge


@pytest.mark.parametrize(
    "forge, sentence",
    [
        pytest.param(_headed("b", None), "its queue was never looked at", id="nobody"),
        pytest.param(_headed("b", "a-0"), "is no job of its queue that was looked at", id="another queue's"),
        pytest.param(_headed("b", "one-more"), "is no job of its queue that was looked at", id="itself"),
        pytest.param(reasoning("one-more", head="one"), "but the head was huge", id="not the head"),
    ],
)
def test_a_job_behind_somebody_else_is_found(forge: Forgery, sentence: str) -> None:
    assert_names(found(blocked_world(), forge), sentence)


def test_a_head_that_comes_later_is_found() -> None:
    assert_names(found(blocked_world(), _headed("b", "two")), "one-more: is behind two, which does not come before it")


# --- reservations ---------------------------------------------------------------------------------


def _reserved(**fields: Any) -> Callable[[Reservation], Reservation]:
    return lambda reservation: replace(reservation, **fields)


@pytest.mark.parametrize(
    "forge, sentence",
    [
        pytest.param(changed(Admit, "big", reservation=_reserved(start_ms=0)), "in the past", id="past"),
        pytest.param(changed(Admit, "big", reservation=_reserved(tasks=())), "not for its min", id="no tasks"),
        pytest.param(changed(Admit, "big", reservation=_reserved(cluster="x")), "but reserved on x", id="elsewhere"),
        pytest.param(changed(Admit, "big", reservation=None), "nor has a reservation", id="no reservation"),
        pytest.param(telling("big", Waiting(reason=Reason.NO_ROOM)), "nor has a reservation", id="not kept"),
        pytest.param(without(Admit, "big"), "has a reservation, but is not pending", id="not admitted"),
        pytest.param(twice(Admit, "big"), "big: is admitted twice", id="admitted twice"),
        pytest.param(changed(Admit, "big", attempt=0), "its next is attempt 1", id="with a wrong attempt"),
    ],
)
def test_a_reservation_that_cannot_be_is_found(forge: Forgery, sentence: str) -> None:
    assert_names(found(_reserving_world(), forge), sentence)


def _reserving_world() -> World:
    """big is about to be admitted with a firm reservation."""
    world = a_world(over_share=None).with_node(cpu=4).with_jobs(a_job("a").named("runs").cpu(2).lasts(minutes=2))
    world.turn()
    return world.at(minutes=1).with_jobs(a_job("a").named("big").cpu(4))


def test_who_was_admitted_may_lose_its_reservation_in_a_later_round_of_the_turn() -> None:
    withdrawn = Promise(job="big", attempt=1, reservation=None)
    forgeries = telling("big", Waiting(reason=Reason.NO_ROOM)), acting(lambda actions: [*actions, withdrawn])

    assert not any("nor has a reservation" in problem for problem in found(_reserving_world(), *forgeries))


# --- the engine -----------------------------------------------------------------------------------


def problems_of(scenario: Scenario) -> list[str]:
    """What the checker says about every turn of a simulation."""
    problems: list[str] = []
    simulation = Simulation(scenario, estimates=False)
    simulation.run.watch = lambda snapshot, made: problems.extend(check(snapshot, made))
    for _ in simulation:
        pass
    return problems


@given(scenarios())
def test_property_nothing_is_wrong_with_any_plan(scenario: Scenario) -> None:
    assert problems_of(scenario) == []


@given(scenarios(replace(EVERYTHING, preemption=(Preemption.ON,), over_share=False, budgets=False, entries=14)))
def test_property_nothing_is_wrong_with_plans_that_evict(scenario: Scenario) -> None:
    assert problems_of(scenario) == []


@given(scenarios(Knobs(nodes=2, clusters=1, entries=14, queues=4, memory=False, reservations=(2, 3))))
def test_property_nothing_is_wrong_with_plans_in_a_crowd(scenario: Scenario) -> None:
    assert problems_of(scenario) == []
