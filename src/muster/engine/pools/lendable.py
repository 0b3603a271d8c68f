"""What of a pool's idle room is lent (design.md 5.3): room, not pools.

A pool lends what none of its reservations needs. Where nobody is evicted for its own jobs, a borrower stays until it
ends: such a pool also keeps what its jobs that wait without a reservation ask for, on every node that they could use
once others end, as often as they fit there. The amount that a pool keeps back is never lent.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.fleet_index import Grounds
from muster.engine.kernels import placing
from muster.engine.turn import Turn
from muster.model.jobs import Profile
from muster.model.policy import Preemption
from muster.model.resources import Resources


def room_to_lend(turn: Turn) -> Ints:
    """The rooms of a pool's nodes with no more free than what is lent."""
    horizon, amounts = turn.horizon, _amounts_of(turn.horizon.now.books.grounds)
    lent = horizon.now.table()
    for it in horizon.promised.values():
        promised = it.rooms.table()
        lent[:, amounts] = np.minimum(lent[:, amounts], promised[:, amounts])
        lent[:, placing.TASKS] = np.maximum(lent[:, placing.TASKS], promised[:, placing.TASKS])
    if turn.policy.preemption is not Preemption.ON:
        free = slice(placing.FREE, placing.FREE + len(horizon.now.books.grounds.dims))
        lent[:, free] = np.maximum(lent[:, free] - _kept_for_waiting(turn), 0)
    return lent


def idle_in(turn: Turn) -> Resources:
    """What is free on the nodes of a pool that take tasks, lent or not."""
    grounds = turn.horizon.now.books.grounds
    table = turn.horizon.now.table()[grounds.open]
    free = table[:, placing.FREE : placing.FREE + len(grounds.dims)].sum(axis=0).tolist()
    return Resources.of(dict(zip(grounds.dims, free, strict=True)))


def _amounts_of(grounds: Grounds) -> slice:
    """Where in a row it says how much is free, in all and of each device."""
    return slice(placing.FREE, placing.FREE + len(grounds.dims) + grounds.devices)


def _kept_for_waiting(turn: Turn) -> Ints:
    """By node and dimension, what its jobs that wait without a reservation could use there once others end."""
    grounds = turn.horizon.now.books.grounds
    empty = turn.horizon.now.empties()
    free = empty[:, placing.FREE : placing.FREE + len(grounds.dims)]
    kept = np.zeros_like(free)
    for profile, jobs in _waiting(turn):
        for group in profile.groups:
            asked = np.array([group.request.resources.get(name) for name in grounds.dims], np.int64)
            asks = np.flatnonzero(asked)
            rows = [
                grounds.number[node.name]
                for cluster in turn.fleet.candidates(profile)
                for node in turn.fleet.open_matching(cluster, group.constraint)
            ]
            if group.request.whole_node:
                kept[rows] = free[rows]
            elif len(asks):
                fit = (free[rows][:, asks] // asked[asks]).min(axis=1)
                kept[rows] += np.minimum(fit, jobs * group.min)[:, None] * asked
    return kept


def _waiting(turn: Turn) -> Iterator[tuple[Profile, int]]:
    """The profiles of the pool's own jobs that wait without a reservation, and how many jobs each has."""
    shapes, promised = turn.ledger.shapes, turn.horizon.promised
    counts = turn.lines.left_with()
    for job in (it.job for it in promised.values() if it.job.id not in turn.pending):
        counts[shapes.number(job.profile)] -= 1
    for job in (it.job for it in turn.pending.values() if it.job.id not in promised):
        counts[shapes.number(job.profile)] += 1
    for number in np.flatnonzero(counts > 0).tolist():
        yield shapes.profiles.names[number], int(counts[number])
