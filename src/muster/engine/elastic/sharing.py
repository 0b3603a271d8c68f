"""Queues below their entitled share get their width in the same round: several tasks a visit (design.md 5.6).

What is free they take first (growing.py). What is lacking then those give up who were served most, of queues that keep
what they are entitled to, however virtual times stand: those tell apart jobs whose queues have what is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.engine.elastic.swapping import Gift, Swaps
from muster.engine.elastic.tree import Tree
from muster.engine.elastic.unit import Unit
from muster.engine.ledger import Ledger
from muster.model.jobs import Profile

_MOST_TAKEN = 1024  # tasks in a turn
_VAIN_LOOKS = 16  # a turn; takers come in the order of their due


class Rights:
    """What queues are entitled to, as the books stand."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def is_below(self, unit: Unit) -> bool:
        """Whether its queue has less than it is entitled to."""
        holding = self._ledger.queues[unit.run.job.queue]
        return holding.started_usage < holding.entitled

    def may_leave_queue(self, gift: Gift) -> bool:
        """Whether the queue still has what it is entitled to without the task."""
        holding = self._ledger.queues[gift.giver.run.job.queue]
        return holding.started_usage - self._ledger.weights.usage(gift.asks) >= holding.entitled

    def may_pass(self, gift: Gift, taker: Unit) -> bool:
        """Whether the task may be given up for the taker."""
        return gift.giver.run.job.queue == taker.run.job.queue or self.may_leave_queue(gift)


class Sharer:
    """Moves tasks to jobs of queues below their share."""

    def __init__(self, tree: Tree, swaps: Swaps, rights: Rights) -> None:
        self._tree = tree
        self._swaps = swaps
        self._rights = rights
        self._vain: set[tuple[Profile, str, str]] = set()

    def share_out(self) -> bool:
        """Until no queue below its share finds anything more; whether any got something."""
        takers = [unit for unit in self._tree.traverse() if _may_take(unit) and self._rights.is_below(unit)]
        left = _MOST_TAKEN
        while takers and left > 0:
            takers = [unit for unit in takers if self._takes(unit)]
            left -= len(takers)
        return left < _MOST_TAKEN

    def _takes(self, unit: Unit) -> bool:
        """One task more for it; whether it may get another. Where one found nothing, no other like it is asked."""
        like = (unit.run.job.profile, unit.run.cluster, unit.run.job.queue)
        if not unit.has_use_for_more or not self._rights.is_below(unit):
            return False
        if like in self._vain or len(self._vain) >= _VAIN_LOOKS:
            return False
        if not self._swaps.take(unit, self._gifts(unit)):
            self._vain.add(like)
            return False
        return True

    def _gifts(self, taker: Unit) -> Iterator[Gift]:
        """What others can give up for it, the most served first."""
        for giver in self._tree.from_the_right():
            if giver.run.job.queue == taker.run.job.queue or not giver.may_change or giver.came:
                continue
            for task in giver.surplus():
                gift = Gift(giver, task)
                if not self._rights.may_leave_queue(gift):
                    break
                yield gift


def _may_take(unit: Unit) -> bool:
    """Whether it has a use for one more, and gives up nothing itself."""
    return unit.may_change and not unit.went and unit.has_use_for_more
