"""A race in a sentence, and the GPU time it cost beside its result."""

from __future__ import annotations

from muster.model.race import Race, Result, Rival, Shown
from muster.model.resources import GPU, MILLI


def explain(race: Race) -> str:
    """How the race stands, for people."""
    if race.winner is not None:
        return f"{race.winner} won the race over {_names(race.rivals)}"
    open_ = [rival for rival in race.rivals if rival.may_win and rival.cluster != race.leader]
    if race.leader is not None:
        until = [rival.deadline_ms for rival in open_ if rival.deadline_ms is not None]
        when = f" until t = {max(until) / 1000:g} s" if until else ""
        return f"{race.leader} leads; {_names(open_)} could still win{when}"
    running = [rival for rival in open_ if rival.shown is Shown.RUNNING]
    guard = f"{race.terms.guard_ms / 1000:g} s"
    if running:
        return f"raced over {_names(race.rivals)}: {_names(running)} runs it, not yet for the guard time of {guard}"
    return f"raced over {_names(race.rivals)}: {_names(open_) or 'none'} may still run it"


def wasted_gpu_ms(race: Race, now_ms: int) -> int:
    """GPU × ms that came to nothing: all that losers ran, and what a winner ran before it had to begin again."""
    return sum(rival.asks.get(GPU) * _wasted_ms(race, rival, now_ms) for rival in race.rivals) // MILLI


def _wasted_ms(race: Race, rival: Rival, now_ms: int) -> int:
    is_useful = rival.may_win and race.result is not Result.FAILED
    if rival.entered_ms is None:
        return rival.ran_ms
    if rival.ended_ms is not None:  # its last run is in ran_ms
        return rival.ran_ms - (max(rival.ended_ms - rival.entered_ms, 0) if is_useful else 0)
    return rival.ran_ms + (0 if is_useful else max(now_ms - rival.entered_ms, 0))


def _names(rivals: list[Rival] | tuple[Rival, ...]) -> str:
    return ", ".join(rival.cluster for rival in rivals)
