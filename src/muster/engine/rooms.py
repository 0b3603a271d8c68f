"""Room over time: what is free on every node at one moment, and what a job may use from one moment to another.

Rooms are the nodes of one moment. A Span stacks several: whoever places on it must fit at every one of them, and
takes from all of them. Trials leave no trace: `undo` to a mark restores what was there.

The rooms of one turn are copies of each other and lie in the same cells, so that kernels reach all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from muster.engine import kernels
from muster.engine.floor import Floor
from muster.engine.grounds import Grounds, cells_of, new_cells
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
from muster.model.nodes import Room

Ints = npt.NDArray[np.int64]
Mark = int
AllCells = tuple[Cells, Cells, Cells, Cells, Cells]  # ground, books, index, circles, trial

# To read a node's room, to index it and to look at it takes about as long as to place some tasks.
_TASKS_PER_NODE = 16
_WORTH_KEEPING = 256  # nodes: fewer are indexed anew as fast as an index is copied
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


class Rooms:
    """The room on every node at one moment."""

    __slots__ = ("_index", "_trial", "birth", "books", "moment")

    def __init__(self, books: Books, moment: int) -> None:
        self.books = books
        self.moment = moment
        self.birth = books.birth()
        self._index: Cells | None = None
        self._trial: Cells | None = None

    @classmethod
    def of(
        cls, floor: Floor, *, face: Face | None = None, cores_per_gpu: int = 0, measure: Measure | None = None
    ) -> Rooms:
        """The rooms as they are. `cores_per_gpu`: millicores that tasks without GPUs leave free for each idle one.

        `measure`: what makes a node the best for a task, if it is not that it is the tightest.
        """
        books = Books(floor, face, cores_per_gpu, measure)
        rooms = cls(books, books.now)
        if measure is not None and measure.weighs:
            ground = books.grounds.ground(listed=books.listed)
            books.kernels.weigh(ground, books.cells, rooms._own_trial())
        if not books.listed:
            rooms._index_as_on(floor)
        return rooms

    @classmethod
    def empty(cls, grounds: Grounds, *, face: Face | None = None) -> Rooms:
        """The rooms as they would be with nothing on any node."""
        return cls.of(Floor.bare(grounds), face=face)

    def __del__(self) -> None:
        # Its cells and its index are for others now.
        self._drop_index()
        self.books.free(self.moment)

    def _drop_index(self) -> None:
        if self._index is not None and not self.books.listed:
            self.books.grounds.give_back(self._index)

    def copy(self) -> Rooms:
        """The same rooms, to be changed apart."""
        return Rooms(self.books, self.books.copy(self.moment))

    def index(self) -> Cells:
        """The nodes by tightness, up to date."""
        books = self.books
        if self._index is None or not books.cells[self.moment - 1]:
            self._drop_index()
            self._index = books.grounds.blank_index(listed=books.listed)
            books.kernels.build(*self.cells(), self._own_trial())
        return self._index

    def _index_as_on(self, floor: Floor) -> None:
        """Index the nodes, or say the same as the last turn did if nothing has moved since."""
        grounds, kept = self.books.grounds, floor.index()
        if kept is None:
            if len(grounds.names) >= _WORTH_KEEPING:
                floor.keep_index(grounds.copy_of(self.index()))
            return
        self._index = grounds.index_like(kept)
        self.books.cells[self.moment - 1] = 1

    def cells(self) -> tuple[Cells, Cells, Cells]:
        """Ground, books and index as kernels see them; there may be no index."""
        books = self.books
        index = books.no_index if self._index is None else self._index
        return books.grounds.ground(listed=books.listed), books.cells, index

    def table(self) -> Ints:
        """A copy of all rooms, one row each."""
        return self.books.table(self.moment)

    def empties(self) -> Ints:
        """A copy of all rooms as they would be without our tasks."""
        return self.books.table(self.books.first)

    def overwrite(self, rooms: Ints, empties: Ints) -> None:
        """The rooms are these from now on: what was known about them is forgotten."""
        self.books.overwrite(self.moment, rooms)
        self.books.overwrite(self.books.first, empties)

    def room(self, node: str) -> Room:
        """What is free on the node."""
        return self.books.grounds.room_of(self.books.row(self.moment, node))

    def most_free(self, dim: int) -> int:
        """How much of an amount is free on the node that has most of it."""
        columns, begin = self.books.grounds.columns, self.moment + placing.FREE + dim
        free = self.books.cells[begin : self.moment + len(self.books.grounds.names) * columns : columns]
        return int(np.max(free, initial=0))

    def has_debt(self) -> bool:
        """Whether pods that are not ours took anywhere what our tasks hold."""
        grounds, cells = self.books.grounds, self.books.cells
        columns, end = grounds.columns, self.moment + len(grounds.names) * grounds.columns
        first = self.moment + columns - len(grounds.dims)
        return any(np.any(cells[column:end:columns]) for column in range(first, first + len(grounds.dims)))

    def fits(self, node: str, group: TaskGroup) -> bool:
        """Whether one more task of the group can be on the node."""
        return self.books.holds(self._own_trial(), node, group, ())

    def holds(self, task: Task, group: TaskGroup) -> bool:
        """Whether the task fits on its node, on the very devices it was promised."""
        is_there = task.node in self.books.grounds.number
        return is_there and self.books.holds(self._own_trial(), task.node, group, task.devices)

    def holds_all(self, profile: Profile, tasks: Sequence[Task]) -> bool:
        """Whether tasks of a job fit together where they are, on the very devices they were promised."""
        number = self.books.grounds.number
        return all(task.node in number for task in tasks) and Span([self]).holds_all(profile, tasks)

    def take(self, node: str, group: TaskGroup, devices: tuple[int, ...]) -> None:
        """A task of the group is on the node from now on; what is not free becomes debt."""
        moves = self.books.move(node, group, devices)
        self.books.kernels.put(*self.cells(), self._own_trial(), moves, False)

    def give(self, node: str, group: TaskGroup, devices: tuple[int, ...]) -> None:
        """A task of the group has left the node."""
        moves = self.books.move(node, group, devices)
        self.books.kernels.remove(*self.cells(), self._own_trial(), moves, False)

    def take_all(self, profile: Profile, tasks: Iterable[Task]) -> None:
        """Tasks of a job are on their nodes from now on."""
        moves = self.books.moves(profile, tasks)
        self.books.kernels.put(*self.cells(), self._own_trial(), moves, False)

    def give_all(self, profile: Profile, tasks: Iterable[Task]) -> None:
        """Tasks of a job have left their nodes."""
        moves = self.books.moves(profile, tasks)
        self.books.kernels.remove(*self.cells(), self._own_trial(), moves, False)

    def give_back(self, moves: Cells) -> None:
        """Tasks in numbers have left their nodes."""
        self.books.kernels.remove(*self.cells(), self._own_trial(), moves, False)

    def _own_trial(self) -> Cells:
        if self._trial is None:
            self._trial = self.books.new_trial((self.moment,), 0, 1)
        return self._trial


class Span:
    """The room on every node that stays free over all given moments, which are of one turn."""

    __slots__ = ("_trial", "books", "moments")

    def __init__(self, moments: Sequence[Rooms]) -> None:
        self.moments = moments
        self.books = moments[0].books
        self._trial: Cells | None = None

    def room(self, node: str) -> Room:
        """What is free on the node at every moment."""
        room = self.moments[0].room(node)
        for rooms in self.moments[1:]:
            room = room.lowest(rooms.room(node))
        return room

    def fits(self, node: str, group: TaskGroup, devices: tuple[int, ...] = ()) -> bool:
        """Whether a task could be on the node at every moment, on the same devices: these, if any are given."""
        return self.books.holds(self.trial(0), node, group, devices)

    def take(self, node: str, group: TaskGroup) -> tuple[int, ...]:
        """Put a task on the node; returns the devices it gets."""
        number, at = self.books.grounds.group_number(group), self.books.grounds.number[node]
        chosen = self.books.kernels.take_one(*self.moments[0].cells(), self.trial(1), number, at)
        return devices_of(chosen)

    def put(self, node: str, group: TaskGroup, devices: tuple[int, ...]) -> None:
        """Put a task on the node, on these very devices."""
        moves = self.books.move(node, group, devices)
        self.books.kernels.put(*self.moments[0].cells(), self.trial(1), moves, True)

    def give(self, node: str, group: TaskGroup, devices: tuple[int, ...]) -> None:
        """Take a task away from the node, at every moment."""
        moves = self.books.move(node, group, devices)
        self.books.kernels.remove(*self.moments[0].cells(), self.trial(1), moves, True)

    def give_all(self, leaving: Iterable[tuple[Profile, Sequence[Task]]]) -> None:
        """Take tasks of several jobs away, at every moment."""
        moves = self.books.moves_of(leaving)
        self.give_back(moves, len(moves) // placing.TASK)

    def holds_all(self, profile: Profile, tasks: Sequence[Task]) -> bool:
        """Whether tasks of a job fit together where they are, at every moment."""
        moves = self.books.moves(profile, tasks)
        return self.books.kernels.holds_all(*self.moments[0].cells(), self.trial(len(tasks)), moves)

    def give_back(self, moves: Cells, many: int) -> None:
        """Take so many tasks, told in numbers, away at every moment."""
        self.books.kernels.remove(*self.moments[0].cells(), self.trial(many), moves, True)

    def mark(self) -> Mark:
        """A point to come back to."""
        return 0 if self._trial is None else int(self._trial[placing.LENGTH])

    def undo(self, mark: Mark = 0) -> None:
        """Restore everything as it was at the mark."""
        if self.mark() > mark:
            self.books.kernels.undo(*self.moments[0].cells(), self.trial(0), mark)

    def cells(self, tasks: int) -> AllCells:
        """All that kernels need to place so many tasks; only good until the next group or moment is made."""
        self.moments[0].index()
        return (*self.moments[0].cells(), self.books.circles(), self.trial(tasks))

    def trial(self, tasks: int) -> Cells:
        """The trial of this span, with cells for the answer and the log of so many tasks more."""
        old = self._trial
        if old is None or not self._has_cells_for(old, tasks):
            moments = [rooms.moment for rooms in self.moments]
            sign = self.books.sign_of(tuple([rooms.birth for rooms in self.moments]))
            used = self.mark()
            self._trial = new = self.books.new_trial(moments, sign, tasks + 2 * used // len(moments))
            if old is not None and used:
                size = used * (self.books.grounds.columns + placing.LOG_ROOM)
                new[new[placing.LOG] : new[placing.LOG] + size] = old[old[placing.LOG] : old[placing.LOG] + size]
                new[placing.LENGTH] = used
            return new
        return old

    def _has_cells_for(self, trial: Cells, tasks: int) -> bool:
        entries = trial[placing.LENGTH] + tasks * len(self.moments)
        log = trial[placing.LOG] + entries * (self.books.grounds.columns + placing.LOG_ROOM)
        return log <= len(trial) and tasks * placing.TASK <= trial[placing.LOG] - trial[placing.ANSWER]

    def clear(self) -> None:
        """Begin a new answer."""
        self.trial(0)[placing.PLACED] = 0

    def answer(self, tasks: int) -> list[list[int]]:
        """The tasks that were placed last: place of the group in its profile, node, devices."""
        trial = self.trial(0)
        begin, each = trial[placing.ANSWER], placing.TASK
        numbers = [int(number) for number in trial[begin : begin + tasks * each]]
        return [numbers[at : at + each] for at in range(0, len(numbers), each)]


@cache
def devices_of(chosen: int) -> tuple[int, ...]:
    """The devices that are bits of the number."""
    return tuple(device for device in range(chosen.bit_length()) if chosen >> device & 1)


@cache
def bits_of(devices: tuple[int, ...]) -> int:
    """Devices as bits of one number."""
    return sum(1 << device for device in devices)
