"""The cells in which the rooms of one turn lie, all moments together, and the kernels that reach them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from muster.engine import kernels
from muster.engine.columns.devices import bits_of
from muster.engine.columns.fleet_index import cells_of, new_cells
from muster.engine.columns.node_rooms import Floor
from muster.engine.kernels import (
    Face,
    changes,
    counting,
    evicting,
    fitting,
    gangs,
    growing,
    hoping,
    indexing,
    leaving,
    measuring,
    placing,
    tenancy,
    yielding,
)
from muster.engine.kernels.placing import Cells
from muster.engine.measure import Measure
from muster.model.jobs import Profile, Task, TaskGroup

Ints = npt.NDArray[np.int64]

# To read a node's room, to index it and to look at it takes about as long as to place some tasks.
_TASKS_PER_NODE = 16
_CIRCLES = 128
_MOMENTS, _MANY_MOMENTS = 4, 12  # at first; of arrays, what is never used costs nothing


class Kernels:
    """The kernels of one face."""

    def __init__(self, face: Face) -> None:
        self.is_plain = face is kernels.plain
        self.build = face(indexing.build)
        self.choose_for_group = face(evicting.choose_for_group)
        self.count_heads = face(counting.count_heads)
        self.count_lacking = face(counting.count_lacking)
        self.forget = face(hoping.forget)
        self.free_until_enough = face(leaving.free_until_enough)
        self.grow = face(growing.grow)
        self.has_room_in = face(hoping.has_room_in)
        self.holds = face(fitting.holds)
        self.holds_all = face(changes.holds_all)
        self.weigh = face(measuring.weigh)
        self.let_those_leave = face(hoping.let_those_leave)
        self.list_tenants = face(tenancy.list_tenants)
        self.place = face(gangs.place)
        self.place_group = face(gangs.place_group)
        self.put = face(changes.put)
        self.remove = face(changes.remove)
        self.sort_tenants = face(tenancy.sort_tenants)
        self.take_one = face(changes.take_one)
        self.take_while = face(leaving.take_while)
        self.undo = face(changes.undo)
        self.who_is_enough = face(yielding.who_is_enough)
        self.who_matters = face(yielding.who_matters)
        self.who_must_go = face(leaving.who_must_go)


_by_face: dict[object, Kernels] = {}


def _kernels_of(face: Face) -> Kernels:
    if face not in _by_face:
        _by_face[face] = Kernels(face)
    return _by_face[face]


class Books:
    """The cells in which the rooms of several moments lie."""

    def __init__(self, floor: Floor, face: Face | None, cores_per_gpu: int, measure: Measure | None) -> None:
        self.grounds = grounds = floor.grounds
        self.kernels = _kernels_of(face or kernels.suited_to(_TASKS_PER_NODE * len(grounds.names)))
        self.listed = self.kernels.is_plain
        ring = 1 << max(6, (len(grounds.names) // 4).bit_length())
        self._size = 1 + len(grounds.names) * grounds.columns  # of a block
        at = placing.RING + ring
        compared = self.of(()) if measure is None else measure.cells(grounds, at, listed=self.listed)
        self.first = at + len(compared) + 1
        moments = _MOMENTS if self.listed else _MANY_MOMENTS
        self.cells = grounds.new_books(self.first - 1 + (1 + moments) * self._size, listed=self.listed)
        moments = (len(self.cells) - self.first + 1) // self._size - 1  # cells that are used again may be more
        self.cells[: placing.RING] = self.of((0, 0, 0, ring, self.first, cores_per_gpu, at if len(compared) else 0))
        self.cells[at : at + len(compared)] = compared
        self._free = [self.first + (1 + number) * self._size for number in reversed(range(moments))]
        self._births = 0
        self._signs: dict[tuple[int, ...], int] = {}
        self._circles = self.nothing = self.of(())
        self.no_index = self.of((0,))
        self.now = self.new_moment()
        rooms, empties = floor.cells(listed=self.listed)
        self._write(self.first, empties)
        self._write(self.now, rooms)

    def __del__(self) -> None:
        if not self.listed:
            self.grounds.give_back_books(self.cells)

    def _write(self, moment: int, rooms: Cells) -> None:
        self.cells[moment : moment + self._size - 1] = rooms
        self.cells[moment - 1] = 0  # it has no index

    def table(self, moment: int) -> Ints:
        """A copy of the rooms of a moment, one row each."""
        cells = self.cells[moment : moment + self._size - 1]
        return np.array(cells, np.int64).reshape(len(self.grounds.names), self.grounds.columns)

    def free_on(self, moment: int, nodes: list[int]) -> Ints:
        """What all dimensions of these nodes have free at a moment, one row each."""
        columns, dims = self.grounds.columns, len(self.grounds.dims)
        first = [moment + node * columns + placing.FREE for node in nodes]
        return np.array([self.cells[begin : begin + dims] for begin in first], np.int64).reshape(-1, dims)

    def overwrite(self, moment: int, rooms: Ints) -> None:
        """The rooms of a moment are others, in more ways than the ring of changes could tell."""
        self._write(moment, self.from_array(rooms))
        self.cells[placing.CHANGES] += self.cells[placing.RING_SIZE] + 1

    def new_moment(self) -> int:
        """Where the rooms of another moment can lie."""
        if not self._free:
            held = len(self.cells)
            more = new_cells(2 * held, listed=self.listed)
            more[:held] = self.cells
            count = held // self._size
            self._free = [held + 1 + number * self._size for number in reversed(range(count))]
            self.cells = more
        return self._free.pop()

    def copy(self, moment: int) -> int:
        """The same rooms once more."""
        other = self.new_moment()
        self._write(other, self.cells[moment : moment + self._size - 1])
        return other

    def free(self, moment: int) -> None:
        """The rooms of the moment are forgotten."""
        self._free.append(moment)

    def birth(self) -> int:
        """A number for new rooms, never given again."""
        self._births += 1
        return self._births

    def sign_of(self, births: tuple[int, ...]) -> int:
        """A number for these rooms together."""
        return self._signs.setdefault(births, len(self._signs))

    def tallies(self) -> tuple[int, int]:
        """How many nodes were looked at so far, and how many tasks were placed."""
        return int(self.cells[placing.SCANNED]), int(self.cells[placing.PLACEMENTS])

    def row(self, moment: int, node: str) -> list[int]:
        """A room in numbers."""
        columns = self.grounds.columns
        begin = moment + self.grounds.number[node] * columns
        return [int(number) for number in self.cells[begin : begin + columns]]

    def circles(self) -> Cells:
        """Where kernels count for close groups; if there are none, there is nothing."""
        if self.grounds.knows_domains and not len(self._circles):
            sums = 2 * self.grounds.words
            counts = sums + self.grounds.domains
            size = counts + len(self.grounds.names)
            first = placing.FIRST_CIRCLE + 1
            holders = first + _CIRCLES * placing.CIRCLE
            head = [_CIRCLES, size, sums, counts, first]
            for number in range(_CIRCLES):
                head += [0, 0, 0, 0, 0, holders + number * size]
            self._circles = new_cells(len(head) + _CIRCLES * size, listed=self.listed)
            self._circles[: len(head)] = self.of(head)
        return self._circles

    def of(self, numbers: Sequence[int]) -> Cells:
        """Numbers as the kernels of these books like them."""
        return cells_of(numbers, listed=self.listed)

    def from_array(self, numbers: Ints) -> Cells:
        """Numbers of an array as the kernels of these books like them."""
        return numbers.ravel().tolist() if self.listed else cast(Cells, np.ascontiguousarray(numbers).ravel())

    def move(self, node: str, group: TaskGroup, devices: tuple[int, ...]) -> Cells:
        """A task in numbers: group, node, devices."""
        numbers = (self.grounds.group_number(group), self.grounds.number[node], bits_of(devices))
        return self.of(numbers)

    def moves(self, profile: Profile, tasks: Iterable[Task]) -> Cells:
        """Tasks of a job in numbers, one after the other."""
        return self.moves_of([(profile, tasks)])

    def moves_of(self, jobs: Iterable[tuple[Profile, Iterable[Task]]]) -> Cells:
        """Tasks of several jobs in numbers, one after the other."""
        number, shape_of, numbers = self.grounds.number, self.grounds.shape_of, list[int]()
        for profile, tasks in jobs:
            groups = shape_of(profile).named
            for group, _, node, devices in tasks:
                if node in number:  # of a part of a fleet: others may be elsewhere
                    numbers += (groups[group], number[node], bits_of(devices))
        return self.of(numbers)

    def holds(self, trial: Cells, node: str, group: TaskGroup, devices: tuple[int, ...]) -> bool:
        """Whether a task could be on the node at the moments of a trial, on these devices if any are given."""
        number, at = self.grounds.group_number(group), self.grounds.number[node]
        ground = self.grounds.ground(listed=self.listed)
        return self.kernels.holds(ground, self.cells, trial, number, at, bits_of(devices))

    def new_trial(self, moments: Sequence[int], sign: int, tasks: int) -> Cells:
        """Cells to place so many tasks at these moments."""
        columns = self.grounds.columns
        scratch = placing.FIRST + len(moments)
        answer = scratch + columns + max(self.grounds.small, 1)
        log = answer + tasks * placing.TASK
        head = (len(moments), sign, scratch, answer, log, 0, 0, *moments)
        trial = new_cells(log + tasks * len(moments) * (columns + placing.LOG_ROOM), listed=self.listed)
        trial[: len(head)] = cast(Any, head)
        return trial
