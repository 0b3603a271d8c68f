"""Which turns are not taken, told as small stories: the same happens with them and without."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import JobBuilder, a_job

from muster.model.events import ForeignPlaced, JobStarted
from muster.model.fleet import Cluster
from muster.model.nodes import Node
from muster.model.policy import Policy, Preemption
from muster.model.queues import Queue
from muster.model.resources import Resources
from muster.model.snapshot import Snapshot
from muster.sim.scenario.scenario import Scenario, Scripted
from muster.sim.simulate import Simulation

SECOND = 1000


def a_job_of(cpu: int, *, runs_s: int, said_s: int = 0, queue: str = "a") -> JobBuilder:
    """A job whose run time is stated, and true; or which is said to run longer than it does."""
    return a_job(queue).cpu(cpu).runs(seconds=runs_s).of(expected_ms=(said_s or runs_s) * SECOND)


def scenario(*jobs: tuple[int, JobBuilder], preemption: Preemption = Preemption.OFF) -> Scenario:
    """Jobs that come at these seconds to one node of 8 cores."""
    return Scenario(
        policy=Policy(over_share=None, preemption=preemption, turn_ms=SECOND),
        clusters=(Cluster(name="c"),),
        nodes=(Node(name="n", cluster="c", allocatable=Resources.of({"cpu": 8000, "pods": 100})),),
        queues=(Queue(name="a"), Queue(name="b")),
        jobs=tuple(builder.named(f"j{place}").built(place, at * SECOND) for place, (at, builder) in enumerate(jobs)),
    )


def turns(told: Scenario, *, tells_why: bool = True) -> list[int]:
    """At which seconds a turn was taken."""
    simulation = Simulation(told, estimates=False, tells_why=tells_why)
    taken: list[int] = []
    freeze = simulation.state.freeze

    def counted(now_ms: int) -> Snapshot:
        taken.append(now_ms // SECOND)
        return freeze(now_ms)

    simulation.state.freeze = counted
    for _ in simulation:
        pass
    return taken


def starts_of(told: Scenario, **how: bool) -> list[tuple[int, str]]:
    """At which second who starts."""
    moments = [tick.moment for tick in Simulation(told, estimates=False, **how)]
    return [(it.now_ms // SECOND, event.job) for it in moments for event in it.events if isinstance(event, JobStarted)]


FULL = ((0, a_job_of(8, runs_s=100)), (0, a_job_of(8, runs_s=100)))
"""One that fills the node until 100, and one that is promised it then."""

HALF = ((0, a_job_of(4, runs_s=100)),)
"""One that has half of the node until 100."""


@pytest.mark.parametrize(
    "jobs, told",
    [
        pytest.param(
            [(0, a_job_of(4, runs_s=10)), (3, a_job_of(4, runs_s=20))],
            [0, 3],
            id="who ends while nobody waits needs no turn, and who started no second look",
        ),
        pytest.param(
            [*FULL, (5, a_job_of(8, runs_s=10, queue="b"))],
            [0, 1, 5, 100, 101, 200],
            id="who comes to a full node is told why it waits",
        ),
        pytest.param(
            [*FULL, (5, a_job_of(2, runs_s=10, queue="b"))],
            [0, 1, 5, 100, 101, 200],
            id="who asks for what nobody asked for before is looked at",
        ),
        pytest.param(
            [
                *HALF,
                (0, a_job_of(2, runs_s=5, said_s=60)),
                (0, a_job_of(2, runs_s=10, said_s=70)),
                (0, a_job_of(8, runs_s=10)),
            ],
            [0, 1, 5, 10, 100],
            id="who ends may let someone start, and a promise come sooner",
        ),
        pytest.param(
            [*HALF, (0, a_job_of(4, runs_s=5, said_s=200)), (0, a_job_of(8, runs_s=10))],
            [0, 1, 5, 6, 100],
            id="who ends long before its time, and lets a promise come sooner, is looked at",
        ),
        pytest.param(
            [
                *HALF,
                (0, a_job_of(2, runs_s=5, said_s=60)),
                (0, a_job_of(2, runs_s=100)),
                (0, a_job_of(8, runs_s=10)),
                (6, a_job_of(2, runs_s=50, queue="b")),
            ],
            [0, 1, 5, 6, 7, 56, 100],
            id="what was left unused is there for who comes later",
        ),
    ],
)
def test_a_turn_is_taken_only_when_it_may_do_something(jobs, told):
    assert turns(scenario(*jobs)) == told
    assert turns(scenario(*jobs), tells_why=False) == told


@pytest.mark.parametrize("how", [{}, {"skips_turns": False}], ids=str)
def test_who_stood_back_for_a_promise_starts_in_the_turn_that_gives_it_up(how):
    def some_job(queue: str, cpu: int, memory: int, runs_s: int, said_s: int, where: str = "") -> JobBuilder:
        made = a_job_of(cpu, runs_s=runs_s, said_s=said_s, queue=queue)
        return replace(made.memory(f"{memory}Gi"), clusters=((where, 50),) if where else ())

    jobs = (
        some_job("a", 2, 0, 100, 100, "east"),
        some_job("a", 2, 0, 20, 60, "east"),
        some_job("a", 4, 0, 30, 200, "west"),
        some_job("a", 1, 2, 40, 40, "west"),
        some_job("b", 1, 2, 300, 300),  # promised west from 40 on: in the east it is in the next one's way
        some_job("b", 4, 0, 10, 10),  # promised the east from 100 on, until the west has room for it
    )
    nodes = (("east", 4), ("west", 6))
    told = replace(
        scenario(*((place > 3, job) for place, job in enumerate(jobs))),
        clusters=tuple(Cluster(name=name) for name, _ in nodes),
        nodes=tuple(
            Node(name=name, cluster=name, allocatable=Resources.of({"cpu": cpu * 1000, "memory": 2 << 30, "pods": 99}))
            for name, cpu in nodes
        ),
    )
    moments = [tick.moment for tick in Simulation(told, estimates=False, **how)]
    starts = {
        event.job: (moment.now_ms // SECOND, event.cluster)
        for moment in moments
        for event in moment.events
        if isinstance(event, JobStarted)
    }
    assert (starts["j4"], starts["j5"]) == ((30, "east"), (30, "west"))


@pytest.mark.parametrize("how", [{}, {"skips_turns": False}], ids=str)
def test_who_comes_up_behind_one_who_was_promised_room_starts_in_the_same_turn(how):
    told = scenario(
        (0, a_job_of(6, runs_s=100)), (1, a_job_of(3, runs_s=9, queue="b")), (1, a_job_of(1, runs_s=9, queue="b"))
    )
    told = replace(told, policy=replace(told.policy, profiles_deep=1))
    moments = [tick.moment for tick in Simulation(told, estimates=False, **how)]
    starts = [
        (it.now_ms // SECOND, event.job) for it in moments for event in it.events if isinstance(event, JobStarted)
    ]
    assert starts == [(0, "j0"), (1, "j2"), (100, "j1")]


@pytest.mark.parametrize("how", [{}, {"skips_turns": False}], ids=str)
def test_who_is_hidden_behind_others_is_looked_at_once_it_has_waited_for_very_long(how):
    told = scenario((0, a_job_of(9, runs_s=9)), (1, a_job_of(1, runs_s=30)), (5, a_job_of(1, runs_s=30)))
    told = replace(told, policy=replace(told.policy, profiles_deep=1, aging_after_ms=10 * SECOND))
    assert starts_of(told, **how) == [(11, "j1"), (15, "j2")]


@pytest.mark.parametrize("how", [{}, {"skips_turns": False}], ids=str)
def test_what_pods_of_others_took_on_one_node_is_not_missing_on_another(how):
    told = scenario(
        (0, a_job_of(8, runs_s=100)),
        (0, a_job_of(6, runs_s=100)),
        (0, a_job_of(2, runs_s=10, said_s=60)),
        (6, a_job_of(2, runs_s=9)),
    )
    more = Node(name="m", cluster="c", allocatable=told.nodes[0].allocatable)
    pod = ForeignPlaced(id="pod", node="m", amounts=Resources.of({"cpu": 4000}))
    told = replace(told, nodes=(*told.nodes, more), events=(Scripted(at_ms=5 * SECOND, event=pod),))
    assert starts_of(told, **how)[-1] == (10, "j3")
