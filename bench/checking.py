"""Whether the plan that was timed is right: the independent checker, at full size or with some verdicts only."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random

from bench.measuring import tell, timed
from muster.model.plan import Plan, Start
from muster.model.snapshot import Snapshot
from muster.sim.checker import check, check_some

VERDICTS = 1000
SHOWN = 3


def hold_to_rules(snapshot: Snapshot, plan: Plan, what: str) -> str:
    """Every action, and the verdicts of 1,000 random waiting jobs; stops the benchmark if anything is wrong."""
    jobs = _some_waiting(snapshot, plan)
    _stop_if(what, lambda: check_some(snapshot, plan, jobs))
    return f"{what}: the checker passed every action and the verdicts of {len(jobs):,} random waiting jobs."


def hold_to_all_rules(snapshot: Snapshot, plan: Plan, what: str) -> str:
    """Every action and every verdict; stops the benchmark if anything is wrong."""
    _stop_if(what, lambda: check(snapshot, plan))
    return f"{what}: the checker passed every action and every verdict."


def _stop_if(what: str, problems: Callable[[], list[str]]) -> None:
    tell(f"{what}: checking")
    found, seconds = timed(problems)
    tell(f"{what}: checked in {seconds:.0f} s")
    if found:
        sys.exit(f"bench: {what}: the plan is wrong in {len(found):,} ways: {found[:SHOWN]}")


def _some_waiting(snapshot: Snapshot, plan: Plan, seed: int = 1) -> frozenset[str]:
    started = {action.job for action in plan.actions if isinstance(action, Start)}
    queued = [job.id for state in snapshot.queues for lane in state.lanes for job in lane.jobs]
    waiting = [job for job in [*queued, *(pending.job.id for pending in snapshot.pending)] if job not in started]
    return frozenset(Random(seed).sample(waiting, min(VERDICTS, len(waiting))))
