"""The place of whole jobs, for a head that found no room: searched in columns, and taken where they are.

The same rules as in victims.py, for the usual case: no tasks above min, nobody who overtook the head, and the head
not merely in the way of a promise. A kernel finds who would be enough at this moment; whether every promise still
holds is then looked at for that one alone. Where promises have nothing to do with it, rooms are changed in place;
everything else goes the careful way, over a fork of the horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.giving import Candidates, Reach
from muster.engine.horizon import Horizon
from muster.engine.kernels.placing import TASK
from muster.engine.kernels.yielding import ENOUGH
from muster.engine.ledger import Ledger
from muster.engine.placement import Headcount, Leaving, Placer, Tasks
from muster.engine.rooms import Span
from muster.engine.shapes import Ints
from muster.engine.victims import Claims, Unit, minimal
from muster.engine.without import Without
from muster.model.jobs import Job
from muster.model.plan import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Who must go, and where the head starts then. `horizon`: the one to go on with, None if it is as it was.

    `by_right`: it need not respect promises that rest on guesses.
    """

    units: list[Unit]
    tasks: Tasks
    horizon: Horizon | None
    by_right: bool = True


Careful = Callable[[list[Unit]], tuple[Tasks, Horizon] | None]
"""The head's tasks on a horizon without these units, on which every firm promise holds."""

Prune = Callable[[Tasks, list[Unit]], Taken]
"""The head on these very tasks, without units that need not go for them."""


