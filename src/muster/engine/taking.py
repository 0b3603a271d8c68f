"""The place of whole jobs, for a head that found no room: searched in columns, and taken where they are.

The same rules as in victims.py, for the usual case: no tasks above min, and nobody who overtook the head. A kernel
finds who would be enough at this moment; whether every promise still holds is then looked at for that one alone. Where
promises have nothing to do with it, rooms are changed in place; everything else goes the careful way, over a fork of
the horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.giving import Candidates, Reach
from muster.engine.horizon import Horizon
from muster.engine.kernels.hoping import FEW
from muster.engine.kernels.placing import TASK
from muster.engine.kernels.yielding import ENOUGH
from muster.engine.ledger import Ledger
from muster.engine.offers import Leaving, has_room_without, until_of
from muster.engine.placement import Headcount, Leavers, Placer, Tasks
from muster.engine.present import Flags
from muster.engine.rooms import Span
from muster.engine.victims import LOOKS, Claims, Unit, minimal
from muster.engine.without import ByRight
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

    def search(self, horizon: Horizon, claims: Claims, cluster: str, careful: Careful) -> Search | None:
        """A search for the head of these claims; None if it must go the long way."""
        if self.ledger.asks_planner:
            return None
        if claims.is_overtaken(horizon.stays):
            return None
        reach = claims.reach(horizon.stays)
        lines = [(it, self._of(horizon, it.queue)) for it in reach]
        if any(candidates.has_parts for _, candidates in lines):
            return None
        return Search(horizon, claims, cluster, lines, careful)

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
        careful: Careful,
    ) -> None:
        self.horizon = horizon
        self.claims = claims
        self.head: Job = claims.head
        self.cluster = cluster
        self._lines = [_Line(reach, candidates, horizon, claims, cluster) for reach, candidates in lines]
        self._careful = careful
        self._trial = ByRight(horizon, self.head, cluster, careful)

    def find(self, prune: Prune, most: int) -> Taken | None:
        """One that is enough, the cheapest of the first queue and rank that has any; else several."""
        if not any(line.legal.any() for line in self._lines):
            return None
        return self._one() or self._several(prune, most)

    def past_promises(self) -> Taken | None:
        """In the place of nobody, or of one that is enough, where only promises keep the head from starting."""
        if not self.has_anyone():
            return None
        if self._trial.fits([]) and (taken := self._take_carefully([])) is not None:
            return taken
        looks = list(islice(self._cheapest_first(), LOOKS))
        for unit, does_matter in zip(looks, self._trial.who_matters(looks), strict=True):
            if does_matter and self._trial.fits([unit]) and (taken := self._take_carefully([unit])) is not None:
                return taken
        return None

    def _cheapest_first(self) -> Iterator[Unit]:
        """Whoever may go, queue by queue and rank by rank."""
        for line in self._lines:
            legal, candidates = np.flatnonzero(line.legal).tolist(), line.candidates
            for _, alike in groupby(legal, key=lambda place: candidates.same[place]):
                yield from (line.unit(place) for place in candidates.highest_id_first(list(alike)))

    def has_anyone(self) -> bool:
        """Whether there is anyone in the cluster whom the head may take from, whatever their queue can spare."""
        return any(line.in_reach.any() for line in self._lines)

    def may_have_room(self, *, only_delays: bool) -> bool:
        """Whether by a plain count there could be room if all were gone who may go. Of many it is not counted.

        `only_delays`: there is room, which is promised to others; it may be that nobody has to go.
        """
        if sum(np.count_nonzero(line.in_reach) for line in self._lines) > FEW:
            return True
        legal = [(line, line.legal) for line in self._lines if line.legal.any()]
        if any((line.candidates.is_whole & may).any() for line, may in legal):
            return True  # they leave more than they asked for
        if not (self.has_anyone() if only_delays else legal):
            return False
        of = self.horizon.now.books.from_array
        leaving = [
            Leaving(
                line.candidates.moves,
                line.candidates.lasts,
                of(until_of(self.horizon, line.candidates.rows)),
                of(may.astype(np.int64)),
            )
            for line, may in legal
        ]
        return has_room_without(self.horizon, self.head, self.cluster, leaving, only_delays=only_delays)

    # -- one -------------------------------------------------------------------------------------------

    def _one(self) -> Taken | None:
        missing = self._missing()
        for line in self._lines:
            reach, candidates = line.reach, line.candidates
            if reach.rule is Rule.FAIR_SHARE and reach.spare < missing and not candidates.has_whole_nodes:
                continue  # whoever the queue can spare has less, and only a node for oneself leaves more than that
            for place in self._enough(line):
                if (taken := self._take([int(candidates.rows[place])], [line.unit(place)])) is not None:
                    return taken
        return None

    def _missing(self) -> int:
        """How much of the blocking resource is missing on the node that has most of it, if one task is all there is."""
        profile, rooms = self.head.profile, self.horizon.now
        dim = rooms.books.grounds.dim_number.get(self.claims.resource) if self.claims.has_share_in_question else None
        if profile.tasks_min != 1 or dim is None:
            return 0
        least = profile.least.get(self.claims.resource)
        are_rich = all(line.reach.spare >= least for line in self._lines if line.reach.rule is Rule.FAIR_SHARE)
        return 0 if are_rich else least - rooms.most_free(dim)

    def _enough(self, line: _Line) -> Iterator[int]:
        """Those of a queue without whom the head would fit now, rank by rank, in the order in which they go."""
        if not line.legal.any():
            return
        books, grounds, candidates = self.horizon.now.books, self.horizon.now.books.grounds, line.candidates
        shape, may = grounds.shape_of(self.head.profile), books.from_array(line.legal.astype(np.int64))
        span = self._span_for(line)
        cells = span.cells(candidates.most_tasks + sum(shape.least))
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

    def _span_for(self, line: _Line) -> Span:
        """The room in which to look for one who is enough: now, and where promises are plain at their moments too."""
        span = self.horizon.span_from_now(self.head)
        if len(span.moments) == 1 or not self._trial.is_plain:
            return Span([self.horizon.now])
        last_ms, ends = self.horizon.starts_from_now(self.head)[-1], line.candidates.ends
        are_there = (ends <= self.horizon.now_ms) | (ends > last_ms)
        return span if are_there[line.legal].all() else Span([self.horizon.now])

    # -- several ---------------------------------------------------------------------------------------

    def _several(self, prune: Prune, most: int) -> Taken | None:
        """As many as it takes, in order; then without those that are not needed."""
        rooms = self.horizon.now.copy()
        headcount = Headcount(Placer(Span([rooms])), self.head.profile, self.cluster)
        chosen: list[Unit] = []
        rows: dict[str, int] = {}
        for line, place in self._in_turn():
            if len(chosen) >= most:
                return None
            unit = line.unit(place)
            chosen.append(unit)
            rows[unit.run.job.id] = int(line.candidates.rows[place])
            if self._is_enough(headcount, line.candidates, place) and self._fits(chosen, rows):
                must_go = self._trial.who_must_go(chosen)
                few = minimal(chosen, lambda units: self._fits(units, rows), must_go)
                return self._take([rows[unit.run.job.id] for unit in few], few, prune)
        return None

    def _in_turn(self) -> Iterator[tuple[_Line, int]]:
        """All that may go, in order; the queue furthest over changes as they go."""
        lines = [(line, line.in_turn()) for line in self._lines]
        while lines:
            line, places = nearest = min(lines, key=lambda it: (-it[0].spare, it[0].reach.queue))
            if (place := next(places, None)) is None:
                lines.remove(nearest)
            else:
                yield line, place

    def _is_enough(self, headcount: Headcount, candidates: Candidates, place: int) -> bool:
        """Let one more leave: whether every group could then have its min, were it alone."""
        books = self.horizon.now.books
        first = int(candidates.lasts[place - 1]) if place else 0
        last = int(candidates.lasts[place])
        moves = candidates.moves[first * TASK : last * TASK]
        leaving = Leavers(moments=books.of([0]), moves=moves, lasts=books.of([last - first]))
        return headcount.free_until_enough(leaving, 0)[1]

    # -- taking ----------------------------------------------------------------------------------------

    def _take(self, rows: list[int], units: list[Unit], prune: Prune | None = None) -> Taken | None:
        """The head in the place of these, if every promise that must hold does."""
        if self._trial.is_apart(units):
            undo, tasks = self.horizon.place_without(rows, self.head, self.cluster)
            if tasks is not None and prune is not None and not self.horizon.promised:
                undo()
                return prune(tasks, units)
            if tasks is not None:
                for row in rows:
                    self.horizon.stays.leave(row)
                return Taken(units=units, tasks=tasks, horizon=None)
            undo()
            if not self._trial.may_pass(units):
                return None
        return self._take_carefully(units)

    def _take_carefully(self, units: list[Unit]) -> Taken | None:
        """The same over a fork of the horizon."""
        found = self._careful(units)
        return None if found is None else Taken(units=units, tasks=found[0], horizon=found[1])

    def _fits(self, units: list[Unit], rows: dict[str, int]) -> bool:
        """Whether the head could start if these were gone."""
        if self._trial.is_apart(units):
            places = [rows[unit.run.job.id] for unit in units]
            undo, tasks = self.horizon.place_without(places, self.head, self.cluster)
            undo()
            return tasks is not None or self._trial.may_pass(units)
        return self._careful(units) is not None


class _Line:
    """Those of one queue that the head may take from, and how much of the blocking resource the queue can spare."""

    def __init__(self, reach: Reach, candidates: Candidates, horizon: Horizon, claims: Claims, cluster: str) -> None:
        self.reach = reach
        self.candidates = candidates
        self.spare = reach.spare
        self._stays = horizon.stays
        self._claims = claims
        self._cluster = horizon.stays.resident.clusters.number(cluster)

    @cached_property
    def in_reach(self) -> Flags:
        """Which of them the head may take from, whatever their queue can spare."""
        return self.candidates.in_reach(self._claims.head, self.reach, self._cluster, self._stays)

    @cached_property
    def freed(self) -> Ints:
        """What each has of the blocking resource; only shares ask for it."""
        claims, shapes = self._claims, self._claims.ledger.shapes
        place = shapes.resources.get(claims.resource) if self.reach.rule is Rule.FAIR_SHARE else None
        if place is None:
            return np.zeros(len(self.candidates.rows), np.int64)
        freed: Ints = shapes.least[self.candidates.profile, place]
        return freed

    @cached_property
    def legal(self) -> Flags:
        """Which of them may go, each by itself."""
        if self.reach.rule is not Rule.FAIR_SHARE:
            return self.in_reach
        return self.in_reach & (self.freed > 0) & (self.freed <= self.reach.spare)

    def unit(self, place: int) -> Unit:
        """The one in a place, to go whole."""
        run = self._stays.run(int(self.candidates.rows[place]))
        return Unit(run=run, tasks=run.tasks, whole=True, rule=self.reach.rule)

    def in_turn(self) -> Iterator[int]:
        """The places of those that may go, one after the other, as long as the queue can spare them."""
        if not self.legal.any():
            return
        legal, freed = self.legal.tolist(), self.freed.tolist()
        for place in self.candidates.in_order:
            if legal[place] and (self.reach.rule is Rule.PRIORITY or freed[place] <= self.spare):
                self.spare -= freed[place]  # of its own queue it spares nothing
                yield place
