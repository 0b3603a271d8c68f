"""What a turn need not answer: events that give a turn that had nothing to decide nothing new to decide either.

A job that comes behind one just like it, in a queue that wants more than there is anyway, changes nothing that is said
of anyone. Where nobody reads why jobs wait, a job that the last turn would have refused may wait unseen as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.engine.roll import Traits
from muster.model import events as ev
from muster.model.jobs import Job
from muster.model.plan import Refusals
from muster.state.dependencies import must_wait
from muster.state.scant import Scant

if TYPE_CHECKING:
    from muster.state.state import State

_OF_RACES = (ev.RaceSeen, ev.SubmittedTo, ev.CancelledAt, ev.RaceWon, ev.RaceOver)


class Patience:
    """Tells what can wait."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._refusals: Refusals | None = None
        self._scant: Scant | None = None  # once someone has left since the last turn

    @property
    def refusals(self) -> Refusals | None:
        """Whom the last turn would have refused, if nothing else counts."""
        return self._refusals

    @refusals.setter
    def refusals(self, refusals: Refusals | None) -> None:
        self._refusals, self._scant = refusals, None

    def suffices_for(self, event: ev.Event) -> bool:
        """Whether the event can wait. Not yet applied, and the last turn had nothing more to do."""
        if isinstance(event, ev.JobSucceeded | ev.JobFailed):
            return self._is_no_use_to_anyone(event.job)
        if not isinstance(event, ev.JobSubmitted):
            return isinstance(event, _OF_RACES)  # news of a race that is under way
        if event.race is not None or must_wait(event.job, self._state.jobs):
            return False
        if self._would_refuse(event.job):
            return True
        return self._stands_behind(event.job) and self._asks_for_all(event.job)

    def _would_refuse(self, job: Job) -> bool:
        """Whether the last turn would have refused the job; who left since may have left room for it."""
        if self._refusals is None or not self._refusals.hold_for(job):
            return False
        return self._scant is None or self._scant.has_none_for(job.profile)

    def _is_no_use_to_anyone(self, job_id: str) -> bool:
        """Whether nobody who waits can do anything with what the end of a job leaves."""
        state, run = self._state, self._state.running.get(job_id)
        if run is None or state.held or state.minds_nominal or self._refusals is None:
            return False
        if self._scant is None:
            if not self._refusals.are_for_want_of_room:
                return False
            self._scant = Scant(state, self._refusals)
        if not self._scant.is_sure or run.end_ms < state.now_ms:
            return False
        self._scant.leave(run)
        return self._scant.has_none()

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
        roll = self._state.roll  # who never fits asks in vain, and is not counted
        return roll.shapes(self._state.policy.weights).judge(fleet, roll.waiting_with(), roll.mix)
