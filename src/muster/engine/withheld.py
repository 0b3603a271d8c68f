"""Room that the calendar keeps for services (design.md 5.6).

What services hold already counts. The rest is kept free on the last nodes that have it free, as if a pod that is not
ours were there: then nothing that places tasks has to know about it. What cannot be kept free, for our own tasks are
there, is lacking; elastic jobs shrink until nothing is.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.kernels import placing
from muster.engine.rooms import Rooms
from muster.model.calendar import Window
from muster.model.nodes import DEVICE_MILLI
from muster.model.resources import GPU


class Withheld:
    """What is kept free in each cluster at one moment. `lacking`, by cluster and dimension: what is still in use."""

    def __init__(self, rooms: Rooms, calendar: tuple[Window, ...], now_ms: int) -> None:
        grounds = rooms.books.grounds
        self._rooms = rooms
        self._wanted: Ints = np.zeros((len(grounds.cluster_names), len(grounds.dims)), np.int64)
        self._kept: Ints = np.zeros((len(grounds.names), grounds.columns), np.int64)
        for window in calendar:
            if window.cluster in grounds.cluster_number and window.in_force(now_ms):
                row = grounds.cluster_number[window.cluster]
                for name, amount in window.withhold.items():
                    if name in grounds.dim_number:
                        self._wanted[row, grounds.dim_number[name]] += amount
        self._count_services()
        self.lacking = self._wanted.copy()
        self.keep()

    def on(self, rooms: Rooms) -> Withheld:
        """The same on a copy of the rooms."""
        other = copy(self)
        other._rooms = rooms
        return other

    def _count_services(self) -> None:
        """What pods that are not ours hold need not be kept for them."""
        grounds = self._rooms.books.grounds
        if not self._wanted.any():
            return
        for node, empty in zip(grounds.fleet.nodes.values(), self._rooms.empties(), strict=True):
            for name, amount in node.empty().free.items():
                dim = grounds.dim_number[name]
                self._wanted[grounds.cluster_number[node.cluster], dim] -= amount - empty[placing.FREE + dim]
        np.maximum(self._wanted, 0, out=self._wanted)

    def keep(self) -> bool:
        """Keep free what is free, as rooms are now; whether that is elsewhere than before.

        By the order of nodes alone: then what starts beside it does not move it.
        """
        grounds = self._rooms.books.grounds
        if not self._wanted.any():
            return False
        before, rows, empties = self._kept, self._rooms.table() + self._kept, self._rooms.empties() + self._kept
        self._kept, self.lacking = np.zeros_like(before), self._wanted.copy()
        order = grounds.open[::-1]
        for cluster, dim in np.argwhere(self.lacking > 0).tolist():
            for number in order[grounds.cluster_of[order] == cluster].tolist():
                if self.lacking[cluster, dim] > 0:
                    self.lacking[cluster, dim] -= self._keep(rows, number, dim, int(self.lacking[cluster, dim]))
        np.maximum(self.lacking, 0, out=self.lacking)
        self._kept[:, placing.TASKS] = -(self._kept.any(axis=1).astype(np.int64))  # nobody has the whole node
        if np.array_equal(before, self._kept):
            return False
        self._rooms.overwrite(rows - self._kept, empties - self._kept)
        return True

    def _keep(self, rows: Ints, number: int, dim: int, most: int) -> int:
        """Keep up to so much of a node free; of GPUs, whole idle devices. Returns how much that was."""
        grounds, column = self._rooms.books.grounds, placing.FREE + dim
        kept = min(int(rows[number, column]), most)
        if grounds.dims[dim] == GPU:
            first = placing.FREE + len(grounds.dims)
            idle = [at for at in range(first, first + grounds.devices) if rows[number, at] == DEVICE_MILLI]
            idle = idle[: -(-most // DEVICE_MILLI)]
            self._kept[number, idle] = DEVICE_MILLI
            kept = len(idle) * DEVICE_MILLI
        self._kept[number, column] = kept
        return kept
