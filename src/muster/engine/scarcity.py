"""Which resource keeps blocked jobs from starting: the one that their next task lacks on most nodes.

To count that over a large fleet takes long, and a head that might take from others needs to know it. But a task that
comes or goes changes one node, and so each count by one at most: what was counted a while ago, for other jobs that ask
for about as much, tells which resource it is as long as it lies far enough before all others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from math import inf

from muster.engine.placement import WHOLE_NODE, Shortage
from muster.model.jobs import Profile, TaskGroup


class Scarcity:
    """Counts of nodes on which tasks lack something, and how far rooms may have moved since."""

    def __init__(self, *, keeps_cores: bool) -> None:
        self._keeps_cores = keeps_cores  # for idle GPUs: then it depends on all a task asks for whether it lacks cores
        self._moves = 0
        self._known: dict[Hashable, _Counts] = {}

    def moved(self, tasks: int) -> None:
        """So many tasks came or went."""
        self._moves += tasks

    def forget(self) -> None:
        """Rooms changed, nobody knows by how much."""
        self._known.clear()

    def note(self, shortage: Shortage, cluster: str) -> None:
        """This was counted, with some tasks placed to find out.

        Not for tasks that keep close together: before they lack anything else they may lack that.
        """
        if shortage.group.is_close or not shortage.lacking:
            return
        for name, amount in _asked(shortage.group):
            counts = self._known.setdefault(self._kind(shortage.group, cluster, name), _Counts())
            counts.note(amount, shortage.lacking[name], self._moves - shortage.placed)

    def of(self, profile: Profile, cluster: str) -> str | None:
        """What a profile of one group, for which there is no room, lacks on most nodes; None if that is not certain."""
        group, bounds = profile.groups[0], []
        for name, amount in _asked(group):
            if group.is_close or (counts := self._known.get(self._kind(group, cluster, name))) is None:
                return None
            at_least, at_most = counts.bounds(amount, self._moves + profile.tasks_min - 1)
            bounds.append((at_least, at_most, name))
        at_least, _, most = max(bounds)
        others = [at_most for _, at_most, name in bounds if name != most]
        return most if at_least > max(others, default=0) else None

    def _kind(self, group: TaskGroup, cluster: str, name: str) -> Hashable:
        """Plain amounts are lacked on the same nodes by whoever asks for them, and may go to the same nodes."""
        is_plain = not (group.request.whole_node or group.request.gpus or self._keeps_cores)
        return (cluster, name, group.constraint if is_plain else group)


class _Counts:
    """On how many nodes there is less than some amounts of one thing; and after how many moves that was counted."""

    def __init__(self) -> None:
        self._amounts: list[int] = []
        self._counts: list[tuple[int, int]] = []

    def note(self, amount: int, count: int, moves: int) -> None:
        place = bisect_left(self._amounts, amount)
        if self._amounts[place : place + 1] != [amount]:
            self._amounts.insert(place, amount)
            self._counts.insert(place, (0, 0))
        self._counts[place] = (count, moves)

    def bounds(self, amount: int, moves: int) -> tuple[int, float]:
        """On how few and how many nodes there may be less than this after so many moves: the more is asked for, the
        more of them."""
        place, at_least, at_most = bisect_left(self._amounts, amount), 0, inf
        if place < len(self._amounts):
            count, as_of = self._counts[place]
            at_most = count + moves - as_of
            if self._amounts[place] == amount:
                return count - moves + as_of, at_most
        if place:
            count, as_of = self._counts[place - 1]
            at_least = count - moves + as_of
        return at_least, at_most


def _asked(group: TaskGroup) -> Iterable[tuple[str, int]]:
    """All that a task of the group may lack."""
    asked = group.request.resources.items()
    return (*asked, (WHOLE_NODE, 1)) if group.request.whole_node else asked
