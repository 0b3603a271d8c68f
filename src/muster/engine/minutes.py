"""What a turn does and says, written down as it goes on; at the end, a plan.

Of the many whom filling starts or sets aside by itself only columns are kept: objects are made when someone looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from typing import NamedTuple

import numpy as np

from muster.engine import waiting
from muster.engine.columns.arrays import Ints
from muster.engine.columns.queued_jobs import Names, Roll
from muster.engine.filled import Filled
from muster.engine.kernels.filling import NEVER_FITS, NO_ROOM, NONE, OVER_SHARE, WOULD_DELAY
from muster.engine.ledger import Ledger
from muster.engine.limits import over_share
from muster.engine.never_fits import never_fits
from muster.engine.placement import Shortage
from muster.engine.present import Flags
from muster.engine.waiting import Blocked, ShortageOf
from muster.model.fleet import Fleet
from muster.model.jobs import Job, Profile, Reservation
from muster.model.made import tuples
from muster.model.plan import Action, Admit, Evict, Later, Promise, Start, Verdict, Waiting
from muster.model.reasons import Reason


@dataclass(slots=True, kw_only=True)
class Asides:
    """Jobs that filling set aside: rows of the roll, why, how long each may be in the way (-1: for ever), the flow that
    is too much if it is their share, and to whom room is promised. When the turn is over they are told by their ids."""

    rows: Ints
    queues: Ints
    profiles: Ints
    why: Ints
    bounds: Ints
    flows: Ints
    promised: tuple[str, ...]
    names: Names | None = None

    @property
    def jobs(self) -> list[str]:
        """Their ids."""
        assert self.names is not None, "the turn goes on"
        return self.names.ids


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
        for said in self._said:
            if isinstance(said, Asides):
                said.names = roll.names_in(said.rows)

    def verdicts(self, fleet: Fleet, whole: Fleet) -> Iterator[tuple[str, Waiting | Later]]:
        """One for each; what is short, as the turn leaves the nodes."""
        assert self._told is not None
        shortage_of = self._told.shortage_of
        for said in self._said:
            if isinstance(said, Asides):
                yield from _Aside(said, self._told, fleet, whole).not_for_want_of_room()
            else:
                yield said
        for blocked in self._blocked:
            if isinstance(blocked, Asides):
                yield from _Aside(blocked, self._told, fleet, whole).for_want_of_room()
            else:
                job_id, profile, why = blocked
                verdict = waiting.blocked(profile, why, shortage_of(profile), whole)
                yield job_id, waiting.with_warning(verdict, profile, whole)
        for job, reservation, why in self._reserved:
            short = None if why.only_delays else shortage_of(job.profile)
            verdict = waiting.reserved(reservation, why, short)
            yield job.id, waiting.with_warning(verdict, job.profile, whole)


_NO_NODES = -1  # beside the codes of filling, which takes them for those who never fit
_PLAINLY = Blocked(only_delays=False)
_REASONS = {
    NO_ROOM: Reason.NO_ROOM,
    WOULD_DELAY: Reason.WOULD_DELAY,
    NEVER_FITS: Reason.NEVER_FITS,
    OVER_SHARE: Reason.OVER_SHARE,
    _NO_NODES: Reason.NO_NODES,
}


_BARE = 2
_NO_ROOM_FOR = (Reason.NO_ROOM, Reason.GANG_DOES_NOT_FIT, Reason.NO_NODES)  # one task, several; its pool is bare


class _Aside:
    """What to say of those who were set aside together."""

    def __init__(self, asides: Asides, told: Told, fleet: Fleet, whole: Fleet) -> None:
        self._asides = asides
        self._told = told
        self._fleet = fleet
        self._whole = whole
        self._said_of: dict[tuple[int, int], Waiting] = {}  # profiles, and why

    def for_want_of_room(self) -> Iterator[tuple[str, Later]]:
        """Those for whom there is no room, each with what is short."""
        places = np.flatnonzero(self._asides.why == NO_ROOM)
        profiles = self._asides.profiles[places]
        codes = self._told.ledger.shapes.is_gang[profiles]
        codes[self._are_any(profiles, self._whole.is_bare)] = _BARE
        return self._later(self._no_room, places, map(_NO_ROOM_FOR.__getitem__, codes.tolist()))

    def not_for_want_of_room(self) -> Iterator[tuple[str, Later]]:
        """All others."""
        places = np.flatnonzero(self._asides.why != NO_ROOM)
        codes = self._asides.why[places]
        never = np.flatnonzero(codes == NEVER_FITS)
        lack = self._are_any(self._asides.profiles[places[never]], lambda it: waiting.lacks_nodes(it, self._whole))
        codes[never[lack]] = _NO_NODES
        return self._later(self._else, places, map(_REASONS.__getitem__, codes.tolist()))

    def _are_any(self, profiles: Ints, is_one: Callable[[Profile], bool]) -> Flags:
        """Of which of these profiles, each looked at once, something is true."""
        seen = np.zeros(len(self._told.profiles), np.bool_)
        whole = self._whole
        if len(profiles) and (not whole.clusters or any(part.bare for part in whole.parts.values())):
            seen[profiles] = True
            for number in np.flatnonzero(seen).tolist():
                seen[number] = is_one(self._told.profiles[number])
        found: Flags = seen[profiles]
        return found

    def _later(
        self, make: Callable[[int], Waiting], places: Ints, reasons: Iterable[Reason]
    ) -> Iterator[tuple[str, Later]]:
        numbers = places.tolist()
        jobs = map(self._asides.jobs.__getitem__, numbers)
        return zip(jobs, tuples(Later, repeat(make), numbers, reasons), strict=False)

    def _no_room(self, place: int) -> Waiting:
        return self._alike(int(self._asides.profiles[place]), NO_ROOM, self._without_room)

    def _alike(self, profile: int, why: int, make: Callable[[int], Waiting]) -> Waiting:
        """The same is said of all of a profile."""
        said = self._said_of.get((profile, why))
        if said is None:
            said = self._said_of[profile, why] = make(profile)
        return said

    def _without_room(self, number: int) -> Waiting:
        profile = self._told.profiles[number]
        verdict = waiting.blocked(profile, _PLAINLY, self._told.shortage_of(profile), self._whole)
        return waiting.with_warning(verdict, profile, self._whole)

    def _never(self, number: int) -> Waiting:
        return never_of(self._told.profiles[number], self._fleet, self._whole)

    def _else(self, place: int) -> Waiting:
        asides, told, bound = self._asides, self._told, int(self._asides.bounds[place])
        if asides.why[place] == NEVER_FITS:
            return self._alike(int(asides.profiles[place]), NEVER_FITS, self._never)
        if asides.why[place] == OVER_SHARE:
            holding = told.ledger.queues[told.queues[asides.queues[place]]]
            return over_share(holding, int(asides.flows[place]), told.ledger)
        return waiting.would_delay(None if bound == NONE else bound, Blocked(only_delays=True), asides.promised)


def never_of(profile: Profile, fleet: Fleet, whole: Fleet) -> Waiting:
    """The verdict of those who fit no empty cluster."""
    shortage = never_fits(whole, profile)
    assert isinstance(shortage, Shortage)
    return waiting.with_warning(waiting.never(profile, shortage, fleet, whole), profile, whole)


class Minutes:
    """All that a turn has done so far."""

    def __init__(self) -> None:
        self.evictions: list[Evict] = []
        self.starts = 0
        self.changes = 0
        self._shrinks = 0
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

    @property
    def gave_way(self) -> int:
        """How often someone gave up room, and with it what limits count."""
        return len(self.evictions) + self._shrinks

    def shrink(self) -> None:
        """Someone goes on with fewer tasks."""
        self._shrinks += 1
        self.changes += 1

    def evict(self, action: Evict) -> None:
        """Someone gives way."""
        self.evictions.append(action)

    def moved(self, job: str, verdict: Verdict) -> None:
        """What became of a job that does not stay where it was."""
        self._moved.append((job, verdict))

    def __len__(self) -> int:
        return len(self._actions)

    def lasting(self, pending: set[str]) -> Iterator[tuple[int, Action | Filled]]:
        """What comes of all rounds, evictions apart, and the place of each: who was promised something and starts after
        all keeps its place and charge but not the promise, and `pending` jobs keep the last one made to them."""
        last = {action.job: action for action in self._actions if isinstance(action, Promise)}
        started = {action.job for action in self._actions if isinstance(action, Start)}
        for place, action in enumerate(self._actions):
            if isinstance(action, Admit) and action.job in started:
                yield place, action._replace(reservation=None)
            elif not isinstance(action, Promise) or (action.job in pending and last[action.job] is action):
                yield place, action

    def sent_to_wait(self) -> dict[str, Waiting]:
        """Those who do not stay where they were, and wait."""
        moved = dict(part for part in self._moved if not isinstance(part, Filled))
        return {job: verdict for job, verdict in moved.items() if isinstance(verdict, Waiting)}

    def verdicts(self) -> Iterator[tuple[str, Verdict | Later]]:
        """One for each job that did not stay where it was."""
        for part in self._moved:
            yield from part.verdicts() if isinstance(part, Filled) else [part]
