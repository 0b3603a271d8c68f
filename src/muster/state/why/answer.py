"""Everything there is to say about a waiting job, as values."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from muster.model.jobs import Job
from muster.model.names import name_key
from muster.model.plan import Plan, Waiting
from muster.model.policy import Preemption
from muster.model.reasons import Reason
from muster.model.snapshot import Snapshot
from muster.state.forecast import Estimate, stated_or_guessed
from muster.state.why.helping import Help, helps
from muster.state.why.nodes import Lack, lacks
from muster.state.why.standing import Ahead, Rival, Share, ahead_in_queue, rivals, share_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaves:
    """A running job that makes room for a start.

    `how`: it ends as `stated` or at a `guess`, or it may be preempted from then on because it has outlived its
    `lifetime`.
    """

    job: str
    at_ms: int
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a job waits at a moment. `leaving` are those who must go before its estimated start, the last to go first.

    `first` is why the first of its queue waits, where that is why this one does. `lacks`, `ahead`, `rivals` and `share`
    are as the turn left the world; `helps` would start it at once.
    """

    now_ms: int
    job: Job
    waiting: Waiting
    lacks: tuple[Lack, ...]
    ahead: Ahead
    first: Waiting | None
    rivals: tuple[Rival, ...]
    share: Share
    reserved: tuple[str, ...]
    estimate: Estimate | None
    leaving: tuple[Leaves, ...]
    helps: tuple[Help, ...]


def explain(snapshot: Snapshot, plan: Plan, job_id: str, estimate: Estimate | None = None) -> Why | None:
    """Why the job waits; None if it does not.

    `snapshot` is the world once the plan was carried out, which is what is left for those who wait; `estimate` is what
    a forecast said, if one was asked.
    """
    job = _waiting_job(snapshot, job_id)
    if job is None:
        return None
    verdict = plan.verdicts.get(job_id)
    waiting = verdict if isinstance(verdict, Waiting) else plan.behind(job.queue)
    lacking = lacks(snapshot, job.profile)
    estimate = estimate or _promised(waiting)
    ahead = ahead_in_queue(snapshot, job)
    first = plan.verdicts.get(ahead.first) if waiting.reason is Reason.BEHIND else None
    return Why(
        now_ms=snapshot.now_ms,
        job=job,
        waiting=waiting,
        lacks=lacking,
        ahead=ahead,
        first=first if isinstance(first, Waiting) else None,
        rivals=rivals(snapshot, plan, job),
        share=share_of(snapshot, job),
        reserved=_reserved(plan, job_id),
        estimate=estimate,
        leaving=() if estimate is None else _leaving(snapshot, waiting, estimate.start_ms),
        helps=helps(snapshot, plan, job, waiting, lacking) if _can_be_helped(waiting) else (),
    )


def _waiting_job(snapshot: Snapshot, job_id: str) -> Job | None:
    standing = (job for state in snapshot.queues for lane in state.lanes for job in lane.jobs)
    pending, held = (each.job for each in snapshot.pending), (each.job for each in snapshot.held)
    return next((job for job in chain(standing, pending, held) if job.id == job_id), None)


def _can_be_helped(waiting: Waiting) -> bool:
    """Whether anything but time, or other jobs, keeps it."""
    not_its_own = (Reason.HELD, Reason.DEPENDENCY, Reason.JUST_EVICTED, Reason.RATE_LIMIT)
    return waiting.reason not in not_its_own


def _reserved(plan: Plan, job_id: str) -> tuple[str, ...]:
    """Others for whom room is kept."""
    names = {name for name, reason in plan.reasons() if reason is Reason.RESERVED and name != job_id}
    return tuple(sorted(names, key=name_key))


def _promised(waiting: Waiting) -> Estimate | None:
    if waiting.estimate_ms is None:
        return None
    return Estimate(start_ms=waiting.estimate_ms, is_assumed=bool(waiting.facts.get("assumed")))


def _leaving(snapshot: Snapshot, waiting: Waiting, start_ms: int) -> tuple[Leaves, ...]:
    """Who runs on the nodes reserved for it and goes in time; else who outlives its lifetime in time."""
    nodes = waiting.facts.get("nodes")
    reserved = nodes if waiting.reason is Reason.RESERVED and isinstance(nodes, list) else []
    found: list[Leaves] = []
    for run in snapshot.running:
        if not any(task.node in reserved for task in run.tasks):
            continue
        runtime_ms, is_guess = stated_or_guessed(run, snapshot.now_ms, snapshot.policy)
        found.append(Leaves(job=run.job.id, at_ms=run.started_ms + runtime_ms, how="guess" if is_guess else "stated"))
    if waiting.estimate_ms is None or start_ms < waiting.estimate_ms:
        found += [
            Leaves(job=run.job.id, at_ms=run.started_ms + run.job.lifetime_ms, how="lifetime")
            for run in snapshot.running
            if run.job.lifetime_ms is not None and snapshot.policy.preemption is Preemption.ON
        ]
    in_time = [one for one in found if snapshot.now_ms < one.at_ms <= start_ms]
    return tuple(sorted(in_time, key=lambda one: (-one.at_ms, name_key(one.job))))
