"""Who fits no cluster even if it were empty."""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache

from muster.engine.columns.fleet_index import FLEETS, grounds_of
from muster.engine.columns.queued_jobs import Roll
from muster.engine.placement import Placer, Shortage, nearest
from muster.engine.rooms import Rooms, Span
from muster.model.fleet import Fleet
from muster.model.jobs import Profile
from muster.model.labels import Constraint
from muster.model.nodes import Room, emptied
from muster.model.resources import Weights


class _EmptyFleet:
    """A fleet with nothing on it, and what was asked about it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._answers: dict[tuple[Profile, tuple[str, ...]], Shortage | None] = {}
        self._placer = Placer(Span([Rooms.empty(grounds_of(fleet))]), everywhere=True)
        self._rooms: dict[tuple[str, Constraint], list[Room]] = {}

    def shortage(self, profile: Profile, among: Container[str]) -> Shortage | None:
        """What keeps the profile from being placed in any of its clusters that are among these; None if it can be."""
        clusters = tuple(name for name in self.fleet.candidates(profile, silent=True) if name in among)
        if (profile, clusters) not in self._answers:
            self._answers[profile, clusters] = self._shortage(profile, clusters)
        return self._answers[profile, clusters]

    def _shortage(self, profile: Profile, clusters: tuple[str, ...]) -> Shortage | None:
        if any(self._takes_one(profile, cluster) for cluster in clusters):
            return None
        placer, shortages = self._placer, []
        for cluster in clusters:
            if placer.place(profile, cluster, profile.least_widths) is not None:
                placer.span.undo()
                return None
            shortages.append(placer.shortage(profile, cluster))
        return nearest(profile, shortages)

    def _takes_one(self, profile: Profile, cluster: str) -> bool:
        """Whether one task is all that the profile asks for, and some machine has room for it."""
        group = profile.groups[0]
        if profile.tasks_min != 1 or len(profile.groups) != 1 or group.request.gpus > self._placer.grounds.devices:
            return False
        rooms = self._rooms.get((cluster, group.constraint))
        if rooms is None:
            kinds = {node.allocatable: None for node in self.fleet.matching(cluster, group.constraint)}
            rooms = self._rooms[cluster, group.constraint] = list(map(emptied, kinds))
        return any(room.fits(group.request) for room in rooms)


_empty_fleet = lru_cache(maxsize=FLEETS)(_EmptyFleet)


def never_fits(fleet: Fleet, profile: Profile) -> Shortage | None:
    """What keeps the job from starting even if every cluster were empty and uncordoned; None if it could start.

    In its own pool, or in one from which it may borrow.
    """
    home = fleet.parts[fleet.home(profile)]
    shortage = _empty_fleet(home).shortage(profile, home.clusters)
    if shortage is not None:
        for name in fleet.lenders(profile):
            if _empty_fleet(fleet.parts[name]).shortage(profile, home.clusters) is None:
                return None
    return shortage


def do_all_fit(fleet: Fleet, roll: Roll, weights: Weights) -> bool:
    """Whether every queued job fits some cluster if that were empty. Works out for the roll's profiles who does not."""
    return roll.shapes(weights).judge(fleet, roll.waiting_with(), roll.mix, _is_hopeless)


def _is_hopeless(fleet: Fleet, profile: Profile) -> bool:
    return never_fits(fleet, profile) is not None
