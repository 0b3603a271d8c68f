"""What pools do to the ledger, put together.

Pools are decided in order of name, and each knows what those before it did: flows, shares and limits are those of all
pools together. Those that are decided at the same time begin without that; a pool to which it matters what others did
is decided again (`touches`). Most queues have a pool of their own, so that hardly any is.
"""

from __future__ import annotations

import numpy as np

from muster.engine.columns import running_jobs as runs
from muster.engine.columns.arrays import Ints
from muster.engine.kernels.filling import Books
from muster.engine.ledger import Ledger
from muster.engine.present import Flags
from muster.engine.turn import Turn

_BY_QUEUE = (
    "flow",
    "usage",
    "started_usage",
    "started",
    "held",
    "fixed_flow",
    "fixed_usage",
    "starts",
    "last_start",
)


class Join:
    """The ledger of all pools, as one after the other is added to it."""

    def __init__(self, opened: Ledger) -> None:
        self._opened = opened
        self._budgeted = [name for name, it in opened.queues.items() if it.budget_left is not None]
        self.ledger = opened.fork()
        self._so_far = np.zeros(len(opened.columns.flow), np.bool_)

    def note(self) -> None:
        """A pool that knew the ledger has had its turn."""
        self._so_far = self._changed(self.ledger)

    def add(self, ledger: Ledger) -> None:
        """A pool that none of those before touches, and that began as if it were the first, has had its turn."""
        changed, ours, theirs = self._changed(ledger), self.ledger.columns, ledger.columns
        for name in _BY_QUEUE:
            _column(ours, name)[changed] = _column(theirs, name)[changed]
        ours.user_held[:] += theirs.user_held - self._opened.columns.user_held
        for name in self._budgeted:
            holding = self.ledger.queues[name]
            if changed[holding.number]:
                holding.budget_left = ledger.queues[name].budget_left
        self._so_far |= changed

    def touches(self, turn: Turn) -> bool:
        """Whether those added so far changed what matters to a pool that began without them."""
        if (self._so_far & relevant_to(turn)).any():
            return True
        books, opened = self.ledger.columns, self._opened.columns
        by_user = (books.user_held != opened.user_held).any(axis=1) & (books.user_has_quota > 0)
        return bool(by_user.any())

    def _changed(self, ledger: Ledger) -> Flags:
        """Which queues hold something else than when the turn began."""
        changed = np.zeros(len(self._opened.columns.flow), np.bool_)
        for name in _BY_QUEUE:
            differs = _column(ledger.columns, name) != _column(self._opened.columns, name)
            changed |= differs if differs.ndim == 1 else differs.any(axis=1)
        for name in self._budgeted:
            holding = ledger.queues[name]
            changed[holding.number] |= holding.budget_left != self._opened.queues[name].budget_left
        return changed


def relevant_to(turn: Turn) -> Flags:
    """The queues whose holdings matter to a pool: those whose jobs wait for it or run there."""
    stays, relevant = turn.horizon.stays, turn.lines.queues_asked()
    relevant[stays.column(runs.QUEUE, stays.residents)] = True
    for pending in turn.snapshot.pending:
        relevant[turn.ledger.queues[pending.job.queue].number] = True
    return relevant


def _column(books: Books, name: str) -> Ints:
    column: Ints = getattr(books, name)
    return column
