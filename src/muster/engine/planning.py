"""From a frozen snapshot to a plan: every pool takes its turn, then those who are left may borrow (design.md 5.2)."""

from __future__ import annotations

from muster.engine.closing import closed
from muster.engine.opening import Opened
from muster.engine.turn import Turn
from muster.model.plan import Plan
from muster.model.snapshot import Snapshot


def plan(snapshot: Snapshot) -> Plan:
    """Decide one turn."""
    turn = _alone(snapshot)
    return closed(snapshot, [turn])


def effort(snapshot: Snapshot) -> tuple[int, int]:
    """How many nodes a turn looks at to place how many tasks, trials included; for benchmarks."""
    return _alone(snapshot).horizon.now.books.tallies()


def _alone(snapshot: Snapshot) -> Turn:
    opened = Opened(snapshot)
    turn = Turn(snapshot, opened, opened.ledger)
    turn.settle()
    turn.grow()
    return turn
