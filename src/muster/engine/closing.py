"""The end of a turn: what its pools did and said, as one plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from muster.engine import waiting
from muster.engine.filled import Filled
from muster.engine.pools.pooled import Pooled
from muster.engine.turn import Turn
from muster.engine.wake import next_mark
from muster.model.fleet import Fleet
from muster.model.made import Made
from muster.model.order import Place
from muster.model.plan import Action, Later, Plan, Standing, Verdict, Verdicts, Waiting
from muster.model.reasons import Reason
from muster.model.snapshot import Snapshot


def closed(snapshot: Snapshot, turns: Sequence[Turn], pooled: Pooled | None = None) -> Plan:
    """The plan: who shrinks, evictions, starts, who borrows, who grows; one verdict for each who was looked at."""
    others = list(_others(snapshot))
    reasons = {said.reason for _, said in others}
    if pooled is not None:  # a limit that keeps someone from borrowing may cease to
        turns[0].round.limited += pooled.borrowing.round.limited
        pooled.borrowing.tell()
    wakes = [turn.wakes_ms(reasons) for turn in turns]
    marks = [next_mark(turn.snapshot, turn.lines) for turn in turns]
    return Plan(
        standing=_standing(snapshot, turns),
        now_ms=snapshot.now_ms,
        actions=_actions(turns, pooled),
        verdicts=_verdicts(turns, pooled, others, snapshot.fleet),
        heads=_heads(snapshot, turns),
        wake_ms=_first(chain(chain.from_iterable(wakes), marks)),
        waits_ms=_first(waits_ms for waits_ms, _ in wakes),
        runs_ms=_first(runs_ms for _, runs_ms in wakes),
    )


def _standing(snapshot: Snapshot, turns: Sequence[Turn]) -> Standing:
    """Which queues came to stand in line, and which can start nobody, though they have jobs there."""
    ledger = turns[0].ledger
    if not ledger.goes_by_service:
        return Standing()
    asked = [turn.lines.queues_asked() for turn in turns]
    entered, closed = list[tuple[str, int]](), list[str]()
    for state, number in zip(snapshot.queues, ledger.queues.numbers, strict=True):
        looked_at = [turn for turn, is_asked in zip(turns, asked, strict=True) if is_asked[number]]
        if not looked_at:
            continue
        name, may_start = state.queue.name, any(turn.lines.may_start(number) for turn in looked_at)
        stands = state.stands_since_ms is not None
        if name in ledger.entering and (may_start or ledger.queues[name].starts):
            entered.append((name, ledger.entering[name]))
            stands = True
        if stands and not may_start:
            closed.append(name)
    return Standing(tuple(entered), tuple(closed))


def _heads(snapshot: Snapshot, turns: Sequence[Turn]) -> dict[str, str]:
    """By queue, of those whom any pool looked at first, who comes before all others: the aged, then in its order."""
    aged_ms = snapshot.now_ms - snapshot.policy.aging_after_ms
    first: dict[str, tuple[bool, Place, str]] = {}
    for turn in turns:
        for queue, job in turn.lines.first_heads().items():
            place = (job.submit_ms > aged_ms, snapshot.policy.place(job, snapshot.now_ms), job.id)
            first[queue] = min(first.get(queue, place), place)
    return {queue: job_id for queue, (_, _, job_id) in first.items()}


def _others(snapshot: Snapshot) -> Iterable[tuple[str, Waiting]]:
    """Those who are in no line: evicted at this very moment, or waiting for others to end."""
    for job_id in sorted(snapshot.evicted):
        yield job_id, Waiting(reason=Reason.JUST_EVICTED)
    for held in sorted(snapshot.held, key=lambda held: held.job.key):
        yield held.job.id, waiting.held(held)


def _actions(turns: Sequence[Turn], pooled: Pooled | None) -> Sequence[Action]:
    resizes = [turn.finder.width.resizes.actions() for turn in turns]
    parts: list[Action | Filled] = [shrink for shrinks, _ in resizes for shrink in shrinks]
    parts += [eviction for turn in turns for eviction in turn.minutes.evictions]
    parts += _as_decided(turns, pooled)
    parts += [growth for _, growths in resizes for growth in growths]
    many = sum(len(part) if isinstance(part, Filled) else 1 for part in parts)
    return Made(lambda: chain.from_iterable(map(_spread, parts)), many, passes=True)


def _as_decided(turns: Sequence[Turn], pooled: Pooled | None) -> list[Action | Filled]:
    """All that was done, evictions apart, in the order in which it was decided: what a start is charged goes by it."""
    books = [(turn.minutes, set(turn.pending)) for turn in turns]
    if pooled is None:
        return [action for minutes, pending in books for _, action in minutes.lasting(pending)]
    books.append((pooled.borrowing.minutes, set()))
    order = pooled.diary.order
    found = [
        (order(minutes, place), action) for minutes, pending in books for place, action in minutes.lasting(pending)
    ]
    return [action for _, action in sorted(found, key=lambda it: it[0])]


def _spread(part: Action | Filled) -> Iterable[Action]:
    return part.starts() if isinstance(part, Filled) else (part,)


def _verdicts(
    turns: Sequence[Turn], pooled: Pooled | None, others: list[tuple[str, Waiting]], fleet: Fleet
) -> Verdicts:
    def make() -> dict[str, Verdict | Later]:
        made: dict[str, Verdict | Later] = {}
        for turn in turns:
            made.update(turn.minutes.verdicts())
            made.update(turn.round.verdicts(turn.fleet, turn.whole))
        if pooled is not None:  # what was found out at home says more
            made = dict(pooled.borrowing.round.verdicts(fleet, fleet)) | made
            made.update(pooled.borrowing.minutes.verdicts())
        made.update(others)
        return made

    def in_line() -> dict[str, Waiting | Later]:
        waits: dict[str, Waiting | Later] = {}
        for turn in turns:
            waits.update(turn.minutes.sent_to_wait())
            waits.update(turn.round.verdicts(turn.fleet, turn.whole))
        if pooled is not None:
            waits = dict(pooled.borrowing.round.verdicts(fleet, fleet)) | waits
            for job, verdict in pooled.borrowing.minutes.verdicts():
                if isinstance(verdict, Waiting):
                    waits[job] = verdict
                else:
                    waits.pop(job, None)
        return waits

    return Verdicts(make, in_line, others)


def _first(moments: Iterable[int | None]) -> int | None:
    return min((moment_ms for moment_ms in moments if moment_ms is not None), default=None)
