"""A turn of many pools: all place their own jobs, at the same time if there are threads; then who may borrows."""

from __future__ import annotations

from muster.engine.columns.views import floor_of
from muster.engine.kernels.beside import all_at_once
from muster.engine.kernels.jit import plain
from muster.engine.ledger import Ledger
from muster.engine.never_fits import never_fits
from muster.engine.opening import Opened
from muster.engine.pools.borrowing import Borrowing
from muster.engine.pools.diary import Diary
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
        self.turns: list[Turn] = []
        self.diary = Diary()
        self._news: list[News] = []
        policy, join = snapshot.policy, Join(opened.ledger)
        is_rated = policy.starts_per_turn is not None  # then each must know how many started before
        if threads > 1 and not is_rated and opened.roll.rank_all():
            self._settle_at_once(join, threads)
        else:
            for part in self._snapshots.values():
                self._settle(part, join.ledger)
        self.borrowing = Borrowing(snapshot, opened, self.turns, join.ledger)
        for turn in self.turns:
            turn.ledger.become(join.ledger)
        self._come_to_rest()
        owed = [lack for turn in self.turns for lack in turn.finder.width.owed]
        for turn in self.turns:
            turn.finder.width.owed[:] = owed  # a quota is one for all pools
            turn.grow()

    def _settle(self, part: Snapshot, ledger: Ledger) -> None:
        """A pool takes its turn, knowing what was done before."""
        turn = Turn(part, self._opened, ledger)
        turn.minutes.starts = int(ledger.columns.starts.sum())
        turn.settle()
        self._settled(turn)

    def _settled(self, turn: Turn) -> None:
        self.diary.note(turn.minutes)
        self.turns.append(turn)
        self._news.append(News(turn))

    def _settle_at_once(self, join: Join, threads: int) -> None:
        """All pools at the same time, each as if it were the first; to whom it matters what others did, again."""
        self._look_up_all()
        for turn in all_at_once(self._settled_alone, self._snapshots.values(), threads):
            if join.touches(turn):
                self._settle(turn.snapshot, join.ledger)
                join.note()
            else:
                join.add(turn.ledger)
                self._settled(turn)

    def _settled_alone(self, part: Snapshot) -> Turn:
        turn = Turn(part, self._opened, self._opened.ledger.fork())
        turn.settle()
        return turn

    def _look_up_all(self) -> None:
        """What is numbered or worked out when it is first asked for: then threads only read it."""
        runs, shapes = self._opened.runs, self._opened.shapes
        self._opened.roll.forget_leavers()
        grounds = [floor_of(part).grounds for part in self._snapshots.values()]
        for each in grounds:
            runs.numbers_on(each)
        for part, each in zip(self._snapshots.values(), grounds, strict=True):
            runs.on(each)
            runs.residents(part.fleet.pool.name, part.whole)
            shapes.homes(part.whole)
            shapes.asks_of(each, listed=self._opened.face is plain)
            for pending in part.pending:
                never_fits(part.whole, pending.job.profile)

    def _come_to_rest(self) -> None:
        """Lend, and let those answer to whom it matters, until nothing changes: then the same moment planned again
        gives an empty plan."""
        left = self._lend()
        while left or any(it.is_there() for it in self._news):
            for it in self._news:
                if it.turn.fleet.pool.name in left or it.is_there():
                    it.turn.settle_again()
                    self.diary.note(it.turn.minutes)
                    it.read()
            left = self._lend()

    def _lend(self) -> set[str]:
        left = self.borrowing.lend()
        for turn in self.turns:  # who was admitted before starts by the minutes of its own pool
            self.diary.note(turn.minutes)
        self.diary.note(self.borrowing.minutes)
        return left
