"""Same snapshot, same plan; same scenario, same log (design.md 2; cases.md 7.1)."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar
from unittest.mock import patch

from effort import a_part
from hypothesis import example, given, settings
from hypothesis import strategies as st
from worlds import ALONE, CRAMPED, EVERYTHING, scenario_of, scenarios

from muster.engine import lines as offering_lines
from muster.engine import plan
from muster.model.fleet import Fleet
from muster.model.plan import Plan
from muster.model.policy import Preemption
from muster.model.snapshot import Snapshot
from muster.sim.lines import dumps, lines
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation

_T = TypeVar("_T")


def snapshots_of(scenario: Scenario) -> list[Snapshot]:
    """What the turns of a simulation saw."""
    seen: list[Snapshot] = []
    simulation = Simulation(scenario, estimates=False)
    simulation.run.watch = lambda snapshot, _plan: seen.append(snapshot)
    for _ in simulation:
        pass
    return seen


def spelled_out(made: Plan) -> str:
    """The plan to the last byte, order of verdicts included."""
    return repr((made.now_ms, made.actions, list(made.verdicts.items()), sorted(made.heads.items()), made.wake_ms))


def shuffled(snapshot: Snapshot, chance: random.Random) -> Snapshot:
    """The same snapshot with every list in another order."""

    def mixed(things: Iterable[_T]) -> tuple[_T, ...]:
        pile = list(things)
        chance.shuffle(pile)
        return tuple(pile)

    return replace(
        snapshot,
        fleet=Fleet(mixed(snapshot.fleet.clusters.values()), mixed(snapshot.fleet.nodes.values())),
        nodes=dict(mixed(snapshot.nodes.items())),
        queues=mixed(replace(state, lanes=mixed(state.lanes)) for state in snapshot.queues),
        users=mixed(snapshot.users),
        running=mixed(snapshot.running),
        pending=mixed(snapshot.pending),
        held=mixed(snapshot.held),
        attempts=dict(mixed(snapshot.attempts.items())),
        columns=None,
    )


@a_part(2)
@given(scenarios())
def test_property_planning_twice_gives_the_same_plan_and_leaves_the_snapshot_alone(scenario: Scenario) -> None:
    for snapshot in snapshots_of(scenario)[:20]:
        before = copy.deepcopy(replace(snapshot, fleet=Fleet()))
        assert spelled_out(plan(snapshot)) == spelled_out(plan(snapshot))
        assert replace(snapshot, fleet=before.fleet) == before


@given(scenarios(), st.integers(0, 1000))
def test_property_the_order_of_a_snapshot_means_nothing(scenario: Scenario, seed: int) -> None:
    chance = random.Random(seed)
    for snapshot in snapshots_of(scenario)[:20]:
        assert spelled_out(plan(shuffled(snapshot, chance))) == spelled_out(plan(snapshot))


def log_of(scenario: Scenario, *, skips_turns: bool = True, estimates: bool = True) -> list[str]:
    """The simulation's log, line by line."""
    simulation = Simulation(scenario, skips_turns=skips_turns, estimates=estimates)
    return [dumps(line) for tick in simulation for line in lines(tick)]


@settings(max_examples=settings().max_examples * 2)
@given(scenarios(replace(EVERYTHING, turns_ms=(1000, 2000, 5000))))
def test_property_skipping_turns_that_decide_nothing_changes_no_byte(scenario: Scenario) -> None:
    assert log_of(scenario, estimates=False) == log_of(scenario, skips_turns=False, estimates=False)


@a_part(4)
@given(scenarios(replace(EVERYTHING, turns_ms=(1000, 2000, 5000))))
def test_property_skipping_turns_that_decide_nothing_changes_no_estimate(scenario: Scenario) -> None:
    assert log_of(scenario) == log_of(scenario, skips_turns=False)


@settings(max_examples=settings().max_examples * 2)
@given(scenarios(replace(EVERYTHING, turns_ms=(1000, 2000, 5000))))
def test_property_lanes_that_stand_as_they_stood_before_offer_the_same(scenario: Scenario) -> None:
    with patch.object(offering_lines, "_WORTH_KEEPING", 0):  # else only where there are many lanes
        as_before = log_of(scenario, estimates=False)
    assert as_before == log_of(scenario, estimates=False)


MANY_TURNS = replace(EVERYTHING, turns_ms=(1000, 2000, 5000), preemption=(Preemption.OFF, Preemption.ON))

A_PROMISE_NOT_KEPT = scenario_of(  # it is due at 45 s, cannot be kept, and so is another one in the next turn
    MANY_TURNS,
    27046,
    clusters=2,
    nodes=[0, 0],
    queues=[0],
    jobs=[940, 2997, 100000, 0, 0, 185, 529899273],
    events=[374],
)


@settings(max_examples=settings().max_examples * 2)
@given(scenarios(MANY_TURNS))
@example(A_PROMISE_NOT_KEPT)
def test_property_with_preemption_or_without_the_same_is_told_with_every_turn(scenario: Scenario) -> None:
    assert log_of(scenario, estimates=False) == log_of(scenario, skips_turns=False, estimates=False)


def ages_soon(scenario: Scenario) -> Scenario:
    """The same, but whoever waits is aged within ten minutes, after which nothing changes any more for who waits in
    vain: a day in turns of a second takes a minute."""
    aging_after_ms = min(scenario.policy.aging_after_ms, 600_000)
    return replace(scenario, policy=replace(scenario.policy, aging_after_ms=aging_after_ms))


@settings(max_examples=settings().max_examples * 2)
@given(scenarios(replace(CRAMPED, turns_ms=(1000, 2000, 5000))))
def test_property_where_hardly_anything_fits_the_same_is_told_with_every_turn(scenario: Scenario) -> None:
    scenario = ages_soon(scenario)

    assert log_of(scenario, estimates=False) == log_of(scenario, skips_turns=False, estimates=False)


@settings(max_examples=settings().max_examples * 4)
@given(scenarios(replace(ALONE, turns_ms=(1000, 2000, 5000))))
def test_property_on_one_machine_the_same_is_told_with_every_turn(scenario: Scenario) -> None:
    scenario = ages_soon(scenario)

    assert log_of(scenario, estimates=False) == log_of(scenario, skips_turns=False, estimates=False)


@a_part(3)
@given(scenarios(), st.integers(0, 1000))
def test_property_the_order_of_a_scenario_means_nothing(scenario: Scenario, seed: int) -> None:
    chance = random.Random(seed)
    parts = {"clusters": list(scenario.clusters), "nodes": list(scenario.nodes), "queues": list(scenario.queues)}
    parts |= {"users": list(scenario.users), "jobs": list(scenario.jobs)}
    for part in parts.values():
        chance.shuffle(part)
    other = replace(scenario, **{name: tuple(part) for name, part in parts.items()})

    # Jobs of one moment are told in the order of the script, and so are those of them that come too late to start after
    # what ended: the loader sorts it.
    def decided(log: list[str]) -> list[str]:
        return [line for line in log if '"submitted"' not in line and "it was to start after" not in line]

    told, told_of_other = log_of(scenario), log_of(other)
    assert decided(told_of_other) == decided(told)
    assert sorted(told_of_other) == sorted(told)
