"""Whether a turn has come to rest: nothing is left to do, once what it decided is done (ADR 0028)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.engine.refusals import Refused
from muster.model.policy import Preemption
from muster.model.reasons import Reason

if TYPE_CHECKING:
    from muster.engine.turn import Turn

_FOR_WANT_OF_ROOM = {Reason.NO_ROOM, Reason.GANG_DOES_NOT_FIT, Reason.WOULD_DELAY, Reason.RESERVED}


def has_settled(turn: Turn) -> bool:
    """Whether another round would only say more of those who wait, and do nothing.

    The one promise there is, is for good, whoever was blocked beside it found no place for another, and no flow decides
    who may start. Nor did anyone stand back for a promise that was given up since, or behind one that was given.
    """
    if _safe_from(turn) is None or turn.lines.is_any_deep:
        return False
    is_for_good = turn.promises <= 1 and _is_one_promised_at_most(turn)
    return is_for_good and not (turn.heard_aged or turn.looked_in_vain or Reason.BUDGET in turn.round.reasons)


def _safe_from(turn: Turn) -> int | None:
    """The highest class to whose jobs nobody gives way, if none of those who wait is above it; else None.

    Who runs stays as it is then until it ends: nobody moves, grows or shrinks either, and nobody borrows.
    """
    if turn.policy.move_points is not None or turn.ledger.shapes.has_elastic or turn.fleet.whole.pools:
        return None
    if turn.policy.preemption is Preemption.OFF:
        return turn.safe_from
    safe_from = turn.horizon.stays.safe_from()
    return safe_from if safe_from is not None and turn.highest_class() <= safe_from else None


def refusals(turn: Turn) -> Refused | None:
    """Whom the turn would refuse, if it has come to rest: nothing is left to do until time wakes us, once what was
    decided is done. Who was sent back stands in line again a moment later; who was not looked at, for its queue had
    offered enough, may be then."""
    safe_from = _safe_from(turn)
    if safe_from is None or turn.minutes.sent_back or turn.lines.is_any_deep:
        return None

    def may_reserve() -> tuple[bool, bool]:
        """Whether CPU and GPU jobs that come later may have a reservation: of those that rest on guesses each may."""
        if any(name not in turn.pending for name in turn.horizon.promised):
            return True, True
        cpu, gpu = turn.who_may_reserve()
        return bool(cpu), bool(gpu)

    return Refused(
        turn.roll,
        turn.policy,
        turn.finder.full,
        turn.lines.lines.aside,
        may_reserve,
        safe_from,
        lacks_room_only=_lack_room_only(turn),
    )


def _lack_room_only(turn: Turn) -> bool:
    """Whether those who wait do so for want of room, and at most one of them was promised some, for good."""
    are_firm = all(it.reservation.is_firm for it in turn.horizon.promised.values())
    is_for_good = are_firm and _is_one_promised_at_most(turn)
    return is_for_good and turn.round.reasons <= _FOR_WANT_OF_ROOM and not turn.round.limited


def _is_one_promised_at_most(turn: Turn) -> bool:
    """Whether one job is promised room, or none; and that is pending."""
    return len(turn.pending) <= 1 and turn.pending.keys() == turn.horizon.promised.keys()
