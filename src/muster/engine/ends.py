"""When those who run are taken to leave: as someone stated, or by our guess; and who may be evicted sooner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from muster.engine.columns import running_jobs as runs
from muster.engine.columns.arrays import Ints
from muster.engine.columns.running_jobs import RunTable
from muster.engine.present import Flags, Present
from muster.model.jobs import NEVER_MS, Job


class Passed(NamedTuple):
    """A gang that has waited for very long is passed by those of unknown end, with a lifetime, that start from some
    moment on; not by gangs that came before it (ADR 0050)."""

    came_ms: int
    from_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """From whom a job could take, their age apart: from these queues, by number, of its own from lower ranks, and from
    those who passed it."""

    queues: Flags
    own: int
    rank: tuple[int, int]
    passed: Passed | None = None


class Ends(NamedTuple):
    """Rows and when each is taken to leave; stated by someone, or our guess."""

    rows: Ints
    moments: Ints
    stated: Flags


RightsOf = Callable[[], Rights | None]
"""Asked only where it matters from whom a job may take."""


class Leaving(Present):
    """The attempts that run, and when each leaves."""

    @property
    def _is_as_found(self) -> bool:
        """Whether the turn has changed nothing yet."""
        return not self.fresh.size and not self._gone

    @cached_property
    def ends(self) -> Ends:
        """When everyone is taken to leave: those who were there as the turn found them, and those it started."""
        ends = self._resident_ends[0]
        if self.fresh.size:
            rows = self.fresh.cells[runs.MANY, : self.fresh.size].nonzero()[0]
            more = self._ends_of(self.fresh, rows)
            ends = Ends(
                np.concatenate((ends.rows, rows + self._base)),
                np.concatenate((ends.moments, more.moments)),
                np.concatenate((ends.stated, more.stated)),
            )
        if self._gone:
            is_gone = np.zeros(self._base + self.fresh.size, np.bool_)
            is_gone[list(self._gone)] = True
            stay = ~is_gone[ends.rows]
            ends = Ends(ends.rows[stay], ends.moments[stay], ends.stated[stay])
        return ends

    @property
    def _resident_ends(self) -> tuple[Ends, int]:
        """When those of the snapshot are taken to leave, and the first end that was stated."""
        how = ("ends", self.policy.reestimate_ms, self.policy.unknown_end_ms)
        return self.known(how, self._ends_and_until)

    def _ends_and_until(self) -> tuple[tuple[Ends, int], int]:
        """The same, and until when it holds: guesses move on, and who overruns is guessed."""
        ends = self._ends_of(self.resident.table, self.residents)
        first_ms = _first_stated(ends)
        return (ends, first_ms), self._until(first_ms)

    def _until(self, first_ms: int) -> int:
        """Until when guesses stay as they are, or that end is stated."""
        step_ms = self.policy.reestimate_ms
        return min(self.now_ms - self.now_ms % step_ms + step_ms, first_ms)

    def _ends_of(self, table: RunTable, rows: Ints) -> Ends:
        """When those in these rows of a table are taken to leave.

        Those whose end nobody knows, or who overran it, have as long to go as they have run, at least 10 minutes;
        counted in steps of 10 s, so that a reservation does not move with every tick of the clock.
        """
        ends = table.cells[runs.END, rows]
        stated = (ends > self.now_ms) & (ends < NEVER_MS)
        guesses = (~stated).nonzero()[0]
        if len(guesses):
            ends[guesses] = self._guesses(table.cells[runs.STARTED, rows[guesses]])
        return Ends(rows, ends, stated)

    def _guesses(self, started_ms: Ints) -> Ints:
        """When those who started then are taken to leave, if nobody knows."""
        now_ms = self.now_ms - self.now_ms % self.policy.reestimate_ms
        guesses: Ints = now_ms + np.maximum(now_ms - started_ms, self.policy.unknown_end_ms)
        return guesses

    def ends_as_seen_by(self, job: Job, rights: RightsOf, cluster: str, before_ms: int) -> Ends:
        """When those of a cluster leave: of unknown end, with their lifetime if the job may then evict them.

        Who leaves at `before_ms` or later may be said to leave at another such moment.
        """
        rows, moments, stated = self.ends
        places, expiry = self._expiring
        is_seen = expiry < before_ms
        here = None
        if len(self.resident.clusters) > 1:
            here = self.column(runs.CLUSTER, rows) == self.resident.clusters.number(cluster)
            is_seen &= here[places]
        places, expiry = places[is_seen], expiry[is_seen]
        if len(places):
            is_seen = self._is_within(rights(), rows[places])
            for row, jobs in self.overtook().items():
                if job.id in jobs:
                    is_seen |= rows[places] == row
            moments = moments.copy()
            moments[places[is_seen]] = expiry[is_seen]
        ends = Ends(rows, moments, stated)
        return ends if here is None else Ends(*(column[here] for column in ends))

    @cached_property
    def _expiring(self) -> tuple[Ints, Ints]:
        """The places among the ends of those of unknown end whose lifetime is over before our guess, and when."""
        if self._gone:
            return self._expiring_of(self.ends, 0)
        if not self.fresh.size:
            return self._residents_expiring
        known = self._residents_expiring
        fresh = self._expiring_of(self.ends, len(self._resident_ends[0].rows))
        return np.concatenate((known[0], fresh[0])), np.concatenate((known[1], fresh[1]))

    @property
    def _residents_expiring(self) -> tuple[Ints, Ints]:
        how = ("expiring", self.policy.reestimate_ms, self.policy.unknown_end_ms)
        return self.known(how, self._expiring_and_until)

    def _expiring_and_until(self) -> tuple[tuple[Ints, Ints], int]:
        places, expiry = self._expiring_of(self._resident_ends[0], 0)
        return (places, expiry), min(self._until(self._resident_ends[1]), int(expiry.min(initial=NEVER_MS)))

    def _expiring_of(self, ends: Ends, first: int) -> tuple[Ints, Ints]:
        """The same of those from some place on."""
        rows, moments, stated = ends
        places = (~stated[first:]).nonzero()[0] + first
        expiry = self.expiries(rows[places])
        is_sooner = (expiry > self.now_ms) & (expiry < moments[places])
        return places[is_sooner], expiry[is_sooner]

    def expiries(self, rows: Ints) -> Ints:
        """From when on those in these rows may be evicted."""
        return self.column(runs.EXPIRES, rows)

    def _is_within(self, rights: Rights | None, rows: Ints) -> Flags:
        if rights is None:
            return np.zeros(len(rows), np.bool_)
        queue, rank = self.column(runs.QUEUE, rows), self.column(runs.CLASS, rows)
        is_within: Flags = np.where(queue == rights.own, self.are_below(rows, rights.rank), rights.queues[queue])
        if rights.passed is not None:
            is_within |= self.have_passed(rows, rights.passed)
        return is_within & (rank <= rights.rank[0])

    def are_below(self, rows: Ints, rank: tuple[int, int]) -> Flags:
        """Which of them are of a strictly lower (class, priority)."""
        (top, urgent), of = rank, self.column(runs.CLASS, rows)
        below: Flags = (of < top) | ((of == top) & (self.column(runs.PRIORITY, rows) < urgent))
        return below

    def have_passed(self, rows: Ints, passed: Passed) -> Flags:
        """Which of them passed a gang."""
        came, started = self.column(runs.CAME, rows), self.column(runs.STARTED, rows)
        end, expires = self.column(runs.END, rows), self.column(runs.EXPIRES, rows)
        is_bounded = (end == NEVER_MS) & (expires < NEVER_MS)
        is_gang = self.roll.shapes(self.policy.weights).is_gang[self.column(runs.PROFILE, rows)] > 0
        have: Flags = is_bounded & ((came > passed.came_ms) | ~is_gang) & (started >= passed.from_ms)
        return have

    def stated_by(self, moment_ms: int) -> Ints:
        """The rows of those whose stated end comes by that moment."""
        rows, moments, stated = self.ends
        return rows[stated & (moments <= moment_ms)]

    def next_stated_end(self) -> int | None:
        """The first end that was stated and is still to come."""
        first_ms = self._resident_ends[1] if self._is_as_found else _first_stated(self.ends)
        return first_ms if first_ms < NEVER_MS else None

    def has_guess_since(self, started_ms: int) -> bool:
        """Whether anyone whose end is a guess started then or later."""
        rows = self.ends.rows[~self.ends.stated]
        return bool((self.column(runs.STARTED, rows) >= started_ms).any())

    def guesses_reach(self, moment_ms: int) -> int | None:
        """When the first guess that lies before a moment comes to lie there; None if there is none."""
        is_before = ~self.ends.stated & (self.ends.moments < moment_ms)
        if not np.count_nonzero(is_before):
            return None
        started_ms = int(self.column(runs.STARTED, self.ends.rows[is_before]).min())
        since_ms = min(moment_ms - self.policy.unknown_end_ms, -(-(moment_ms + started_ms) // 2))
        return -(-since_ms // self.policy.reestimate_ms) * self.policy.reestimate_ms

    def in_turn_on(self, nodes: frozenset[str]) -> tuple[Ints, Ints]:
        """The rows of those on some of the nodes, and their ends as stated: first end first, then those whose end
        nobody knows, the youngest first. As time goes by that order stays the same."""
        rows = self.all_on(nodes)
        ends = self.column(runs.END, rows)
        ends = np.where(ends <= self.now_ms, NEVER_MS, ends)
        young = np.where(ends == NEVER_MS, -self.column(runs.STARTED, rows), 0)
        keys = self.keys(rows.tolist())
        order = [it[-1] for it in sorted(zip(ends.tolist(), young.tolist(), keys, range(len(rows)), strict=True))]
        return rows[order], ends[order]

    def all_on(self, nodes: frozenset[str]) -> Ints:
        """The rows of those on some of the nodes."""
        return self._on(nodes, None) if nodes else np.zeros(0, np.int64)

    def stated_on(self, nodes: frozenset[str], moment_ms: int) -> Ints:
        """The rows of those on some of the nodes whose stated end comes by that moment."""
        return self._on(nodes, moment_ms)

    def _on(self, nodes: frozenset[str], moment_ms: int | None) -> Ints:
        """Those of the snapshot are looked for once: they only ever leave."""
        numbers = [self.resident.nodes.number(name) for name in nodes]  # nobody may ever have been there
        is_one = np.zeros(len(self.resident.nodes), np.bool_)
        is_one[numbers] = True
        found = self._found_on.get((nodes, moment_ms))
        if found is None:
            found = self._found_on[nodes, moment_ms] = self._among(self._resident_ends[0], moment_ms, is_one)
        if self._gone:
            found = found[~np.isin(found, list(self._gone))]
        if not self.fresh.size:
            return found
        rows = self.fresh.cells[runs.MANY, : self.fresh.size].nonzero()[0]
        fresh = self._ends_of(self.fresh, rows)._replace(rows=rows + self._base)
        mine = self._among(fresh, moment_ms, is_one)
        return np.concatenate((found, mine[~np.isin(mine, list(self._gone))]))

    def _among(self, ends: Ends, moment_ms: int | None, is_one: Flags) -> Ints:
        """Who leaves by a moment of these, as stated, or, without one, everyone; and is on one of some nodes."""
        rows = ends.rows if moment_ms is None else ends.rows[ends.stated & (ends.moments <= moment_ms)]
        tasks, owner = self._tasks_of(rows)
        on_one: Ints = rows[np.unique(owner[is_one[tasks[:, runs.NODE]]])]
        return on_one


def _first_stated(ends: Ends) -> int:
    """The first end that was stated; NEVER_MS if none was."""
    return int(np.where(ends.stated, ends.moments, NEVER_MS).min(initial=NEVER_MS))
