"""What must be sent to the clusters now, and when to look again although nothing new was seen."""

from __future__ import annotations

from muster.engine.race.deciding import Leading, deadline_ms, is_timed, loses_ms, scheduled_ms
from muster.model.jobs import NEVER_MS
from muster.model.race import POLL_MS, CancelAt, Race, RaceAction, Rival, Shown, SubmitTo, Terms


def ask(rival: Rival, race: Race, now_ms: int) -> tuple[Rival, RaceAction | None]:
    """A rival that wants an answer, with what is asked of its cluster noted, and the request; None: not yet again."""
    if rival.is_out and not rival.sent:  # nobody knows of it: nothing to cancel
        return rival._replace(shown=Shown.STOPPED, ended_ms=now_ms), None
    if now_ms < _again_ms(rival):
        return rival, None
    if rival.is_out:
        cancel = CancelAt(race.job, race.attempt, rival.cluster, is_again=rival.cancels > 0)
        return rival._replace(asked_ms=now_ms, cancels=rival.cancels + 1), cancel
    submit = SubmitTo(race.job, race.attempt, rival.cluster, is_again=rival.sent > 0)
    return rival._replace(shown=Shown.SENT, asked_ms=now_ms, sent=rival.sent + 1), submit


def due_ms(rivals: tuple[Rival, ...], leading: Leading, terms: Terms, *, is_won: bool) -> int:
    """When time alone could change something: a guard or deadline ends, a request has had no answer, or a leader that
    cannot be heard counts as lost."""
    first_ms, leader = NEVER_MS, leading.leader
    held_ms = next((rival.lost_ms for rival in rivals if rival.cluster == leader), None)
    for rival in rivals:
        lost_ms = loses_ms(rival, terms) if rival.cluster in leading and not is_won else None
        first_ms = first_ms if lost_ms is None else min(first_ms, lost_ms)
        if wants_answer(rival):
            first_ms = min(first_ms, _again_ms(rival))
        if rival.is_out or rival.ended_ms is not None or rival.cluster == leader or not is_timed(rival):
            continue
        for moment_ms in (scheduled_ms(rival, terms), deadline_ms(rival, terms, held_ms)):
            if moment_ms is not None and moment_ms < first_ms:
                first_ms = moment_ms
    return first_ms


def wants_answer(rival: Rival) -> bool:
    """Whether its cluster must be asked until it answers: to take the job, or to end it."""
    return rival.ended_ms is None and (rival.is_out or rival.shown is Shown.SENT or rival.shown is Shown.UNSENT)


def _again_ms(rival: Rival) -> int:
    return 0 if rival.asked_ms is None else rival.asked_ms + POLL_MS
