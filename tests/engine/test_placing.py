"""Columns and kernels place as the plain code does: same tasks, same devices, same rooms, same shortages.

`oracle.placement` looks at every node; the engine looks into its index. Both are given the same random fleets, with
the same tasks on them, at the same moments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from effort import a_part
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracle import placement as plain
from oracle.room import Span as PlainSpan

from muster.engine import kernels
from muster.engine.columns.fleet_index import Grounds
from muster.engine.columns.node_rooms import Floor
from muster.engine.kernels import placing
from muster.engine.measure import Measure, told
from muster.engine.never_fits import never_fits
from muster.engine.placement import Headcount, Leavers, Placer, Shortage, step
from muster.engine.rooms import Rooms, Span
from muster.model.fleet import Cluster, Fleet
from muster.model.jobs import Profile, Task, TaskGroup
from muster.model.labels import Constraint, Taint
from muster.model.nodes import Node, Request, Room
from muster.model.placement import Placement, PlacementRule, Typical
from muster.model.resources import CPU, GPU, MEMORY, NOTHING, PODS, Resources
from muster.model.snapshot import NodeState

MIB = 1 << 20
GIB = 1 << 30
LICENSE = "example.com/license"


def on_arrays(kernel: Any) -> Any:
    """Plain kernels, but on arrays, as they run when only some are compiled."""
    return kernel


FACES = [
    pytest.param(kernels.plain, id="plain"),
    pytest.param(on_arrays, id="plain-on-arrays"),
    pytest.param(kernels.compiled, id="compiled"),
]


# --- at random ----------------------------------------------------------------------------------


@dataclass
class Chance:
    """A fleet and what may be asked of it; every mark that a world has, its nodes and groups may have."""

    random: Random
    gpus: bool
    constraints: bool
    topology: bool
    others: bool
    rough: bool = True  # few different amounts, so that many nodes are equally tight
    names: int = 0
    clusters: tuple[str, ...] = field(default=("east",))

    @classmethod
    def of(cls, seed: int) -> Chance:
        random = Random(seed)
        marks = [random.random() < 0.5 for _ in range(5)]
        return cls(random, *marks, clusters=random.choice([("east",), ("east",), ("east", "west")]))

    def often(self, odds: float) -> bool:
        return self.random.random() < odds

    def node(self) -> Node:
        random = self.random
        self.names += 1
        cpu = random.choice([2, 4, 8]) * 1000 if self.rough else random.randint(0, 16_000)
        given = {CPU: cpu, MEMORY: random.choice([2, 4, 8]) * GIB if self.rough else random.randint(0, 16) * GIB // 3}
        if self.gpus and self.often(0.6):
            given[GPU] = random.choice([1, 2, 4, 8]) * 1000
        if self.others and self.often(0.6):
            given[LICENSE] = random.randint(1, 4)
        if self.often(0.2):
            given[PODS] = random.randint(1, 5)
        marks: dict[str, Any] = {}
        if self.constraints:
            marks["labels"] = {"zone": random.choice("ab")}
            marks["taints"] = (Taint.parse("own=yes:NoSchedule"),) if self.often(0.2) else ()
        if self.topology:
            depth = random.choice([2, 2, 2, 1, 3])
            marks["topology"] = tuple(f"{level}{random.randint(0, 1)}" for level in ("s", "l", "r")[:depth])
        name = f"{random.choice('nm')}-{self.names}"
        cordoned = self.often(0.1)
        cluster = random.choice(self.clusters)
        return Node(name=name, cluster=cluster, allocatable=Resources.of(given), cordoned=cordoned, **marks)

    def fleet(self, nodes: int) -> Fleet:
        silent = len(self.clusters) > 1 and self.often(0.1)
        clusters = [Cluster(name=name, silent=silent and name == "west") for name in self.clusters]
        return Fleet(clusters, [self.node() for _ in range(nodes)])

    def request(self) -> Request:
        random = self.random
        given = {CPU: random.choice([1, 1, 2, 3]) * 1000 if self.rough else random.randint(0, 4000)}
        if self.often(0.6):
            given[MEMORY] = random.choice([MIB, GIB // 2, GIB, 2 * GIB, 3 * GIB])
        milli = 1000
        if self.gpus and self.often(0.6):
            given[GPU] = random.choice([1, 1, 2, 3, 4]) * 1000
            milli = random.choice([1000, 1000, 600, 500, 500, 300, 250, 1])
        if self.others and self.often(0.2):
            given[LICENSE] = 1
        if self.often(0.03):
            given["example.com/unheard-of"] = 1
        return Request.of(given, gpu_milli=milli, whole_node=self.often(0.12))

    def group(self, name: str) -> TaskGroup:
        random = self.random
        least = random.choice([0, 1, 1, 1, 2, 3, 5])
        initial = least + random.choice([0, 0, 0, 1, 2, 6])
        marks: dict[str, Any] = {}
        if self.constraints:
            selector = random.choice([None, None, {"zone": "a"}, {"zone": "z"}])
            tolerations = random.choice([None, [{"operator": "Exists"}]])
            marks["constraint"] = Constraint.parse(selector=selector, tolerations=tolerations)
        if self.topology and self.often(0.7):
            marks["max_hops"] = random.choice([None, 0, 2, 4, 6, 8])
            marks["prefers_close"] = self.often(0.7)
        return TaskGroup(name=name, min=least, initial=initial, max=initial + 1, request=self.request(), **marks)

    def profile(self) -> Profile:
        return Profile(groups=tuple(self.group(f"g{number}") for number in range(self.random.choice([1, 1, 1, 2, 3]))))

    def widths(self, profile: Profile) -> dict[str, int]:
        if self.often(0.4):
            return dict(profile.least_widths)
        return {group.name: self.random.randint(group.min, group.initial) for group in profile.groups}

    def measures(self, rule: PlacementRule) -> tuple[Measure, Placement, list[Typical]] | None:
        """What tells the best node, for columns and plainly; nothing where the tightest is."""
        if rule is PlacementRule.TIGHTEST:
            return None
        groups = [self.group("typical") for _ in range(self.random.choice([0, 1, 3, 9]))]
        typical = [
            Typical(request=group.request, constraint=group.constraint, count=self.random.randint(1, 9))
            for group in groups
        ]
        placement = Placement(rule=rule, seed=self.random.randint(0, 9))
        measure = told(placement, typical) if rule.knows_typical else Measure(rule=rule, seed=placement.seed)
        return measure, placement, typical


@dataclass
class Both:
    """The same rooms twice: in columns, and one by one."""

    fleet: Fleet
    empties: dict[str, Room]
    ours: list[Rooms]
    theirs: list[dict[str, Room]]
    there: list[tuple[Task, TaskGroup]]  # who is on the nodes at the first moment
    measure: plain.Measure | None = None

    def __post_init__(self) -> None:
        self.span, self.plain_span = Span(self.ours), PlainSpan(self.theirs)

    @classmethod
    def at_first(cls, chance: Chance, fleet: Fleet, face: Any, rule: PlacementRule = PlacementRule.TIGHTEST) -> Both:
        """Some tasks on the nodes, which may take more than there is, and some pods that are not ours."""
        random = chance.random
        empties, states, there = {}, {}, []
        for node in fleet.nodes.values():
            foreign = {CPU: random.randint(0, 3000), GPU: random.randint(0, 2500), PODS: 1} if chance.often(0.2) else {}
            empty = room = node.empty().beside(Resources.of(foreign))
            for _ in range(random.choice([0, 0, 1, 2, 4])):
                group = chance.group("there")
                if _asks_for_unknown(fleet, group):
                    continue  # columns leave out what no node has
                if room.fits(group.request) or (chance.often(0.1) and room.has_devices(group.request)):
                    task = Task(group="there", index=0, node=node.name, devices=room.devices_for(group.request))
                    room = room.take(group.request, task.devices)
                    there.append((task, group))
            empties[node.name], states[node.name] = empty, NodeState(empty=empty, room=room)
        grounds = Grounds(fleet, small_domain=random.choice([64, 1]), large_fleet=random.choice([1024, 0]))
        theirs, measures = {name: state.room for name, state in states.items()}, chance.measures(rule)
        rooms = Rooms.of(Floor.laid(grounds, states), face=face, measure=measures and measures[0])
        measure = measures and plain.Measure(*measures[1:], fleet, theirs)
        return cls(fleet, empties, [rooms], [theirs], there, measure)

    def with_moment(self, chance: Chance) -> Both:
        """One more moment, at which some have left and others have come."""
        ours, theirs = self.ours[0].copy(), dict(self.theirs[0])
        for task, group in self.there:
            if chance.often(0.5):
                ours.give(task.node, group, task.devices)
                theirs[task.node] = theirs[task.node].give(group.request, task.devices, self.empties[task.node])
        for name in theirs:
            group = chance.group("later")
            devices = theirs[name].devices_for(group.request)
            task = Task(group="later", index=0, node=name, devices=devices)
            fits = theirs[name].fits(group.request)
            assert ours.fits(name, group) == fits == ours.holds(task, group)
            if (
                chance.often(0.3)
                and (fits or len(devices) == group.request.gpus)
                and not _asks_for_unknown(self.fleet, group)
            ):
                ours.take(name, group, devices)
                theirs[name] = theirs[name].take(group.request, devices)
        return Both(self.fleet, self.empties, [*self.ours, ours], [*self.theirs, theirs], self.there, self.measure)

    def assert_same_rooms(self) -> None:
        for ours, theirs in zip(self.ours, self.theirs, strict=True):
            assert {name: ours.room(name) for name in theirs} == theirs
        for name in self.fleet.nodes:
            assert replace(self.span.room(name), debt=NOTHING) == replace(self.plain_span.room(name), debt=NOTHING)

    def assert_same_index(self) -> None:
        """The index as it was kept up is the one that would be built."""
        kept, books = self.ours[0].index(), self.ours[0].books
        self.ours[0]._index = None
        anew = self.ours[0].index()
        assert _nodes_by_bucket(books, kept) == _nodes_by_bucket(books, anew)
        self.ours[0]._index = kept


def _asks_for_unknown(fleet: Fleet, group: TaskGroup) -> bool:
    known = {CPU, MEMORY, GPU, PODS, *(name for node in fleet.nodes.values() for name in node.allocatable)}
    return not known.issuperset(group.request.resources)


def _nodes_by_bucket(books: Any, index: Any) -> dict[Any, Any]:
    """All that a search finds in an index, whichever rows it is in."""
    grounds = books.grounds
    size, rows = grounds.set_size, index[placing.ROWS]
    lines = range((index[placing.WHERE] - index[placing.BUCKETS]) // placing.LINE)
    found: dict[Any, Any] = {"idle": list(index[rows : rows + size])}
    for line in lines:
        at = index[placing.BUCKETS] + line * placing.LINE
        for bucket in range(32):
            row = index[at + bucket]
            assert bool(row) == bool(index[at + placing.OCCUPIED] >> bucket & 1)
            if row:
                found[line, bucket] = list(index[row : row + size + 1])
        is_occupied = index[placing.LINES + line // placing.WORD] >> (line % placing.WORD) & 1
        assert bool(is_occupied) == bool(index[at + placing.OCCUPIED])
    found["where and levels"] = list(index[index[placing.WHERE] : rows])
    return found


# --- the same, whoever looks --------------------------------------------------------------------


def play(seed: int, nodes: int, rounds: int, face: Any, rule: PlacementRule = PlacementRule.TIGHTEST) -> None:
    """Place, look what is short, undo: after each step both say the same."""
    chance = Chance.of(seed)
    random = chance.random
    both = Both.at_first(chance, chance.fleet(nodes), face, rule)
    for _ in range(random.choice([0, 0, 1, 2])):
        both = both.with_moment(chance)
    both.assert_same_rooms()
    everywhere = chance.often(0.2)
    ours = Placer(both.span, everywhere=everywhere)
    theirs = plain.Placer(both.fleet, both.plain_span, everywhere=everywhere, measure=both.measure)
    profiles = [chance.profile() for _ in range(4)]
    heads = [(profile, Headcount(ours, profile, chance.clusters[0])) for profile in profiles[:2]]
    marks = [(0, 0)]
    for _ in range(rounds):
        profile, cluster = random.choice(profiles), random.choice(chance.clusters)
        widths = chance.widths(profile)
        placed = ours.place(profile, cluster, widths)
        assert placed == theirs.place(profile, cluster, widths)
        if placed is None or chance.often(0.3):
            assert ours.shortage(profile, cluster) == as_ours(theirs.shortage(profile, cluster))
        if chance.often(0.2):
            marks.append((both.span.mark(), both.plain_span.mark()))
        if chance.often(0.2):
            mark, plain_mark = marks.pop() if len(marks) > 1 else marks[0]
            both.span.undo(mark)
            both.plain_span.undo(plain_mark)
        if both.there and chance.often(0.2):
            task, group = random.choice(both.there)
            if all(rooms[task.node].tasks for rooms in both.theirs):
                both.span.give(task.node, group, task.devices)
                both.plain_span.give(task.node, group.request, task.devices, both.empties[task.node])
                both.there.remove((task, group))
        for profile, headcount in heads:
            nobody = Leavers(*(ours.books.of(numbers) for numbers in ([0], [], [0])))
            _, is_enough = headcount.free_until_enough(nobody, 0)
            assert is_enough == plain.Headcount(theirs, profile, chance.clusters[0]).is_enough()
    both.assert_same_rooms()
    both.assert_same_index()
    both.span.undo()
    both.plain_span.undo()
    both.assert_same_rooms()
    both.assert_same_index()


def as_ours(shortage: plain.Shortage) -> Shortage:
    return Shortage(**{name: getattr(shortage, name) for name in plain.Shortage.__slots__})


SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("face", FACES)
@given(seed=SEEDS, nodes=st.integers(0, 9))
@settings(max_examples=settings.default.max_examples * 5)
def test_property_kernels_place_as_the_plain_code_does(seed: int, nodes: int, face: Any) -> None:
    play(seed, nodes, 8, face)


RULES = [pytest.param(rule, id=rule.value) for rule in PlacementRule if rule is not PlacementRule.TIGHTEST]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("face", FACES)
@given(seed=SEEDS, nodes=st.integers(0, 9))
def test_property_every_rule_chooses_the_node_that_it_chooses_plainly(
    seed: int, nodes: int, face: Any, rule: PlacementRule
) -> None:
    play(seed, nodes, 6, face, rule)


@pytest.mark.parametrize("face", FACES[1:])
@given(seed=SEEDS, nodes=st.integers(60, 300))
@a_part(6)
def test_property_kernels_place_as_the_plain_code_does_on_many_nodes(seed: int, nodes: int, face: Any) -> None:
    play(seed, nodes, 20, face)


@given(seed=SEEDS)
@settings(max_examples=1)
@example(seed=1)
def test_property_kernels_place_as_the_plain_code_does_on_thousands_of_nodes(seed: int) -> None:
    play(seed, 4000, 20, kernels.compiled)


@given(seed=SEEDS, nodes=st.integers(0, 6))
def test_property_what_never_fits_is_what_the_plain_code_says(seed: int, nodes: int) -> None:
    chance = Chance.of(seed)
    fleet = chance.fleet(nodes)
    for profile in [chance.profile() for _ in range(5)]:
        never, theirs = never_fits(fleet, profile), plain.never_fits(fleet, profile)
        assert never == (theirs and as_ours(theirs))
        assert never_fits(fleet, profile) is never


@given(seed=SEEDS)
def test_property_tasks_fit_together_where_they_are_or_leave_no_trace(seed: int) -> None:
    chance = Chance.of(seed)
    both = Both.at_first(chance, chance.fleet(4), kernels.plain)
    profile, rooms = chance.profile(), dict(both.theirs[0])
    tasks, fits = [], True
    for index in range(chance.random.randint(0, 6)):
        group = chance.random.choice(profile.groups)
        node = chance.random.choice(list(rooms))
        devices = rooms[node].devices_for(group.request)
        fits = fits and rooms[node].fits(group.request)
        rooms[node] = rooms[node].take(group.request, devices)
        tasks.append(Task(group=group.name, index=index, node=node, devices=devices))
    assert both.ours[0].holds_all(profile, tasks) == fits
    both.assert_same_rooms()


# --- by hand ------------------------------------------------------------------------------------


def a_fleet(count: int, **given: int) -> Fleet:
    allocatable = Resources.of({CPU: 8000, MEMORY: 32 * GIB, **given})
    nodes = [Node(name=f"n-{number}", cluster="c", allocatable=allocatable) for number in range(count)]
    return Fleet([Cluster(name="c")], nodes)


def a_profile(count: int = 1, **given: int) -> Profile:
    request = Request.of({CPU: 1000, **given})
    return Profile(groups=(TaskGroup(name="task", min=count, initial=count, max=count, request=request),))


def nodes_of(tasks: Iterable[Task] | None) -> list[str]:
    return [task.node for task in tasks or ()]


def test_rooms_that_were_copied_go_their_own_way():
    rooms = Rooms.empty(Grounds(a_fleet(2)))
    others = [rooms.copy() for _ in range(20)]  # more than there were cells for

    tasks = Placer(Span([others[7]])).place(a_profile(3), "c", {"task": 3})

    assert nodes_of(tasks) == ["n-0"] * 3
    assert others[7].room("n-0").tasks == 3
    assert rooms.room("n-0").tasks == others[8].room("n-0").tasks == 0


@pytest.mark.parametrize("face", [on_arrays, kernels.compiled])
def test_copies_that_take_the_index_with_them_answer_as_those_that_are_indexed_anew(face: Any) -> None:
    random = Random(7)
    rooms = Rooms.empty(Grounds(a_fleet(300)), face=face)  # fewer are indexed anew in any case
    for _ in range(400):
        Placer(Span([rooms])).place(a_profile(size := random.randint(1, 3)), "c", {"task": size})
    indexed, plain_copy = rooms.copy(indexed=True), rooms.copy()
    assert indexed.cells()[2] is not rooms.cells()[2]
    assert len(indexed.cells()[2]) > 1 == len(plain_copy.cells()[2])

    for copy in (indexed, plain_copy):
        for node in range(0, 300, 7):
            copy.take(f"n-{node}", a_profile().groups[0], ())
    asked = [a_profile(random.randint(1, 8)) for _ in range(100)]
    answers = [
        [Placer(Span([copy])).place(it, "c", {"task": it.tasks_min}) for it in asked] for copy in (indexed, plain_copy)
    ]

    assert answers[0] == answers[1]
    assert any(answers[0])
    assert not np.array_equal(indexed.table(), rooms.table())


def test_cells_of_forgotten_rooms_are_used_again():
    rooms = Rooms.empty(Grounds(a_fleet(2)), face=on_arrays)
    size = len(rooms.books.cells)
    for _ in range(50):
        copy = rooms.copy()
        assert nodes_of(Placer(Span([copy, rooms.copy()])).place(a_profile(), "c", {"task": 1})) == ["n-0"]

    assert len(rooms.books.cells) == size


def test_turns_that_need_many_moments_use_the_same_cells_again():
    grounds, sizes = Grounds(a_fleet(2)), set()
    for _ in range(6):
        rooms = Rooms.empty(grounds, face=on_arrays)
        others = [rooms.copy() for _ in range(50)]
        sizes.add(len(rooms.books.cells))
        del rooms, others

    assert len(sizes) == 1


def test_a_span_whose_later_moment_was_first_in_another_finds_the_new_room():
    now = Rooms.empty(Grounds(a_fleet(2)))
    later = now.copy()
    assert nodes_of(Placer(Span([later])).place(a_profile(7), "c", {"task": 7})) == ["n-0"] * 7
    assert nodes_of(Placer(Span([now, later])).place(a_profile(2), "c", {"task": 2})) == ["n-0", "n-1"]

    assert nodes_of(Placer(Span([later])).place(a_profile(1), "c", {"task": 1})) == ["n-1"]


def test_kernels_count_what_they_look_at():
    rooms = Rooms.empty(Grounds(a_fleet(100)))
    placer = Placer(Span([rooms]))
    for _ in range(100):
        placer.place(a_profile(2), "c", {"task": 2})

    books = rooms.books.cells
    assert books[placing.PLACEMENTS] == 200
    assert books[placing.SCANNED] == 100


def test_more_groups_than_there_were_rows_for():
    rooms = Rooms.empty(Grounds(a_fleet(3)))
    placer = Placer(Span([rooms]))
    for memory in range(1, 40):
        profile = a_profile(1, **{MEMORY: memory * MIB})
        assert nodes_of(placer.place(profile, "c", {"task": 1})) == [
            "n-0" if memory <= 8 else f"n-{(memory - 1) // 8}"
        ] or (memory > 24)


@pytest.mark.parametrize("steps", [1, 2, 4])
@given(amount=st.integers(0, 1 << 61))
def test_property_the_scale_is_that_of_the_plain_code(amount: int, steps: int) -> None:
    assert step(amount, steps) == plain.step(amount, steps) == kernels.compiled(step)(amount, steps)
