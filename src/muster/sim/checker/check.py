"""Everything that is wrong with a plan, as sentences."""

from __future__ import annotations

from collections.abc import Collection

from muster.model.plan import Evict, Plan
from muster.model.snapshot import Snapshot
from muster.sim.checker.lending import spared_problems
from muster.sim.checker.limits import eviction_rate_problems, reserved_problems
from muster.sim.checker.order import lane_problems
from muster.sim.checker.replay import Replay
from muster.sim.checker.verdicts import verdict_problems
from muster.sim.checker.victims import limit_problems
from muster.sim.checker.world import World


def check(snapshot: Snapshot, plan: Plan) -> list[str]:
    """The rules that the plan breaks, and what it says that is not true; empty when it is fine."""
    return _check(snapshot, plan, None)


def check_some(snapshot: Snapshot, plan: Plan, jobs: Collection[str]) -> list[str]:
    """The same, but only the verdicts of these jobs are held against the truth: in large worlds that takes longest."""
    return _check(snapshot, plan, jobs)


def _check(snapshot: Snapshot, plan: Plan, jobs: Collection[str] | None) -> list[str]:
    world = World(snapshot)
    replay = Replay(world, plan)
    problems = list(replay.books.opening_problems())
    if plan.now_ms != snapshot.now_ms:
        problems.append(f"the plan is of {plan.now_ms} ms, the snapshot of {snapshot.now_ms} ms")
    problems += replay.problems()
    problems += eviction_rate_problems(world, plan)
    problems += limit_problems(world, [action for action in plan.actions if isinstance(action, Evict)])
    problems += reserved_problems(world, plan, replay.admitted)
    problems += lane_problems(world, plan)
    problems += spared_problems(world, plan)
    problems += verdict_problems(world, plan, replay, jobs)
    return problems
