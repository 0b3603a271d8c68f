"""What other pools did, as far as it matters to one."""

from __future__ import annotations

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.pools.joining import relevant_to
from muster.engine.pools.lending import waits_for_room
from muster.engine.turn import Turn


class News:
    """Whether queues that matter to a pool hold more or less, through other pools, than when it came to rest."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._queues = np.flatnonzero(relevant_to(turn))
        self.read()

    def is_there(self) -> bool:
        """Whether there is anything to answer, and anyone who might; or the pool might lend, if a limit now keeps those
        back who waited for its room."""
        turn = self.turn
        may_matter = turn.may_answer() or (turn.fleet.pool.shares and waits_for_room(turn))
        return may_matter and not np.array_equal(self._seen, self._holdings())

    def read(self) -> None:
        """The pool has come to rest as things are now."""
        self._seen = self._holdings()

    def _holdings(self) -> Ints:
        """As the next round would find them: whether someone has settled the books meanwhile is no news."""
        flow, books = self.turn.ledger.settled(), self.turn.ledger.columns
        columns = (flow, books.usage, books.started_usage, books.fixed_flow)
        return np.stack([column[self._queues] for column in columns])
