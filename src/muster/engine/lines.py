"""The order in which queues offer their jobs (design.md 4.3).

Class, priority, score where the policy has one, submit time, id. A profile that cannot start is set aside for the rest
of the round, and its queue offers its next job of another profile; a limit closes it for all whom the limit holds back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from muster.engine.blanks import (
    NO_CEILINGS,
    blank_lines,
    care_of_nobody,
    no_limits,
    nothing_done,
    nothing_offered,
    rules_of,
    shapes_of,
    with_more_room,
    with_room,
)
from muster.engine.columns.arrays import Ints
from muster.engine.columns.profiles import ShapeTable
from muster.engine.columns.queued_jobs import Roll
from muster.engine.kernels import filling, offering, starting
from muster.engine.kernels.filling import ALWAYS, NOBODY, NONE, Books, Care, Ceilings, Field, Offers
from muster.engine.kernels.jit import Face
from muster.engine.limits import Limit
from muster.engine.minutes import Asides
from muster.engine.present import Flags
from muster.engine.stays import Givers, Started
from muster.model.jobs import NEVER_MS, Job, Profile
from muster.model.policy import Policy
from muster.model.reasons import Reason

_STARTS_PER_NODE = 8
_WORTH_KEEPING = 1024  # lanes: fewer are lined up anew as fast as that is written down
_SUBMIT = 3  # in the order of a lane
_LINED_UP = ("heap", "begin", "many", "cursor", "order")


class Takers(NamedTuple):
    """Who might start in the place of others: jobs of queues below their share, jobs that were overtaken, and in each
    queue those above the lowest (class, priority) of its own jobs that may give way. Nobody if there are no givers.
    And whoever is above the lowest class of all."""

    is_below: Flags
    entitled_to: Callable[[str], Ints]  # by number of the queue
    givers: Givers | None
    offers: Offers
    ceilings: Ceilings
    overtaken: set[str]
    lowest_class: int


NOBODY_TAKES = Takers(
    np.zeros(0, np.bool_), lambda _: np.zeros(0, np.int64), None, nothing_offered(0), NO_CEILINGS, set(), ALWAYS
)


class Lines:
    """The jobs that may still be offered in this round, and what a round writes about them.

    `ours` are those profiles whose jobs stand in these lines, which `whose` tells from other lines.
    """

    def __init__(
        self,
        roll: Roll,
        shapes: ShapeTable,
        policy: Policy,
        now_ms: int,
        face: Face,
        nodes: int,
        ours: Flags | None = None,
        whose: Hashable = None,
    ) -> None:
        self._roll = roll
        self._shapes = shapes
        self._ours, self._whose = ours, whose
        self._face = face
        self.columns = roll.columns()
        self.rules = rules_of(policy, now_ms)
        queues, profiles, lanes = len(roll.queues), max(len(roll.profiles), 1), len(self.columns.lane_queue)
        self.shapes = shapes_of(shapes, ours)
        self.lines = blank_lines(queues, profiles, lanes, len(self.columns.submit))._replace(
            first=self.columns.lane_first.copy(), is_asked=self._asked(queues).view(np.uint8)
        )
        self.lines.gpus[0] = policy.gpu_first and self._has_gpu_jobs()
        self.limits = no_limits(queues, 4)
        # Whoever is set aside, and on an empty fleet about as many starts as this.
        self._room = min(len(roll), max(policy.profiles_deep * queues, _STARTS_PER_NODE * nodes)) + 16
        self._entitled: Ints | None = None
        self._is_as_found = True  # nobody was started or left out yet

    @cached_property
    def _done(self) -> filling.Started:
        """What a round has done so far, for whoever plays one."""
        return nothing_done(self._room)

    # -- filling ---------------------------------------------------------------------------------------

    def next_to_look_at(self, books: Books, care: Care, field: Field, starts: int) -> Job | None:
        """Fill on until a head needs a careful look; None when nobody is left to offer. The turn has had `starts`."""
        self._done.size[:] = (0, 0, 0, starts)
        self.shapes.delays_at[:] = NONE  # there may be other promises by now
        while True:
            why, queue = self._face(starting.fill)(
                self.columns, self.lines, self.limits, self.shapes, books, self.rules, care, field, self._done
            )
            if why == filling.TIED:
                self.untie()
            elif why == filling.FULL_OUTPUT:
                self._done = with_more_room(self._done)
            else:
                return None if why == filling.DONE else self._roll.job(int(self.lines.head[queue]))

    @property
    def has_started(self) -> bool:
        """Whether the last call started anyone."""
        return bool(self._done.size[0])

    @property
    def has_left_aside(self) -> bool:
        """Whether the last call set anyone aside."""
        return bool(self._done.size[2])

    def started(self) -> Started:
        """Whom the last call started."""
        done = self._done
        starts, tasks = int(done.size[0]), int(done.size[1])
        return Started(
            rows=done.row[:starts].copy(),
            clusters=done.cluster[:starts].copy(),
            is_above=done.above_nominal[:starts].copy(),
            first_task=done.first_task[:starts].copy(),
            tasks=done.tasks[:tasks].copy(),
        )

    def left_aside(self, promised: Iterable[str]) -> Asides:
        """Whom the last call set aside by itself."""
        done, count = self._done, int(self._done.size[2])
        rows = done.aside_row[:count].copy()
        known, lifetime = self.columns.known[rows], self.columns.lifetime[rows]
        bounds = np.where((known == NONE) & (lifetime != NONE), np.maximum(lifetime, 1), known)
        lanes = self._roll.lanes_in(rows)
        return Asides(
            rows=rows,
            queues=self.columns.lane_queue[lanes],
            profiles=self.columns.lane_profile[lanes],
            flows=done.aside_flow[:count].copy(),
            why=done.aside_why[:count].copy(),
            bounds=bounds if self.rules.lifetime_bounds else known,
            promised=tuple(promised),
        )

    def care(
        self, may_reserve: list[int], takers: Takers, *, yields_above: int = NEVER_MS, asks_planner: bool = False
    ) -> Care:
        """Which heads must be looked at when blocked: those that may reserve, may take from others, or are above the
        class from which on nodes of promises may be taken. `asks_planner`: all of them."""
        queues = len(self.lines.begin)
        lowest_class = min(takers.lowest_class, yields_above)
        if not takers.overtaken and (takers.givers is None or not takers.givers.many.any()):
            return care_of_nobody(queues, len(self._shapes.resources))._replace(
                may_reserve=np.array(may_reserve, np.int64),
                lowest_class=lowest_class,
                may_make_room=bool((self.columns.lane_class > lowest_class).any()),
                asks_planner=asks_planner,
            )
        care = Care(
            may_reserve=np.array(may_reserve, np.int64),
            is_below=np.zeros(queues, np.int64),
            gives=np.zeros(queues, np.int64),
            entitled=self._entitled_to(takers),
            gives_class=np.full(queues, ALWAYS, np.int64),
            gives_priority=np.full(queues, ALWAYS, np.int64),
            lowest_class=lowest_class,
            was_overtaken=np.zeros(len(self.lines.out) if takers.overtaken else 1, np.uint8),
            offers=takers.offers,
            ceilings=takers.ceilings,
            may_make_room=True,
            asks_planner=asks_planner,
        )
        if takers.givers is not None:
            care.is_below[:] = takers.is_below
            care.gives[:] = takers.givers.many > 0
            care.gives_class[:] = takers.givers.lowest_class
            care.gives_priority[:] = takers.givers.lowest_priority
        for job in takers.overtaken:
            if job in self._roll.row_of:
                care.was_overtaken[self._roll.row_of[job]] = 1
        return care

    def _entitled_to(self, takers: Takers) -> Ints:
        """Each queue's entitled part of each resource; worked out once, for shares do not change in a turn."""
        if self._entitled is not None:
            return self._entitled
        entitled = np.zeros((len(self.lines.begin), len(self._shapes.resources)), np.int64)
        if takers.givers is not None:  # or nobody asks
            for resource, place in self._shapes.resources.items():
                entitled[:, place] = takers.entitled_to(resource)
            self._entitled = entitled
        return entitled

    def look_at(self, job: Job) -> None:
        """The job is looked at: the first of its queue is its head."""
        number = self._roll.queues[job.queue]
        if self.lines.first_head[number] == NONE:
            self.lines.first_head[number] = self._roll.row_of[job.id]

    def first_heads(self) -> dict[str, Job]:
        """By queue, the first of its jobs that this round looked at."""
        heads = zip(self._roll.queues.names, self.lines.first_head.tolist(), strict=True)
        return {name: self._roll.job(row) for name, row in heads if row != NONE}

    def note_full(self, profile: Profile) -> None:
        """There is no room for the profile, promised or not."""
        self.shapes.is_full[self._shapes.number(profile)] = 1

    def note_scarce(self, profile: Profile, resource: str, starts: int) -> None:
        """What the profile lacks, as it is after so many starts of this turn."""
        if resource in self._shapes.resources:
            number = self._shapes.number(profile)
            self.shapes.scarce[number] = self._shapes.resources[resource]
            self.shapes.scarce_at[number] = starts

    def forget_full(self) -> None:
        """Someone gave way: profiles that found no room may find some."""
        self.shapes.is_full[:] = 0
        self.shapes.scarce_at[:] = NONE

    # -- lines -----------------------------------------------------------------------------------------

    def leave_out(self, jobs: Iterable[str]) -> None:
        """These stand in line no more."""
        for job in jobs:
            row = self._roll.row_of.get(job)
            if row is not None:
                self.lines.out[row] = 1
                self._is_as_found = False

    def leave_out_those_of(self, other: Lines) -> None:
        """Whoever stands in other lines no more does not stand in these."""
        self.lines.out[:] |= other.lines.out
        theirs = slice(None) if other._ours is None else other._ours[self.columns.lane_profile]
        self.lines.first[theirs] = other.lines.first[theirs]
        self._is_as_found = False

    def reopen(self) -> None:
        """Begin again: nobody is set aside, no limit was hit."""
        self.lines.aside[:] = NOBODY
        self.limits.many[:] = 0
        self.lines.aside_count[:] = 0
        self.lines.late[:] = 0
        self.lines.is_deep[:] = 0
        self.lines.stale[:] = 1
        self.lines.first_head[:] = NONE
        self.lines.passed_usage[:] = 0
        self.lines.stands[:] = filling.UNKNOWN
        if len(self.lines.heap) < _WORTH_KEEPING:
            self._line_up()
        else:
            self._line_up_as_before()
        self._is_as_found = False

    def _line_up_as_before(self) -> None:
        """Line up all lanes: as they stood when this turn or one before began, but for those whose first job left."""
        columns, how = tuple(getattr(self.lines, name) for name in _LINED_UP), self._how()
        known = self._roll.lined_up(self._whose, how)
        if known is None:
            self._line_up()
        else:
            for column, kept in zip(columns, known[0], strict=True):
                column[:] = kept
            self._catch_up(known[1])
        if self._is_as_found and (known is None or len(known[1])):
            self._roll.line_up(self._whose, how, tuple(column.copy() for column in columns))

    def _catch_up(self, moved: Ints) -> None:
        """Of these lanes, and of those whose first job is out by now, others come first."""
        has_moved = np.zeros(len(self.lines.heap), np.uint8)
        has_moved[moved] = 1
        self.lines.tie[0] = NONE
        self._face(offering.catch_up)(self.columns, self.lines, self.limits, self.shapes, self.rules, has_moved)
        self.untie()

    def _how(self) -> Hashable:
        """What decides how lanes stand in line, beside whose they are and who stands in them."""
        return (self.rules.profiles_deep, self.rules.mark)

    def _line_up(self) -> None:
        self.lines.tie[0] = NONE
        self._face(offering.open_lines)(self.columns, self.lines, self.limits, self.shapes, self.rules)
        self.untie()

    def untie(self) -> None:
        """Two jobs of one moment could not be told apart: work out the order of all of that moment."""
        while (submit_ms := int(self.lines.tie[0])) != NONE:
            self.lines.tie[0] = NONE
            self._roll.rank_those_of(submit_ms)
            for queue in range(len(self.lines.begin)):
                self._face(offering.heapify)(self.columns, self.lines, self.shapes, self.rules, queue)
            self.lines.stale[:] = 1

    def submitted_by(self, moment_ms: int) -> list[Job]:
        """The next job of each lane that was submitted by then, as they were lined up."""
        return [self._roll.job(row) for row in self._heads_by(moment_ms)[1].tolist()]

    def gangs_by(self, moment_ms: int) -> list[Job]:
        """Of those the gangs."""
        lanes, rows = self._heads_by(moment_ms)
        is_gang = self._shapes.is_gang[self.columns.lane_profile[lanes]] > 0
        return [self._roll.job(row) for row in rows[is_gang].tolist()]

    def _heads_by(self, moment_ms: int) -> tuple[Ints, Ints]:
        """The lanes whose next job was submitted by then, and the rows of those."""
        cursor = self.lines.cursor
        lanes = ((cursor != NONE) & (self.lines.order[:, _SUBMIT] <= moment_ms)).nonzero()[0]
        return lanes, cursor[lanes]

    def queues_in_line(self) -> int:
        """How many queues have queued jobs."""
        return int(self.queues_asked().sum())

    def left_with(self) -> Ints:
        """How many jobs with each profile still stand in these lines."""
        columns, left = self.columns, np.zeros(len(self.shapes.usage), np.int64)
        there = np.flatnonzero(columns.lane_count > 0)
        gone = self._roll.lanes_in(np.flatnonzero(self.lines.out))
        np.add.at(left, columns.lane_profile[there], columns.lane_count[there])
        np.subtract.at(left, columns.lane_profile[gone], 1)
        if self._ours is not None:
            left[: len(self._ours)][~self._ours] = 0
        return left

    def queues_asked(self) -> Flags:
        """Which queues have jobs that stood in these lines when the turn began."""
        return self.lines.is_asked > 0

    def _asked(self, queues: int) -> Flags:
        columns = self.columns
        if self._ours is None:
            is_asked: Flags = columns.queue_lane[:queues] != NONE
            return is_asked
        counts = (columns.lane_count > 0) & self._ours[columns.lane_profile]
        return np.bincount(columns.lane_queue[counts], minlength=queues) > 0

    def _has_gpu_jobs(self) -> bool:
        """Whether jobs that ask for GPUs stand in these lines."""
        profiles = self.columns.lane_profile[self.columns.lane_count > 0]
        asking = (self._shapes.asks_gpu[profiles] > 0) & (self.shapes.is_ours[profiles] > 0)
        return bool(asking.any())

    def next_to_age(self, since_ms: int, cordoned: Ints) -> int | None:
        """When the oldest of those was submitted who are the oldest of their lane and came after a moment, if they
        ever fit and their queue is not cordoned."""
        columns = self.columns
        submitted = columns.submit[columns.lane_first]
        counts = (columns.lane_count > 0) & (submitted > since_ms)
        if self._ours is not None:
            counts &= self._ours[columns.lane_profile]
        if np.count_nonzero(cordoned):
            counts &= cordoned[columns.lane_queue] == 0
        if np.count_nonzero(self.shapes.never_fits > 0):
            counts &= self.shapes.never_fits[columns.lane_profile] != 1
        found = submitted[counts]
        return int(found.min()) if len(found) else None

    def may_start(self, queue: int) -> bool:
        """Whether the queue has jobs that may start, or none of its jobs was looked at: not if limits hold back all
        that were, or they never fit."""
        return bool(self.lines.stands[queue] != filling.CLOSED)

    def take(self, job: Job) -> None:
        """The job was started or got a reservation."""
        queue = self._roll.queues[job.queue]
        self.lines.out[self._roll.row_of[job.id]] = 1
        self.lines.stale[queue] = 1
        self.lines.stands[queue] = filling.STANDS

    def set_aside(self, job: Job, bound_ms: int) -> None:
        """Jobs of its queue and profile that may be in the way for as long or longer need not be tried again."""
        queue, profile = self._roll.queues[job.queue], self._shapes.number(job.profile)
        self.lines.stands[queue] = filling.STANDS
        self._face(offering.set_aside)(self.lines, queue, profile, bound_ms)

    def close(self, queue: str, limit: Limit) -> None:
        """Offer no more jobs of the queue that the limit holds back. One that holds for this turn only is none."""
        number, stands = self._roll.queues[queue], self.lines.stands
        is_rate = limit.waiting.reason is Reason.RATE_LIMIT
        stands[number] = filling.STANDS if is_rate else max(stands[number], filling.CLOSED)
        place = int(self.limits.many[number])
        if place == self.limits.user.shape[1]:
            self.limits = with_room(self.limits)
        limits, alike = self.limits, limit.alike
        user = limit.user if alike is None else alike.user
        limits.user[number, place] = NONE if user is None else self._roll.users.number(user)
        resource = None if limit.resource is None else self._shapes.resources.get(limit.resource)
        limits.resource[number, place] = NONE if resource is None else resource
        limits.profile[number, place] = NONE if alike is None else self._shapes.number(alike.profile)
        lifetime_ms = None if alike is None else alike.lifetime_ms
        if alike is None and limit.charged:
            limits.lifetime[number, place] = filling.CHARGED
        else:
            limits.lifetime[number, place] = NONE if lifetime_ms is None else lifetime_ms
        limits.many[number] += 1
        self.lines.stale[number] = 1
