"""The floor keeps in rows what the values of model/nodes.py say, whatever happens on the nodes and to them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import a_job, a_world

from muster.engine.columns.node_rooms import Floor
from muster.engine.columns.views import floor_of
from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, Task, TaskGroup
from muster.model.nodes import Node, Request
from muster.model.resources import CPU, GPU, NOTHING, PODS, Resources, total
from muster.model.snapshot import NodeState
from muster.state.machines import Machines

FPGA = "example.com/fpga"
NAMES = ("n-1", "n-2", "n-10")


class Both:
    """The same nodes twice: as state keeps them, and as values that are worked out one by one."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.machines = Machines()
        self.states: dict[str, NodeState] = {}
        self.foreign: dict[str, dict[str, Resources]] = {}
        self.there: list[tuple[Job, Task]] = []
        self.numbers = count()
        for name in ("east", "west"):
            self.machines.set_cluster(Cluster(name=name))
        self.node_set()

    def happens(self, seed: int) -> None:
        """One more thing."""
        self.random.seed(seed)
        self.random.choice(self.things())()

    def things(self) -> list[Callable[[], None]]:
        moves = [self.moved_in, self.moved_in, self.moved_in, self.moved_out, self.moved_out]
        return [*moves, self.node_set, self.node_gone, self.foreign_came, self.foreign_went, self.cordoned, self.silent]

    def node_set(self) -> None:
        """A node came, or changed under those who are on it."""
        amounts = {CPU: self.random.randint(1, 4), GPU: self.random.choice([0, 1000, 2000]), PODS: 3}
        if self.random.random() < 0.3:
            amounts[FPGA] = 2
        if self.random.random() < 0.1:
            amounts[GPU] = 70_000  # more devices than a row has places for
        name, cluster = self.random.choice(NAMES), self.random.choice(CLUSTERS)
        if (node := self.machines.nodes.get(name)) is not None:  # it keeps its devices: there are tasks on them
            cluster, amounts[GPU] = node.cluster, node.allocatable.get(GPU)
        self.machines.set_node(Node(name=name, cluster=cluster, allocatable=Resources.of(amounts)))
        self.count(name)

    def node_gone(self) -> None:
        if name := self.some_node():
            self.machines.remove_node(name)
            self.foreign.pop(name, None)
            del self.states[name]
            gone = [(job, task) for job, task in self.there if task.node == name]
            self.there = [entry for entry in self.there if entry not in gone]
            for job, task in gone:
                self.machines.move_out(job, [task])

    def foreign_came(self) -> None:
        if name := self.some_node():
            amounts = Resources.of({CPU: self.random.randint(1, 3), GPU: self.random.choice([0, 300, 1500]), PODS: 1})
            pod = self.random.choice("pq")
            self.machines.set_foreign(name, pod, amounts)
            self.foreign.setdefault(name, {})[pod] = amounts
            self.count(name)

    def foreign_went(self) -> None:
        if name := self.some_node():
            pod = self.random.choice("pq")
            self.machines.set_foreign(name, pod, None)
            self.foreign.get(name, {}).pop(pod, None)
            self.count(name)

    def cordoned(self) -> None:
        if name := self.some_node():
            self.machines.cordon(name, cordoned=self.random.random() < 0.7)
            self.count(name)

    def silent(self) -> None:
        cluster = Cluster(name=self.random.choice(CLUSTERS), silent=self.random.random() < 0.5)
        self.machines.set_cluster(cluster)

    def moved_in(self) -> None:
        """A task comes, whether there is room for it or not."""
        if name := self.some_node():
            group = self.random.choice(GROUPS)
            devices = self.states[name].room.devices_for(group.request)
            job = Job(id=f"j-{next(self.numbers)}", queue="q", profile=PROFILE)
            task = Task(group=group.name, index=0, node=name, devices=devices)
            self.machines.move_in(job, [task])
            self.there.append((job, task))
            self.states[name] = self.states[name].take(group.request, devices)

    def moved_out(self) -> None:
        if self.there:
            job, task = self.there.pop(self.random.randrange(len(self.there)))
            self.machines.move_out(job, [task])
            request = job.profile.group(task.group).request
            self.states[task.node] = self.states[task.node].give(request, task.devices)

    def some_node(self) -> str | None:
        return self.random.choice(sorted(self.states)) if self.states else None

    def count(self, name: str) -> None:
        """The node from what is on it."""
        empty = self.machines.nodes[name].empty().beside(total(self.foreign.get(name, {}).values()))
        state = NodeState(empty=empty, room=empty)
        for job, task in sorted(self.there, key=lambda entry: (entry[0].id, entry[1].name)):
            if task.node == name:
                state = state.take(job.profile.group(task.group).request, task.devices)
        self.states[name] = state


