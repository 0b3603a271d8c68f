"""When the passing of time alone could change what a turn decided.

A turn before that moment, with nothing new, decides the same: it may be skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster.engine.horizon import Horizon
from muster.engine.ledger import Ledger
from muster.engine.limits import over_share_limit
from muster.engine.placement import never_fits
from muster.model.jobs import Job
from muster.model.plan import Verdict, Waiting
from muster.model.policy import Preemption
from muster.model.reasons import Happening, Reason
from muster.model.snapshot import Snapshot


def next_wake(
    snapshot: Snapshot,
    ledger: Ledger,
    horizon: Horizon,
    verdicts: Mapping[str, Verdict],
    limited: Iterable[tuple[Job, Reason]],
) -> int | None:
    """The first later moment at which time alone could change a verdict; None if never."""
    waiting = [verdict for verdict in verdicts.values() if isinstance(verdict, Waiting)]
    moments = [
        *_ageing(snapshot),
        *_lifetimes(snapshot, waiting),
        *_moving_reservations(snapshot, horizon, waiting),
        *_decay(snapshot, ledger, limited),
    ]
    if any(Happening.NEXT_TURN in verdict.reason.until for verdict in waiting):
        moments.append(snapshot.now_ms + 1)
    return min((moment for moment in moments if moment > snapshot.now_ms), default=None)


def _ageing(snapshot: Snapshot) -> Iterator[int]:
    """A waiting job turns aged, and could take a reservation."""
    if not snapshot.policy.reservations:
        return
    for state in snapshot.queues:
        for lane in () if state.queue.cordoned else state.lanes:
            if lane.jobs and never_fits(snapshot.fleet, lane.profile) is None:
                yield lane.jobs[0].submit_ms + snapshot.policy.aging_after_ms


def _lifetimes(snapshot: Snapshot, waiting: Iterable[Waiting]) -> Iterator[int]:
    """A running job outlives its lifetime while someone waits for room."""
    hopeful = any(Happening.LIFETIME_ENDED in verdict.reason.until for verdict in waiting)
    if not hopeful or snapshot.policy.preemption is Preemption.OFF:
        return
    for run in snapshot.running:
        yield run.protected_until_ms
        if run.job.lifetime_ms is not None:
            yield max(run.started_ms + run.job.lifetime_ms, run.protected_until_ms)


def _moving_reservations(snapshot: Snapshot, horizon: Horizon, waiting: Iterable[Waiting]) -> Iterator[int]:
    """A reservation that rests on guesses moves away with time, and may let a shorter job pass."""
    delayed = [it for it in waiting if it.reason is Reason.WOULD_DELAY]
    if not delayed:
        return
    for promised in horizon.promised.values():
        if promised.reservation.is_firm:
            yield promised.reservation.start_ms
    # Guesses move apart only while some are at their least; after that only bounded jobs can gain by waiting.
    since_ms = snapshot.now_ms - snapshot.policy.unknown_end_ms - snapshot.policy.reestimate_ms
    is_moving = any(stay.run.started_ms >= since_ms for stay in horizon.guessed())
    if is_moving or any(it.facts["runs"] is not None for it in delayed):
        step_ms = snapshot.policy.reestimate_ms
        if not all(promised.reservation.is_firm for promised in horizon.promised.values()):
            yield snapshot.now_ms - snapshot.now_ms % step_ms + step_ms


def _decay(snapshot: Snapshot, ledger: Ledger, limited: Iterable[tuple[Job, Reason]]) -> Iterator[int]:
    """Flow falls below what a limit asks for."""
    for job, reason in limited:
        if Happening.FLOW_DECAYED not in reason.until:
            continue
        holding = ledger.queues[job.queue]
        if reason is Reason.OVER_SHARE:
            limit = over_share_limit(holding, ledger, snapshot.policy)
            account, used = holding.state.fixed, holding.fixed_usage
        else:
            limit, account, used = holding.nominal, holding.state.account, holding.usage
        if used + ledger.least_usage(job) > limit:
            continue
        moment_ms = account.when_at_most(limit, snapshot.now_ms, snapshot.policy.half_time_ms)
        if moment_ms is not None:
            yield moment_ms
