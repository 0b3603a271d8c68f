"""What pools do to the ledger, put together.

Every pool begins with the flows and shares of the turn's beginning and follows only its own starts, so that it matters
to no other how far it has come. Limits hold for all pools together: what those before it in order of name took of
a quota, a share or a budget is gone when a pool begins. Pools that are decided at the same time begin without that;
who could have decided otherwise with it is decided again (`is_touched_by`).
"""

from __future__ import annotations

import numpy as np

from muster.engine.kernels.filling import Books
from muster.engine.ledger import UNLIMITED, Ledger
from muster.engine.shapes import Ints
from muster.engine.turn import Turn

_SUMS = ("usage", "started_usage", "started", "held", "fixed_usage", "starts", "user_held")
_FLOWS = (("flow", "usage"), ("started_flow", "started_usage"), ("fixed_flow", "fixed_usage"))
_LIMITED = ("held", "fixed_usage", "user_held")


class Join:
    """The ledger of all pools, as one after the other is added to it. `is_rated`: how many may start is limited."""

    def __init__(self, opened: Ledger, *, is_rated: bool) -> None:
        self._opened = opened
        self._limited = (*_LIMITED, "starts") if is_rated else _LIMITED
        self.ledger = opened.fork()

    def begin(self) -> Ledger:
        """The ledger with which the next pool begins."""
        ledger = self._opened.fork()
        books = ledger.columns
        for name in self._limited:
            _column(books, name)[:] = _column(self.ledger.columns, name)
        np.maximum(books.fixed_flow, books.fixed_usage, out=books.fixed_flow)
        for name, holding in ledger.queues.items():
            holding.budget_left = self.ledger.queues[name].budget_left
        return ledger

    def add(self, before: Ledger, after: Ledger) -> None:
        """A pool has had its turn, with which it went from one ledger to another."""
        ours, old, new = self.ledger.columns, before.columns, after.columns
        for name in _SUMS:
            _column(ours, name)[:] += _column(new, name) - _column(old, name)
        for flow, usage in _FLOWS:
            is_changed = _column(new, flow) != _column(old, flow)
            told = np.where(is_changed, _column(new, flow), _column(ours, flow))
            _column(ours, flow)[:] = np.maximum(told, _column(ours, usage))
        for name, holding in self.ledger.queues.items():
            was, left = before.queues[name].budget_left, after.queues[name].budget_left
            if holding.budget_left is not None and was is not None and left is not None:
                holding.budget_left += left - was

    def touches(self, turn: Turn, before: Ledger) -> bool:
        """Whether a pool that began without it might decide otherwise because of what others took of limits."""
        books, old = turn.ledger.columns, before.columns
        asked, held = turn.lines.asked(), self._taken("held")
        fixed, by_users = np.maximum(self._taken("fixed_usage"), 0), self._taken("user_held").any(axis=1)
        spent = np.zeros(len(fixed), np.bool_)
        for name, holding in self.ledger.queues.items():
            spent[holding.number] = holding.budget_left != self._opened.queues[name].budget_left
        is_in_question = asked.queues & (spent | (fixed > 0) | held.any(axis=1))
        if (by_users & (books.user_has_quota > 0)).any():
            return bool(asked.queues.any())
        if not is_in_question.any():
            return False
        if turn.minutes.evictions or turn.round.limited or turn.pending or asked.has_wider:
            return True
        so_far = np.maximum(np.maximum(books.fixed_flow, books.fixed_usage), old.fixed_flow)
        is_near = (books.fixed_limit != UNLIMITED) & (so_far + fixed + asked.usage > books.fixed_limit)
        holds = np.maximum(books.held, old.held) + held + asked.least
        is_near |= ((books.quota != UNLIMITED) & (holds > books.quota)).any(axis=1)
        return bool((is_in_question & (is_near | spent)).any())

    def _taken(self, name: str) -> Ints:
        """What pools added so far took, or gave back."""
        return _column(self.ledger.columns, name) - _column(self._opened.columns, name)


def _column(books: Books, name: str) -> Ints:
    column: Ints = getattr(books, name)
    return column
