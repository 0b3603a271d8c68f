"""Whether a turn has come to rest: nothing is left to do, once what it decided is done (ADR 0028)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.engine.refusals import Refused
from muster.model.policy import Preemption
from muster.model.reasons import Reason

if TYPE_CHECKING:
    from muster.engine.turn import Turn


def has_settled(turn: Turn) -> bool:
    """Whether another round would only say more of those who wait, and do nothing.

    The one promise there is, is for good, whoever was blocked beside it found no place for another, and no flow decides
    who may start.
    """
    if not _is_plain(turn):
        return False
    is_for_good = len(turn.pending) <= 1 and turn.pending.keys() == turn.horizon.promised.keys()
    return is_for_good and not (turn.heard_aged or turn.looked_in_vain or Reason.BUDGET in turn.round.reasons)


def is_at_rest(turn: Turn) -> bool:
    """Whether nothing is left to do until time wakes us, once what was decided is done.

    Who was sent back stands in line again a moment later.
    """
    return _is_plain(turn) and not turn.minutes.sent_back


def _is_plain(turn: Turn) -> bool:
    """Whether who runs stays as it is until it ends: nobody gives way, moves, grows or shrinks; and nobody borrows."""
    policy = turn.policy
    stays = policy.preemption is Preemption.OFF and policy.move_points is None and not turn.ledger.shapes.has_elastic
    return stays and not turn.fleet.whole.pools


def refusals(turn: Turn) -> Refused | None:
    """Whom the turn would refuse, if that can be told: nobody gives way."""
    if not is_at_rest(turn):
        return None

    def may_reserve() -> tuple[bool, bool]:
        """Whether CPU and GPU jobs that come later may have a reservation: of those that rest on guesses each may."""
        if any(name not in turn.pending for name in turn.horizon.promised):
            return True, True
        cpu, gpu = turn.who_may_reserve()
        return bool(cpu), bool(gpu)

    return Refused(turn.roll, turn.policy, turn.finder.full, turn.lines.lines.aside, may_reserve)
