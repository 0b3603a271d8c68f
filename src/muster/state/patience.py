"""What a turn need not answer: events that give a turn that had nothing to decide nothing new to decide either.

A job that comes behind one just like it, in a queue that wants more than there is anyway, changes nothing that is said
of anyone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from muster.engine.columns.queued_jobs import Roll, Traits
from muster.engine.never_fits import do_all_fit
from muster.model import events as ev
from muster.model.fleet import Fleet
from muster.model.jobs import Job
from muster.model.policy import Policy
from muster.state.books import QueueBooks
from muster.state.dependencies import must_wait
from muster.state.records import Records
from muster.state.users import Users

_OF_RACES = (ev.RaceSeen, ev.SubmittedTo, ev.CancelledAt, ev.RaceWon, ev.RaceOver)
_TOLD_ALREADY = (*_OF_RACES, ev.QueuesStand)  # of races that are under way; and by the last turn itself


class World(Protocol):
    """What must be known of the state to tell."""

    policy: Policy
    roll: Roll
    users: Users
    jobs: Records

    @property
    def books(self) -> Mapping[str, QueueBooks]:
        """Of each queue."""

    @property
    def fleet(self) -> Fleet:
        """The nodes as they are now."""

    @property
    def asks_planner(self) -> bool:
        """Whether a rule may hold for anyone that only the planner applies."""


def can_wait(event: ev.Event, world: World) -> bool:
    """Whether the event, not yet applied, needs no turn if the last one had nothing more to do."""
    if not isinstance(event, ev.JobSubmitted):
        return isinstance(event, _TOLD_ALREADY)
    if event.race is not None or world.asks_planner or must_wait(event.job, world.jobs):
        return False
    return _stands_behind_another(event.job, world) and _asks_for_all(event.job, world)


def _stands_behind_another(job: Job, world: World) -> bool:
    """Whether a job just like it stands before it, and is as free to start."""

    def is_as_free(other: Traits) -> bool:
        """Whether nothing keeps the other job from starting that does not keep this one."""
        bound_ms, other_ms = world.policy.bound_ms(job), world.policy.bound_ms(other)
        is_sooner_gone = bound_ms is None or (other_ms is not None and other_ms <= bound_ms)
        is_limited_alike = (other.lifetime_ms, other.user) == (job.lifetime_ms, job.user) or (
            not world.users
            and world.books[job.queue].queue.excess_budget is None
            and (other.lifetime_ms is None) == (job.lifetime_ms is None)
        )
        return is_sooner_gone and is_limited_alike

    return world.roll.has_one_before(job, is_as_free)


def _asks_for_all(job: Job, world: World) -> bool:
    """Whether its queue asks for all there is already, so that the job changes nobody's share."""
    fleet, books = world.fleet, world.books[job.queue]
    if any(books.asks_for(name) < most for name, most in fleet.scarce(job.profile.most)):
        return False
    # A job that never fits asks in vain, and is not counted.
    return do_all_fit(fleet, world.roll, world.policy.weights)
