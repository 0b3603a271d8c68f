"""Room over time: what is free on every node at one moment, and what a job may use from one moment to another.

Rooms are the nodes of one moment. A Span stacks several: whoever places on it must fit at every one of them, and
takes from all of them. Trials leave no trace: `undo` to a mark restores what was there.

The rooms of one turn are copies of each other and lie in the same cells (books.py), so that kernels reach all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from muster.engine.books import Books
from muster.engine.columns.devices import devices_of
from muster.engine.columns.fleet_index import Grounds
from muster.engine.columns.node_rooms import Floor
from muster.engine.kernels import Face, placing
from muster.engine.kernels.placing import Cells
from muster.engine.measure import Measure
from muster.model.jobs import Profile, Task, TaskGroup
from muster.model.nodes import Room

Ints = npt.NDArray[np.int64]
Mark = int
AllCells = tuple[Cells, Cells, Cells, Cells, Cells]  # ground, books, index, circles, trial

_WORTH_KEEPING = 256  # nodes: fewer are indexed anew as fast as an index is copied


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

    def copy(self, *, indexed: bool = False) -> Rooms:
        """The same rooms, to be changed apart. `indexed`: someone will look for room there, and need the index."""
        books, other = self.books, Rooms(self.books, self.books.copy(self.moment))
        is_worth_it = indexed and not books.listed and len(books.grounds.names) >= _WORTH_KEEPING
        if is_worth_it and self._index is not None and books.cells[self.moment - 1]:
            other._index = books.grounds.index_like(self._index)
            books.cells[other.moment - 1] = 1
        return other

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
                floor.keep_index(cast(Cells, grounds.used_of(self.index()).copy()))
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

    def take_while(self, tasks: Cells, begin: int, end: int, *leavers: Cells) -> int:
        """Tasks in numbers are on their nodes from now on, from one place to another; if there is no room, whoever of
        the leavers is there goes (kernels/leaving.py). Returns the first for which there is none, or the end."""
        return self.books.kernels.take_while(*self.cells(), self._own_trial(), tasks, begin, end, *leavers)

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
        return devices_of(int(chosen))

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
