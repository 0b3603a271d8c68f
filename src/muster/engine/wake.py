"""When the passing of time alone could change what a turn decided.

A turn before that moment, with nothing new, decides the same: it may be skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.engine.horizon import Horizon
from muster.engine.ledger import Ledger
from muster.engine.lines import Lines
from muster.engine.minutes import Round
from muster.model.jobs import NEVER_MS, Pending
from muster.model.policy import Preemption
from muster.model.reasons import Happening, Reason
from muster.model.snapshot import Snapshot


def next_wake(
    snapshot: Snapshot,
    pending: Iterable[Pending],
    ledger: Ledger,
    horizon: Horizon,
    lines: Lines,
    said: Round,
) -> int | None:
    """The first later moment at which time alone could change what the last round said; None if never.

    `pending`: who is admitted and waits.
    """
    moments = [
        *_ageing(snapshot, ledger, lines),
        *(it.job.submit_ms + 2 * snapshot.policy.aging_after_ms for it in pending),  # and yields to nobody then
        *_lifetimes(snapshot, horizon, said),
        *_moving_reservations(snapshot, ledger, horizon, lines, said),
        *_decay(snapshot, ledger, said.limited),
    ]
    if any(Happening.NEXT_TURN in reason.until for reason in said.reasons):
        moments.append(snapshot.now_ms + 1)
    return min((moment for moment in moments if moment > snapshot.now_ms), default=None)


def next_mark(snapshot: Snapshot, lines: Lines) -> int | None:
    """When someone else may come first in a queue, for the time waited counts; it changes what is said, and to whom."""
    if not snapshot.policy.order.is_moving or not lines.queues_in_line():
        return None
    return _next(snapshot.now_ms, snapshot.policy.order_step_ms)


def _ageing(snapshot: Snapshot, ledger: Ledger, lines: Lines) -> Iterator[int]:
    """A waiting job turns aged, and could take a reservation; or yields to nobody any more."""
    aging_ms = snapshot.policy.aging_after_ms
    for after_ms in (aging_ms, 2 * aging_ms) if snapshot.policy.reservations else ():
        submit_ms = lines.next_to_age(snapshot.now_ms - after_ms, ledger.columns.cordoned)
        if submit_ms is not None:
            yield submit_ms + after_ms


def _lifetimes(snapshot: Snapshot, horizon: Horizon, said: Round) -> Iterator[int]:
    """A running job outlives its lifetime while someone waits for room."""
    hopeful = any(Happening.LIFETIME_ENDED in reason.until for reason in said.reasons)
    if not hopeful or snapshot.policy.preemption is Preemption.OFF:
        return
    yield from horizon.stays.outlived_from()


def _moving_reservations(
    snapshot: Snapshot, ledger: Ledger, horizon: Horizon, lines: Lines, said: Round
) -> Iterator[int]:
    """A reservation is due, no longer yields, or moves: one that rests on guesses and belongs to no admitted job."""
    if not horizon.promised:
        return
    for promised in horizon.promised.values():
        start_ms = promised.reservation.start_ms
        if promised.reservation.is_firm:  # one that is due now, and not kept, is given up in the next moment
            yield max(start_ms, snapshot.now_ms + 1)
        else:  # from its start on nobody passes by a stated end; later another start is told
            yield snapshot.policy.expected(promised.reservation, snapshot.now_ms).start_ms
        if not promised.hold.is_for_good:
            yield promised.job.submit_ms + 2 * snapshot.policy.aging_after_ms
    if (next_end := horizon.stays.next_stated_end()) is not None:
        yield next_end  # who does not end then has overrun, and promises that counted on it move
    for promised in horizon.promised.values():  # who has none may find a place where a guess moves past one
        for moment_ms in (promised.due_ms, promised.end_ms):
            if moment_ms < NEVER_MS and (reached_ms := horizon.stays.guesses_reach(moment_ms)) is not None:
                yield reached_ms
    if snapshot.policy.order.is_by_arrival:
        return
    are_firm = all(it.reservation.is_firm for it in horizon.promised.values())
    # Guesses move away with time. That changes their order among each other while some are at their least, their
    # order against ends that were stated, and what a bounded job may pass.
    since_ms = snapshot.now_ms - snapshot.policy.unknown_end_ms - snapshot.policy.reestimate_ms
    is_moving = next_end is not None or horizon.stays.has_guess_since(since_ms)
    if not are_firm and (is_moving or said.bounded):
        yield _next(snapshot.now_ms, snapshot.policy.reestimate_ms)
    # With time somebody else's turn may come first, and with it the reservation.
    if lines.queues_in_line() > 1 and (_is_any_served(ledger) or _is_any_decaying(ledger)):
        yield _next(snapshot.now_ms, snapshot.policy.flow_step_ms)


def _next(now_ms: int, step_ms: int) -> int:
    """The next mark after now, of marks so far apart."""
    return now_ms - now_ms % step_ms + step_ms


def _is_any_decaying(ledger: Ledger) -> bool:
    return bool((ledger.columns.flow > ledger.columns.usage).any())


def _is_any_served(ledger: Ledger) -> bool:
    """Whether time puts queues elsewhere that go by service."""
    return ledger.goes_by_service and bool((ledger.columns.started_usage > 0).any())


def _decay(snapshot: Snapshot, ledger: Ledger, limited: Iterable[tuple[str, int, Reason]]) -> Iterator[int]:
    """Flow falls below what a limit asks for."""
    for queue, usage, reason in limited:
        if Happening.FLOW_DECAYED not in reason.until:
            continue
        holding = ledger.queues[queue]
        if reason is Reason.OVER_SHARE:
            limit, account, used = holding.fixed_limit, holding.state.fixed, holding.fixed_usage
        else:
            limit, account, used = holding.nominal, holding.state.account, holding.usage
        if used + usage > limit:
            continue
        moment_ms = account.when_at_most(limit, snapshot.now_ms, snapshot.policy.half_time_ms)
        if moment_ms is not None:
            yield moment_ms if reason is Reason.OVER_SHARE else _next(moment_ms - 1, snapshot.policy.flow_step_ms)
