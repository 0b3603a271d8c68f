"""Stories that once went wrong: each row or test is a bug that was found, and the outcome that is right."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import a_job, a_world, amounts, ms

from muster.engine import plan
from muster.model import events as ev
from muster.model.after import After
from muster.model.fleet import Cluster
from muster.model.nodes import Node
from muster.model.plan import Admit, Evict
from muster.model.policy import Policy, Preemption
from muster.model.queues import Queue
from muster.model.resources import Resources
from muster.sim.checker import check
from muster.sim.lines import dumps, lines
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation

DAY_MS = 24 * 3600 * 1000


def reason(plan_, job):
    return plan_.verdicts[job].reason.name


# --- reservations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "preemption, overtakes",
    [
        pytest.param(Preemption.ON, True, id="who overtakes on its lifetime gives way to the reservation"),
        pytest.param(Preemption.OFF, False, id="where nobody may be evicted a lifetime lets nobody pass"),
    ],
)
def test_a_job_of_unknown_end_overtakes_on_the_strength_of_its_lifetime(preemption, overtakes):
    world = a_world(over_share=None, preemption=preemption).with_node(cpu=4).with_queues("a", "b")
    world.with_jobs(a_job("b").named("first").cpu(3).lasts(seconds=100)).turn()
    world.at(seconds=1).with_jobs(a_job("b").named("head").cpu(4).lasts(seconds=10)).turn()
    world.at(seconds=2).with_jobs(a_job("a").named("passer").cpu(1).lifetime(seconds=50)).turn()

    assert ("passer" in world.started()) is overtakes

    world.at(seconds=100).turn()
    assert "head" in world.started()


def test_a_promise_stays_firm_when_jobs_overtake_it_and_those_who_fit_beside_it_do_not():
    world = a_world(over_share=None).with_node(cpu=6).with_queues("a", "b")
    world.with_jobs(a_job("b").named("first").cpu(4).lasts(seconds=100)).turn()
    world.at(seconds=1).with_jobs(a_job("b").named("head").cpu(5).lasts(seconds=10)).turn()
    promised = world.state.pending["head"].reservation

    passers = [a_job("a").named(name).cpu(1).lifetime(seconds=50) for name in ("beside", "passer")]
    world.at(seconds=2).with_jobs(*passers).turn()
    world.at(seconds=60).turn()

    assert world.state.pending["head"].reservation == promised
    assert promised.is_firm
    assert {name: world.state.running[name].overtook for name in ("beside", "passer")} == {
        "beside": (),
        "passer": ("head",),
    }

    world.at(seconds=100).turn()
    assert set(world.state.running) == {"head", "beside"}


@pytest.mark.parametrize(
    "started_s, passer, policy, gives_way",
    [
        pytest.param(70, {}, {}, True, id="who started when it had waited past agingAfter gives way"),
        pytest.param(70, {}, {"preempts_for_shares": False}, True, id="also where no queue takes from another"),
        pytest.param(69, {}, {}, False, id="who started before that does not"),
        pytest.param(70, {"lifetime_ms": None}, {}, False, id="nor who has no lifetime"),
        pytest.param(70, {"expected_ms": ms(hours=1)}, {}, False, id="nor who is known to end"),
        pytest.param(70, {"priority_class": 1}, {}, False, id="nor a higher class"),
        pytest.param(70, {}, {"preemption": Preemption.OFF}, False, id="nor anyone where nobody may be evicted"),
    ],
)
def test_a_gang_that_waited_for_long_takes_the_place_of_those_who_overtook_it(started_s, passer, policy, gives_way):
    """All in one queue and of one rank, without reservations: there is no other right."""
    told = {"over_share": None, "reservations": 0, "aging_after_ms": ms(minutes=1), **policy}
    world = a_world(**told).with_node("n-0", cpu=4).with_node("n-1", cpu=4).with_queues("a")
    first, second = (a_job("a").named(f"old-{s}").cpu(4).runs(seconds=s) for s in (started_s, 100))
    world.with_jobs(first, second).turn()
    world.at(seconds=10).with_jobs(a_job("a").named("gang").tasks(2).cpu(4)).turn()
    late = a_job("a").named("passer").cpu(4).runs(hours=1).of(**{"lifetime_ms": ms(seconds=5), **passer})
    world.at(seconds=started_s).with_jobs(late).turn()
    assert "passer" in world.started()

    world.at(seconds=100).turn()

    assert world.started() == ({"gang"} if gives_way else {"passer"})


@pytest.mark.parametrize(
    "least, in_order",
    [
        pytest.param(2, [{"first"}, {"first"}], id="a gang that came first stays"),
        pytest.param(1, [{"first"}, {"second"}], id="an elastic job that could do with one task goes"),
    ],
)
def test_a_gang_does_not_take_the_place_of_a_gang_that_came_first(least, in_order):
    """Both wait for very long; the first starts as soon as there is room for its two tasks."""
    policy = {"over_share": None, "reservations": 0, "aging_after_ms": ms(minutes=1)}
    world = a_world(**policy).with_node(cpu=4, count=2).with_queues("a")
    world.with_jobs(*(a_job("a").named(f"old-{n}").cpu(4).runs(seconds=100) for n in "01")).turn()
    first, second = (a_job("a").named(name).cpu(4).runs(seconds=100).lifetime() for name in ("first", "second"))
    world.at(seconds=1).with_jobs(first.tasks(least, 2)).turn()
    world.at(seconds=2).with_jobs(second.tasks(2)).turn()

    started = [world.at(seconds=seconds).then().started() for seconds in (100, 150)]

    assert started == in_order


def test_a_gang_takes_the_place_of_the_newest_that_are_enough_whatever_their_queues():
    policy = {"over_share": None, "reservations": 0, "aging_after_ms": 0, "preempts_for_shares": False}
    world = a_world(**policy).with_node(cpu=4, count=3).with_queues("a", "b", "c")
    world.with_jobs(*(a_job("a").named(f"old-{s}").cpu(4).runs(seconds=s) for s in (20, 30, 40))).turn()
    world.at(seconds=1).with_jobs(a_job("c").named("gang").tasks(2).cpu(4)).turn()
    for seconds, queue in ((20, "a"), (30, "b"), (40, "b")):
        passer = a_job(queue).named(f"passer-{seconds}").cpu(4).runs(hours=1).lifetime(seconds=60 - seconds)
        world.at(seconds=seconds).with_jobs(passer).turn()

    world.at(seconds=60).turn()

    assert world.started() == {"gang", "passer-20"}


@pytest.mark.parametrize(
    "changes, told",
    [
        pytest.param({"quota": {"cpu": 2000}}, "QUOTA", id="a lowered quota"),
        pytest.param({"cordoned": True}, "QUEUE_CORDONED", id="a cordon"),
    ],
)
def test_an_admitted_job_does_not_start_against_a_new_limit(changes, told):
    world = a_world(over_share=None).with_node(cpu=4).with_queues("a", "b")
    world.with_jobs(a_job("a").named("first").cpu(4).lasts(seconds=100)).turn()
    world.at(seconds=1).with_jobs(a_job("b").named("head").cpu(4).lasts(seconds=10)).turn()

    turn = world.at(seconds=2).happens(ev.QueueChanged(queue="b", changes=changes)).turn()
    world.at(seconds=100).turn()

    assert reason(turn, "head") == told
    assert "head" not in world.started()


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(ev.NodeCordoned(node="n-0"), id="cordoned"),
        pytest.param(ev.NodeLabelled(node="n-0", labels={"zone": "b"}), id="relabelled"),
    ],
)
def test_a_promise_moves_away_from_a_node_that_no_longer_suits(event):
    world = a_world(over_share=None).with_queues("a")
    for name, seconds in (("n-0", 100), ("n-1", 200)):
        world.with_node(name, cpu=4, labels={"zone": "a"})
        world.with_jobs(a_job("a").named(f"on-{name}").cpu(4).lasts(seconds=seconds)).turn()
    first = world.at(seconds=1).with_jobs(a_job("a").named("head").cpu(4).on(zone="a").lasts(seconds=10)).turn()

    moved = world.at(seconds=2).happens(event).turn()

    assert first.verdicts["head"].facts["nodes"] == ["n-0"]
    assert moved.verdicts["head"].facts["nodes"] == ["n-1"]


def test_without_backfilling_nobody_passes_in_later_turns_either():
    world = a_world(over_share=None, backfill=False).with_node(cpu=4).with_queues("a")
    world.with_jobs(a_job("a").named("first").cpu(3).lasts(seconds=100)).turn()
    small = a_job("a").named("small").cpu(1).lasts(seconds=10).of(priority=-1)
    world.at(seconds=1).with_jobs(a_job("a").named("head").cpu(4).lasts(seconds=10), small).turn()
    world.turn()

    assert "small" not in world.started()


def test_a_guessed_reservation_that_moves_lets_others_pass_with_and_without_skipped_turns():
    def node(name, cpu, **labels):
        return Node(name=name, cluster="c", allocatable=Resources.of({"cpu": cpu * 1000}), labels=labels)

    jobs = (
        a_job("q").named("old").cpu(4).on(z="a").built(0, 0),
        a_job("q").named("young").cpu(8).built(0, 300_000),
        a_job("q").named("head").cpu(5).of(priority=1).built(0, 310_000),
        a_job("q").named("small").cpu(1).built(0, 320_000),
    )
    scenario = Scenario(
        policy=Policy(over_share=None, turn_ms=10_000),
        clusters=(Cluster(name="c"),),
        nodes=(node("n-0", 5, z="a"), node("n-1", 8)),
        queues=(Queue(name="q"),),
        jobs=jobs,
        until_ms=3_600_000,
    )

    def log(*, skips_turns):
        simulation = Simulation(scenario, skips_turns=skips_turns, estimates=False)
        return [dumps(line) for tick in simulation for line in lines(tick)]

    assert log(skips_turns=True) == log(skips_turns=False)


def test_who_is_admitted_in_one_round_and_starts_in_the_next_is_told_before_those_who_paid_after_it():
    """big, which waited too long, is promised room; vip then evicts more than it needs itself, so big starts after all.
    By then small has started, in a queue that is above its share with big in it, and is charged for that."""
    world = a_world(over_share=None, aging_after_ms=ms(minutes=5)).with_node("x", cpu=4, labels={"node": "x"})
    world.with_node("y", cpu=1).with_jobs(a_job("c").named("victim").cpu(4).lasts(hours=1)).turn()
    world.at(minutes=1).with_jobs(a_job("a").named("big").cpu(3).lifetime(minutes=1))
    vip, small = a_job("b").named("vip").cpu(1).on(node="x").of(priority_class=1), a_job("a").named("small").cpu(1)
    snapshot = world.at(minutes=10).with_jobs(vip, small.lasts(seconds=10).lifetime(minutes=1)).snapshot()
    made = plan(snapshot)

    told = [(type(it).__name__, it.job, it.charge > 0) for it in made.actions if not isinstance(it, Evict)]
    assert told == [
        ("Admit", "big", True),
        ("Start", "vip", False),
        ("Start", "small", True),
        ("Start", "big", False),
    ]
    assert [it.reservation for it in made.actions if isinstance(it, Admit)] == [None]
    assert check(snapshot, made) == []


# --- limits and shares ----------------------------------------------------------------------------


def test_a_pending_elastic_job_counts_its_min_once_against_the_quota():
    world = a_world(over_share=None).with_node(cpu=4).with_queues("a").with_queues("b", quota={"cpu": 4000})
    world.with_jobs(a_job("a").named("first").cpu(4).lasts(seconds=100)).turn()
    world.at(seconds=1).with_jobs(a_job("b").named("wide").cpu(1).tasks(1, 4).lasts(seconds=10)).turn()
    world.at(seconds=100).turn()

    assert len(world.state.running["wide"].tasks) == 4


def test_a_job_that_never_fits_holds_back_nobody():
    world = a_world().with_node(cpu=16, count=2).with_queues("a", "b")

    turn = world.with_jobs(a_job("a").named("huge").cpu(64), a_job("a").named("small").cpu(1)).turn()

    assert reason(turn, "huge") == "NEVER_FITS"
    assert world.started() == {"small"}


def test_a_budget_on_a_fleet_without_capacity_is_a_verdict_not_a_crash():
    world = a_world().with_node(cpu=4, cordoned=True).with_queues("a", excess_budget=0)

    turn = world.with_jobs(a_job("a").named("job").cpu(1).lifetime(seconds=10)).turn()

    assert reason(turn, "job") == "BUDGET"


def test_a_quota_set_while_jobs_run_knows_what_they_hold():
    world = a_world(over_share=None).with_node(cpu=4).with_queues("a")
    world.with_jobs(a_job("a").named("job").cpu(3).of(user="u").lasts(seconds=100)).turn()
    world.at(seconds=1).with_user("u", cpu=4)

    assert world.snapshot().users[0].started == Resources.of(amounts(cpu=3, pods=1))
    world.happens(ev.JobCancelled(job="job"))
    assert world.snapshot().users[0].started == Resources.of({})


def test_usage_comes_back_to_nothing_after_tasks_went_one_by_one():
    world = a_world(over_share=None).with_node(cpu=4, memory="8Gi").with_queues("a")
    world.with_jobs(a_job("a").named("job").cpu(1).memory("1Mi").tasks(1, 4)).turn()
    world.at(seconds=1).happens(ev.TaskFailed(job="job", group="task", index=3)).turn()
    world.at(seconds=2).happens(ev.JobCancelled(job="job"))

    assert world.snapshot().queues[0].account.usage == 0


def test_queues_that_want_the_same_cores_beside_idle_gpus_come_to_rest():
    world = a_world(over_share=None).with_node(cpu=10).with_node(cpu=1, gpu=8).with_queues("a", "b")
    world.with_jobs(*(a_job("a").cpu(1).lifetime() for _ in range(20))).turn()
    world.at(seconds=1).with_jobs(*(a_job("b").cpu(1).lifetime() for _ in range(20))).turn()
    evictions: list[Evict] = []
    world.run.watch = lambda _, made: evictions.extend(it for it in made.actions if isinstance(it, Evict))

    world.at(minutes=12)

    assert evictions == []
    assert {state.queue.name: state.started["cpu"] for state in world.snapshot().queues} == {"a": 6000, "b": 5000}


def test_a_dry_run_says_who_would_give_way_to_a_job_with_a_reservation():
    world = a_world(over_share=None, preemption=Preemption.DRY_RUN).with_node(cpu=8).with_queues("a", "b")
    world.with_jobs(*(a_job("a").named(f"low-{n}").cpu(1).lifetime().lasts(minutes=30) for n in range(8))).turn()

    turn = world.at(minutes=1).with_jobs(a_job("b").named("head").cpu(2)).turn()

    assert reason(turn, "head") == "RESERVED"
    assert turn.verdicts["head"].facts["wouldEvict"] == ["low-6", "low-7"]
    assert len(world.started()) == 8


@pytest.mark.parametrize(
    "searches, starts",
    [
        pytest.param(64, True, id="the search for the second job's victims goes on after one in vain"),
        pytest.param(1, False, id="after so many in vain nobody takes from others in this turn"),
    ],
)
def test_searches_for_victims_in_vain_are_bounded(searches, starts):
    world = a_world(over_share=None, reservations=0, vain_searches_per_turn=searches)
    world.with_node(cpu=8, count=2).with_queues("a", "b")
    world.with_jobs(*(a_job("a").named(f"low-{n}").cpu(1).lifetime() for n in range(16))).turn()

    # B may have 8 of the 16 cores: a gang that needs 10 cannot start, whoever goes for it.
    big, small = a_job("b").named("big").tasks(2).cpu(5), a_job("b").named("small").cpu(2)
    world.at(minutes=1).with_jobs(big, small).turn()

    assert "big" not in world.started()
    assert ("small" in world.started()) is starts


def test_a_head_that_could_have_no_room_whoever_goes_uses_up_no_search():
    world = a_world(over_share=None, reservations=0, vain_searches_per_turn=1)
    world.with_node(cpu=8, count=2).with_queues("a", "b")
    for n in range(2):
        world.with_jobs(a_job("a").named(f"low-{n}").cpu(4).lifetime(), a_job("a").named(f"stays-{n}").cpu(4)).turn()

    # On either node half belongs to who stays: there is no room for 6 even if both others go.
    big, small = a_job("b").named("big").cpu(6), a_job("b").named("small").cpu(4)
    world.at(minutes=1).with_jobs(big, small).turn()

    assert "small" in world.started()
    assert "big" not in world.started()


# --- books ----------------------------------------------------------------------------------------


def test_a_device_below_a_foreign_pod_is_not_free_when_our_task_leaves_it():
    world = a_world(over_share=None).with_node("n", cpu=8, gpu=2).with_queues("a")
    world.with_jobs(a_job("a").named("x").cpu(1).gpu(1), a_job("a").named("y").cpu(1).gpu(1)).turn()
    foreign = ev.ForeignPlaced(id="f", node="n", amounts=Resources.of(amounts(pods=1, gpu=1)))

    world.at(seconds=1).happens(foreign, ev.JobCancelled(job="y"), ev.JobCancelled(job="x"))

    state = world.snapshot().nodes["n"]
    assert state.room == state.empty
    assert sorted(state.room.devices) == [0, 1000]


def test_an_idle_queue_that_is_forgotten_does_not_cost_a_turn_every_second():
    scenario = Scenario(
        policy=Policy(),
        clusters=(Cluster(name="c"),),
        nodes=(Node(name="n", cluster="c", allocatable=Resources.of({"cpu": 1000})),),
        queues=(Queue(name="q"),),
        jobs=(a_job("q").named("x").cpu(1).lasts(seconds=1).built(0, 0),),
        until_ms=30 * DAY_MS + 100_000,
    )

    assert sum(1 for _ in Simulation(scenario)) < 10


def test_verdicts_do_not_depend_on_the_order_of_those_who_wait_for_others():
    world = a_world(over_share=None).with_node(cpu=4).with_queues("a")
    after = {"after": (After("x"),)}
    world.with_jobs(a_job("a").named("x").cpu(1), *(a_job("a").named(name).cpu(1).of(**after) for name in ("h1", "h2")))
    snapshot = world.snapshot()

    shuffled = replace(snapshot, held=snapshot.held[::-1])

    assert list(plan(snapshot).verdicts) == list(plan(shuffled).verdicts)


def test_who_waits_beside_a_promise_is_looked_at_when_a_guess_comes_to_lie_there():
    """Nobody says when `old` ends: after half an hour the guess is an hour from the start, as late as the promise."""
    world = a_world(over_share=None, reservations=2).with_node("a", cpu=4, labels={"zone": "a"})
    world.with_node("b", cluster="west", cpu=4, labels={"zone": "b"})
    world.with_jobs(
        a_job("q").named("old").cpu(4).on(zone="a"), a_job("q").named("known").cpu(4).on(zone="b").lasts(hours=1)
    )
    world.turn()
    world.with_jobs(a_job("q").named("next").cpu(4).on(zone="b"), a_job("q").named("waits").cpu(4).on(zone="a"))

    before = world.turn()

    assert (reason(before, "next"), reason(before, "waits")) == ("RESERVED", "NO_ROOM")
    assert before.wake_ms == ms(minutes=30)
    assert reason(world.at(minutes=30).turn(), "waits") == "RESERVED"
