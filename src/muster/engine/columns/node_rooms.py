"""The floor: the rooms of all nodes in rows of numbers, as kernels read them.

State keeps it as tasks come and go, so that a turn opens its books by copying rows instead of reading nodes
(design.md 13). A row says what a Room says and changes as `Room.take` and `Room.give` do; a node that holds what no
node of the fleet has, or more devices than a row has places for, is kept as a value beside its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from muster.engine.columns.fleet_index import Array, Grounds, Places, grounds_of
from muster.engine.columns.sight import Sight
from muster.engine.kernels import placing
from muster.engine.kernels.placing import Cells
from muster.model.jobs import Profile, Task
from muster.model.made import MadeMapping
from muster.model.nodes import Request, Room, emptied
from muster.model.resources import Resources, counted
from muster.model.snapshot import NodeState

_HALF = 31  # bits: sums of halves stay inside a word


class _Move(NamedTuple):
    """What a task of a group changes in a row: where amounts are free, where they are owed, where held, how much."""

    request: Request
    amounts: tuple[tuple[int, int, int, int], ...]
    is_told: bool  # whether every amount has a place in a row


class _Parts:
    """The floors of a fleet's pools: where each node of the whole is, and which changed since they were looked at."""

    def __init__(self, floors: Mapping[str, Floor], numbers: list[Places], nodes: int) -> None:
        self.floors = floors
        self.numbers = numbers
        self.part_of, self.place = np.zeros(nodes, np.intp), np.zeros(nodes, np.intp)
        self.touched: set[int] = set()
        for part, here in enumerate(numbers):
            self.part_of[here], self.place[here] = part, np.arange(len(here))

    @classmethod
    def of(cls, grounds: Grounds) -> _Parts:
        """Empty floors for the pools of a fleet."""
        floors = {name: Floor(grounds_of(part)) for name, part in grounds.fleet.parts.items()}
        numbers = [
            np.array([grounds.number[name] for name in floor.grounds.names], np.intp) for floor in floors.values()
        ]
        return cls(floors, numbers, len(grounds.names))


