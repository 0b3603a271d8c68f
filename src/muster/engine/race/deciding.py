"""Who is scheduled, whose deadline has come, and so who leads.

Several things may have happened since the last look. They are taken in the order of their own times, not of the poll
that saw them: at one moment the scheduled come before deadlines, then the earliest entry into RUNNING, the higher
priority, the alias. What has failed by now decides nothing any more, whenever it happened.

While the leader cannot be heard no deadline comes, and whoever is scheduled then leads at once, also after its time. A
leader that is heard again before it counts as lost was first, and leads again; after that it has dropped out.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from muster.model.race import Grace, Race, Rival, Shown, Terms

Rivals = dict[str, Rival]


class _Kind(IntEnum):
    SCHEDULED = 0
    DONE = 1
    EXPIRED = 2


class _Moment(NamedTuple):
    """Something that is due. The fields are its place in the order."""

    at_ms: int
    kind: _Kind
    entered_ms: int
    behind: int
    cluster: str


class Leading(NamedTuple):
    """Who leads, and who would if it could be heard (muster.model.race.Race)."""

    leader: str | None
    absent: str | None = None


def decide(race: Race, rivals: Rivals, now_ms: int) -> Leading:
    """Who leads at `now_ms`. Changes `rivals`: who is out, and until when the others may win."""
    leading = Leading(race.leader, race.absent)
    if race.is_won:
        return leading
    leading = _still_leading(leading, rivals, race.terms, now_ms)
    while (moment := _first_due(rivals, leading, race.terms, now_ms)) is not None:
        leading = _happens(moment, rivals, leading, race.terms)
    return leading


def _still_leading(before: Leading, rivals: Rivals, terms: Terms, now_ms: int) -> Leading:
    """Who leads of those who did, once some have failed, are lost, or are heard again."""
    leader, absent = before
    for name in (leader, absent):
        if name is not None and (lost_ms := loses_ms(rivals[name], terms)) is not None and lost_ms <= now_ms:
            rivals[name] = put_out(rivals[name])._replace(reason="its cluster could not be heard")
    if absent is not None and not rivals[absent].may_win:
        absent = None
    if absent is not None and rivals[absent].lost_ms is None:
        return Leading(absent)
    if leader is None or rivals[leader].may_win:
        return Leading(leader, absent)
    if absent is None:
        for rival in rivals.values():  # nobody leads: nobody has a deadline
            rivals[rival.cluster] = rival._replace(deadline_ms=None)
    return Leading(absent)


def loses_ms(rival: Rival, terms: Terms) -> int | None:
    """When a leader drops out that is not heard; None: it is heard, or over."""
    return None if rival.lost_ms is None or not rival.may_win else rival.lost_ms + terms.loss_ms


def deadline_ms(rival: Rival, terms: Terms, held_ms: int | None) -> int | None:
    """When the rival's deadline comes, if none comes from a moment on since the leader cannot be heard then."""
    expired_ms = expires_ms(rival, terms)
    return None if expired_ms is None or (held_ms is not None and expired_ms >= held_ms) else expired_ms


def scheduled_ms(rival: Rival, terms: Terms) -> int | None:
    """When the rival is, or will be, scheduled if it goes on as it was last seen; None: it does not run."""
    guarded_ms = None
    if rival.entered_ms is not None and rival.lost_ms is None:
        guarded_ms = rival.entered_ms + terms.guard_ms + rival.unseen_ms
    if rival.shown is Shown.RUNNING:
        return guarded_ms
    if rival.shown is not Shown.SUCCEEDED or rival.ended_ms is None:
        return None
    return rival.ended_ms if guarded_ms is None else min(guarded_ms, rival.ended_ms)


def is_timed(rival: Rival) -> bool:
    """Whether time can do anything to the rival: it runs, has run or has a deadline. Most only wait."""
    return rival.entered_ms is not None or rival.deadline_ms is not None or rival.ended_ms is not None


def expires_ms(rival: Rival, terms: Terms) -> int | None:
    """When the rival is cancelled for not being scheduled; None: nobody leads, or nobody of lower priority does.

    With `grace: running` one that entered RUNNING before its deadline is kept until its guard ends, and one that cannot
    be reached no longer than an unbroken run could have taken.
    """
    deadline_ms = rival.deadline_ms
    if deadline_ms is None or terms.grace is Grace.STRICT:
        return deadline_ms
    # Only who runs, or has run to its end, has an entry: who left RUNNING again has none.
    is_kept = rival.entered_ms is not None and rival.entered_ms < deadline_ms
    return deadline_ms + terms.guard_ms if is_kept else deadline_ms


def _first_due(rivals: Rivals, leading: Leading, terms: Terms, now_ms: int) -> _Moment | None:
    due: list[_Moment] = []
    leader, absent = leading
    held_ms = None if leader is None else rivals[leader].lost_ms
    for rival in rivals.values():
        if not is_timed(rival) or not rival.may_win or rival.cluster == absent:
            continue
        if rival.cluster == leader:
            if rival.ended_ms is not None and any(_is_rival(other, leader) for other in rivals.values()):
                due.append(_moment(rival, rival.ended_ms, _Kind.DONE))
            continue
        if (at_ms := scheduled_ms(rival, terms)) is not None and at_ms <= now_ms:
            due.append(_moment(rival, at_ms, _Kind.SCHEDULED))
        if (at_ms := deadline_ms(rival, terms, held_ms)) is not None and at_ms <= now_ms:
            due.append(_moment(rival, at_ms, _Kind.EXPIRED))
    return min(due, default=None)


def _moment(rival: Rival, at_ms: int, kind: _Kind) -> _Moment:
    entered_ms = at_ms if rival.entered_ms is None else rival.entered_ms
    return _Moment(at_ms, kind, entered_ms, -rival.priority, rival.cluster)


def _is_rival(other: Rival, leader: str) -> bool:
    return other.cluster != leader and other.may_win


def _happens(moment: _Moment, rivals: Rivals, leading: Leading, terms: Terms) -> Leading:
    """What is due happens; who leads then."""
    if moment.kind is _Kind.EXPIRED:
        rivals[moment.cluster] = put_out(rivals[moment.cluster])
        return leading
    first, absent = rivals[moment.cluster], leading.absent
    expired_ms = expires_ms(first, terms)
    is_late = moment.kind is _Kind.SCHEDULED and expired_ms is not None and expired_ms <= moment.at_ms
    if is_late and absent is None:  # nobody could say whether its time was over
        absent = leading.leader
    for rival in rivals.values():
        if rival.cluster == first.cluster or not rival.may_win or (is_late and rival.cluster == absent):
            continue
        # Who has succeeded has done the job: nobody need do it again, on however fine a cluster.
        if moment.kind is _Kind.DONE or rival.priority <= first.priority:
            rivals[rival.cluster] = put_out(rival)
        else:
            later_ms = moment.at_ms + (rival.priority - first.priority) * terms.time_scale_ms
            sooner_ms = later_ms if rival.deadline_ms is None or is_late else min(rival.deadline_ms, later_ms)
            rivals[rival.cluster] = rival._replace(deadline_ms=sooner_ms)
    return Leading(first.cluster, absent if is_late else None)


def put_out(rival: Rival) -> Rival:
    """The rival may no longer win, and is to be cancelled at once."""
    return rival._replace(is_out=True, asked_ms=None, deadline_ms=None)
