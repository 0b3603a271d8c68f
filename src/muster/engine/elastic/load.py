"""How much of each cluster is in use, and how much may be: one predicate for growing and shrinking (design.md 5.6).

A task may come if what it asks for is within the margin; tasks must go where the margin is below zero. Pods that are
not ours count as in use, and so does room that the calendar withholds.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.fleet_index import Grounds
from muster.engine.kernels import placing
from muster.engine.rooms import Rooms
from muster.model.policy import Policy
from muster.model.resources import MICRO, Resources


class Load:
    """The margin of each cluster in each dimension: what may still come, or, below zero, must go."""

    def __init__(self, rooms: Rooms, policy: Policy, lacking: Ints | None) -> None:
        grounds = rooms.books.grounds
        self._grounds = grounds
        dims, many = len(grounds.dims), len(grounds.cluster_names)
        cells = rooms.table()[grounds.open]
        where = grounds.cluster_of[grounds.open]
        free = _by_cluster(cells[:, placing.FREE : placing.FREE + dims], where, many)
        debt = _by_cluster(cells[:, cells.shape[1] - dims :], where, many)
        self.margin: Ints = free - debt
        if policy.max_load < MICRO:
            total = _allocatable(grounds)
            self.margin -= total - total // MICRO * policy.max_load - total % MICRO * policy.max_load // MICRO
        if lacking is not None:
            self.margin -= lacking

    def short(self, cluster: str, asks: Resources) -> bool:
        """Whether the cluster is over its load in anything asked for: then such a task must go."""
        return any(self._margin(cluster, name) < 0 for name in asks)

    def takes(self, cluster: str, asks: Resources) -> bool:
        """Whether such a task may come."""
        return all(self._margin(cluster, name) >= amount for name, amount in asks.items())

    def change(self, cluster: str, asks: Resources, sign: int) -> None:
        """Such a task left (sign +1) or came (-1)."""
        for name, amount in asks.items():
            dim = self._grounds.dim_number.get(name)
            if dim is not None:
                self.margin[self._grounds.cluster_number[cluster], dim] += sign * amount

    @property
    def is_over(self) -> bool:
        """Whether anything must go anywhere."""
        return bool((self.margin < 0).any())

    def _margin(self, cluster: str, name: str) -> int:
        dim = self._grounds.dim_number.get(name)
        return 0 if dim is None else int(self.margin[self._grounds.cluster_number[cluster], dim])


def _by_cluster(rows: Ints, where: Ints, many: int) -> Ints:
    """The sums of columns for each cluster."""
    sums = np.zeros((many, rows.shape[1]), np.int64)
    for cluster in range(many):
        sums[cluster] = rows[where == cluster].sum(axis=0)
    return sums


@lru_cache(maxsize=8)
def _allocatable(grounds: Grounds) -> Ints:
    """What nodes that take tasks have in all, pods that are not ours included."""
    total = np.zeros((len(grounds.cluster_names), len(grounds.dims)), np.int64)
    for node in grounds.fleet.nodes.values():
        if grounds.fleet.takes_tasks(node):
            free = node.empty().free
            for name, amount in free.items():
                total[grounds.cluster_number[node.cluster], grounds.dim_number[name]] += amount
    return total