class Taking:
    """Looks for whole jobs in whose place a head could start."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._candidates: dict[tuple[str, int], Candidates] = {}

    def search(self, horizon: Horizon, claims: Claims, cluster: str) -> Search | None:
        """A search for the head of these claims; None if it must go the long way."""
        if claims.is_overtaken(horizon.stays):
            return None
        reach = claims.reach(horizon.stays)
        lines = [(it, self._of(horizon, it.queue)) for it in reach]
        if any(candidates.has_parts for _, candidates in lines):
            return None
        return Search(horizon, claims, cluster, lines, self.ledger)

    def _of(self, horizon: Horizon, queue: str) -> Candidates:
        key = (queue, horizon.stays.epoch)
        if key not in self._candidates:
            self._candidates[key] = Candidates(horizon.stays, queue, self.ledger.shapes, horizon)
        return self._candidates[key]


class Search:
    """One head looks for room in the place of others, in one cluster."""

    def __init__(
        self,
        horizon: Horizon,
        claims: Claims,
        cluster: str,
        lines: Sequence[tuple[Reach, Candidates]],
        ledger: Ledger,
    ) -> None:
        self.horizon = horizon
        self.claims = claims
        self.head: Job = claims.head
        self.cluster = cluster
        self._lines = lines
        self._ledger = ledger
        self._promised = {task.node for it in horizon.promised.values() for task in it.reservation.tasks}

    def find(self, careful: Careful, prune: Prune, most: int) -> Taken | None:
        """One that is enough, the cheapest of the first queue and rank that has any; else several."""
        if not self._lines:
            return None
        return self._one(careful) or self._several(careful, prune, most)

    def has_anyone(self) -> bool:
        """Whether there is anyone in the cluster whom the head may take from, whatever their queue can spare."""
        stays, cluster = self.horizon.stays, self.horizon.stays.resident.clusters.number(self.cluster)
        return any(candidates.in_reach(self.head, reach, cluster, stays).any() for reach, candidates in self._lines)

    def freed(self, reach: Reach, candidates: Candidates) -> Ints:
        """What each has of the blocking resource; only shares ask for it."""
        place = self._ledger.shapes.resources.get(self.claims.resource) if reach.rule is Rule.FAIR_SHARE else None
        if place is None:
            return np.zeros(len(candidates.rows), np.int64)
        freed: Ints = self._ledger.shapes.least[candidates.profile, place]
        return freed

    def legal(self, reach: Reach, candidates: Candidates) -> Ints:
        stays = self.horizon.stays
        freed, cluster = self.freed(reach, candidates), stays.resident.clusters.number(self.cluster)
        return candidates.legal(self.head, reach, cluster, freed, stays)

    def _unit(self, reach: Reach, candidates: Candidates, place: int) -> Unit:
        run = self.horizon.stays.run(int(candidates.rows[place]))
        return Unit(run=run, tasks=run.tasks, whole=True, rule=reach.rule)

    # -- one -------------------------------------------------------------------------------------------

    def _one(self, careful: Careful) -> Taken | None:
        missing = self._missing()
        for reach, candidates in self._lines:
            if reach.rule is Rule.FAIR_SHARE and reach.spare < missing and not candidates.has_whole_nodes:
                continue  # whoever the queue can spare has less, and only a node for oneself leaves more than that
            for place in self._enough(reach, candidates):
                row, unit = int(candidates.rows[place]), self._unit(reach, candidates, place)
                if (taken := self._take([row], [unit], careful)) is not None:
                    return taken
        return None

    def _missing(self) -> int:
        """How much of the blocking resource is missing on the node that has most of it, if one task is all there is."""
        profile, rooms = self.head.profile, self.horizon.now
        dim = rooms.books.grounds.dim_number.get(self.claims.resource) if self.claims.has_share_in_question else None
        if profile.tasks_min != 1 or dim is None:
            return 0
        return profile.least.get(self.claims.resource) - rooms.most_free(dim)

    def _enough(self, reach: Reach, candidates: Candidates) -> Iterator[int]:
        """Those of a queue without whom the head would fit now, rank by rank, in the order in which they go."""
        legal = self.legal(reach, candidates)
        if not legal.any():
            return
        books, grounds = self.horizon.now.books, self.horizon.now.books.grounds
        shape, may = grounds.shape_of(self.head.profile), books.from_array(legal)
        span = Span([self.horizon.now])
        longest = int(np.diff(np.asarray(candidates.lasts), prepend=0).max())
        cells = span.cells(longest + sum(shape.least))
        groups, widths = books.of(shape.groups), books.of(shape.least)
        cluster = grounds.cluster_number[self.cluster]
        for begin, end in candidates.tiers:
            place = begin
            while place < end:
                first, place = books.kernels.who_is_enough(
                    *cells,
                    groups,
                    widths,
                    cluster,
                    candidates.moves,
                    candidates.lasts,
                    candidates.same,
                    may,
                    place,
                    end,
                )
                yield from candidates.highest_id_first([it for it in range(first, place) if may[it] == ENOUGH])

    # -- several ---------------------------------------------------------------------------------------

    def _several(self, careful: Careful, prune: Prune, most: int) -> Taken | None:
        """As many as it takes, in order; then without those that are not needed."""
        rooms = self.horizon.now.copy()
        headcount = Headcount(Placer(Span([rooms])), self.head.profile, self.cluster)
        chosen: list[Unit] = []
        rows: dict[str, int] = {}
        for reach, candidates, place in self._in_turn():
            if len(chosen) >= most:
                return None
            unit = self._unit(reach, candidates, place)
            chosen.append(unit)
            rows[unit.run.job.id] = int(candidates.rows[place])
            if self._is_enough(headcount, candidates, place) and self._fits(chosen, rows, careful):
                must_go = Without(self.horizon, self.head, self.cluster, careful).who_must_go(chosen)
                few = minimal(chosen, lambda units: self._fits(units, rows, careful), must_go)
                return self._take([rows[unit.run.job.id] for unit in few], few, careful, prune)
        return None

    def _in_turn(self) -> Iterator[tuple[Reach, Candidates, int]]:
        """All that may go, in order; the queue furthest over changes as they go."""
        lines = [_Line(reach, candidates, self) for reach, candidates in self._lines]
        while lines:
            line = min(lines, key=lambda line: (-line.spare, line.reach.queue))
            if (place := line.next()) is None:
                lines.remove(line)
            else:
                yield line.reach, line.candidates, place

    def _is_enough(self, headcount: Headcount, candidates: Candidates, place: int) -> bool:
        """Let one more leave: whether every group could then have its min, were it alone."""
        books = self.horizon.now.books
        first = int(candidates.lasts[place - 1]) if place else 0
        last = int(candidates.lasts[place])
        moves = candidates.moves[first * TASK : last * TASK]
        leaving = Leaving(moments=books.of([0]), moves=moves, lasts=books.of([last - first]))
        return headcount.free_until_enough(leaving, 0)[1]

    # -- taking ----------------------------------------------------------------------------------------

    def _take(self, rows: list[int], units: list[Unit], careful: Careful, prune: Prune | None = None) -> Taken | None:
        """The head in the place of these, if every promise that must hold does."""
        if self._is_apart(units):
            undo, tasks = self.horizon.place_without(rows, self.head, self.cluster)
            if tasks is not None and prune is not None and not self.horizon.promised:
                undo()
                return prune(tasks, units)
            if tasks is not None:
                for row in rows:
                    self.horizon.stays.leave(row)
                return Taken(units=units, tasks=tasks, horizon=None)
            undo()
        found = careful(units)
        return None if found is None else Taken(units=units, tasks=found[0], horizon=found[1])

    def _fits(self, units: list[Unit], rows: dict[str, int], careful: Careful) -> bool:
        """Whether the head could start if these were gone."""
        if self._is_apart(units):
            places = [rows[unit.run.job.id] for unit in units]
            undo, tasks = self.horizon.place_without(places, self.head, self.cluster)
            undo()
            if tasks is not None:
                return True
        return bool(self.horizon.promised) and careful(units) is not None

    def _is_apart(self, units: list[Unit]) -> bool:
        """Whether no promise counts on the nodes that they leave: then each room changes just by what they leave."""
        return self._promised.isdisjoint(task.node for unit in units for task in unit.tasks)


class _Line:
    """Those of one queue that may go, one after the other, as long as it can spare them."""

    def __init__(self, reach: Reach, candidates: Candidates, search: Search) -> None:
        self.reach = reach
        self.candidates = candidates
        self.spare = reach.spare
        self._legal = search.legal(reach, candidates).tolist()
        self._freed = search.freed(reach, candidates).tolist()
        self._at = 0

    def next(self) -> int | None:
        """The place of the next one."""
        order = self.candidates.in_order if any(self._legal) else []
        while self._at < len(order):
            place = order[self._at]
            self._at += 1
            if self._legal[place] and (self.reach.rule is Rule.PRIORITY or self._freed[place] <= self.spare):
                self.spare -= self._freed[place]  # of its own queue it spares nothing
                return place
        return None
