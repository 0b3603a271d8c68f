"""What profiles ask for, in columns: numbers for profiles and resources, and what follows from them once.

The table lives as long as its roll: a profile gets its row when it is first seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.fleet_index import FLEETS, Grounds
from muster.engine.columns.numbering import Numbers
from muster.engine.columns.profile_cells import Asks, asks_of
from muster.model.fleet import Fleet
from muster.model.jobs import Profile, least_usage_of
from muster.model.resources import Resources, Weights

IsHopeless = Callable[[Fleet, Profile], bool]
"""Whether a profile fits no cluster of a fleet even if it were empty."""

_UNKNOWN = -1


class Groups(NamedTuple):
    """The groups of profiles: where those of each profile begin, the names they have, and which of those each has."""

    first: Ints
    names: tuple[str, ...]
    number: Ints


class ShapeTable:
    """The profiles there are. `resources` are numbered in order of appearance."""

    def __init__(self, profiles: Numbers[Profile], weights: Weights) -> None:
        self.profiles = profiles
        self.weights = weights
        self.resources: dict[str, int] = {}
        self.usage = np.zeros(0, np.int64)
        self.least = np.zeros((0, 0), np.int64)
        self.weighed = np.zeros((0, 0), np.int64)  # the same as usage, resource by resource
        self.asks_gpu = np.zeros(0, np.int64)
        self.is_rigid = np.zeros(0, np.int64)
        self.is_elastic = np.zeros(0, np.int64)
        self.is_whole = np.zeros(0, np.int64)  # whether it has nodes for itself: they leave more than they asked for
        self.is_gang = np.zeros(0, np.int64)
        self.has_elastic = False
        self.never_fits = np.zeros(0, np.int64)
        self._known = 0
        self._fleet: Fleet | None = None
        self._judged: tuple[int, bool] | None = None  # the mix of those who wait, and whether all of them fit
        self._asks: dict[Grounds, tuple[int, bool, Asks]] = {}
        self._homes: tuple[Fleet, int, Ints] | None = None
        self._groups: tuple[int, Groups] | None = None

    def number(self, profile: Profile) -> int:
        """The number of a profile; its row is there."""
        number = self.profiles.number(profile)
        if number >= self._known:
            self.catch_up()
        return number

    def catch_up(self) -> None:
        """Rows for all profiles that have come since."""
        if len(self.profiles) == self._known:
            return
        profiles = self.profiles.names[self._known :]
        for profile in profiles:
            for name in profile.most:
                self.resources.setdefault(name, len(self.resources))
        size, width = len(self.profiles), len(self.resources)
        if size > len(self.usage) or width > self.least.shape[1]:
            room = max(size, 2 * len(self.usage)) if size > len(self.usage) else len(self.usage)
            for name in ("usage", "asks_gpu", "is_rigid", "is_elastic", "is_whole", "is_gang", "never_fits"):
                setattr(self, name, _widened(getattr(self, name), room))
            for name in ("least", "weighed"):
                before = getattr(self, name)
                table = np.zeros((room, width), np.int64)
                table[: self._known, : before.shape[1]] = before[: self._known]
                setattr(self, name, table)
        for number, profile in enumerate(profiles, self._known):
            self.usage[number] = least_usage_of(profile, self.weights)
            self.asks_gpu[number] = profile.asks_gpu
            self.is_rigid[number] = profile.is_rigid
            self.is_elastic[number] = profile.is_elastic
            self.is_whole[number] = any(group.request.whole_node for group in profile.groups)
            self.is_gang[number] = profile.is_gang
            self.has_elastic = self.has_elastic or profile.is_elastic
            self.never_fits[number] = _UNKNOWN
            self.least[number] = self.row(profile.least)
            self.weighed[number] = self.row(self.weights.each(profile.least))
        self._known = size

    def judge(self, fleet: Fleet, waiting_with: Ints, mix: int, is_hopeless: IsHopeless) -> bool:
        """Work out which profiles that wait fit no empty cluster; whether all do. It stays so as long as the mix does.

        The mix is muster.engine.columns.queued_rows.Lined.mix.
        """
        if fleet is not self._fleet:
            self._fleet, self._judged = fleet, None
            self.never_fits[:] = _UNKNOWN
        if self._judged is None or self._judged[0] != mix:
            self._judged = (mix, self._do_all_fit(fleet, waiting_with[: self._known], is_hopeless))
        return self._judged[1]

    def _do_all_fit(self, fleet: Fleet, waiting: Ints, is_hopeless: IsHopeless) -> bool:
        in_question = waiting > 0
        in_question &= self.never_fits[: len(waiting)] != 0  # or they are known to fit
        if not np.count_nonzero(in_question):
            return True
        for number in (in_question & (self.never_fits[: len(waiting)] == _UNKNOWN)).nonzero()[0]:
            self.never_fits[number] = is_hopeless(fleet, self.profiles.names[number])
        return not np.count_nonzero(self.never_fits[: len(waiting)][in_question])

    def asks_of(self, grounds: Grounds, *, listed: bool) -> Asks:
        """What the profiles ask of the nodes."""
        many, was_listed, asks = self._asks.get(grounds, (_UNKNOWN, False, None))
        if asks is None or (many, was_listed) != (self._known, listed):
            while len(self._asks) >= FLEETS:
                del self._asks[next(iter(self._asks))]
            asks = asks_of(grounds, self.profiles.names, listed=listed)
            self._asks[grounds] = (self._known, listed, asks)
        return asks

    def groups(self) -> Groups:
        """The groups of all profiles, one after the other."""
        if self._groups is None or self._groups[0] != self._known:
            self._groups = (self._known, _groups_of(self.profiles.names[: self._known]))
        return self._groups[1]

    def homes(self, fleet: Fleet) -> Ints:
        """The pool that jobs of each profile belong to, by its place among the parts of the fleet."""
        if self._homes is None or self._homes[:2] != (fleet, self._known):
            number = {name: place for place, name in enumerate(fleet.parts)}
            homes = np.full(max(len(self.usage), 1), _UNKNOWN)
            homes[: self._known] = [number[fleet.home(profile)] for profile in self.profiles.names[: self._known]]
            self._homes = (fleet, self._known, homes)
        return self._homes[2]

    def row(self, resources: Resources | Mapping[str, int]) -> Ints:
        """Amounts by number. Names that no profile asks for are left out."""
        row = np.zeros(len(self.resources), np.int64)
        for name, amount in resources.items():
            if name in self.resources:
                row[self.resources[name]] = amount
        return row

    def resources_of(self, row: Ints) -> Resources:
        """Such a row as a value."""
        return Resources({name: int(row[place]) for name, place in self.resources.items() if row[place]})


def _groups_of(profiles: Sequence[Profile]) -> Groups:
    names = tuple(dict.fromkeys(group.name for profile in profiles for group in profile.groups))
    number = {name: place for place, name in enumerate(names)}
    return Groups(
        first=np.cumsum([0, *(len(profile.groups) for profile in profiles)]),
        names=names,
        number=np.array([number[group.name] for profile in profiles for group in profile.groups], np.int64),
    )


def _widened(column: Ints, room: int) -> Ints:
    wide = np.zeros(room, np.int64)
    wide[: len(column)] = column
    return wide
