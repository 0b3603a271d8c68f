"""When the passing of time alone could change what a turn decided.

A turn before that moment, with nothing new, decides the same: it may be skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from muster.engine.horizon import Horizon
from muster.engine.ledger import Ledger
from muster.engine.limits import over_share_limit
from muster.engine.placement import never_fits
from muster.model.flow import first_moment
from muster.model.jobs import Job
from muster.model.plan import Verdict, Waiting
from muster.model.policy import Preemption
from muster.model.reasons import Happening, Reason
from muster.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A queue that comes after another now, by flow per weight, and may come before it later.

    A queue's flow does not fall below its floor: what it holds, with the job in question.
    """

    queue: str
    floor: int
    before: str
    before_floor: int
    wins_ties: bool


def next_wake(
    snapshot: Snapshot,
    ledger: Ledger,
    horizon: Horizon,
    waits: Mapping[str, Verdict],
    limited: Iterable[tuple[Job, Reason]],
    contests: Iterable[Contest],
) -> int | None:
    """The first later moment at which time alone could change a verdict; None if never."""
    waiting = [verdict for verdict in waits.values() if isinstance(verdict, Waiting)]
    moments = [
        *_ageing(snapshot),
        *_lifetimes(snapshot, waiting),
        *_moving_reservations(snapshot, horizon, waiting),
        *_decay(snapshot, ledger, limited),
        *_contests(snapshot, ledger, contests),
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
    if not horizon.promised:
        return
    for promised in horizon.promised.values():
        if promised.reservation.is_firm:
            yield promised.reservation.start_ms
    if (next_end := horizon.next_stated_end()) is not None:
        yield next_end.end_ms  # who does not end then has overrun, and promises that counted on it move
    if all(promised.reservation.is_firm for promised in horizon.promised.values()):
        return
    # Guesses move away with time. That changes their order among each other while some are at their least, their
    # order against ends that were stated, and what a bounded job may pass.
    since_ms = snapshot.now_ms - snapshot.policy.unknown_end_ms - snapshot.policy.reestimate_ms
    is_moving = any(stay.run.started_ms >= since_ms for stay in horizon.guessed()) or next_end is not None
    bounded = any(it.reason is Reason.WOULD_DELAY and it.facts["runs"] is not None for it in waiting)
    if is_moving or bounded:
        step_ms = snapshot.policy.reestimate_ms
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


def _contests(snapshot: Snapshot, ledger: Ledger, contests: Iterable[Contest]) -> Iterator[int]:
    """Flows decay at one rate, but from different heights: a queue that comes second may come first later."""
    for contest in contests:
        yield from _when_first(contest, ledger, snapshot.now_ms, snapshot.policy.half_time_ms)


def _when_first(contest: Contest, ledger: Ledger, now_ms: int, half_time_ms: int) -> Iterator[int]:
    one, other = ledger.queues[contest.queue], ledger.queues[contest.before]
    floor, other_floor = contest.floor, contest.before_floor
    account, other_account = one.state.account, other.state.account
    if account.flow_at(now_ms, half_time_ms) <= floor:
        return  # it will not fall any more, and so not below one that comes first

    def comes_first(moment_ms: int) -> bool:
        mine = max(account.flow_at(moment_ms, half_time_ms), floor) * other.weight
        theirs = max(other_account.flow_at(moment_ms, half_time_ms), other_floor) * one.weight
        return mine < theirs or (mine == theirs and contest.wins_ties)

    # Flow with a job stops falling at a floor; between two such bends the difference only grows or only shrinks.
    bends = [account.when_at_most(floor, now_ms, half_time_ms)]
    bends.append(other_account.when_at_most(other_floor, now_ms, half_time_ms))
    start_ms = now_ms
    for bend_ms in sorted(bend for bend in bends if bend is not None):
        if comes_first(bend_ms) and not comes_first(start_ms):
            yield first_moment(comes_first, start_ms, bend_ms)
            return
        start_ms = bend_ms
