"""What other pools did, as far as it matters to one."""

from __future__ import annotations

import numpy as np

from muster.engine import runs
from muster.engine.shapes import Ints
from muster.engine.turn import Turn


class News:
    """Whether queues that matter to a pool hold more or less, through other pools, than when it came to rest."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        stays = turn.horizon.stays
        waiting = np.flatnonzero(turn.lines.asked().queues)
        self._queues = np.union1d(waiting, stays.column(runs.QUEUE, stays.residents))
        self.read()

    def is_there(self) -> bool:
        """Whether there is anything to answer, and anyone who might."""
        return self.turn.may_answer() and not np.array_equal(self._seen, self._holdings())

    def read(self) -> None:
        """The pool has come to rest as things are now."""
        self._seen = self._holdings()

    def _holdings(self) -> Ints:
        books = self.turn.ledger.columns
        columns = (books.flow, books.usage, books.started_flow, books.started_usage, books.fixed_flow)
        return np.stack([column[self._queues] for column in columns])
