"""From a frozen snapshot to a plan: every pool takes its turn, then those who are left may borrow (design.md 5.2)."""

from __future__ import annotations

from dataclasses import replace

from muster.engine.closing import closed
from muster.engine.kernels.beside import cores
from muster.engine.kernels.jit import plain
from muster.engine.opening import Opened
from muster.engine.pools.dividing import policy_in
from muster.engine.pools.pooled import Pooled
from muster.engine.turn import Turn
from muster.model.plan import Plan
from muster.model.snapshot import Snapshot

_WORTH_THREADS = 10_000  # queued jobs and nodes


def plan(snapshot: Snapshot, threads: int | None = None) -> Plan:
    """Decide one turn. Pools are decided in so many threads, or as many as suit; the plan is the same."""
    if not snapshot.fleet.pools:
        return closed(snapshot, [_alone(snapshot)])
    opened = Opened(snapshot)
    pooled = Pooled(snapshot, opened, _threads(snapshot, opened) if threads is None else threads)
    return closed(snapshot, pooled.turns, pooled)


def _threads(snapshot: Snapshot, opened: Opened) -> int:
    """Compiled kernels run beside each other; what is plain Python does not."""
    is_small = len(opened.roll) + len(snapshot.fleet.nodes) < _WORTH_THREADS
    return 1 if opened.face is plain or is_small else min(cores(), len(snapshot.fleet.parts))


def effort(snapshot: Snapshot) -> tuple[int, int]:
    """How many nodes a turn looks at to place how many tasks, trials included; for benchmarks."""
    return _alone(snapshot).horizon.now.books.tallies()


def _alone(snapshot: Snapshot) -> Turn:
    """The turn of a fleet without pools."""
    opened, policy = Opened(snapshot), policy_in(snapshot.policy, snapshot.fleet)
    whole = snapshot if policy is snapshot.policy else replace(snapshot, policy=policy)
    turn = Turn(whole, opened, opened.ledger)
    turn.settle()
    turn.grow()
    return turn
