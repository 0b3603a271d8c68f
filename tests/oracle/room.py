"""Room over time: what a job may use from one moment to another.

A Span stacks the rooms of several moments. Whoever places on it must fit at every one of them, and
takes from all of them. Trials leave no trace: `undo` to a mark restores what was there.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.model.nodes import Request, Room

Rooms = dict[str, Room]
Mark = int


class Span:
    """The room on every node that stays free over all given moments."""

    __slots__ = ("_log", "moments")

    def __init__(self, moments: list[Rooms]) -> None:
        self.moments = moments
        self._log: list[tuple[Rooms, str, Room]] = []

    def room(self, node: str) -> Room:
        """What is free on the node at every moment."""
        room = self.moments[0][node]
        for rooms in self.moments[1:]:
            if (other := rooms[node]) is not room:
                room = room.lowest(other)
        return room

    def fits(self, node: str, request: Request) -> bool:
        """Whether a task could be on the node at every moment, on the same devices."""
        for rooms in self.moments:
            if not rooms[node].fits(request):
                return False
        return not request.gpus or len(self.moments) == 1 or self.room(node).has_devices(request)

    def take(self, node: str, request: Request) -> tuple[int, ...]:
        """Put a task on the node; returns the devices it gets."""
        devices = self.room(node).devices_for(request) if request.gpus else ()
        for rooms in self.moments:
            self._set(rooms, node, rooms[node].take(request, devices))
        return devices

    def at(self, places: Iterable[int]) -> Span:
        """Only some of its moments; what is done there is undone here."""
        part = Span([self.moments[place] for place in places])
        part._log = self._log
        return part

    def put(self, node: str, request: Request, devices: tuple[int, ...]) -> None:
        """Put a task on the node, on these very devices, fitting or not."""
        for rooms in self.moments:
            self._set(rooms, node, rooms[node].take(request, devices))

    def give(self, node: str, request: Request, devices: tuple[int, ...], empty: Room) -> None:
        """Take a task away from the node, at every moment."""
        for rooms in self.moments:
            self._set(rooms, node, rooms[node].give(request, devices, empty))

    def mark(self) -> Mark:
        """A point to come back to."""
        return len(self._log)

    def undo(self, mark: Mark = 0) -> None:
        """Restore everything as it was at the mark."""
        while len(self._log) > mark:
            rooms, node, room = self._log.pop()
            rooms[node] = room

    def _set(self, rooms: Rooms, node: str, room: Room) -> None:
        self._log.append((rooms, node, rooms[node]))
        rooms[node] = room
