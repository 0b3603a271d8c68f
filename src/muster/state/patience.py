"""What a turn need not answer: events that give a turn that had nothing to decide nothing new to decide either.

A job that comes behind one just like it, in a queue that wants more than there is anyway, changes nothing that is said
of anyone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.engine.columns.queued_jobs import Traits
from muster.engine.never_fits import do_all_fit
from muster.model import events as ev
from muster.model.jobs import Job
from muster.state.dependencies import must_wait

if TYPE_CHECKING:
    from muster.state.state import State

_OF_RACES = (ev.RaceSeen, ev.SubmittedTo, ev.CancelledAt, ev.RaceWon, ev.RaceOver)


class Patience:
    """Tells what can wait."""

    def __init__(self, state: State) -> None:
        self._state = state

    def suffices_for(self, event: ev.Event) -> bool:
        """Whether the event can wait. Not yet applied, and the last turn had nothing more to do."""
        if not isinstance(event, ev.JobSubmitted):
            return isinstance(event, _OF_RACES)  # news of a race that is under way
        if event.race is not None or self._state.asks_planner or must_wait(event.job, self._state.jobs):
            return False
        return self._stands_behind(event.job) and self._asks_for_all(event.job)

    def _stands_behind(self, job: Job) -> bool:
        """Whether one just like it stands before it, and is as free to start."""
        state = self._state

        def is_as_free(other: Traits) -> bool:
            """Whether nothing keeps the other job from starting that does not keep this one."""
            bound_ms, other_ms = state.policy.bound_ms(job), state.policy.bound_ms(other)
            is_sooner_gone = bound_ms is None or (other_ms is not None and other_ms <= bound_ms)
            is_limited_alike = (other.lifetime_ms, other.user) == (job.lifetime_ms, job.user) or (
                not state.users
                and state.books[job.queue].queue.excess_budget is None
                and (other.lifetime_ms is None) == (job.lifetime_ms is None)
            )
            return is_sooner_gone and is_limited_alike

        return state.roll.has_one_before(job, is_as_free)

    def _asks_for_all(self, job: Job) -> bool:
        """Whether its queue asks for all there is already, so that the job changes nobody's share."""
        fleet, books = self._state.fleet, self._state.books[job.queue]
        if any(books.asks_for(name) < most for name, most in fleet.scarce(job.profile.most)):
            return False
        # A job that never fits asks in vain, and is not counted.
        return do_all_fit(fleet, self._state.roll, self._state.policy.weights)
