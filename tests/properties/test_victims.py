"""Who gives way by class or because it only borrows: rights, minimal sets, no circles (design.md 5.5, cases.md 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random

import oracle
from effort import a_part
from hypothesis import given
from hypothesis import strategies as st
from test_oracle import told
from worlds import EVERYTHING, WIDTHS, Knobs, scenarios

from muster.engine import plan
from muster.model.budgets import EvictionLimit
from muster.model.events import JobPreempted
from muster.model.jobs import Running, Task
from muster.model.plan import Evict, Plan, Rule, Start
from muster.model.policy import Preemption
from muster.model.snapshot import Snapshot
from muster.sim.checker import check
from muster.sim.checker.books import Books
from muster.sim.checker.nodes import NodeBook
from muster.sim.checker.world import World
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation
from muster.state.run import Run

PREEMPTING = replace(EVERYTHING, preemption=(Preemption.ON,))
CROWD = Knobs(nodes=8, queues=3, entries=24, preemption=(Preemption.ON,), until_ms=60_000)
MANY_TURNS = 50  # at one moment, in a world of a few dozen jobs
DAY_MS = 24 * 60 * 60 * 1000

_chances = st.integers(0, 2**32).map(Random)


def turns_of(scenario: Scenario) -> Iterator[tuple[Snapshot, Plan, Simulation]]:
    """Every turn of a simulation."""
    simulation = Simulation(scenario, estimates=False)
    turns: list[tuple[Snapshot, Plan]] = []
    simulation.run.watch = lambda snapshot, made: turns.append((snapshot, made))
    for _ in simulation:
        yield from ((snapshot, made, simulation) for snapshot, made in turns)
        turns.clear()


def with_borrowers(snapshot: Snapshot, chance: Random) -> Snapshot:
    """The same moment, if some of those who run were only borrowing."""
    borrowers = frozenset(run.job.id for run in snapshot.running if chance.random() < 0.4)
    return replace(snapshot, borrowers=borrowers)


@given(scenarios(CROWD), _chances)
def test_property_the_engine_decides_as_the_oracle_does_where_some_borrow(scenario: Scenario, chance: Random) -> None:
    for snapshot, _, _ in turns_of(scenario):
        borrowed = with_borrowers(snapshot, chance)
        made = plan(borrowed)
        assert told(made) == told(oracle.plan(borrowed))
        assert check(borrowed, made) == []


def with_limits(snapshot: Snapshot, chance: Random) -> Snapshot:
    """The same moment, if only so many of some tasks could be evicted."""
    limits = []
    for number in range(chance.choice([1, 2, 3])):
        covered = [run for run in snapshot.running if chance.random() < 0.5]
        covers = tuple((run.job.id, chance.choice([len(run.tasks), 1])) for run in covered)
        limits.append(EvictionLimit(name=f"limit-{number}", allowed=chance.choice([0, 1, 1, 2, 4]), covers=covers))
    return replace(snapshot, eviction_limits=tuple(limits))


@given(scenarios(replace(CROWD, lifetimes=False)), _chances)
def test_property_the_engine_decides_as_the_oracle_does_where_evictions_are_limited(
    scenario: Scenario, chance: Random
) -> None:
    for snapshot, _, _ in turns_of(scenario):
        limited = with_limits(with_borrowers(snapshot, chance), chance)
        made = plan(limited)
        assert told(made) == told(oracle.plan(limited))
        assert check(limited, made) == []


@given(scenarios(PREEMPTING), _chances)
def test_property_only_borrowers_and_lower_classes_go_whatever_their_age(scenario: Scenario, chance: Random) -> None:
    for snapshot, _, _ in turns_of(scenario):
        borrowed = with_borrowers(snapshot, chance)
        runs = {run.job.id: run for run in snapshot.running}
        waiting = {job.id: job for state in snapshot.queues for job in state.jobs()}
        waiting |= {entry.job.id: entry.job for entry in snapshot.pending}
        for action in plan(borrowed).actions:
            if isinstance(action, Evict) and action.rule in (Rule.CLASS, Rule.BORROWER):
                run, head = runs[action.job], waiting[action.by]
                assert (action.job in borrowed.borrowers) == (action.rule is Rule.BORROWER)
                assert action.rule is Rule.BORROWER or run.job.priority_class < head.priority_class
                assert run.safe_until_ms <= snapshot.now_ms != run.started_ms
                assert head.id not in run.preempted_by


# --- minimal ----------------------------------------------------------------------------------------------


@given(scenarios(replace(PREEMPTING, constraints=False, reservations=(0,))), _chances)
def test_property_no_unit_could_be_left_out(scenario: Scenario, chance: Random) -> None:
    """A head of one group, alone in its plan: with any one unit put back, its tasks fit nowhere together."""
    for snapshot, _, _ in turns_of(scenario):
        borrowed = with_borrowers(snapshot, chance)
        made = plan(borrowed)
        starts = [it for it in made.actions if isinstance(it, Start)]
        evictions = [it for it in made.actions if isinstance(it, Evict)]
        if len(starts) != 1 or not evictions or borrowed.pending:
            continue
        head = next(job for state in snapshot.queues for job in state.jobs() if job.id == starts[0].job)
        if len(head.profile.groups) > 1 or any(it.rule not in (Rule.CLASS, Rule.BORROWER) for it in evictions):
            continue
        (group,) = head.profile.groups
        books = Books(World(borrowed))
        runs = {run.job.id: run for run in snapshot.running}
        units = [(runs[it.job], tasks) for it in evictions for tasks in _units(it)]
        for left_out in units:
            nodes = {name: node.copy() for name, node in books.nodes.items()}
            _go(nodes, [unit for unit in units if unit is not left_out])
            open_nodes = snapshot.fleet.open_matching(starts[0].cluster, group.constraint)
            assert sum(nodes[node.name].how_many(group.request) for node in open_nodes) < group.min


def _units(evict: Evict) -> list[tuple[Task, ...]]:
    return [evict.tasks] if evict.whole else [(task,) for task in evict.tasks]


def _go(nodes: dict[str, NodeBook], units: Iterable[tuple[Running, tuple[Task, ...]]]) -> None:
    for run, tasks in units:
        for task in tasks:
            nodes[task.node].remove(run.job.profile.group(task.group).request, task.devices)


# --- no circles -------------------------------------------------------------------------------------------


@given(scenarios(WIDTHS))
def test_property_turns_at_one_moment_come_to_an_end(scenario: Scenario) -> None:
    simulation = Simulation(scenario, estimates=False)
    for tick in simulation:
        ahead = Run(simulation.state.fork(), lambda _: None)
        for _ in range(MANY_TURNS):
            if ahead.step(tick.moment.now_ms).plan.is_empty:
                break
        else:
            raise AssertionError(f"still something to do at {tick.moment.now_ms} ms after {MANY_TURNS} turns")


@a_part(4)
@given(scenarios(replace(PREEMPTING, until_ms=DAY_MS, script=False)))
def test_property_in_a_day_nobody_gives_way_to_the_same_job_twice(scenario: Scenario) -> None:
    evictions: list[tuple[str, str, int]] = []
    for tick in Simulation(scenario, estimates=False):
        at_once = {
            (event.job, event.by, tick.moment.now_ms) for event in tick.moment.events if isinstance(event, JobPreempted)
        }
        evictions += sorted(at_once)
    assert len({(job, by) for job, by, _ in evictions}) == len(evictions)
