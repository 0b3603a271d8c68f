"""A turn of many pools: all place their own jobs, at the same time if there are threads; then who may borrows."""

from __future__ import annotations

from muster.engine.kernels.beside import all_at_once
from muster.engine.ledger import Ledger
from muster.engine.opening import Opened
from muster.engine.placement import never_fits
from muster.engine.pools.borrowing import Borrowing
from muster.engine.pools.dividing import divided
from muster.engine.pools.joining import Join
from muster.engine.pools.news import News
from muster.engine.turn import Turn
from muster.model.snapshot import Snapshot


class Pooled:
    """The turns of all pools of a snapshot, in order of name, and what came of borrowing."""

    def __init__(self, snapshot: Snapshot, opened: Opened, threads: int) -> None:
        self._opened = opened
        self._snapshots = divided(snapshot, opened)
        policy = snapshot.policy
        self._is_rated = policy.starts_per_turn is not None or policy.starts_per_queue is not None
        self.turns: list[Turn] = []
        join = Join(opened.ledger, is_rated=self._is_rated)
        if threads > 1 and not self._is_rated:
            self._settle_at_once(join, threads)
        else:
            self._settle_in_turn(join)
        news = [News(turn) for turn in self.turns]
        for turn in self.turns:
            turn.ledger.become(join.ledger)
        self.borrowing = Borrowing(snapshot, opened, self.turns, join.ledger)
        self._come_to_rest(news)
        for turn in self.turns:
            turn.grow()

    def _come_to_rest(self, news: list[News]) -> None:
        """Lend, and let those answer to whom it matters, until nothing changes: then the same moment planned again
        gives an empty plan."""
        left = self.borrowing.lend()
        while left or any(it.is_there() for it in news):
            for it in news:
                if it.turn.fleet.pool.name in left or it.is_there():
                    it.turn.settle_again()
                    it.read()
            left = self.borrowing.lend()

    def _settle_in_turn(self, join: Join) -> None:
        for part in self._snapshots.values():
            self._settle(part, join)

    def _settle(self, part: Snapshot, join: Join) -> None:
        before = join.begin()
        turn = self._turn(part, before)
        if self._is_rated:
            turn.minutes.starts = sum(it.minutes.starts for it in self.turns)
        turn.settle()
        join.add(before, turn.ledger)
        self.turns.append(turn)

    def _turn(self, part: Snapshot, before: Ledger) -> Turn:
        return Turn(part, self._opened, before.fork())

    def _settle_at_once(self, join: Join, threads: int) -> None:
        """All pools at the same time, each as if it were the first; who might have decided otherwise decides again."""
        before = self._opened.ledger
        turns = [self._turn(part, before) for part in self._snapshots.values()]
        self._look_up_all(turns)
        all_at_once(Turn.settle, turns, threads)
        for turn in turns:
            if join.touches(turn, before):
                self._settle(turn.snapshot, join)
            else:
                join.add(before, turn.ledger)
                self.turns.append(turn)

    def _look_up_all(self, turns: list[Turn]) -> None:
        """What is numbered or worked out when it is first asked for: then threads only read it."""
        for turn in turns:
            grounds = turn.horizon.now.books.grounds
            self._opened.runs.numbers_on(grounds)
            for pending in turn.snapshot.pending:
                never_fits(turn.fleet.whole, pending.job.profile)
        for turn in turns:
            self._opened.runs.on(turn.horizon.now.books.grounds)
