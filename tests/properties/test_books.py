"""State keeps its sums up to date event by event: here they are added up anew after every moment."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import EVERYTHING, scenarios

from muster.model import events as ev
from muster.model.flow import Account
from muster.model.jobs import Running
from muster.model.nodes import Node, Room
from muster.model.resources import NOTHING, Resources, Weights
from muster.model.snapshot import QueueState, Snapshot
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation


def total(amounts: list[Resources]) -> Resources:
    """All of them together."""
    together = NOTHING
    for one in amounts:
        together = together + one
    return together


def usage_of(run: Running, weights: Weights) -> int:
    """What a running job counts: each of its tasks by itself."""
    return sum(weights.usage(run.job.profile.group(task.group).request.resources) for task in run.tasks)


class Foreigners:
    """The pods that are not ours, as the events of a simulation tell."""

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], Resources] = {}

    def follow(self, events: tuple[ev.Event, ...], nodes: dict[str, Node]) -> None:
        """Take note of what happened."""
        for event in events:
            match event:
                case ev.ForeignPlaced(id=pod, node=node, amounts=amounts) if node in nodes:
                    self.pods[node, pod] = amounts
                case ev.ForeignGone(id=pod, node=node):
                    self.pods.pop((node, pod), None)
                case ev.NodeRemoved(node=node):
                    self.pods = {key: amounts for key, amounts in self.pods.items() if key[0] != node}

    def on(self, node: str) -> Resources:
        """What they take of a node."""
        return total([amounts for (where, _), amounts in self.pods.items() if where == node])


def room_of(node: Node, foreign: Resources, running: tuple[Running, ...]) -> tuple[Room, Room, Resources]:
    """(empty, room, held) of a node, counted from nothing."""
    empty = node.empty().beside(foreign)
    requests = [
        (task, run.job.profile.group(task.group).request)
        for run in running
        for task in run.tasks
        if task.node == node.name
    ]
    held = total([request.resources for _, request in requests])
    if any(request.whole_node for _, request in requests):
        return empty, Room(free=NOTHING, devices=(0,) * len(empty.devices), tasks=len(requests)), held
    devices = list(empty.devices)
    for task, request in requests:
        for index in task.devices:
            devices[index] -= request.gpu_milli
    free = {name: max(amount - held[name], 0) for name, amount in empty.free.items()}
    debt = {name: max(amount - empty.free[name], 0) for name, amount in held.items()}
    room = Room(
        free=Resources.of(free),
        devices=tuple(max(milli, 0) for milli in devices),
        tasks=len(requests),
        debt=Resources.of(debt),
    )
    return empty, room, held


def check_nodes(snapshot: Snapshot, foreign: Foreigners) -> None:
    """Every node holds what runs on it."""
    assert set(snapshot.nodes) == set(snapshot.fleet.nodes)
    for name, state in snapshot.nodes.items():
        empty, room, held = room_of(snapshot.fleet.nodes[name], foreign.on(name), snapshot.running)
        assert state.empty == empty
        assert state.held == held
        if room.free or not state.room.free:  # a whole-node task may leave its debts unsaid
            assert state.room == room


def check_queue(state: QueueState, snapshot: Snapshot) -> None:
    """A queue's sums are those of its jobs."""
    name, weights = state.queue.name, snapshot.policy.weights
    runs = [run for run in snapshot.running if run.job.queue == name]
    pending = [entry for entry in snapshot.pending if entry.job.queue == name]
    fixed = [run.job for run in runs if run.job.lifetime_ms is None]
    queued = list(state.jobs())
    assert state.started == total([run.resources for run in runs])
    assert state.account.usage == sum(usage_of(run, weights) for run in runs)
    assert state.fixed.usage == sum(
        group.min * weights.usage(group.request.resources) for job in fixed for group in job.profile.groups
    )
    assert state.charged == sum(entry.charge for entry in (*runs, *pending))
    assert state.demand == total([job.profile.most for job in [*queued, *(entry.job for entry in (*pending, *runs))]])
    assert queued == sorted(queued, key=lambda job: job.order)
    half = snapshot.policy.half_time_ms
    assert state.account.flow_at(snapshot.now_ms, half) >= state.account.usage
    assert state.fixed.flow_at(snapshot.now_ms, half) >= state.fixed.usage


