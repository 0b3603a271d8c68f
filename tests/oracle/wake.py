"""When the passing of time alone could change what a turn decided.

A turn before that moment, with nothing new, decides the same: it may be skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster.model.jobs import NEVER_MS, Job, Pending
from muster.model.plan import Verdict, Waiting
from muster.model.policy import Policy, Preemption
from muster.model.reasons import Happening, Reason
from muster.model.snapshot import Snapshot
from oracle.horizon import Horizon
from oracle.ledger import Ledger
from oracle.limits import over_share_limit
from oracle.placement import never_fits


def next_wake(
    snapshot: Snapshot,
    pending: Iterable[Pending],
    ledger: Ledger,
    horizon: Horizon,
    waits: Mapping[str, Verdict],
    limited: Iterable[tuple[Job, Reason]],
) -> int | None:
    """The first later moment at which time alone could change a verdict; None if never."""
    waiting = [verdict for verdict in waits.values() if isinstance(verdict, Waiting)]
    moments = [
        *_ageing(snapshot),
        *(it.job.submit_ms + 2 * snapshot.policy.aging_after_ms for it in pending),
        *_lifetimes(snapshot, ledger, horizon, waiting),
        *_moving_reservations(snapshot, ledger, horizon, waiting),
        *_decay(snapshot, ledger, limited),
    ]
    if snapshot.policy.order.is_moving and any(state.lanes for state in snapshot.queues):
        moments.append(_next(snapshot.now_ms, snapshot.policy.order_step_ms))
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
                yield lane.jobs[0].submit_ms + 2 * snapshot.policy.aging_after_ms


def _lifetimes(snapshot: Snapshot, ledger: Ledger, horizon: Horizon, waiting: Iterable[Waiting]) -> Iterator[int]:
    """A running job outlives its lifetime while someone waits for room, or what its queue used lately fades."""
    hopeful = any(Happening.LIFETIME_ENDED in verdict.reason.until for verdict in waiting)
    if not hopeful or snapshot.policy.preemption is Preemption.OFF:
        return
    for run in snapshot.running:
        yield run.safe_until_ms
        if run.job.lifetime_ms is not None:
            yield max(run.started_ms + run.job.lifetime_ms, run.safe_until_ms)


def _moving_reservations(
    snapshot: Snapshot, ledger: Ledger, horizon: Horizon, waiting: Iterable[Waiting]
) -> Iterator[int]:
    """A reservation is due, no longer yields, or moves: one that rests on guesses and belongs to no admitted job."""
    if not horizon.promised:
        return
    for promised in horizon.promised.values():
        start_ms = promised.reservation.start_ms
        if promised.reservation.is_firm:  # one that is due now, and not kept, is given up in the next moment
            yield max(start_ms, snapshot.now_ms + 1)
        else:
            yield snapshot.policy.expected(promised.reservation, snapshot.now_ms).start_ms
        if not promised.hold.is_for_good:
            yield promised.job.submit_ms + 2 * snapshot.policy.aging_after_ms
    if (next_end := horizon.next_stated_end()) is not None:
        yield next_end.end_ms  # who does not end then has overrun, and promises that counted on it move
    yield from _reaching_guesses(snapshot.policy, horizon)
    if snapshot.policy.order.is_by_arrival:
        return
    are_firm = all(it.reservation.is_firm for it in horizon.promised.values())
    # Guesses move away with time. That changes their order among each other while some are at their least, their
    # order against ends that were stated, and what a bounded job may pass.
    since_ms = snapshot.now_ms - snapshot.policy.unknown_end_ms - snapshot.policy.reestimate_ms
    is_moving = any(stay.run.started_ms >= since_ms for stay in horizon.guessed()) or next_end is not None
    bounded = any(it.reason is Reason.WOULD_DELAY and it.facts["runs"] is not None for it in waiting)
    if not are_firm and (is_moving or bounded):
        yield _next(snapshot.now_ms, snapshot.policy.reestimate_ms)
    # With time somebody else's turn may come first, and with it the reservation.
    moves = _is_any_decaying(ledger) or (
        ledger.service is not None and any(it.started_usage for it in ledger.queues.values())
    )
    if sum(bool(state.lanes) for state in snapshot.queues) > 1 and moves:
        yield _next(snapshot.now_ms, snapshot.policy.flow_step_ms)


def _reaching_guesses(policy: Policy, horizon: Horizon) -> Iterator[int]:
    """A guess that lies before the start or end of a promise comes to lie there: others may then find a place."""
    for moment_ms in {moment for it in horizon.promised.values() for moment in (it.due_ms, it.end_ms)} - {NEVER_MS}:
        for stay in horizon.guessed():
            if stay.end_ms < moment_ms:
                since_ms = min(moment_ms - policy.unknown_end_ms, -(-(moment_ms + stay.run.started_ms) // 2))
                yield -(-since_ms // policy.reestimate_ms) * policy.reestimate_ms


def _next(now_ms: int, step_ms: int) -> int:
    """The next mark after now, of marks so far apart."""
    return now_ms - now_ms % step_ms + step_ms


def _is_any_decaying(ledger: Ledger) -> bool:
    return any(holding.flow > holding.usage for holding in ledger.queues.values())


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
            yield moment_ms if reason is Reason.OVER_SHARE else _next(moment_ms - 1, snapshot.policy.flow_step_ms)
