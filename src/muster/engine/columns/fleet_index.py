"""A fleet in numbers: nodes, clusters and domains by number, and what task groups ask of them.

Built once for a fleet, which stays the same until a node changes. Groups and profiles get their numbers when they
are first seen; which nodes suit a group is worked out once for each constraint. Serves one thread at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from muster.engine.kernels import placing
from muster.engine.kernels.indexing import level_of
from muster.engine.kernels.placing import Cells
from muster.engine.kernels.sets import step
from muster.model.fleet import Fleet
from muster.model.jobs import Profile, Task, TaskGroup
from muster.model.labels import Constraint
from muster.model.nodes import DEVICE_MILLI, Node, Request, Room
from muster.model.resources import CPU, GPU, MEMORY, PODS, Resources

SMALL_DOMAIN = 64  # nodes; larger domains are searched by the index
FLEETS = 128  # and parts of fleets, about which answers are remembered
LARGE_FLEET = 1024  # nodes; in smaller ones levels are not worth their while

Array: TypeAlias = npt.NDArray[np.int64]
Places: TypeAlias = npt.NDArray[np.intp]  # numbers of nodes

_FIRST_DIMS = (CPU, MEMORY, GPU, PODS)
_MOST = 1 << 62  # of any amount: more than a node can have
_SPARE_INDEXES = 4
_SPARE_BOOKS = 2


def blank_cells(count: int, *, listed: bool) -> Cells:
    """So many zeros, as a list for plain kernels or as an array for compiled ones."""
    return [0] * count if listed else cast(Cells, np.zeros(count, np.int64))


def new_cells(count: int, *, listed: bool) -> Cells:
    """So many cells with anything in them."""
    return [0] * count if listed else cast(Cells, np.empty(count, np.int64))


def cells_of(numbers: Sequence[int], *, listed: bool) -> Cells:
    """These numbers, as a list for plain kernels or as an array for compiled ones."""
    return list(numbers) if listed else cast(Cells, np.array(numbers, np.int64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shape:
    """A profile in numbers: its groups, also by name, and how many tasks each has at least."""

    groups: tuple[int, ...]
    named: Mapping[str, int]
    least: tuple[int, ...]
    clusters: tuple[str, ...]  # its candidates, most preferred first
    _cells: dict[bool, tuple[Cells, Cells]] = field(default_factory=dict, repr=False)

    def cells(self, *, listed: bool) -> tuple[Cells, Cells]:
        """Its groups, and how many tasks each has at least, as kernels see them; nobody changes them."""
        known = self._cells.get(listed)
        if known is None:
            known = self._cells[listed] = (cells_of(self.groups, listed=listed), cells_of(self.least, listed=listed))
        return known


class Grounds:
    """One fleet in numbers. Nodes are numbered in the fleet's order, which is the order of names."""

    def __init__(self, fleet: Fleet, *, small_domain: int = SMALL_DOMAIN, large_fleet: int = LARGE_FLEET) -> None:
        self.fleet = fleet
        nodes = tuple(fleet.nodes.values())
        self.names = tuple(fleet.nodes)
        self.number = {name: number for number, name in enumerate(self.names)}
        self.cluster_names = tuple(fleet.clusters)
        self.cluster_number = {name: number for number, name in enumerate(fleet.clusters)}
        members = [self._numbers_of(fleet.nodes_of(name)) for name in fleet.clusters]
        self.members = [np.array(numbers, np.intp) for numbers in members]  # of each cluster
        self.cluster_of = np.zeros(len(nodes), np.int64)
        for number, numbers in enumerate(members):
            self.cluster_of[numbers] = number
        self.closed = np.array(sorted(self.number[name] for name in fleet.closed), np.intp)
        self.open = np.delete(np.arange(len(nodes)), self.closed)
        self.machines = tuple(fleet.machines)
        kinds = {machine: number for number, machine in enumerate(self.machines)}
        self.machine_of = np.array([kinds[node.allocatable] for node in nodes], np.int64)
        kin = fleet.kinds  # rooms of a part are rows like those of the whole
        others = sorted({name for machine in kin for name in machine} - set(_FIRST_DIMS))
        self.dims = (*_FIRST_DIMS, *others)
        self.dim_number = {name: number for number, name in enumerate(self.dims)}
        most_devices = max((machine.get(GPU) // DEVICE_MILLI for machine in kin), default=0)
        self.devices = min(most_devices, placing.MOST_DEVICES)
        self.most_cpu = max((machine.get(CPU) for machine in self.machines), default=0)
        self.most_milli = max((machine.get(GPU) for machine in self.machines), default=0)
        self.steps = step(self.most_cpu, 4) + 1
        most_memory = max((machine.get(MEMORY) for machine in self.machines), default=0)
        self.levels = step(most_memory >> 20, 4) + 1 if len(nodes) >= large_fleet else 0
        self.columns = placing.FREE + 2 * len(self.dims) + self.devices
        self.words = _words(len(nodes))
        self.set_size = self.words + _words(self.words)
        self.small = min(small_domain, len(nodes))
        self._groups: dict[TaskGroup, int] = {}
        self._shapes: dict[Profile, Shape] = {}
        self._masks: dict[Constraint, tuple[int, int]] = {}
        self._refusals: dict[tuple[str, Constraint], tuple[str, int]] = {}
        self.knows_domains = False  # only if some group cares how far apart its tasks are
        self._alone: tuple[tuple[str, ...], list[tuple[Task]]] = ((), [])
        self._alike: tuple[tuple[TaskGroup, ...], tuple[list[int], list[int]]] = ((), ([0] * len(nodes), []))
        self._indexes: deque[Cells] = deque(maxlen=_SPARE_INDEXES)
        self._books: deque[Cells] = deque(maxlen=_SPARE_BOOKS)
        self._sets = 0
        self._parts: dict[int, Array] = self._first_parts()
        self._assemble()
        for number, numbers in enumerate(members):
            self._parts[placing.CLUSTERS][number, placing.PLACE] = self._new_set(numbers)

    def _first_parts(self) -> dict[int, Array]:
        """What the cells of the ground are made of, in order."""
        traits = _table(len(self.names) + 1, placing.TRAIT)
        traits[:-1, placing.HAS_GPUS] = self.by_machine([[machine.get(GPU) > 0] for machine in self.machines])[:, 0]
        return {
            placing.TRAITS: traits,
            placing.CLUSTERS: _table(len(self.cluster_number), placing.CLUSTER),
            placing.DOMAINS: _table(0, placing.DOMAIN),
            placing.MEMBERS: _table(0, 1),
            placing.HOMES: _table(0, 1),
            placing.SETS: _table(len(self.cluster_number) + 6, self.set_size),
            placing.ASKS: _table(8, placing.AMOUNTS + len(self.dims)),
        }

    def _assemble(self) -> None:
        """Put the parts into one array, in which they are from now on."""
        sizes = np.zeros(placing.GROUND, np.int64)
        sizes[placing.NODES], sizes[placing.WORDS] = len(self.names), self.words
        sizes[placing.PARTS], sizes[placing.SET] = self.set_size - self.words, self.set_size
        sizes[placing.DIMS], sizes[placing.DEVICES] = len(self.dims), self.devices
        sizes[placing.COLUMNS], sizes[placing.STEPS] = self.columns, self.steps
        sizes[placing.LEVELS] = self.levels
        sizes[placing.SMALL], sizes[placing.ASK] = self.small, placing.AMOUNTS + len(self.dims)
        self._array = np.concatenate([sizes, *(part.ravel() for part in self._parts.values())])
        self._list: list[int] | None = None
        begin = placing.GROUND
        for name, part in self._parts.items():
            self._array[name] = begin
            self._parts[name] = self._array[begin : begin + part.size].reshape(part.shape)
            begin += part.size

    def ground(self, *, listed: bool) -> Cells:
        """The fleet as kernels see it. Only good until the next group is numbered."""
        if not listed:
            return cast(Cells, self._array)
        if self._list is None:
            self._list = self._array.tolist()
        return self._list

    @property
    def domains(self) -> int:
        """How many domains of two hops and more there are; none is known until a group cares."""
        return len(self._parts[placing.DOMAINS])

    # -- what groups ask for ---------------------------------------------------------------------------

    def shape_of(self, profile: Profile) -> Shape:
        """The profile in numbers."""
        shape = self._shapes.get(profile)
        if shape is None:
            numbers = [self.group_number(group) for group in profile.groups]
            shape = self._shapes[profile] = Shape(
                groups=tuple(numbers),
                named=dict(zip(profile.least_widths, numbers, strict=True)),
                least=tuple(group.min for group in profile.groups),
                clusters=self.fleet.candidates(profile),
            )
        return shape

    def amounts(self, groups: Array) -> Array:
        """What tasks of these groups ask for, one row each."""
        asked: Array = self._parts[placing.ASKS][groups, placing.AMOUNTS :]
        return asked

    def are_whole(self, groups: Array) -> npt.NDArray[np.bool_]:
        """Which of these groups have nodes for themselves."""
        whole: npt.NDArray[np.bool_] = self._parts[placing.ASKS][groups, placing.WHOLE] > 0
        return whole

    def group_number(self, group: TaskGroup) -> int:
        """The number under which kernels know what tasks of the group ask for, and where to look for it."""
        number = self._groups.get(group)
        if number is None:
            number = len(self._groups)
            if number == len(self._parts[placing.ASKS]):
                self._grow(placing.ASKS)
            if group.is_close and not self.knows_domains:
                self._map_domains()
            masks = self._masks_of(group.constraint)
            self._parts[placing.ASKS][number] = self._ask(group, masks)
            self._list = None
            self._groups[group] = number
        return number

    def unknown(self, request: Request) -> list[str]:
        """What the request asks for and no node has."""
        return [name for name in request.resources if name not in self.dim_number]

    def _ask(self, group: TaskGroup, masks: tuple[int, int]) -> list[int]:
        ask = [0] * (placing.AMOUNTS + len(self.dims))
        request = group.request
        ask[placing.OPEN], ask[placing.ANY] = masks
        ask[placing.GPUS], ask[placing.MILLI] = min(request.gpus, _MOST), request.gpu_milli
        ask[placing.WHOLE], ask[placing.CLOSE] = int(request.whole_node), int(group.is_close)
        ask[placing.HOPS] = placing.NO_LIMIT if group.max_hops is None else group.max_hops
        ask[placing.NEVER] = int(bool(self.unknown(request)))
        ask[placing.LEVEL] = level_of(min(request.resources.get(MEMORY), _MOST) >> 20, max(self.levels, 1))
        ask[placing.PART] = int(request.gpus > 0 and request.gpu_milli < DEVICE_MILLI)
        ask[placing.MIN], ask[placing.INITIAL], ask[placing.MAX] = group.min, group.initial, group.max
        for name, amount in request.resources.items():
            if name in self.dim_number:
                ask[placing.AMOUNTS + self.dim_number[name]] = min(amount, _MOST)
        for column, number in zip(_SEARCH, self._search(request), strict=True):
            ask[column] = number
        return ask

    def _search(self, request: Request) -> tuple[int, int, int, int, int]:
        """Where nodes for such a task are: from which bucket, line and step on, and to which lines."""
        nowhere = (0, 0, 0, 1, 0)
        cpu = step(min(request.resources.get(CPU), _MOST), 4)
        memory = step(min(request.resources.get(MEMORY), _MOST) >> 20, 1)
        if cpu >= self.steps or request.gpus > self.devices:
            return nowhere
        if request.gpus and request.gpu_milli < DEVICE_MILLI:
            begin = (self.devices + 2) * self.steps
            end = begin + placing.MILLI_LINES
            return ((begin << 5) + request.gpu_milli, 0, cpu, end, end)
        floor = min(memory, placing.MEMORY_STEPS - 1)
        first, last = (1 + request.gpus, 1 + self.devices) if request.gpus else (0, 1)
        start = ((first * self.steps + cpu) << 5) + floor
        return (start, floor, cpu, (first + 1) * self.steps, (last + 1) * self.steps)

    def _masks_of(self, constraint: Constraint) -> tuple[int, int]:
        """The sets of nodes that the constraint admits: those that take tasks, and all."""
        found = self._masks.get(constraint)
        if found is None:
            clusters, fleet = self.cluster_number, self.fleet
            admitted = list(chain.from_iterable(fleet.matching(name, constraint) for name in clusters))
            numbers = self._numbers_of(admitted)
            taking = np.intersect1d(numbers, self.open, assume_unique=True)
            every = taken = self._new_set(numbers)
            if len(taking) < len(admitted):
                taken = self._new_set(taking)
            found = self._masks[constraint] = (taken, every)
        return found

    def _numbers_of(self, nodes: Sequence[Node]) -> Places:
        if len(nodes) == len(self.names):
            return np.arange(len(self.names))
        return np.array([self.number[node.name] for node in nodes], np.intp)

    def alike_to(self, groups: tuple[TaskGroup, ...]) -> tuple[list[int], list[int]]:
        """For each node, which of several sorts it is; for each sort and group, whether its nodes are open to it."""
        known, answer = self._alike
        if known != groups:
            masks = [self._masks_of(group.constraint)[0] for group in groups]
            distinct = sorted(set(masks))
            table = np.array([self._is_in(mask) for mask in distinct], np.int64).reshape(len(distinct), len(self.names))
            sorts, alike = np.unique(table, axis=1, return_inverse=True)
            rows = sorts[[distinct.index(mask) for mask in masks]] if masks else sorts
            rows[[bool(self.unknown(group.request)) for group in groups]] = 0
            answer = (alike.ravel().tolist(), rows.T.ravel().tolist())
            self._alike = (groups, answer)
        return answer

    def _is_in(self, number: int) -> Array:
        """Of each node, whether it is in the set."""
        nodes = np.arange(len(self.names))
        words = self._parts[placing.SETS][number]
        is_in: Array = (words[nodes // placing.WORD] >> (nodes % placing.WORD)) & 1
        return is_in

    def _new_set(self, numbers: Sequence[int] | Places) -> int:
        if self._sets == len(self._parts[placing.SETS]):
            self._grow(placing.SETS)
        words = _bits(numbers, self.words)
        summary = _bits(np.flatnonzero(words), self.set_size - self.words)
        self._parts[placing.SETS][self._sets] = np.concatenate([words, summary])
        self._list = None
        self._sets += 1
        return self._sets - 1

    def _grow(self, name: int) -> None:
        part = self._parts[name]
        self._parts[name] = np.concatenate([part, np.zeros_like(part)])
        self._assemble()

    def refusal(self, cluster: str, constraint: Constraint) -> tuple[str, int]:
        """What keeps a group off the nodes that came nearest to taking it, and off how many."""
        found = self._refusals.get((cluster, constraint))
        if found is None:
            found = self._refusals[cluster, constraint] = _refusal(self.fleet, cluster, constraint)
        return found

    # -- closeness -------------------------------------------------------------------------------------

    def _map_domains(self) -> None:
        """Number the domains of every cluster in the fleet's order; those of one node are the order of paths."""
        domains: list[tuple[int, bool, int, int, int]] = []
        members: list[int] = []
        homes: list[list[int]] = [[] for _ in self.names]
        ranks: list[int] = []
        for name, number in self.cluster_number.items():
            first = (len(ranks), len(domains))
            for domain in self.fleet.domains(name):
                numbers = [self.number[node.name] for node in domain.nodes]
                if domain.hops == 0:
                    ranks += numbers
                    continue
                for node in numbers:
                    homes[node].append(len(domains))
                place = self._new_set(numbers) if len(numbers) > self.small else 0
                wastes = any(node.has_gpus for node in domain.nodes)
                domains.append((domain.hops, wastes, len(members), len(members) + len(numbers), place))
                members += numbers
            last = (len(ranks), len(domains))
            self._parts[placing.CLUSTERS][number, 1:] = (first[0], last[0], first[1], last[1])
        traits = self._parts[placing.TRAITS]
        traits[ranks, placing.RANK] = range(len(ranks))
        traits[:-1, placing.BY_RANK] = ranks
        traits[1:, placing.HOME] = np.cumsum([len(each) for each in homes])
        self.knows_domains = True
        self._parts[placing.DOMAINS] = np.array(domains, np.int64).reshape(-1, placing.DOMAIN)
        self._parts[placing.MEMBERS] = np.array(members, np.int64)
        self._parts[placing.HOMES] = np.array(list(chain.from_iterable(homes)), np.int64)
        self._assemble()

    # -- rooms -----------------------------------------------------------------------------------------

    def by_machine(self, rows: Sequence[Sequence[int]]) -> Array:
        """A row for each node, from one for each kind of machine."""
        return np.array(rows, np.int64)[self.machine_of] if self.machines else _table(0, self.columns)

    def row_of(self, room: Room) -> list[int]:
        """A room in numbers."""
        devices = [*room.devices[: self.devices], *[-1] * (self.devices - len(room.devices))]
        free, debt = room.free.get, room.debt.get
        debts = map(debt, self.dims) if room.debt else [0] * len(self.dims)
        return [room.tasks, *map(free, self.dims), *devices, *debts]

    def room_of(self, row: Sequence[int]) -> Room:
        """The room that these numbers stand for."""
        dims, devices = len(self.dims), placing.FREE + len(self.dims)
        return Room(
            free=Resources.of(dict(zip(self.dims, row[placing.FREE : devices], strict=True))),
            devices=tuple(free for free in row[devices : devices + self.devices] if free >= 0),
            tasks=row[placing.TASKS],
            debt=Resources.of(dict(zip(self.dims, row[-dims:], strict=True))),
        )

    # -- indexes ---------------------------------------------------------------------------------------

    def blank_index(self, *, listed: bool) -> Cells:
        """An index without nodes. Most of a large one is never touched: rows are given out one after the other."""
        if not listed and self._indexes:
            return _cleared(self._indexes.pop())
        lines = (self.devices + 2) * self.steps + (placing.MILLI_LINES if self.devices else 0)
        rows = min(lines * 32, len(self.names) * (2 + self.devices)) + 2
        buckets = placing.LINES + _words(lines)
        where = buckets + lines * placing.LINE
        levels = where + placing.NODE * len(self.names)
        first_row = levels + (self.steps + self.levels) * self.set_size if self.levels else levels
        index = blank_cells(first_row + rows * (self.set_size + 1), listed=listed)
        index[placing.ROW], index[placing.BUCKETS] = self.set_size + 1, buckets
        index[placing.WHERE], index[placing.ROWS] = where, first_row
        index[placing.CPU_LEVELS], index[placing.MEMORY_LEVELS] = levels, levels + self.steps * self.set_size
        return index

    def alone(self, groups: tuple[str, ...]) -> list[tuple[Task]]:
        """For groups of these names, the first task of each on every node, by itself: many jobs have an equal one."""
        known, tasks = self._alone
        if known != groups:
            tasks = [(Task(group, 0, name),) for group in groups for name in self.names]
            self._alone = (groups, tasks)
        return tasks

    def index_like(self, other: Cells) -> Cells:
        """An index, an array, that says the same as another one, or as the used part of one."""
        index, used = self._indexes.pop() if self._indexes else self.blank_index(listed=False), self.used_of(other)
        index[len(used) : _used(index)] = cast(Any, 0)
        index[: len(used)] = used
        return index

    @staticmethod
    def used_of(index: Cells) -> Array:
        """The used part of an index, an array."""
        return cast(Array, index)[: _used(index)]

    def give_back(self, index: Cells) -> None:
        """Nobody needs this index, an array, any more: keep it for the next one."""
        self._indexes.append(index)

    # -- books -----------------------------------------------------------------------------------------

    def new_books(self, count: int, *, listed: bool) -> Cells:
        """At least so many cells with anything in them. What a turn before wrote to need not be mapped anew."""
        spare = self._books.pop() if not listed and self._books else None
        return spare if spare is not None and len(spare) >= count else new_cells(count, listed=listed)

    def give_back_books(self, cells: Cells) -> None:
        """Nobody needs these cells, an array, any more."""
        self._books.append(cells)


_SEARCH = (placing.START, placing.FLOOR, placing.OFFSET, placing.SHELF_END, placing.END)


@lru_cache(maxsize=FLEETS)
def grounds_of(fleet: Fleet) -> Grounds:
    """The fleet in numbers."""
    return Grounds(fleet)


def _table(rows: int, columns: int) -> Array:
    return np.zeros((rows, columns), np.int64)


def _words(count: int) -> int:
    """Words for so many bits."""
    return -(-count // placing.WORD)


def _bits(numbers: Sequence[int] | npt.NDArray[np.intp], words: int) -> Array:
    """A set of numbers as bits of words."""
    flags = np.zeros((words, 64), np.uint8)
    place = np.asarray(numbers, np.int64)
    flags[place // placing.WORD, place % placing.WORD] = 1
    return np.packbits(flags, bitorder="little").view("<i8").astype(np.int64)


def _cleared(index: Cells) -> Cells:
    """The index without nodes. Only what was used is cleared."""
    index[placing.LINES : _used(index)] = cast(Any, 0)
    index[placing.GIVEN_OUT] = index[placing.CAME_BACK] = 0
    return index


def _used(index: Cells) -> int:
    return int(index[placing.ROWS] + (index[placing.GIVEN_OUT] + 1) * index[placing.ROW])


def _refusal(fleet: Fleet, cluster: str, constraint: Constraint) -> tuple[str, int]:
    reasons = [
        constraint.refuses(node.name, node.labels, node.taints) or "cordoned" for node in fleet.nodes_of(cluster)
    ]
    for reason in ("cordoned", "taint", "affinity", "nodeSelector"):  # the last to be asked first
        if reason in reasons:
            return reason, reasons.count(reason)
    return "nodes", 0