def check_jobs(snapshot: Snapshot, simulation: Simulation) -> None:
    """Every living job stands in exactly one place, and no gang is below its min."""
    places = Counter(run.job.id for run in snapshot.running)
    places.update(entry.job.id for entry in (*snapshot.pending, *snapshot.held))
    places.update(job.id for state in snapshot.queues for job in state.jobs())
    alive = {name for name, record in simulation.state.jobs.items() if not record.phase.is_over}
    assert places == Counter(dict.fromkeys(alive, 1))
    for run in snapshot.running:
        widths = Counter(task.group for task in run.tasks)
        for group in run.job.profile.groups:
            assert group.min <= widths[group.name] <= group.max
        assert len({task.name for task in run.tasks}) == len(run.tasks)


def check_users(snapshot: Snapshot) -> None:
    """A user holds what their jobs hold."""
    for state in snapshot.users:
        runs = [run for run in snapshot.running if run.job.user == state.user.name]
        assert state.started == total([run.resources for run in runs])


@given(scenarios())
def test_property_sums_kept_event_by_event_equal_sums_counted_anew(scenario: Scenario) -> None:
    simulation, foreign = Simulation(scenario, estimates=False), Foreigners()
    for tick in simulation:
        foreign.follow(tick.moment.events, simulation.state.machines.nodes)
        snapshot = simulation.state.freeze(tick.moment.now_ms)
        check_nodes(snapshot, foreign)
        check_jobs(snapshot, simulation)
        check_users(snapshot)
        for state in snapshot.queues:
            check_queue(state, snapshot)


@given(scenarios(EVERYTHING))
def test_property_flow_follows_the_formula(scenario: Scenario) -> None:
    """design.md 4.1, with floating point and one step per moment."""
    simulation = Simulation(scenario, estimates=False)
    half_ms, last_ms = scenario.policy.half_time_ms, 0
    flows: dict[str, float] = {}
    usages: dict[str, int] = {}
    for tick in simulation:
        now_ms = tick.moment.now_ms
        snapshot = simulation.state.freeze(now_ms)
        for state in snapshot.queues:
            name, usage = state.queue.name, usages.get(state.queue.name, 0)
            memory = max(flows.get(name, 0.0) - usage, 0) * 0.5 ** ((now_ms - last_ms) / half_ms)
            after = sum(usage_of(run, scenario.policy.weights) for run in snapshot.running if run.job.queue == name)
            # What starts and ends again within one moment may leave a trace: it did use the fleet.
            flows[name] = max(usage + memory, after)
            usages[name] = after
            assert state.account.flow_at(now_ms, half_ms) >= flows[name] * (1 - 1e-6) - 50
            flows[name] = float(state.account.flow_at(now_ms, half_ms))
        last_ms = now_ms


amounts = st.integers(0, 10**12)
spans = st.integers(0, 10**8)
halves = st.integers(1, 10**7)


@given(amounts, amounts, spans, spans, halves)
def test_property_flow_is_never_below_usage_and_falls_when_idle(
    usage: int, memory: int, first: int, second: int, half: int
) -> None:
    account = Account(usage=usage, flow=usage + memory, as_of_ms=0)
    early, late = account.flow_at(first, half), account.flow_at(first + second, half)
    assert account.flow >= early >= late >= usage


@given(amounts, amounts, spans, spans, halves)
def test_property_decay_does_not_depend_on_the_step_size(
    usage: int, memory: int, first: int, second: int, half: int
) -> None:
    account = Account(usage=usage, flow=usage + memory, as_of_ms=0)
    at_once = account.flow_at(first + second, half)
    in_steps = account.with_usage(usage, first, half).flow_at(first + second, half)
    # Whole micro-units: each step may round by half a unit, and the table of roots by a billionth.
    assert in_steps == pytest.approx(at_once, rel=1e-8, abs=2)


@given(amounts, amounts, amounts, spans, halves)
def test_property_flow_crosses_a_limit_exactly_when_it_says(
    usage: int, memory: int, limit: int, now: int, half: int
) -> None:
    account = Account(usage=usage, flow=usage + memory, as_of_ms=0)
    moment = account.when_at_most(limit, now, half)
    if moment is None:
        assert usage > limit
    else:
        assert account.flow_at(moment, half) <= limit
        assert moment == now or account.flow_at(moment - 1, half) > limit


@given(scenarios())
def test_property_budgets_come_back_when_nothing_runs_or_is_pending(scenario: Scenario) -> None:
    simulation = Simulation(scenario, estimates=False)
    for _ in simulation:
        pass
    snapshot = simulation.state.freeze(simulation.state.now_ms)
    busy = {run.job.queue for run in snapshot.running} | {entry.job.queue for entry in snapshot.pending}
    for state in snapshot.queues:
        if state.queue.name not in busy:
            assert (state.charged, state.account.usage, state.fixed.usage) == (0, 0, 0)
            assert not state.started
