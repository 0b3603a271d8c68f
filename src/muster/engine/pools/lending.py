"""Who lends to whom: the rooms of pools that lend, side by side, and to which of them each profile may go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muster.engine.columns.fleet_index import Array, grounds_of
from muster.engine.columns.node_rooms import Floor
from muster.engine.columns.views import floor_of
from muster.engine.field import field_on
from muster.engine.kernels import placing
from muster.engine.kernels.filling import ALWAYS, Field
from muster.engine.opening import Opened
from muster.engine.pools.lendable import idle_in, room_to_lend
from muster.engine.present import Flags
from muster.engine.rooms import Rooms
from muster.engine.turn import Turn
from muster.model.jobs import Profile
from muster.model.reasons import Reason
from muster.model.resources import GPU, NOTHING, Resources, Weights
from muster.model.snapshot import Snapshot

_WAITS_FOR_ROOM = {Reason.NO_ROOM, Reason.GANG_DOES_NOT_FIT, Reason.RESERVED, Reason.WOULD_DELAY, Reason.RATE_LIMIT}


def waits_for_room(turn: Turn) -> bool:
    """Whether anyone who belongs to the pool waits for room, as its turn leaves it."""
    return bool(turn.pending) or not _WAITS_FOR_ROOM.isdisjoint(turn.round.reasons)


class Lending:
    """The free room of all pools that lend. Areas are clusters here, one for each pool of a cluster."""

    def __init__(self, snapshot: Snapshot, opened: Opened, turns: Sequence[Turn], lenders: Sequence[Turn]) -> None:
        self._fleet = snapshot.fleet
        self._shapes = opened.shapes
        self._lenders = {turn.fleet.pool.name for turn in lenders}
        areas = snapshot.fleet.by_area()
        self.places = areas.places
        self.grounds = grounds_of(areas.fleet)
        numbers = dict(zip((turn.fleet.pool.name for turn in turns), floor_of(snapshot).places_of_parts(), strict=True))
        self._turns = [(turn, numbers[turn.fleet.pool.name]) for turn in lenders]
        shape = (len(self.grounds.names), self.grounds.columns)
        tables, empties = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for turn, here in self._turns:
            tables[here], empties[here] = room_to_lend(turn), turn.horizon.now.empties()
        self._lent = tables.copy()
        floor = Floor.with_rows(self.grounds, tables, empties)
        cores = snapshot.policy.cores_per_gpu
        self.rooms = Rooms.of(floor, face=opened.face, cores_per_gpu=cores, measure=opened.measure)
        books = self.rooms.books
        self.asks = self._shapes.asks_of(self.grounds, listed=books.listed)
        self._first, self._clusters, self._preference = (books.of(part) for part in self._candidates(turns, opened))
        self._idle, self._tasks = (books.of(part) for part in self._as_they_are(snapshot, tables))
        self._pools, self._spare = (books.of(part) for part in self._not_kept())
        parts = snapshot.fleet.parts
        self._has_gpus = books.of([any(kind.get(GPU) for kind in parts[pool].machines) for _, pool in self.places])

    def _candidates(self, turns: Sequence[Turn], opened: Opened) -> tuple[list[int], list[int], list[int]]:
        """By profile, the areas where its waiting jobs may go, the most preferred clusters first."""
        waiting = opened.roll.waiting_with().tolist()
        pending = {opened.shapes.number(it.job.profile) for turn in turns for it in turn.pending.values()}
        first: list[int] = [0]
        clusters: list[int] = []
        preference: list[int] = []
        known: dict[object, tuple[list[int], list[int]]] = {}
        for number, profile in enumerate(opened.shapes.profiles.names):
            if number in pending or (number < len(waiting) and waiting[number]):
                like = (self._fleet.home(profile), profile.clusters)
                if like not in known:  # most profiles are alike in that
                    known[like] = self._areas_for(profile)
                clusters += known[like][0]
                preference += known[like][1]
            first.append(len(clusters))
        return first, clusters, preference

    def _areas_for(self, profile: Profile) -> tuple[list[int], list[int]]:
        """The areas where jobs of the profile may go, and how much each is preferred."""
        names = self._lenders.intersection(self._fleet.lenders(profile))
        home = self._fleet.parts[self._fleet.home(profile)]
        order = {cluster: place for place, cluster in enumerate(home.candidates(profile))}
        wanted = dict(profile.clusters)
        found = [
            (area, wanted.get(cluster, home.clusters[cluster].preference))
            for area, (cluster, pool) in enumerate(self.places)
            if pool in names and cluster in order
        ]
        found.sort(key=lambda it: (-it[1], it[0]))
        return [area for area, _ in found], [preferred for _, preferred in found]

    def _as_they_are(self, snapshot: Snapshot, tables: Array) -> tuple[list[int], list[int]]:
        """By area, the usage that is idle on nodes that take tasks, by resource, and how many tasks there are."""
        idle, tasks = list[int](), list[int]()
        for area in range(len(self.places)):
            rows = tables[self.grounds.open[self.grounds.cluster_of[self.grounds.open] == area]]
            free = rows[:, placing.FREE : placing.FREE + len(self.grounds.dims)].sum(axis=0).tolist()
            amounts = Resources.of(dict(zip(self.grounds.dims, free, strict=True)))
            idle += self._shapes.row(snapshot.policy.weights.each(amounts)).tolist()
            tasks.append(int(rows[:, placing.TASKS].sum()))
        return idle, tasks

    def _not_kept(self) -> tuple[list[int], list[int]]:
        """The pool of each area in numbers, and by pool and resource what may be lent of it in all."""
        names = list(self._fleet.parts)
        spare = np.full((len(names), len(self._shapes.resources)), ALWAYS, np.int64)
        for turn, _ in self._turns:
            keep = turn.fleet.pool.keep
            idle = idle_in(turn) if keep else NOTHING
            for name in keep.keys() & self._shapes.resources.keys():
                most = max(idle.get(name) - keep[name], 0)
                spare[names.index(turn.fleet.pool.name), self._shapes.resources[name]] = most
        return [names.index(pool) for _, pool in self.places], spare.ravel().tolist()

    def may_lend(self, area: int, amounts: Resources) -> bool:
        """Whether its pool has so much beyond what it keeps."""
        resources = self._shapes.resources
        begin = self._pools[area] * len(resources)
        return all(amount <= self._spare[begin + resources[name]] for name, amount in amounts.items())

    def borrowers(self) -> Flags:
        """Which profiles may borrow at all."""
        return np.diff(np.asarray(self._first)) > 0

    def field(self) -> Field:
        """What filling places on. Only good until someone else changes rooms."""
        return field_on([self.rooms], [], self.asks)._replace(
            first_cluster=self._first,
            clusters=self._clusters,
            preference=self._preference,
            has_gpus=self._has_gpus,
            idle=self._idle,
            tasks=self._tasks,
            pools=self._pools,
            spare=self._spare,
        )

    def areas_for(self, profile: Profile) -> list[int]:
        """Where a job may go, as muster.engine.kernels.starting.lends_before orders them."""
        number, width = self._shapes.number(profile), len(self._shapes.resources)
        places = range(self._first[number], self._first[number + 1])
        asked = (self._shapes.least[number] > 0).nonzero()[0].tolist()

        def idle(area: int) -> int:
            return sum(int(self._idle[area * width + resource]) for resource in asked)

        order = sorted(
            places,
            key=lambda it: (
                -self._preference[it],
                0 if profile.asks_gpu else self._has_gpus[self._clusters[it]],
                -idle(self._clusters[it]),
                self._tasks[self._clusters[it]],
                self._clusters[it],
            ),
        )
        # Those of one preference may have changed their places: which they are is all that counts.
        return [int(self._clusters[it]) for it in order]

    def take(self, area: int, amounts: Resources, weights: Weights, tasks: int) -> None:
        """Someone has started there with so much."""
        resources, weighed = self._shapes.resources, weights.each(amounts)
        for name, amount in amounts.items():
            if amount:
                self._spare[self._pools[area] * len(resources) + resources[name]] -= amount
        for name, usage in weighed.items():
            if name in resources:
                self._idle[area * len(resources) + resources[name]] -= usage
        self._tasks[area] += tasks

    def give_back(self) -> None:
        """The pools that lend go on with what is left; what they promised stands beside those who borrow."""
        taken = self._lent - self.rooms.table()
        for turn, here in self._turns:
            if taken[here].any():
                now = turn.horizon.now
                now.overwrite(now.table() - taken[here], now.empties())
                turn.horizon.renew()
