"""From a frozen snapshot to a plan: every pool takes its turn, then those who are left may borrow (design.md 5.2)."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from muster.engine.closing import closed
from muster.engine.glance import glance
from muster.engine.kernels.beside import cores
from muster.engine.kernels.jit import plain
from muster.engine.opening import Opened
from muster.engine.pools.dividing import policy_in
from muster.engine.pools.pooled import Pooled
from muster.engine.turn import Turn
from muster.model.jobs import NEVER_MS
from muster.model.plan import Plan
from muster.model.policy import Policy, Preemption
from muster.model.snapshot import Snapshot

_WORTH_THREADS = 10_000  # queued jobs and nodes


def plan(snapshot: Snapshot, threads: int | None = None, *, tells_why: bool = True, ahead: int = 0) -> Plan:
    """Decide one turn. Pools are decided in so many threads, or as many as suit; the plan is the same.

    `tells_why`: whether verdicts are wanted; without them the actions are the same, and cheaper. `ahead`: how many
    jobs there are for this turn and those to come, if that is known: it decides which kernels are worth their while.
    """
    if not tells_why and (found := glance(snapshot, ahead)) is not None:
        return found
    if not snapshot.fleet.pools:
        return closed(snapshot, [_alone(snapshot, tells_why=tells_why, ahead=ahead)])
    opened = Opened(snapshot, ahead)
    pooled = Pooled(snapshot, opened, _threads(snapshot, opened) if threads is None else threads)
    return closed(snapshot, pooled.turns, pooled)


def _threads(snapshot: Snapshot, opened: Opened) -> int:
    """Compiled kernels run beside each other; what is plain Python does not."""
    is_small = len(opened.roll) + len(snapshot.fleet.nodes) < _WORTH_THREADS
    return 1 if opened.face is plain or is_small else min(cores(), len(snapshot.fleet.parts))


def effort(snapshot: Snapshot) -> tuple[int, int]:
    """How many nodes a turn looks at to place how many tasks, trials included; for benchmarks."""
    return _alone(snapshot).horizon.now.books.tallies()


@lru_cache(maxsize=16)
def _without_preemption(policy: Policy) -> Policy:
    """The policy where nobody is evicted: quicker, where nobody could be."""
    return replace(policy, preemption=Preemption.OFF)


def _alone(snapshot: Snapshot, *, tells_why: bool = True, ahead: int = 0) -> Turn:
    opened = Opened(snapshot, ahead)
    policy, safe_from = policy_in(snapshot.policy, snapshot.fleet), NEVER_MS
    if not tells_why and policy.preemption is not Preemption.OFF and opened.is_calm:
        policy, safe_from = _without_preemption(policy), max(opened.roll.classes, default=NEVER_MS)
    whole = snapshot if policy is snapshot.policy else replace(snapshot, policy=policy)
    turn = Turn(whole, opened, opened.ledger, tells_why=tells_why, safe_from=safe_from)
    turn.settle()
    turn.grow()
    return turn
