"""A bare best fit on the columns that the engine fills from: what filling could cost if it decided nothing else.

Jobs come in order of submission, whatever queue they are in; each of their tasks goes to the tightest node that has
room for it. Nodes that may take the task, amounts and GPUs are honoured; queues, limits, reservations, gangs that
start whole or not at all, closeness and verdicts are not. It packs as the engine does (muster.engine.kernels.placing):
nodes without GPUs first, then those with the fewest whole devices, then by free cores and memory in logarithmic steps,
then in node order.

Rooms only shrink here. So a node that has no room for a task of a group is struck from the nodes of that group, and a
group that no node is left for is not looked at again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

from bench.measuring import tell, timed
from muster.engine.columns.fleet_index import Grounds, grounds_of
from muster.engine.columns.views import floor_of, roll_of
from muster.engine.kernels import sets
from muster.engine.kernels.placing import CPU_DIM, DEVICE_MILLI, FREE, MEMORY_DIM, WORD
from muster.model.jobs import Profile
from muster.model.snapshot import Snapshot

Ints = npt.NDArray[np.int64]
P = ParamSpec("P")
R = TypeVar("R")

MEMORY_STEPS = 32  # one bit for each in the word of a line
PART_STEPS = 32  # of what is free of a device that is in use: 32 milli each
SHOWN = 3


class Columns(NamedTuple):
    """What there is to fill with what. Sets of nodes are words of 62 bits, then a bit for each word that is not 0."""

    rooms: Ints  # node x column, as the engine's floor has them
    nodes: Ints  # group x word: which nodes may take its tasks
    amounts: Ints  # group x dimension: what a task asks for
    gpus: Ints  # by group: how many devices a task asks for,
    milli: Ints  # and how much of each
    width: Ints  # by group: how many tasks a job has
    first: Ints  # by profile: its first group, and the end
    jobs: Ints  # the profile of each queued job, in order of submission
    steps: int  # of free cores
    devices: int  # most of any node


class Index(NamedTuple):
    """The nodes by tightness. A line is a shelf and a step of cores: shelf 0 are nodes without GPUs, shelf 1 + n those
    with n whole devices; a bucket is a line and a step of memory. `bucket`: of each node, where it is."""

    buckets: Ints  # bucket x word
    sizes: Ints  # by bucket
    occupied: Ints  # by line: a bit for each bucket that is not empty
    bucket: Ints
    parts: Ints  # step x word: nodes with a device in use of which so much is free


class Taken(NamedTuple):
    """The tasks that were placed: one row for each."""

    group: Ints
    node: Ints
    devices: Ints  # as bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """What the bare kernel took: CPU seconds of each try, reading the columns of the engine apart."""

    placements: int
    seconds: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Placements per second of the fastest try."""
        return self.placements / min(self.seconds)


def bare_fill(snapshot: Snapshot, tries: int) -> Bare:
    """Fill the world of a snapshot, each try from empty, and check what came of it."""
    columns = columns_of(snapshot)
    filled_once(columns._replace(jobs=columns.jobs[:1]))  # compiles
    tried = [timed(lambda: filled_once(columns)) for _ in range(tries)]
    (placed, taken), seconds = tried[-1][0], tuple(took_s for _, took_s in tried)
    tell(f"the bare kernel placed {placed:,} tasks, best {1000 * min(seconds):.1f} ms")
    tell("checking the bare kernel")
    if problems := wrong_in(columns, Taken(*(column[:placed] for column in taken))):
        sys.exit(f"bench: the bare kernel is wrong: {problems[:SHOWN]}")
    return Bare(placements=placed, seconds=seconds)


def filled_once(columns: Columns) -> tuple[int, Taken]:
    """How many tasks were placed, and where; the columns stay as they are."""
    many, size, most = len(columns.rooms), columns.nodes.shape[1], int(wanted_of(columns).sum())
    lines = (2 + columns.devices) * columns.steps
    index = Index(
        buckets=np.zeros((lines * MEMORY_STEPS, size), np.int64),
        sizes=np.zeros(lines * MEMORY_STEPS, np.int64),
        occupied=np.zeros(lines, np.int64),
        bucket=np.zeros(many, np.int64),
        parts=np.zeros((PART_STEPS, size), np.int64),
    )
    taken = Taken(group=np.empty(most, np.int64), node=np.empty(most, np.int64), devices=np.empty(most, np.int64))
    own = columns._replace(rooms=columns.rooms.copy(), nodes=columns.nodes.copy())
    return fill(own, index, taken), taken


