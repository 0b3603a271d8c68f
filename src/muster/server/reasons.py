"""What turns said of those who wait: all of the last one, and what is written down of it with turns.

The table (`muster.state.why.table`) of the last turn is made when someone asks, or when it is due to be written. It is
written whole with a turn when it says something else than the one written last, and again before that one would be
forgotten; other turns name the turn that wrote theirs. Tables are small, but a busy server would write one with every
turn: so there is at least a second between two, and more where they are large.

Why: docs/adr/0037-reasons-with-turns.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from muster.engine.garbage import in_one_go
from muster.engine.waiting import held
from muster.model.jobs import Job
from muster.model.plan import Plan, Waiting
from muster.model.reasons import Reason
from muster.server.world import World
from muster.state.run import Moment
from muster.state.why.table import Table, Wait, table_of
from muster.store.batch import as_json
from muster.store.rows import TurnRow
from muster.store.store import Store

SHORTEST_GAP_MS = 1000
BYTES_PER_MS = 4  # of tables, on average, at most: 350 MB a day

WAITING = "waiting"  # the part of a turn's body
_AS, _ROWS = "as", "rows"


class Written(NamedTuple):
    """A table, and the number of the turn that wrote it."""

    turn: int
    table: Table


class Reasons:
    """Why everyone waits, as of the last turn. Hold the world's lock while asking."""

    def __init__(self, world: World, store: Store, *, keep_ms: int) -> None:
        self._world = world
        self._keep_ms = keep_ms
        self.turn = store.last_turn()  # the number of the last turn that was written down
        self.at_ms = 0  # when the last turn was that considered anyone
        self._plan: Plan | None = None
        self._table: Table | None = None
        self._is_due = False
        self._next_ms = 0
        last = store.turn(self.turn)
        self._written = None if last is None else tables_in(store, [last]).get(self.turn)
        if self._written is not None:
            self._table = self._written.table
            self.at_ms = self._table.at_ms

    # -- reading -----------------------------------------------------------------------------------------

    def table(self) -> Table | None:
        """What the last turn said; before the first one, what was written down of the last before that."""
        if self._table is None and self._plan is not None:
            with in_one_go():
                self._table = table_of(self._world.state, self._plan)
        return self._table

    def verdict(self, job: Job) -> Waiting | None:
        """Why a job that is not over waits; None if it does not, or no turn has considered it yet."""
        state = self._world.state
        if job.id in state.held:
            return held(state.held_back(job))
        table = self.table()
        if table is None or job.id in state.running or (self._plan is None and job.submit_ms > table.at_ms):
            return None
        return table.verdict(job.id, job.queue)

    # -- turns -------------------------------------------------------------------------------------------

    def due_ms(self) -> int | None:
        """When there is something to write down, although nothing may happen until then."""
        if self._is_due:
            return self._next_ms
        if self._written is None or not self._written.table.waits:
            return None
        return self._renewed_ms(self._written)

    def _renewed_ms(self, written: Written) -> int:
        """When a table is written again, so that it is not forgotten."""
        return written.table.at_ms + self._keep_ms // 4

    def after(self, moment: Moment) -> Mapping[str, Any] | None:
        """What to write down with the turn that was just taken; None: it says nothing new, or it is not time yet."""
        if self._world.is_paused:
            return None
        is_other = self._plan is None or moment.plan.verdicts is not self._plan.verdicts
        if is_other or moment.events:
            self._table, self._is_due = None, True
        self._plan, self.at_ms = moment.plan, moment.now_ms
        due_ms = self.due_ms()
        if due_ms is None or moment.now_ms < due_ms:
            return None
        return self._written_down(moment.now_ms)

    def _written_down(self, now_ms: int) -> Mapping[str, Any] | None:
        table, before = self.table(), self._written
        assert table is not None, "a turn was taken"
        self._is_due, self._next_ms = False, now_ms + SHORTEST_GAP_MS
        if before is None and not table.waits:
            return None
        if before is not None and now_ms < self._renewed_ms(before) and table.says_the_same(before.table):
            return None
        body = as_body(table)
        self._written = Written(self.turn + 1, table)
        self._next_ms = now_ms + max(SHORTEST_GAP_MS, len(as_json(body)) // BYTES_PER_MS)
        return body

    def as_before(self) -> Mapping[str, Any] | None:
        """What a turn that is written down says, if it says nothing new: how many turns ago that was written."""
        return None if self._written is None else {_AS: self.turn + 1 - self._written.turn}


def as_body(table: Table) -> dict[str, Any]:
    """A table as the store keeps it."""
    rows = [[it.queue, it.asks, it.reason.name, it.facts, it.jobs, it.job] for it in table.waits]
    return {"heads": dict(table.heads), _ROWS: rows}


def tables_in(store: Store, turns: Sequence[TurnRow]) -> dict[int, Written]:
    """The tables that hold for turns, by the numbers of these; whose table is forgotten, or never was, has none."""
    rows: dict[int, TurnRow | None] = {turn.number: turn for turn in turns}
    found: dict[int, Written] = {}
    for turn in turns:
        body = turn.body.get(WAITING)
        if body is None:
            continue
        number = turn.number - body.get(_AS, 0)
        if number not in rows:
            rows[number] = store.turn(number)
        writer = rows[number]
        if writer is not None and _ROWS in writer.body.get(WAITING, {}):
            found[turn.number] = Written(number, _table(writer))
    return found


def _table(turn: TurnRow) -> Table:
    body = turn.body[WAITING]
    waits = tuple(
        Wait(queue=queue, asks=asks, reason=Reason[reason], facts=facts, jobs=jobs, job=job)
        for queue, asks, reason, facts, jobs, job in body[_ROWS]
    )
    return Table(at_ms=turn.at_ms, waits=waits, heads=body["heads"])
