"""One verdict for every job, and the one that the plan's actions give it (design.md 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from muster.model.plan import Evict, Move, Plan, Start, Started, StillRunning, Verdict, Victim, Waiting, verdicts
from muster.model.reasons import Reason
from muster.sim.checker.reasons import Truth
from muster.sim.checker.replay import Replay
from muster.sim.checker.world import World


def verdict_problems(world: World, plan: Plan, replay: Replay, only: Collection[str] | None = None) -> Iterator[str]:
    """Jobs with no verdict, the wrong kind of verdict, or one that is not true; the last only for `only`."""
    jobs = Counter(world.ids())
    yield from (f"{job}: stands in {places} places of the snapshot" for job, places in jobs.items() if places > 1)
    given = verdicts(world.snapshot, plan)
    yield from (f"{job}: has no verdict" for job in jobs if job not in given)
    yield from (f"{job}: has a verdict but is not in the snapshot" for job in given if job not in jobs)
    starts = {action.job: action for action in plan.actions if isinstance(action, Start | Move)}
    evictions = {action.job: action for action in plan.actions if isinstance(action, Evict)}
    truth = Truth(world, plan, replay)
    for job in jobs:
        verdict = given.get(job)
        yield from _kind_problems(world, job, verdict, starts.get(job), evictions.get(job))
        if isinstance(verdict, Waiting) and (only is None or job in only):
            yield from truth.problems(job, verdict)
    yield from _sentence_problems(plan, given)


def _kind_problems(
    world: World, job: str, verdict: Verdict | None, start: Start | Move | None, evict: Evict | None
) -> Iterator[str]:
    """Whether the verdict is of the kind that the job's phase and the plan's actions call for."""
    if start is not None:
        if verdict != Started(cluster=start.cluster, tasks=start.tasks):
            yield f"{job}: starts, but its verdict does not say so"
    elif isinstance(verdict, Started):
        yield f"{job}: its verdict says it starts, but it does not"
    if evict is not None:
        if verdict != Victim(rule=evict.rule, by=evict.by, whole=evict.whole):
            yield f"{job}: is evicted, but its verdict does not say so"
    elif isinstance(verdict, Victim):
        yield f"{job}: its verdict says it is a victim, but it is not"
    run = world.running.get(job)
    if run is None and isinstance(verdict, StillRunning):
        yield f"{job}: its verdict says it runs, but it does not"
    elif run is not None and isinstance(verdict, Waiting):
        yield f"{job}: its verdict says it waits, but it runs"
    elif run is not None and isinstance(verdict, StillRunning) and verdict.cluster != run.cluster:
        yield f"{job}: runs on {run.cluster}, not on {verdict.cluster}"


def _sentence_problems(plan: Plan, given: dict[str, Verdict]) -> Iterator[str]:
    """Every reason can be told in a sentence."""
    for job, verdict in given.items():
        if not isinstance(verdict, Waiting) or (verdict.reason is Reason.BEHIND and job not in plan.verdicts):
            continue
        try:
            verdict.explain()
        except (KeyError, ValueError, TypeError) as err:
            yield f"{job}: {verdict.reason.name} cannot be told: {err!r}"