# -- columns -----------------------------------------------------------------------------------------


def columns_of(snapshot: Snapshot) -> Columns:
    """The columns of a fleet of one cluster and its queued jobs, in numbers of the engine."""
    roll, grounds = roll_of(snapshot), grounds_of(snapshot.fleet)
    profiles = roll.profiles.names
    groups = [group for profile in profiles for group in profile.groups]
    if any(group.request.whole_node for group in groups):
        sys.exit("bench: the bare kernel knows no tasks that have nodes for themselves")
    numbers = np.array([grounds.group_number(group) for group in groups])
    rows = np.array(sorted(roll.row_of.values()))
    by_time = rows[np.argsort(roll.columns().submit[rows], kind="stable")]
    rooms, _ = floor_of(snapshot).cells(listed=False)
    return Columns(
        rooms=np.array(rooms, np.int64).reshape(len(grounds.names), grounds.columns),
        nodes=_sets_of_nodes(grounds, profiles),
        amounts=grounds.amounts(numbers).copy(),
        gpus=np.array([group.request.gpus for group in groups]),
        milli=np.array([group.request.gpu_milli for group in groups]),
        width=np.array([group.min for group in groups]),
        first=np.cumsum([0, *(len(profile.groups) for profile in profiles)]),
        jobs=roll.columns().lane_profile[roll.lanes_in(by_time)],
        steps=grounds.steps,
        devices=grounds.devices,
    )


def _sets_of_nodes(grounds: Grounds, profiles: list[Profile]) -> Ints:
    """The nodes open to each group: of the profile's own pool, and of those it may borrow from."""
    fleet, known = grounds.fleet, dict[object, Ints]()
    pools = np.array([fleet.pool_of(name) for name in grounds.names])
    found = []
    for profile in profiles:
        home = fleet.home(profile)
        for group in profile.groups:
            if (home, group.constraint) not in known:
                flags = np.zeros(len(grounds.names), np.bool_)
                for cluster in fleet.candidates(profile):
                    flags[[grounds.number[it.name] for it in fleet.open_matching(cluster, group.constraint)]] = True
                known[home, group.constraint] = _set_of(flags & np.isin(pools, (home, *fleet.lenders(profile))))
            found.append(known[home, group.constraint])
    return np.array(found)


def _set_of(flags: npt.NDArray[np.bool_]) -> Ints:
    """The set of nodes with a flag."""
    words = _bits(flags)
    return np.concatenate([words, _bits(words != 0)])


