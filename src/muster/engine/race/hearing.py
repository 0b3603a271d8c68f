"""What one sighting says about one rival.

Times the cluster reports count, not those of the poll that brought them, as long as they can be true: not before the
race began and not in the future, however wrong the cluster's clock is.
"""

from __future__ import annotations

from muster.model.race import Race, Rival, Shown, Sighting

_ANSWERS = (Shown.ACCEPTED, Shown.EXISTS)
_UNANSWERED = (Shown.UNSENT, Shown.SENT)


def hear(rival: Rival, sighting: Sighting, race: Race, now_ms: int) -> Rival:
    """The rival after the sighting. What is over stays over, whatever is heard later."""
    shown = sighting.shown
    if rival.ended_ms is not None:
        return rival
    if shown is Shown.UNREACHABLE:
        return rival if rival.lost_ms is not None else rival._replace(lost_ms=now_ms)
    if shown in _ANSWERS:
        return _answered(rival, sighting, now_ms)
    if shown is Shown.GONE and rival.shown in _UNANSWERED and not rival.is_out:
        return rival._replace(shown=Shown.UNSENT, asked_ms=None, lost_ms=None)  # it never arrived: send it again
    if shown is Shown.RUNNING:
        return _running(rival, sighting.since_ms, race, now_ms)
    if shown is Shown.WAITING and rival.shown is Shown.WAITING:
        return rival if rival.lost_ms is None else rival._replace(lost_ms=None)
    at_ms = _believed(sighting.since_ms, race, now_ms)
    if shown.is_end:
        return _over(rival, sighting, at_ms, race)
    return _left_running(rival, at_ms)._replace(shown=Shown.WAITING, lost_ms=None)


def _answered(rival: Rival, sighting: Sighting, now_ms: int) -> Rival:
    """The name was free, or taken. Taken by us if we sent it before; else it is somebody else's job, not ours."""
    if rival.shown not in _UNANSWERED:
        return rival._replace(lost_ms=None)
    if sighting.shown is Shown.EXISTS and rival.sent <= 1:
        reason = sighting.reason or "a job of that name exists"
        return rival._replace(shown=Shown.REJECTED, ended_ms=now_ms, lost_ms=None, reason=reason)
    return rival._replace(shown=Shown.WAITING, lost_ms=None)


def _running(rival: Rival, said_ms: int | None, race: Race, now_ms: int) -> Rival:
    """It runs. A later entry than the one we knew means that it had left RUNNING in between: its guard restarts."""
    since_ms = _believed(said_ms, race, now_ms)
    entered_ms, unseen_ms, ran_ms = rival.entered_ms, rival.unseen_ms, rival.ran_ms
    if rival.shown is not Shown.RUNNING or entered_ms is None:
        entered_ms, unseen_ms = since_ms, 0
    elif said_ms is not None and said_ms != rival.said_ms:
        if since_ms > entered_ms:
            unseen_ms, ran_ms = 0, ran_ms + since_ms - entered_ms
        entered_ms = since_ms
    if rival.lost_ms is not None:  # what nobody saw earns no guard
        unseen_ms += now_ms - max(rival.lost_ms, entered_ms)
    return rival._replace(
        shown=Shown.RUNNING, entered_ms=entered_ms, said_ms=said_ms, unseen_ms=unseen_ms, ran_ms=ran_ms, lost_ms=None
    )


def _left_running(rival: Rival, at_ms: int) -> Rival:
    if rival.shown is not Shown.RUNNING or rival.entered_ms is None:
        return rival
    ran_ms = rival.ran_ms + max(at_ms - rival.entered_ms, 0)
    return rival._replace(entered_ms=None, said_ms=None, unseen_ms=0, ran_ms=ran_ms)


def _over(rival: Rival, sighting: Sighting, at_ms: int, race: Race) -> Rival:
    """It will not run again. When it had entered RUNNING stays known: a success counts from there."""
    entered_ms = rival.entered_ms if rival.shown is Shown.RUNNING else None
    if sighting.entered_ms is not None:
        reported_ms = _believed(sighting.entered_ms, race, at_ms)
        entered_ms = reported_ms if entered_ms is None else max(entered_ms, reported_ms)
    ran_ms = rival.ran_ms if entered_ms is None else rival.ran_ms + max(at_ms - entered_ms, 0)
    return rival._replace(
        shown=sighting.shown,
        entered_ms=entered_ms,
        ended_ms=at_ms,
        ran_ms=ran_ms,
        lost_ms=None,
        reason=sighting.reason,
    )


def _believed(reported_ms: int | None, race: Race, now_ms: int) -> int:
    if reported_ms is None:
        return now_ms
    return min(max(reported_ms, race.began_ms), now_ms)
