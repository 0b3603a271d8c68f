"""The one rule of races: what was seen goes in, the race as it stands and what to do about it come out."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from muster.engine.race.asking import ask, due_ms, wants_answer
from muster.engine.race.deciding import Leading, decide, put_out
from muster.engine.race.hearing import hear
from muster.model.race import CancelAt, Ended, Race, RaceAction, Result, Rival, Shown, Sighting, Won


def observe(race: Race, sightings: tuple[Sighting, ...], now_ms: int) -> tuple[Race, tuple[RaceAction, ...]]:
    """The race after these sightings at `now_ms`, and what to do: cancels, submissions, then what it means for the job.

    The race must be stored before anything is done: then a restart neither submits twice nor forgets a cancel.
    """
    # Most polls bring what the last one brought. They cost one comparison, so that many races are cheap to watch.
    if now_ms < race.due_ms and (sightings == race.heard or not sightings):
        return race, ()
    rivals = {rival.cluster: rival for rival in race.rivals}
    for sighting, before in zip_longest(sightings, race.heard[: len(sightings)]):
        # What was heard already says nothing more; only that a copy is gone means another thing once it is cancelled.
        if sighting != before or sighting.shown is Shown.GONE:
            rivals[sighting.cluster] = hear(rivals[sighting.cluster], sighting, race, now_ms)
    if race.is_withdrawn:
        leading = Leading(race.leader)
        rivals = {cluster: put_out(rival) if not rival.is_out else rival for cluster, rival in rivals.items()}
    else:
        leading = decide(race, rivals, now_ms)
    asked, actions = _asked(race, rivals.values(), now_ms)
    told = _told(race, asked, leading.leader)
    return _stands(race, asked, leading, told, sightings or race.heard), (*actions, *told)


def _asked(race: Race, rivals: Iterable[Rival], now_ms: int) -> tuple[tuple[Rival, ...], list[RaceAction]]:
    """Cancels come first: they are out before anyone is told who won."""
    asked: list[Rival] = []
    actions: list[RaceAction] = []
    for rival in rivals:
        noted = rival
        if wants_answer(rival):
            noted, action = ask(rival, race, now_ms)
            if action is not None:
                actions.append(action)
        asked.append(noted)
    if len(actions) > 1:
        actions.sort(key=lambda action: not isinstance(action, CancelAt))
    return tuple(asked), actions


def _told(race: Race, rivals: tuple[Rival, ...], leader: str | None) -> list[Won | Ended]:
    """What the job learns now: who won, and how it ended; each once."""
    if race.result is not None:
        return []
    if race.is_withdrawn:
        return [Ended(race.job, race.attempt, Result.WITHDRAWN)]
    for rival in rivals:
        if rival.may_win and rival.cluster != leader:
            return []
    if leader is None:
        return [Ended(race.job, race.attempt, Result.FAILED, _dropped_out(rivals))]
    told: list[Won | Ended] = []
    first = next(rival for rival in rivals if rival.cluster == leader)
    if not race.is_won:
        since_ms = first.ended_ms if first.entered_ms is None else first.entered_ms
        told.append(Won(race.job, race.attempt, leader, race.began_ms if since_ms is None else since_ms))
    if first.ended_ms is not None:
        done = first.shown is Shown.SUCCEEDED
        cause = "" if done else f"{leader}: {_reason(first)}"
        told.append(Ended(race.job, race.attempt, Result.SUCCEEDED if done else Result.FAILED, cause))
    return told


def _stands(
    race: Race, rivals: tuple[Rival, ...], leading: Leading, told: list[Won | Ended], heard: tuple[Sighting, ...]
) -> Race:
    is_won, result = race.is_won, race.result
    for one in told:
        if isinstance(one, Won):
            is_won = True
        else:
            result = one.result
    due = due_ms(rivals, leading, race.terms, is_won=is_won)
    return race._replace(
        rivals=rivals,
        leader=leading.leader,
        absent=leading.absent,
        is_won=is_won,
        result=result,
        heard=heard,
        due_ms=due,
    )


def _dropped_out(rivals: tuple[Rival, ...]) -> str:
    return "; ".join(f"{rival.cluster}: {_reason(rival)}" for rival in rivals)


def _reason(rival: Rival) -> str:
    how = "cancelled" if rival.is_out else rival.shown.value
    return f"{how} ({rival.reason})" if rival.reason else how
