"""Whom a turn would refuse: jobs that would only wait if they came after it and nothing else happened.

Room only shrinks while a turn fills without preemption. So who asks for what was set aside for want of room finds none,
and who would be in the way of a promise for as long as one that was set aside is in the way too. And who can neither
reserve nor take from others changes nothing for anyone by being there.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.kernels.filling import NOBODY
from muster.engine.shapes import Ints
from muster.model.jobs import Job, Profile
from muster.model.policy import Policy

if TYPE_CHECKING:
    from muster.engine.roll import Roll


class Refused:
    """Who would only wait. `full`: profiles for which there is no room, promised or not; `aside`: by queue and profile,
    how long one must be in the way to be set aside; `may_reserve`: whether CPU and GPU jobs may find a reservation that
    is not taken for good; `safe_from`: the highest class to whose jobs nobody gives way; `lacks_room_only`: whether
    everyone who waits does so for want of room, and whoever was promised some for good."""

    def __init__(
        self,
        roll: Roll,
        policy: Policy,
        full: Set[Profile],
        aside: Ints,
        may_reserve: Callable[[], tuple[bool, bool]],
        safe_from: int,
        *,
        lacks_room_only: bool,
    ) -> None:
        self._roll = roll
        self._profiles = roll.profiles
        self._policy = policy
        self._full = full
        self._aside = aside
        self._look_up = may_reserve
        self._safe_from = safe_from
        self._lacks_room_only = lacks_room_only
        self._least: dict[int, int | None] = {}

    @cached_property
    def _may_reserve(self) -> tuple[bool, bool]:
        return self._look_up()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a plan that is stored goes without

    @property
    def are_for_want_of_room(self) -> bool:
        """Whether nothing but more room could change anything for those who wait: none of them may reserve either."""
        waiting = self._roll.waiting_profiles()
        asks_gpu = self._roll.shapes(self._policy.weights).asks_gpu[waiting]
        return self._lacks_room_only and not any(
            may and np.count_nonzero(asks_gpu == kind) for kind, may in enumerate(self._may_reserve)
        )

    def hold_for(self, job: Job) -> bool:
        """Whether the job would only wait."""
        if job.profile not in self._profiles or job.priority_class > self._safe_from:
            return False
        if self._may_reserve[job.profile.asks_gpu]:
            return False
        if job.profile in self._full:
            return True
        number = self._profiles[job.profile]
        if number not in self._least:
            self._least[number] = self._least_bound(number)
        least_ms, bound_ms = self._least[number], self._policy.bound_ms(job)
        return least_ms is not None and (bound_ms is None or bound_ms >= least_ms)

    def _least_bound(self, number: int) -> int | None:
        """How long a job with this profile must be in the way at least to be set aside; None: nobody was."""
        bounds = self._aside[:, number] if number < self._aside.shape[1] else self._aside[:0, 0]
        bounds = bounds[bounds != NOBODY]
        return int(bounds.min()) if len(bounds) else None