CLUSTERS = ("east", "west")
REQUESTS = {
    "core": Request.of({CPU: 1}),
    "cores": Request.of({CPU: 3}),
    "device": Request.of({CPU: 1, GPU: 1000}),
    "half": Request.of({GPU: 1000}, gpu_milli=500),
    "halves": Request.of({GPU: 2000}, gpu_milli=600),
    "odd": Request.of({CPU: 1, FPGA: 1}),  # most fleets have none of it
    "whole": Request.of({CPU: 1}, whole_node=True),
    "odd-whole": Request.of({FPGA: 1}, whole_node=True),
}
GROUPS = [TaskGroup(name=name, min=1, initial=1, max=1, request=request) for name, request in REQUESTS.items()]
PROFILE = Profile(groups=tuple(GROUPS))


def assert_same(both: Both, floor: Floor) -> None:
    """The floor says what the values say."""
    fleet, nodes = both.machines.fleet(), floor.nodes()
    assert nodes == both.states
    laid = Floor.laid(floor.grounds, both.states)
    assert floor.cells(listed=True) == laid.cells(listed=True)
    closed = {name for name, node in fleet.nodes.items() if not fleet.takes_tasks(node)}
    shared = [state.held if name in closed else state.empty.free for name, state in both.states.items()]
    assert floor.capacity() == laid.capacity() == total(shared)
    for cluster in CLUSTERS:
        there = [both.states[node.name].held for node in fleet.nodes_of(cluster)]
        assert floor.held_in(cluster) == laid.held_in(cluster) == total(there)


@given(st.randoms(use_true_random=False), st.lists(st.integers(0, 10**6), max_size=60), st.integers(1, 5))
def test_property_rows_equal_rooms_worked_out_from_values(random: Random, seeds: list[int], every: int) -> None:
    both = Both(Random(random.randrange(10**6)))
    for step, seed in enumerate(seeds):
        both.happens(seed)
        if step % every == 0:
            assert_same(both, both.machines.floor())
    assert_same(both, both.machines.floor())


@given(st.lists(st.integers(0, 10**6), max_size=20), st.lists(st.integers(0, 10**6), max_size=20))
def test_property_a_fork_goes_its_own_way(before: list[int], after: list[int]) -> None:
    both = Both(Random(0))
    for seed in before:
        both.happens(seed)
    kept, states = both.machines.fork(), dict(both.states)
    for seed in after:
        both.happens(seed)
        both.machines.floor()
    assert kept.floor().nodes() == states


def test_capacity_is_exact_beyond_a_word() -> None:
    machines, much = Machines(), (1 << 61) + 1
    machines.set_cluster(Cluster(name="east"))
    for name in NAMES * 3:
        machines.set_node(Node(name=name, cluster="east", allocatable=Resources.of({FPGA: much})))
    for extra in range(6):
        machines.set_node(Node(name=f"m-{extra}", cluster="east", allocatable=Resources.of({FPGA: much})))
    assert machines.floor().capacity().get(FPGA) == 9 * much


def test_nodes_are_made_when_someone_looks_and_only_as_long_as_they_are_so() -> None:
    world = a_world().with_node("n", cpu=2).with_jobs(a_job("a").cpu(1))
    snapshot, kept = world.state.freeze(world.now_ms), world.snapshot()
    assert len(snapshot.nodes) == 1
    assert list(snapshot.nodes) == ["n"]
    world.turn()
    with pytest.raises(LookupError, match="the nodes have moved on"):
        snapshot.nodes["n"]
    assert kept.nodes["n"].held == NOTHING
    assert world.snapshot().nodes["n"].held.get(CPU) == 1000
    assert kept != world.snapshot()


def test_a_stored_snapshot_is_one_of_values() -> None:
    world = a_world().with_node("n", cpu=2).with_jobs(a_job("a").cpu(1), a_job("a").cpu(2))
    snapshot = world.snapshot()
    stored = pickle.loads(pickle.dumps(snapshot))
    assert stored.columns is None
    assert stored.nodes == snapshot.nodes
    assert type(stored.nodes) is dict
    assert floor_of(stored).capacity() == floor_of(snapshot).capacity()
