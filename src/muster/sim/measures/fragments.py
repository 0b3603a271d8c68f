"""Idle room that nobody who waits can use: free amounts on nodes where not one waiting task fits.

Looking at all nodes costs more than a moment of a simulation may, so it is done at some moments only: as many as a
plot can show. A look counts until the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster.engine.columns.node_rooms import Floor
from muster.engine.kernels import placing
from muster.model.fleet import Fleet
from muster.model.jobs import Profile
from muster.model.labels import Constraint
from muster.model.nodes import Request

Mask = npt.NDArray[np.bool_]

Ask = tuple[tuple[str, ...], Constraint, Request]  # clusters it may go to (none: any), and what of a node

MOST_LOOKS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was idle on nodes that take tasks, and the part of it on nodes where no waiting task fits; base units.

    Where nobody waits, nobody misses anything: then `unusable` is 0.
    """

    at_ms: int
    idle: int
    unusable: int


class Looks:
    """The looks so far. When there are too many, every second one goes and the next ones come half as often."""

    def __init__(self, resource: str, horizon_ms: int) -> None:
        self.looks: list[Look] = []
        self._resource = resource
        self._every_ms = max(2 * horizon_ms // MOST_LOOKS, 1)
        self._next_ms = 0
        self._admitted: tuple[Fleet, dict[tuple[Sequence[str], Constraint], Mask]] | None = None

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time for another."""
        return now_ms >= self._next_ms

    def look(self, floor: Floor, waiting: Iterable[Profile], now_ms: int) -> None:
        """Look at the floor, while jobs of these profiles wait."""
        self.looks.append(self._look(floor, least_asks(waiting), now_ms))
        if len(self.looks) > MOST_LOOKS:
            self.looks = self.looks[::2]
            self._every_ms *= 2
        self._next_ms = now_ms + self._every_ms

    def _look(self, floor: Floor, asks: list[Ask], now_ms: int) -> Look:
        grounds = floor.grounds
        if self._resource not in grounds.dim_number:
            return Look(at_ms=now_ms, idle=0, unusable=0)
        rooms = np.asarray(floor.cells(listed=False)[0]).reshape(-1, grounds.columns)
        free = rooms[:, placing.FREE + grounds.dim_number[self._resource]]
        left = np.zeros(len(rooms), np.bool_)
        left[grounds.open] = True
        idle = int(free[left].sum())
        for clusters, constraint, request in asks:
            left &= ~(self._admits(floor, clusters, constraint) & _fits(floor, rooms, request))
        return Look(at_ms=now_ms, idle=idle, unusable=int(free[left].sum()) if asks else 0)

    def _admits(self, floor: Floor, clusters: Sequence[str], constraint: Constraint) -> Mask:
        """Which nodes a task may go to at all; the same until the fleet changes."""
        fleet = floor.grounds.fleet
        if self._admitted is None or self._admitted[0] is not fleet:
            self._admitted = (fleet, {})
        known = self._admitted[1]
        if (clusters, constraint) not in known:
            known[clusters, constraint] = _admitted(floor, clusters, constraint)
        return known[clusters, constraint]


def least_asks(waiting: Iterable[Profile]) -> list[Ask]:
    """What single tasks ask for, without those who fit only where another one fits too."""
    by_place: dict[tuple[tuple[str, ...], Constraint], list[Request]] = {}
    for profile in waiting:
        clusters = tuple(name for name, _ in profile.clusters)
        for group in profile.groups:
            requests = by_place.setdefault((clusters, group.constraint), [])
            if group.min and not any(_is_less(other, group.request) for other in requests):
                requests[:] = [other for other in requests if not _is_less(group.request, other)]
                requests.append(group.request)
    return [(*place, request) for place, requests in by_place.items() for request in requests]


def _is_less(one: Request, other: Request) -> bool:
    """Whether `one` fits wherever `other` does."""
    if one.whole_node and not other.whole_node:
        return False
    if one.gpus > other.gpus or (one.gpus and one.gpu_milli > other.gpu_milli):
        return False
    return other.resources.covers(one.resources)


def _fits(floor: Floor, rooms: npt.NDArray[np.int64], request: Request) -> Mask:
    """On which nodes one such task fits."""
    grounds = floor.grounds
    fits: Mask = np.ones(len(rooms), np.bool_)
    for name, amount in request.resources.items():
        place = grounds.dim_number.get(name)
        if place is None:
            return np.zeros(len(rooms), np.bool_)
        fits &= rooms[:, placing.FREE + place] >= amount
    if request.whole_node:
        fits &= rooms[:, placing.TASKS] == 0
    if request.gpus:
        first = placing.FREE + len(grounds.dims)
        devices = rooms[:, first : first + grounds.devices]
        fits &= (devices >= request.gpu_milli).sum(axis=1) >= request.gpus
    return fits


def _admitted(floor: Floor, clusters: Sequence[str], constraint: Constraint) -> Mask:
    """Which nodes a task may go to at all."""
    fleet = floor.grounds.fleet
    admitted: Mask = np.zeros(len(floor.grounds.names), np.bool_)
    for cluster in clusters or fleet.clusters:
        if cluster in fleet.clusters:
            nodes = fleet.open_matching(cluster, constraint)
            admitted[[floor.grounds.number[node.name] for node in nodes]] = True
    return admitted
