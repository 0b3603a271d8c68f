"""cases.md 4.2 and 5.5: who gives way to a higher class, or because it only borrows. Nodes of 32 CPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from story import gang, job, story, world
from worlds import a_job, a_world

from muster.engine import plan
from muster.model.plan import Evict, Rule
from muster.sim.checker import check

CLASSES = {f"c{level}": level for level in (1, 2, 3, 50, 100)}
OPEN = {"overShare": "off"}


def of_class(level, name, queue="A", **fields):
    """A job of a class, safe from preemption for fairness."""
    return job(name, queue, **({"priorityClass": f"c{level}"} if level else {}), **fields)


def told_of(told):
    return [(eviction.job, eviction.by, eviction.rule) for eviction in told.evictions()]


@pytest.mark.parametrize(
    "nodes, jobs, evictions",
    [
        pytest.param(
            3,
            [
                of_class(1, "a", "A", cpu=32),
                of_class(0, "b", "B", cpu=32),
                of_class(2, "c", "C", cpu=32),
                of_class(3, "d", "D", cpu=32, at=100),
            ],
            [("b", "d", "class")],
            id="AP-11 the lowest class of all queues gives way",
        ),
        pytest.param(
            1,
            [of_class(50, "same", cpu=16), of_class(100, "more", cpu=16), of_class(50, "head", "B", cpu=16, at=100)],
            [],
            id="AIB-V2 who is of the same class or a higher one stays",
        ),
        pytest.param(
            2,
            [
                *(of_class(0, f"half-{number}", cpu=16) for number in range(2)),
                of_class(0, "whole", cpu=32, at=1),
                of_class(50, "head", "B", cpu=32, at=100),
            ],
            [("whole", "head", "class")],
            id="AIB-V6 one goes rather than two",
        ),
        pytest.param(
            2,
            [gang("pair", 2, cpu=32), of_class(50, "head", "B", cpu=32, at=100)],
            [("pair", "head", "class")],
            id="AIB-V6 a gang goes whole",
        ),
        pytest.param(
            1,
            [of_class(0, "old", cpu=16), of_class(0, "new", cpu=16, at=50), of_class(50, "head", "B", cpu=16, at=100)],
            [("new", "head", "class")],
            id="AIB-V6 of equals the newest goes",
        ),
    ],
)
def test_a_higher_class_takes_the_place_of_lower_ones(nodes, jobs, evictions):
    told = story(world(nodes=nodes, jobs=jobs, priorityClasses=CLASSES, config=OPEN, until=300))

    assert told_of(told) == evictions
    assert ("head" in told.running() or "d" in told.running()) == bool(evictions)
    assert told.idle_turns(since=102)


@pytest.mark.parametrize("level", [pytest.param(100, id="AIB-V3 pods that are not ours stay whatever the class")])
def test_what_is_not_ours_is_never_evicted(level):
    events = [{"at": 0, "foreign": {"node": "n-0", "cpu": 32}}]

    told = story(
        world(nodes=1, jobs=[of_class(level, "head", at=1)], events=events, priorityClasses=CLASSES, until=300)
    )

    assert told_of(told) == []
    assert told.reason("head") == "NO_ROOM"


@pytest.mark.parametrize(
    "budgets, evicted",
    [
        pytest.param([], "two", id="AIB-V5 without budgets the newest goes"),
        pytest.param([{"job": "two", "minAvailable": 1}], "one", id="AIB-V5 the one whose budget is not violated goes"),
        pytest.param(
            [{"job": name, "minAvailable": 1} for name in ("one", "two")],
            "two",
            id="AIB-V5 a budget is a preference: where all are violated, someone goes",
        ),
    ],
)
def test_disruption_budgets(budgets, evicted):
    jobs = [
        of_class(0, "one", cpu=32),
        of_class(0, "two", cpu=32, at=50),
        of_class(50, "head", "B", cpu=32, at=100),
    ]

    told = story(world(nodes=2, jobs=jobs, budgets=budgets, priorityClasses=CLASSES, config=OPEN, until=300))

    assert told_of(told) == [(evicted, "head", "class")]


@pytest.mark.parametrize(
    "borrowers, evicted",
    [
        pytest.param({"foreign"}, [("foreign", Rule.BORROWER)], id="AIB-V1 a borrower of a higher class goes first"),
        pytest.param(set(), [("own", Rule.CLASS)], id="AIB-V1 without borrowers the lower class goes"),
        pytest.param(
            {"foreign", "own"},
            [("own", Rule.BORROWER)],
            id="AIB-V1 of two borrowers it is the newest, whatever their class",
        ),
    ],
)
def test_borrowers_go_first(borrowers, evicted):
    there = a_world(over_share=None).with_node(cpu=2)
    there.with_jobs(a_job("a").named("foreign").cpu(1).of(priority_class=100)).turn()
    there.at(seconds=10).with_jobs(a_job("b").named("own").cpu(1)).turn()
    there.at(seconds=20).with_jobs(a_job("c").named("head").cpu(1).of(priority_class=50))
    snapshot = replace(there.snapshot(), borrowers=frozenset(borrowers))

    made = plan(snapshot)

    assert [(it.job, it.rule) for it in made.actions if isinstance(it, Evict)] == evicted
    assert check(snapshot, made) == []


def test_nobody_gives_way_to_the_same_job_twice():
    """A borrower of a higher class would come back, be evicted again, and so on for ever."""
    there = a_world(over_share=None, protected_ms=0).with_node(cpu=1)
    there.with_jobs(a_job("a").named("head").cpu(1)).turn()
    there.at(seconds=10).with_jobs(a_job("b").named("urgent").cpu(1).of(priority_class=50))
    assert there.turn().actions[0].job == "head"  # and urgent starts
    there.at(seconds=20)
    snapshot = replace(there.snapshot(), borrowers=frozenset({"urgent"}))
    assert [it.job for it in plan(snapshot).actions if isinstance(it, Evict)] == ["urgent"]

    remembered = tuple(replace(run, preempted_by=("head",)) for run in snapshot.running)

    assert plan(replace(snapshot, running=remembered, columns=None)).is_empty
