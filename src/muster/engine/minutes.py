"""What a turn does and says, written down as it goes on; at the end, a plan.

Of the many whom filling starts or sets aside by itself only columns are kept: objects are made when someone looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from muster.engine import waiting
from muster.engine.filled import Filled
from muster.engine.kernels.filling import NEVER_FITS, NO_ROOM, NONE, OVER_SHARE, WOULD_DELAY
from muster.engine.ledger import Ledger
from muster.engine.limits import over_share
from muster.engine.placement import Shortage, never_fits
from muster.engine.roll import Roll
from muster.engine.shapes import Ints
from muster.engine.waiting import Blocked, ShortageOf
from muster.model.fleet import Fleet
from muster.model.jobs import Job, Profile, Reservation
from muster.model.made import Made, MadeMapping
from muster.model.plan import Action, Admit, Evict, Promise, Start, Verdict, Waiting
from muster.model.reasons import Reason


class Asides(NamedTuple):
    """Jobs that filling set aside: rows of the roll, why, how long each may be in the way (-1: for ever), the flow that
    is too much if it is their share, and to whom room is promised. When the turn is over they are told by their ids."""

    rows: Ints
    queues: Ints
    profiles: Ints
    why: Ints
    bounds: Ints
    flows: Ints
    promised: tuple[str, ...]
    jobs: Sequence[str] = ()


class Told(NamedTuple):
    """What numbers stand for when the turn is over, and what each profile lacks as it left the nodes."""

    profiles: Sequence[Profile]
    queues: Sequence[str]
    ledger: Ledger
    shortage_of: ShortageOf


class Round:
    """What one round of a turn says of those who wait."""

    def __init__(self) -> None:
        self.limited: list[tuple[str, int, Reason]] = []
        self.bounded = False
        self._said: list[tuple[str, Waiting] | Asides] = []
        self._blocked: list[tuple[str, Profile, Blocked] | Asides] = []
        self._reserved: list[tuple[Job, Reservation, Blocked]] = []
        self.reasons: set[Reason] = set()
        self._told: Told | None = None

    def say(self, job: str, verdict: Waiting) -> None:
        """The job waits."""
        self._said.append((job, verdict))
        self.reasons.add(verdict.reason)
        if verdict.reason is Reason.WOULD_DELAY:
            self.bounded = self.bounded or verdict.facts["runs"] is not None

    def set_aside(self, asides: Asides) -> None:
        """These wait as well."""
        self._said.append(asides)
        self._blocked.append(asides)
        self.reasons |= {reason for code, reason in _REASONS.items() if (asides.why == code).any()}
        self.bounded = self.bounded or bool((asides.bounds[asides.why == WOULD_DELAY] != NONE).any())

    def block(self, job: Job, why: Blocked) -> None:
        """There is no room for the job."""
        self._blocked.append((job.id, job.profile, why))
        self.reasons.add(Reason.NO_ROOM)

    def reserve(self, job: Job, reservation: Reservation, why: Blocked) -> None:
        """Room is kept for the job."""
        self._reserved.append((job, reservation, why))
        self.reasons.add(Reason.RESERVED)

    def limit(self, job: Job, usage: int, verdict: Waiting) -> None:
        """A limit holds the job back, which would use so much."""
        self.say(job.id, verdict)
        self.limited.append((job.queue, usage, verdict.reason))

    def tell(self, roll: Roll, ledger: Ledger, shortage: ShortageOf) -> None:
        """The turn is over, and the roll will go on: ids instead of rows."""
        self._told = Told(roll.profiles.names, roll.queues.names, ledger, cache(shortage))
        told = {id(it): it._replace(jobs=roll.ids_in(it.rows)) for it in self._said if isinstance(it, Asides)}
        self._said = [told.get(id(it), it) for it in self._said]
        self._blocked = [told.get(id(it), it) for it in self._blocked]

    def verdicts(self, fleet: Fleet) -> Iterator[tuple[str, Waiting]]:
        """One for each; what is short, as the turn leaves the nodes."""
        assert self._told is not None
        profiles, shortage_of = self._told.profiles, self._told.shortage_of
        for said in self._said:
            if isinstance(said, Asides):
                yield from _not_for_want_of_room(said, self._told, fleet)
            else:
                yield said
        for blocked in self._blocked:
            if isinstance(blocked, Asides):
                for place in np.flatnonzero(blocked.why == NO_ROOM).tolist():
                    profile = profiles[blocked.profiles[place]]
                    yield blocked.jobs[place], waiting.blocked(profile, _PLAINLY, shortage_of(profile))
            else:
                yield blocked[0], waiting.blocked(blocked[1], blocked[2], shortage_of(blocked[1]))
        for job, reservation, why in self._reserved:
            short = None if why.only_delays else shortage_of(job.profile)
            yield job.id, waiting.reserved(reservation, why, short)


_PLAINLY = Blocked(only_delays=False)
_REASONS = {
    NO_ROOM: Reason.NO_ROOM,
    WOULD_DELAY: Reason.WOULD_DELAY,
    NEVER_FITS: Reason.NEVER_FITS,
    OVER_SHARE: Reason.OVER_SHARE,
}


def _not_for_want_of_room(asides: Asides, told: Told, fleet: Fleet) -> Iterator[tuple[str, Waiting]]:
    never = cache(never_of)
    for place in np.flatnonzero(asides.why != NO_ROOM).tolist():
        job, why, bound = asides.jobs[place], int(asides.why[place]), int(asides.bounds[place])
        if why == NEVER_FITS:
            yield job, never(told.profiles[asides.profiles[place]], fleet)
        elif why == OVER_SHARE:
            holding = told.ledger.queues[told.queues[asides.queues[place]]]
            yield job, over_share(holding, int(asides.flows[place]), told.ledger)
        else:
            bound_ms = None if bound == NONE else bound
            yield job, waiting.would_delay(bound_ms, Blocked(only_delays=True), asides.promised)


def never_of(profile: Profile, fleet: Fleet) -> Waiting:
    """The verdict of those who fit no empty cluster."""
    shortage = never_fits(fleet, profile)
    assert isinstance(shortage, Shortage)
    return waiting.never(profile, shortage, fleet)


class Minutes:
    """All that a turn has done so far."""

    def __init__(self) -> None:
        self.evictions: list[Evict] = []
        self.starts = 0
        self.changes = 0
        self._actions: list[Action | Filled] = []
        self._moved: list[tuple[str, Verdict] | Filled] = []

    def act(self, action: Action) -> None:
        """One action that is no eviction."""
        self._actions.append(action)
        self.changes += 1

    def fill(self, filled: Filled) -> None:
        """Many starts."""
        self._actions.append(filled)
        self._moved.append(filled)
        self.starts += len(filled)
        self.changes += len(filled)

    def evict(self, action: Evict) -> None:
        """Someone gives way."""
        self.evictions.append(action)

    def moved(self, job: str, verdict: Verdict) -> None:
        """What became of a job that does not stay where it was."""
        self._moved.append((job, verdict))

    def actions(self, pending: set[str]) -> Sequence[Action]:
        """Evictions first; `pending` jobs keep the last promise made to them."""
        lasting = [*self.evictions, *self._lasting(pending)]
        many = sum(2 * len(part) if isinstance(part, Filled) else 1 for part in lasting)
        return Made(lambda: (action for part in lasting for action in _spread(part)), many)

    def _lasting(self, pending: set[str]) -> Iterator[Action | Filled]:
        """What comes of all rounds: who was promised something and starts after all just starts."""
        last = {action.job: action for action in self._actions if isinstance(action, Promise)}
        started = {action.job: action.cluster for action in self._actions if isinstance(action, Start)}
        for action in self._actions:
            if isinstance(action, Admit) and action.job in started:
                yield action._replace(cluster=started[action.job], reservation=None)
            elif not isinstance(action, Promise) or (action.job in pending and last[action.job] is action):
                yield action

    def verdicts(self, last: Round, others: list[tuple[str, Verdict]], fleet: Fleet) -> MadeMapping[Verdict]:
        """One for each job the turn looked at."""

        def make() -> dict[str, Verdict]:
            made: dict[str, Verdict] = {}
            for part in self._moved:
                made.update(part.verdicts() if isinstance(part, Filled) else [part])
            made.update(last.verdicts(fleet))
            made.update(others)
            return made

        return MadeMapping(make)


def _spread(part: Action | Filled) -> Iterator[Action]:
    return part.actions() if isinstance(part, Filled) else iter((part,))