class Floor:
    """What is on every node of a fleet. `version` changes with every task that comes or goes."""

    def __init__(self, grounds: Grounds) -> None:
        self.version = 0
        self.grounds = grounds
        self._devices = placing.FREE + len(grounds.dims)  # where they begin in a row
        self._debts = self._devices + grounds.devices
        self._set_rows(
            np.zeros((len(grounds.names), grounds.columns), np.int64),
            np.zeros((len(grounds.names), grounds.columns), np.int64),
            np.zeros((len(grounds.names), len(grounds.dims)), np.int64),
        )
        self._values: dict[int, NodeState] = {}  # of nodes that a row does not tell in full
        self._made: dict[int, NodeState] = {}  # of nodes that someone looked at, until they change
        self._moves: dict[Profile, dict[str, _Move]] = {}
        self._there: Resources | None = None  # what nodes that take tasks have, until one changes
        self._index: tuple[int, Cells] = (-1, cast(Cells, np.zeros(0, np.int64)))  # its nodes by tightness, and when
        self._parts: _Parts | None = None

    def _set_rows(self, rooms: Array, empties: Array, held: Array) -> None:
        self._rooms, self._empties, self._held = rooms, empties, held
        # One number is read and written faster through a view than through its array.
        self._cells, self._empty_cells, self._held_cells = (_view(rows) for rows in (rooms, empties, held))

    @classmethod
    def laid(cls, grounds: Grounds, states: Mapping[str, NodeState]) -> Floor:
        """A floor with this on its nodes."""
        floor = cls(grounds)
        floor.put(states)
        return floor

    @classmethod
    def bare(cls, grounds: Grounds) -> Floor:
        """A floor with nothing on any node."""
        rooms = grounds.by_machine([grounds.row_of(emptied(machine)) for machine in grounds.machines])
        return cls.with_rows(grounds, rooms, rooms.copy())

    @classmethod
    def with_rows(cls, grounds: Grounds, rooms: Array, empties: Array) -> Floor:
        """A floor with these rows, of which nobody asks what is held."""
        floor = cls(grounds)
        floor._set_rows(rooms, empties, floor._held)
        return floor

    def fork(self) -> Floor:
        """A copy that can go its own way."""
        other = Floor(self.grounds)
        other._set_rows(self._rooms.copy(), self._empties.copy(), self._held.copy())
        other._values, other._made, other._moves = dict(self._values), dict(self._made), self._moves
        return other

    def moved_to(self, grounds: Grounds, states: Mapping[str, NodeState]) -> Floor:
        """The floor of a fleet that changed: this on its new nodes, the others as they are here."""
        other, number = Floor(grounds), self.grounds.number
        stay = [name for name in grounds.names if name in number and name not in states]
        if (grounds.dims, grounds.devices) == (self.grounds.dims, self.grounds.devices):
            plain = [name for name in stay if number[name] not in self._values]
            here, there = [number[name] for name in plain], [grounds.number[name] for name in plain]
            for mine, theirs in zip(self._arrays(), other._arrays(), strict=True):
                theirs[there] = mine[here]
            stay = [name for name in stay if number[name] in self._values]
        other.put({**{name: self.state(name) for name in stay}, **states})
        return other

    def _arrays(self) -> tuple[Array, Array, Array]:
        return self._rooms, self._empties, self._held

    # -- reading ---------------------------------------------------------------------------------------

    def sight(self) -> Sight[Floor]:
        """The floor as it is now, for a snapshot."""
        return Sight(self)

    def nodes(self) -> MadeMapping[NodeState]:
        """What is on each node now, made when someone looks."""
        version = self.version

        def make() -> dict[str, NodeState]:
            if self.version != version:
                raise LookupError("the nodes have moved on: look at a snapshot before the world does")
            return {name: self.state(name) for name in self.grounds.names}

        return MadeMapping(make, self.grounds.number)

    def state(self, name: str) -> NodeState:
        """What is on a node."""
        number, grounds = self.grounds.number[name], self.grounds
        state = self._values.get(number) or self._made.get(number)
        if state is None:
            held = dict(zip(grounds.dims, self._held[number].tolist(), strict=True))
            state = self._made[number] = NodeState(
                empty=grounds.room_of(self._empties[number].tolist()),
                room=grounds.room_of(self._rooms[number].tolist()),
                held=Resources.of(held),
            )
        return state

    def cells(self, *, listed: bool) -> tuple[Cells, Cells]:
        """The rooms as they are and as they would be empty, node after node; not to be changed."""
        rooms, empties = self._rooms.ravel(), self._empties.ravel()
        return (rooms.tolist(), empties.tolist()) if listed else (cast(Cells, rooms), cast(Cells, empties))

    def index(self) -> Cells | None:
        """The nodes by tightness, if they were indexed as they are now; not to be changed."""
        version, index = self._index
        return index if version == self.version else None

    def keep_index(self, index: Cells) -> None:
        """These are the nodes by tightness as they are now."""
        self._index = (self.version, index)

    def capacity(self) -> Resources:
        """What can be shared: nodes that take tasks, beside foreign pods, plus what we run on the others."""
        if self._there is None:
            free = self._empties[self.grounds.open, placing.FREE : self._devices]
            self._there = Resources.of(dict(zip(self.grounds.dims, _sums(free), strict=True)))
        closed = self.grounds.closed
        return self._there + self._held_on(closed) if len(closed) else self._there

    def held_in(self, cluster: str) -> Resources:
        """What our tasks hold in a cluster."""
        return self._held_on(self.grounds.members[self.grounds.cluster_number[cluster]])

    def _held_on(self, numbers: Places) -> Resources:
        is_sole = len(numbers) == len(self._held) == 1  # then it is asked for at every moment of a simulation
        sums = self._held_cells.tolist() if is_sole else _sums(self._held[numbers])
        held = counted(dict(zip(self.grounds.dims, sums, strict=True)))
        for number in self._values.keys() & set(numbers.tolist()) if self._values else ():
            amounts = self._values[number].held.items()
            held = held + Resources.of({name: amount for name, amount in amounts if name not in self.grounds.dims})
        return held

    # -- pools -----------------------------------------------------------------------------------------

    def parts(self) -> Mapping[str, Floor]:
        """The floors of the fleet's pools as they are now. They are kept, and follow when they are asked for."""
        if self._parts is None:
            self._parts = _Parts.of(self.grounds)
            for floor, here in zip(self._parts.floors.values(), self._parts.numbers, strict=True):
                floor._follow(self, np.arange(len(here)), here)
            return self._parts.floors
        touched = np.array(sorted(self._parts.touched), np.intp)
        for number, floor in enumerate(self._parts.floors.values()):
            mine = touched[self._parts.part_of[touched] == number]
            if len(mine):
                floor._follow(self, self._parts.place[mine], mine)
        self._parts.touched.clear()
        return self._parts.floors

    def places_of_parts(self) -> list[Places]:
        """The numbers of each pool's nodes, in the order of its own floor."""
        self.parts()
        assert self._parts is not None
        return self._parts.numbers

    def _follow(self, whole: Floor, places: Places, numbers: Places) -> None:
        """What is on these nodes of the whole is here as well, in these places."""
        self.version += 1
        self._there = None
        self._made.clear()
        for mine, theirs in zip(self._arrays(), whole._arrays(), strict=True):
            mine[places] = theirs[numbers]
        if not whole._values and not self._values:
            return
        for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
            self._values.pop(place, None)
            if number in whole._values:
                self._values[place] = whole._values[number]

    # -- writing ---------------------------------------------------------------------------------------

    def put(self, states: Mapping[str, NodeState]) -> None:
        """This is on these nodes from now on."""
        self.version += 1
        self._there = None
        names = [name for name in states if name in self.grounds.number]
        if not names:
            return
        numbers, dims = [self.grounds.number[name] for name in names], self.grounds.dims
        if self._parts is not None:
            self._parts.touched.update(numbers)
        self._rooms[numbers] = self._rows_of(states[name].room for name in names)
        self._empties[numbers] = self._rows_of(states[name].empty for name in names)
        self._held[numbers] = [[states[name].held.get(dim) for dim in dims] for name in names]
        last, is_told = None, True
        for number, name in zip(numbers, names, strict=True):
            self._made.pop(number, None)
            self._values.pop(number, None)
            if states[name] is not last:
                last, is_told = states[name], self._is_told(states[name])
            if not is_told:
                self._values[number] = states[name]

    def _rows_of(self, rooms: Iterable[Room]) -> list[list[int]]:
        """Rooms in numbers. Of machines that are alike, empty ones share their room."""
        last, row, rows = None, [0], []
        for room in rooms:
            if room is not last:
                last, row = room, self.grounds.row_of(room)
            rows.append(row)
        return rows

    def _is_told(self, state: NodeState) -> bool:
        """Whether rows say all there is to say."""
        known, room = self.grounds.dim_number.keys(), state.room
        names = (room.free.keys(), room.debt.keys(), state.held.keys())
        return len(room.devices) <= self.grounds.devices and all(known >= some for some in names)

    def move_in(self, profile: Profile, task: Task) -> None:
        """A task is on its node from now on; what it takes although it is not free becomes debt."""
        number, move = self._changed(profile, task)
        if number in self._values or not move.is_told:
            self.put({task.node: self.state(task.node).take(move.request, task.devices)})
            return
        self._hold(number, move, 1)
        cells, room = self._cells, number * self.grounds.columns
        cells[room + placing.TASKS] += 1
        if move.request.whole_node:
            for column in range(room + placing.FREE, room + self._debts):
                cells[column] = min(cells[column], 0)
            return
        for free, debt, _, amount in move.amounts:
            left = cells[room + free] - amount
            if left < 0:
                cells[room + debt] -= left
                left = 0
            cells[room + free] = left
        for device in task.devices:
            column = room + self._devices + device
            cells[column] = max(cells[column] - move.request.gpu_milli, 0)

    def move_out(self, profile: Profile, task: Task) -> None:
        """A task has left its node. What becomes free pays debts first; no device has more than without our tasks."""
        number, move = self._changed(profile, task)
        if number in self._values or not move.is_told:
            self.put({task.node: self.state(task.node).give(move.request, task.devices)})
            return
        self._hold(number, move, -1)
        if move.request.whole_node:
            self._rooms[number] = self._empties[number]
            return
        cells, room = self._cells, number * self.grounds.columns
        cells[room + placing.TASKS] -= 1
        for free, debt, _, amount in move.amounts:
            freed = cells[room + free] + amount
            if owed := cells[room + debt]:
                paid = min(freed, owed)
                cells[room + debt] = owed - paid
                freed -= paid
            cells[room + free] = freed
        for device in task.devices:
            column = room + self._devices + device
            cells[column] = min(cells[column] + move.request.gpu_milli, self._empty_cells[column])

    def _changed(self, profile: Profile, task: Task) -> tuple[int, _Move]:
        """The number of the task's node, which is about to change, and what the task asks for."""
        number = self.grounds.number[task.node]
        self.version += 1
        self._made.pop(number, None)
        if self._parts is not None:
            self._parts.touched.add(number)
        moves = self._moves.get(profile)
        if moves is None:
            moves = self._moves[profile] = {group.name: self._move(group.request) for group in profile.groups}
        return number, moves[task.group]

    def _move(self, request: Request) -> _Move:
        known = [(self.grounds.dim_number.get(name), amount) for name, amount in request.resources.items()]
        told = [(placing.FREE + dim, self._debts + dim, dim, amount) for dim, amount in known if dim is not None]
        return _Move(request=request, amounts=tuple(told), is_told=len(told) == len(known))

    def _hold(self, number: int, move: _Move, sign: int) -> None:
        held, row = self._held_cells, number * len(self.grounds.dims)
        for _, _, dim, amount in move.amounts:
            held[row + dim] += sign * amount


def _view(rows: Array) -> memoryview[int]:
    return cast("memoryview[int]", memoryview(cast(Any, rows.ravel())))


def _sums(rows: Array) -> list[int]:
    """The sum of each column, however large: halves of words are added up apart."""
    if len(rows) == 1:
        return cast(list[int], rows[0].tolist())
    high, low = (rows >> _HALF).sum(axis=0), (rows & ((1 << _HALF) - 1)).sum(axis=0)
    return [(int(upper) << _HALF) + int(lower) for upper, lower in zip(high, low, strict=True)]