def _bits(flags: npt.NDArray[np.bool_]) -> Ints:
    count = -(-len(flags) // WORD)
    rows = np.zeros((count, 64), np.uint8)
    at = np.flatnonzero(flags)
    rows[at // WORD, at % WORD] = 1
    return np.packbits(rows, axis=None, bitorder="little").view("<i8").astype(np.int64)


def wanted_of(columns: Columns) -> Ints:
    """How many tasks all jobs have, by group."""
    many = np.bincount(columns.jobs, minlength=len(columns.first) - 1)
    return columns.width * np.repeat(many, np.diff(columns.first))


# -- checking ----------------------------------------------------------------------------------------


def wrong_in(columns: Columns, taken: Taken) -> list[str]:
    """What is wrong with tasks that were placed: a node over its room, one that may not take them, room left over."""
    first = FREE + columns.amounts.shape[1]
    free, there = columns.rooms[:, FREE:first].copy(), columns.rooms[:, first : first + columns.devices]
    np.subtract.at(free, taken.node, columns.amounts[taken.group])
    devices = there.copy()
    for device in range(columns.devices):
        np.subtract.at(devices[:, device], taken.node, ((taken.devices >> device) & 1) * columns.milli[taken.group])
    given = np.array([bits.bit_count() for bits in taken.devices.tolist()], np.int64)
    may = (columns.nodes[taken.group, taken.node // WORD] >> (taken.node % WORD)) & 1
    wrong = {
        "node {} is over its room": (free < 0).any(axis=1),
        "node {} is over its devices": ((devices < 0) & (there >= 0)).any(axis=1),
        "task {} has other devices than asked": given != columns.gpus[taken.group],
        "task {} is where it may not be": may == 0,
    }
    problems = [words.format(number) for words, flags in wrong.items() for number in np.flatnonzero(flags)]
    wanted, placed = wanted_of(columns), np.bincount(taken.group, minlength=len(columns.width))
    problems += [f"group {group} has too many tasks" for group in np.flatnonzero(placed > wanted)]
    for group in np.flatnonzero(placed < wanted):
        if _has_room(columns, int(group), free, devices):
            problems.append(f"there is room for group {group}")
    return problems


def _has_room(columns: Columns, group: int, free: Ints, devices: Ints) -> bool:
    """Whether any node has room for one more task of the group."""
    nodes = np.arange(len(free))
    has_room = ((columns.nodes[group, nodes // WORD] >> (nodes % WORD)) & 1) > 0
    for dim in range(free.shape[1]):
        has_room &= free[:, dim] >= columns.amounts[group, dim]
    if columns.gpus[group]:
        has_room &= (devices >= columns.milli[group]).sum(axis=1) >= columns.gpus[group]
    return bool(has_room.any())


# -- the kernel --------------------------------------------------------------------------------------


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Machine code of the function."""
    compiled: Callable[P, R] = njit(function)
    return compiled


lowest_bit = kernel(sets.lowest_bit)


@kernel
def fill(columns: Columns, index: Index, taken: Taken) -> int:
    """Place what fits of all jobs; returns how many tasks that is. Rooms and nodes change."""
    placed = 0
    for node in range(len(columns.rooms)):
        enter(columns, index, node)
    is_full = np.zeros(len(columns.width), np.bool_)
    for profile in columns.jobs:
        for group in range(columns.first[profile], columns.first[profile + 1]):
            left = columns.width[group]
            while left > 0 and not is_full[group]:
                node = tightest(columns, index, group)
                if node < 0:
                    is_full[group] = True
                    break
                leave(columns, index, node)
                while left > 0 and fits(columns, group, node):  # it stays the tightest until it is full
                    taken.group[placed] = group
                    taken.node[placed] = node
                    taken.devices[placed] = take(columns, group, node)
                    placed += 1
                    left -= 1
                enter(columns, index, node)
    return placed


@kernel
def tightest(columns: Columns, index: Index, group: int) -> int:
    """The tightest node that has room for a task of the group; -1 if there is none."""
    gpus, milli, shelf = columns.gpus[group], columns.milli[group], 0
    if gpus > 0:
        shelf = 1 + gpus
        if milli < DEVICE_MILLI:
            for part in range(milli // PART_STEPS, PART_STEPS):
                node = first_fit(columns, index.parts[part], group)
                if node >= 0:
                    return node
    cores = step(columns.amounts[group, CPU_DIM], 4)
    memory = min(step(columns.amounts[group, MEMORY_DIM] >> 20, 1), MEMORY_STEPS - 1)
    while shelf < 2 + columns.devices:
        for line in range(shelf * columns.steps + cores, (shelf + 1) * columns.steps):
            word = (index.occupied[line] >> memory) << memory
            while word:
                node = first_fit(columns, index.buckets[line * MEMORY_STEPS + lowest_bit(word)], group)
                if node >= 0:
                    return node
                word &= word - 1
        shelf += 1
    return -1


@kernel
def first_fit(columns: Columns, bucket: Ints, group: int) -> int:
    """The first node of the bucket that has room for a task of the group; those before it are struck from its nodes."""
    nodes = columns.nodes[group]
    words = -(-len(columns.rooms) // WORD)
    for part in range(words, len(nodes)):
        summary = bucket[part] & nodes[part]
        while summary:
            at = (part - words) * WORD + lowest_bit(summary)
            word = bucket[at] & nodes[at]
            while word:
                node = at * WORD + lowest_bit(word)
                if fits(columns, group, node):
                    return node
                exclude(nodes, words, node)
                word &= word - 1
            summary &= summary - 1
    return -1


@kernel
def fits(columns: Columns, group: int, node: int) -> bool:
    """Whether the node has room for a task of the group."""
    dims = columns.amounts.shape[1]
    for dim in range(dims):
        if columns.rooms[node, FREE + dim] < columns.amounts[group, dim]:
            return False
    if columns.gpus[group] == 0:
        return True
    enough = 0
    for device in range(FREE + dims, FREE + dims + columns.devices):
        if columns.rooms[node, device] >= columns.milli[group]:
            enough += 1
    return bool(enough >= columns.gpus[group])


@kernel
def take(columns: Columns, group: int, node: int) -> int:
    """A task of the group is on the node from now on; the devices it got, those that it fills most, as bits."""
    dims, milli, chosen = columns.amounts.shape[1], columns.milli[group], 0
    for dim in range(dims):
        columns.rooms[node, FREE + dim] -= columns.amounts[group, dim]
    for _ in range(columns.gpus[group]):
        best, least = 0, DEVICE_MILLI + 1
        for device in range(columns.devices):
            free = columns.rooms[node, FREE + dims + device]
            if milli <= free < least and (chosen >> device) & 1 == 0:
                best, least = device, free
        columns.rooms[node, FREE + dims + best] -= milli
        chosen |= 1 << best
    return chosen


@kernel
def enter(columns: Columns, index: Index, node: int) -> None:
    """The node is where it belongs by its room."""
    words, first = -(-len(columns.rooms) // WORD), FREE + columns.amounts.shape[1]
    shelf = 0
    for device in range(first, first + columns.devices):
        free = columns.rooms[node, device]
        if free >= 0:
            shelf = max(shelf, 1)
        if 0 < free < DEVICE_MILLI:
            include(index.parts[free // PART_STEPS], words, node)
    if shelf > 0:
        for device in range(first, first + columns.devices):
            if columns.rooms[node, device] == DEVICE_MILLI:
                shelf += 1
    cores = min(step(columns.rooms[node, FREE + CPU_DIM], 4), columns.steps - 1)
    memory = min(step(columns.rooms[node, FREE + MEMORY_DIM] >> 20, 1), MEMORY_STEPS - 1)
    line = shelf * columns.steps + cores
    bucket = line * MEMORY_STEPS + memory
    include(index.buckets[bucket], words, node)
    index.sizes[bucket] += 1
    index.occupied[line] |= 1 << memory
    index.bucket[node] = bucket


@kernel
def leave(columns: Columns, index: Index, node: int) -> None:
    """The node is nowhere until its room has changed."""
    words, first, bucket = -(-len(columns.rooms) // WORD), FREE + columns.amounts.shape[1], index.bucket[node]
    exclude(index.buckets[bucket], words, node)
    index.sizes[bucket] -= 1
    if index.sizes[bucket] == 0:
        index.occupied[bucket // MEMORY_STEPS] &= ~(1 << (bucket % MEMORY_STEPS))
    for device in range(first, first + columns.devices):
        free = columns.rooms[node, device]
        if 0 < free < DEVICE_MILLI:
            exclude(index.parts[free // PART_STEPS], words, node)


@kernel
def include(nodes: Ints, words: int, node: int) -> None:
    """The node is in the set."""
    word = node // WORD
    nodes[word] |= 1 << (node % WORD)
    nodes[words + word // WORD] |= 1 << (word % WORD)


@kernel
def exclude(nodes: Ints, words: int, node: int) -> None:
    """The node is not in the set."""
    word = node // WORD
    nodes[word] &= ~(1 << (node % WORD))
    if nodes[word] == 0:
        nodes[words + word // WORD] &= ~(1 << (word % WORD))


@kernel
def step(amount: int, steps: int) -> int:
    """Where an amount stands on a logarithmic scale with so many steps (1, 2 or 4) per doubling."""
    shift = 0
    while amount >> shift >= 2 * steps:
        shift += 1
    return shift * steps + (amount >> shift)
