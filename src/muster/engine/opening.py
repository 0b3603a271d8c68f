"""The books of a turn, opened: what all its pools have in common."""

from __future__ import annotations

import numpy as np

from muster.engine.columns import running_jobs as runs
from muster.engine.columns.views import roll_of, runs_of
from muster.engine.kernels import suited_to
from muster.engine.ledger import Ledger
from muster.engine.never_fits import do_all_fit
from muster.engine.shares import Shares
from muster.engine.typical import measure_of
from muster.model.jobs import NEVER_MS
from muster.model.snapshot import Snapshot


class Opened:
    """Queued and running jobs in columns, and what every queue holds, is entitled to and may still take."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.roll = roll_of(snapshot)
        self.shapes = self.roll.shapes(snapshot.policy.weights)
        all_fit = do_all_fit(snapshot.fleet, self.roll, snapshot.policy.weights)
        self.runs = runs_of(snapshot, self.roll)
        self.roll.carried.catch_up(snapshot, self.roll, self.shapes)
        carried = self.roll.carried
        divided = Shares(snapshot, carried.divisor(snapshot), all_fit=all_fit, known=carried.known)
        if snapshot.fleet.pools and not all_fit:  # on one empty fleet for all, so not by several threads
            _ = divided.wants
        self.ledger = Ledger(snapshot, divided, self.roll, self.shapes)
        self.measure = measure_of(snapshot.policy.placement, self.roll, self.runs)
        # Reading a node's room takes about as long as placing some tasks; and of those who wait, not all are placed.
        self.face = suited_to(max(len(self.roll) // 2 + 16 * len(snapshot.nodes), self.roll.to_come))

    def borrowers_in(self, part: Snapshot) -> list[int]:
        """The rows of those who run on the nodes of a pool and belong to another."""
        fleet, whole, named = part.fleet, part.whole, self.runs.rows_of(part.borrowers)
        are_here, _, epoch = self.runs.residents(fleet.pool.name, whole)
        if are_here is None:
            return named
        here, homes = list(whole.parts).index(fleet.pool.name), self.shapes.homes(whole)

        def look_up() -> tuple[list[int], int]:
            cells = self.runs.table.cells[:, : len(are_here)]
            is_guest = are_here & (cells[runs.MANY] > 0) & (homes[cells[runs.PROFILE]] != here)
            return np.flatnonzero(is_guest).tolist(), NEVER_MS

        return named + self.runs.known(("borrowers", fleet.pool.name, epoch), part.now_ms, look_up)
