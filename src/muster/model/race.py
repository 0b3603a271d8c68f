"""Races: one job sent to several clusters that can only submit, query and cancel (openpai-multi-cluster.md).

Each cluster's copy of the job is a *rival*. These are the values; what follows from a sighting is decided in
`muster.engine.race`. Times are whole milliseconds. They are named tuples, like tasks and actions: a server looks at
ten thousand races every few seconds.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from muster.model.resources import NOTHING, Resources

MINUTE_MS = 60_000
POLL_MS = 10_000  # how often clusters are asked, and how long an unanswered request waits before it is sent again


class Shown(Enum):
    """What a cluster shows of its copy of the job, or answers when it is asked."""

    UNSENT = "unsent"  # nothing was sent yet
    SENT = "sent"  # sent; no answer yet
    ACCEPTED = "accepted"  # answers to a submission
    EXISTS = "exists"
    REJECTED = "rejected"
    WAITING = "waiting"  # answers to a query
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    GONE = "gone"  # the cluster knows no such job
    UNREACHABLE = "unreachable"  # no answer at all

    @property
    def is_end(self) -> bool:
        """Whether the copy will never run again."""
        return self in _ENDS


_ENDS = (Shown.SUCCEEDED, Shown.FAILED, Shown.STOPPED, Shown.REJECTED, Shown.GONE)


class Grace(Enum):
    """What a deadline asks of a rival: to be scheduled by then, or only to have entered RUNNING before."""

    STRICT = "strict"
    RUNNING = "running"


class Sighting(NamedTuple):
    """What one cluster showed when it was asked.

    `since_ms`: since when, as the cluster reports it (None: it does not). `entered_ms`: when a copy that is over had
    entered RUNNING, as the cluster reports it.
    """

    cluster: str
    shown: Shown
    since_ms: int | None = None
    entered_ms: int | None = None
    reason: str = ""


class Rival(NamedTuple):
    """One cluster's copy of the job.

    A copy is *scheduled* once it has run for the guard time without a break, or has succeeded.

    `entered_ms`: when it entered RUNNING; `said_ms`: the same by the cluster's own clock, which may be wrong.
    `unseen_ms`: how long its cluster could not be reached while it ran; `lost_ms`: since when it cannot be reached.
    `is_out`: it may no longer win and must be cancelled. `asked_ms`: when it was last sent or cancelled, `sent` and
    `cancels` how often. `ran_ms`: time in RUNNING that is over.
    """

    cluster: str
    priority: int = 50
    asks: Resources = NOTHING
    shown: Shown = Shown.UNSENT
    entered_ms: int | None = None
    said_ms: int | None = None
    unseen_ms: int = 0
    lost_ms: int | None = None
    deadline_ms: int | None = None
    ended_ms: int | None = None
    ran_ms: int = 0
    is_out: bool = False
    asked_ms: int | None = None
    sent: int = 0
    cancels: int = 0
    reason: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether it dropped out by itself."""
        return self.ended_ms is not None and self.shown is not Shown.SUCCEEDED

    @property
    def may_win(self) -> bool:
        """Whether it is neither out nor over without a result."""
        return not self.is_out and (self.ended_ms is None or self.shown is Shown.SUCCEEDED)


class Terms(NamedTuple):
    """The rules of a race that its owner may choose. `loss_ms`: for how long a leader may not be heard before it has
    dropped out."""

    guard_ms: int = 10 * MINUTE_MS
    time_scale_ms: int = MINUTE_MS
    grace: Grace = Grace.STRICT
    loss_ms: int = 15 * MINUTE_MS


class Result(Enum):
    """How a race came out for its job."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"


class Race(NamedTuple):
    """One attempt of a job, raced. `rivals` stand in order of alias.

    `leader` is scheduled and wins unless a rival of higher priority is scheduled in time; `is_won` once none can.
    `absent` led before and could not be heard when the leader was scheduled after its time: if it is heard again before
    it counts as lost, it leads again.
    `heard` are the last sightings: where they come again and `due_ms` has not come, nothing changes.
    """

    job: str
    attempt: int
    began_ms: int
    terms: Terms
    rivals: tuple[Rival, ...]
    leader: str | None = None
    is_won: bool = False
    is_withdrawn: bool = False
    result: Result | None = None
    heard: tuple[Sighting, ...] = ()
    due_ms: int = 0
    absent: str | None = None

    def rival(self, cluster: str) -> Rival:
        """The copy in a cluster."""
        return next(rival for rival in self.rivals if rival.cluster == cluster)

    @property
    def winner(self) -> str | None:
        """The cluster that has won, once no rival can still win."""
        return self.leader if self.is_won else None

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to ask of any cluster."""
        return self.result is not None and all(rival.ended_ms is not None for rival in self.rivals)

    def withdrawn(self) -> Race:
        """The race as its owner leaves it; the next observation cancels every rival."""
        return self if self.result is not None else self._replace(is_withdrawn=True, due_ms=0)


class SubmitTo(NamedTuple):
    """Send the job's copy to the cluster; done twice it does no harm, since the name is taken the second time."""

    job: str
    attempt: int
    cluster: str
    is_again: bool = False


class CancelAt(NamedTuple):
    """Stop the copy in the cluster. Asked again and again until the cluster shows its end."""

    job: str
    attempt: int
    cluster: str
    is_again: bool = False


class Won(NamedTuple):
    """No rival can win any more; told once. `since_ms`: when the winner entered RUNNING."""

    job: str
    attempt: int
    cluster: str
    since_ms: int


class Ended(NamedTuple):
    """What the race means for its job; told once. `cause` names every cluster that dropped out and why."""

    job: str
    attempt: int
    result: Result
    cause: str = ""


RaceAction = SubmitTo | CancelAt | Won | Ended


class RaceSpec(NamedTuple):
    """What a job says about its race: the terms, and its copies as they are before anything was sent."""

    terms: Terms
    rivals: tuple[Rival, ...]

    @property
    def largest(self) -> Resources:
        """What the quota pays, once: of each resource the most that any copy asks for (design.md 3)."""
        amounts: dict[str, int] = {}
        for rival in self.rivals:
            for name, amount in rival.asks.items():
                amounts[name] = max(amounts.get(name, 0), amount)
        return Resources.of(amounts)

    def race(self, job: str, attempt: int, now_ms: int) -> Race:
        """A race at its beginning: nothing was sent yet."""
        in_order = tuple(sorted(self.rivals, key=lambda rival: rival.cluster))
        return Race(job=job, attempt=attempt, began_ms=now_ms, terms=self.terms, rivals=in_order)
