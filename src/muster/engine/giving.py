"""Who of a queue may give way whole, in columns: a million tasks are searched without an object each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muster.engine.books import Books
from muster.engine.columns import running_jobs as runs
from muster.engine.columns.arrays import Ints
from muster.engine.columns.profiles import ShapeTable
from muster.engine.horizon import Horizon
from muster.engine.kernels.placing import Cells
from muster.engine.present import Flags
from muster.engine.stays import Stays
from muster.model.jobs import Job
from muster.model.plan import Rule
from muster.model.queues import MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """A queue that a head may take from: by which rule, and how much of the blocking resource it can spare."""

    queue: str
    rule: Rule
    spare: int = 0


class Candidates:
    """The attempts of one queue that may give way, by rank and then those first that throw away least; newest first.

    `tiers` are those of one rank; attempts with the same number in `same` differ only in their names.
    """

    def __init__(self, stays: Stays, queue: str, shapes: ShapeTable, horizon: Horizon) -> None:
        rows = stays.giving_rows(queue)
        profile, started = stays.column(runs.PROFILE, rows), stays.column(runs.STARTED, rows)
        rank, priority = stays.column(runs.CLASS, rows), stays.column(runs.PRIORITY, rows)
        usage = shapes.usage[profile]
        lost = usage * ((stays.now_ms - started) // MINUTE_MS)
        order = np.lexsort((-started, usage, lost, priority, rank))
        self._stays = stays
        self.rows, self.profile = rows[order], profile[order]
        self.rank, self.priority, self.started = rank[order], priority[order], started[order]
        self.cluster = stays.column(runs.CLUSTER, self.rows)
        self.is_whole: Flags = shapes.is_whole[self.profile] > 0
        self.has_whole_nodes = bool(self.is_whole.any())
        self.has_parts = bool((stays.column(runs.SURPLUS, self.rows) > 0).any())
        begins = _changes(self.rank, self.priority)
        self.tiers = list(zip(begins.tolist(), [*begins[1:].tolist(), len(rows)], strict=True))
        alike = np.zeros(len(rows), np.int64)
        alike[_changes(self.rank, self.priority, usage[order], self.started)] = 1
        books: Books = horizon.now.books
        moves, lasts = stays.moves_of(self.rows, books.grounds, horizon.asks)
        self.moves: Cells = books.from_array(moves)
        self.lasts: Cells = books.from_array(lasts)
        self.most_tasks = int(np.diff(lasts, prepend=0).max(initial=0))  # that any of them has
        self.same: Cells = books.from_array(np.cumsum(alike))

    @cached_property
    def in_order(self) -> list[int]:
        """Their places in the order in which they go: lowest rank, newest start, highest id."""
        keys = self._stays.keys(self.rows.tolist())
        places = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
        ranks = list(zip(self.rank.tolist(), self.priority.tolist(), (-self.started).tolist(), strict=True))
        return sorted(places, key=ranks.__getitem__)

    @cached_property
    def ends(self) -> Ints:
        """When each leaves by itself, as far as anyone stated."""
        return self._stays.column(runs.END, self.rows)

    def highest_id_first(self, places: list[int]) -> list[int]:
        """Places of those that differ only in their names."""
        return sorted(places, key=lambda place: self._stays.key(int(self.rows[place])), reverse=True)

    def in_reach(self, head: Job, reach: Reach, cluster: int, stays: Stays) -> Flags:
        """Which of them the head may take from, whatever their queue can spare."""
        may: Flags = stays.gives(self.rows) & (self.cluster == cluster) & (self.rank <= head.priority_class)
        if reach.rule is Rule.PRIORITY:
            may &= (self.rank < head.priority_class) | (self.priority < head.priority)
        if barred := stays.gave_way_to(head.id):
            may &= ~np.isin(self.rows, barred)
        return may


def _changes(*columns: Ints) -> Ints:
    """Where any of the columns changes; the first place counts."""
    size = len(columns[0])
    is_change = np.zeros(size, np.bool_)
    is_change[:1] = True
    for column in columns:
        is_change[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_change)
