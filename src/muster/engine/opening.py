"""The books of a turn, opened: what all its pools have in common."""

from __future__ import annotations

from muster.engine.kernels import suited_to
from muster.engine.ledger import Ledger
from muster.engine.roll import Roll
from muster.engine.runs import Runs
from muster.engine.shares import shares
from muster.model.snapshot import Snapshot


class Opened:
    """Queued and running jobs in columns, and what every queue holds, is entitled to and may still take."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.roll = Roll.of(snapshot)
        self.shapes = self.roll.shapes(snapshot.policy.weights)
        all_fit = self.shapes.judge(snapshot.fleet, self.roll.waiting_with())
        self.runs = Runs.of(snapshot, self.roll)
        self.ledger = Ledger(snapshot, shares(snapshot, all_fit=all_fit), self.roll, self.shapes)
        # Reading a node's room takes about as long as placing some tasks.
        self.face = suited_to(len(self.roll) + 16 * len(snapshot.nodes))
