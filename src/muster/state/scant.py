"""Whether there is too little room for anyone who waits, even if all that is free could be put together.

Where that is so, an attempt that ends lets nobody start. Nor does it let a promise come sooner, as long as all that
will be free before it is too little as well: those who are to leave by then were counted on already.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import le
from typing import TYPE_CHECKING

import numpy as np

from muster.engine import sole
from muster.engine.kernels import glancing
from muster.engine.runs import CLUSTER, END, MANY, PROFILE
from muster.engine.shapes import Ints
from muster.model.jobs import NEVER_MS, Profile, Running
from muster.model.plan import Refusals

if TYPE_CHECKING:
    from muster.state.state import State

_MOST = 1 << 60  # of a resource: more would not add up


class Scant:
    """What is free since a turn, by cluster and resource: at most so much, since nodes are taken together.

    Whoever left since was told to `leave`; nobody started. `is_sure`: everyone who ran had an end that was stated and
    was to come, so that no promise rests on anything else.
    """

    def __init__(self, state: State, refusals: Refusals) -> None:
        self._roll = state.roll
        self._shapes = state.roll.shapes(state.policy.weights)
        self._number = state.machines.floor().grounds.cluster_number
        self._promised = [self._least_of(it.job.profile) for it in state.pending.values()]
        if isinstance(refusals, sole.Refused):
            self._take_over(refusals)
        else:
            self._look_up(state)

    def _take_over(self, refusals: sole.Refused) -> None:
        """The turn knew it already."""
        self.is_sure, self._start_ms = True, NEVER_MS if refusals.start_ms is None else refusals.start_ms
        self._free = [refusals.amounts[glancing.FREE].copy()]
        self._before = [refusals.amounts[glancing.BEFORE].copy()]

    def _look_up(self, state: State) -> None:
        floor, runs = state.machines.floor(), state.runs
        cells = runs.table.cells[:, : runs.table.size]
        is_there, ends, capacity = cells[MANY] > 0, cells[END], floor.capacity_by_cluster()
        is_countable = all(amount < _MOST for amounts in capacity for _, amount in amounts.items())
        are_unsure = ((ends >= NEVER_MS) | (ends <= state.now_ms)) & is_there
        self.is_sure = is_countable and not floor.owes and not np.count_nonzero(are_unsure)
        if not self.is_sure:
            return
        starts = (it.reservation.start_ms for it in state.pending.values() if it.reservation is not None)
        self._start_ms = min(starts, default=NEVER_MS)
        free = np.array([self._shapes.row(amounts) for amounts in capacity])
        before = free.copy()  # the first promised start
        stays = is_there & (ends >= self._start_ms)
        for name, place in self._number.items():
            here = cells[CLUSTER] == runs.clusters.number(name) if len(self._number) > 1 else True
            free[place] -= self._held(cells[PROFILE][is_there & here])
            before[place] -= self._held(cells[PROFILE][stays & here])
        self._free, self._before = free.tolist(), before.tolist()

    def _held(self, profiles: Ints) -> Ints:
        """What attempts with these profiles hold together."""
        counts = np.bincount(profiles)
        held: Ints = counts @ self._shapes.least[: len(counts)]
        return held

    def _least_of(self, profile: Profile) -> list[int]:
        return self._shapes.leasts[self._shapes.number(profile)]

    def leave(self, run: Running) -> None:
        """An attempt ends."""
        place, least = self._number[run.cluster], self._least_of(run.job.profile)
        _add(self._free[place], least)
        if run.end_ms >= self._start_ms:
            _add(self._before[place], least)

    def has_none_for(self, profile: Profile) -> bool:
        """Whether there is surely too little for such a job."""
        return self.is_sure and not _fits_any([self._least_of(profile)], self._free)

    def has_none(self) -> bool:
        """Whether there is too little for everyone who waits, and for anyone who is promised room to have it sooner."""
        if _fits_any(self._promised, self._before) or _fits_any(self._promised, self._free):
            return False
        return not _fits_any(self._roll.least_asked(self._shapes), self._free)


def _add(amounts: list[int], more: list[int]) -> None:
    for place, amount in enumerate(more):
        amounts[place] += amount


def _fits_any(asked: Sequence[Sequence[int]], there: Sequence[Sequence[int]]) -> bool:
    """Whether any who asks for so much would find it in some cluster."""
    return any(all(map(le, one, room)) for room in there for one in asked)
