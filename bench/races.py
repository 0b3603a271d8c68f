"""How long it takes to observe 10,000 races: polls that bring nothing, a little, and something of every race."""

from __future__ import annotations

import sys
from random import Random

from bench.measuring import MEASURE, below, median, ms, table, timed
from bench.worlds import SCALE, freeze_garbage
from muster.engine.race import observe
from muster.model.race import POLL_MS, Race, RaceAction, RaceSpec, Rival, Shown, Sighting, Terms, Won

RACES = int(10_000 * SCALE)
RIVALS = 4
NEWS = 100  # one race in so many has news in an ordinary poll: a race has a handful in an hour of 360 polls
ROUNDS = 9
BAR_MS = 50
MINUTE_MS = 60_000

Sightings = tuple[Sighting, ...]
Told = tuple[Race, tuple[RaceAction, ...]]


def races() -> str:
    """10,000 races over four clusters each, one poll of all of them held to 50 ms."""
    waiting = [_waiting(number) for number in range(RACES)]
    freeze_garbage()
    quiet = [_observed(waiting, [_shown(Shown.WAITING)] * RACES, POLL_MS) for _ in range(ROUNDS)]
    chance = Random(1)
    some = [_observed(waiting, _some_news(chance), POLL_MS) for _ in range(ROUNDS)]
    entered = [_observed(waiting, [_one_runs(number) for number in range(RACES)], POLL_MS) for _ in range(ROUNDS)]
    running = entered[0][0]
    guarded_ms = POLL_MS + 10 * MINUTE_MS
    won = [_observed(running, [_one_runs(number) for number in range(RACES)], guarded_ms) for _ in range(ROUNDS)]
    _check(quiet[0][1], some[0][1], entered[0][1], won[0][1])
    rows = [
        (what, ms(median(seconds for _, _, seconds in rounds)), ms(max(seconds for _, _, seconds in rounds)))
        for what, rounds in (
            ("nothing is new", quiet),
            (f"one race in {NEWS} has news", some),
            ("in every race a cluster entered RUNNING", entered),
            ("every race is won, its losers cancelled", won),
        )
    ]
    ordinary_ms = 1000 * median(seconds for _, _, seconds in some)
    return "\n".join(
        [
            f"{RACES:,} races over {RIVALS} clusters each; one poll shows every copy of every race. {MEASURE}",
            "",
            *table(("poll", f"ms: median of {ROUNDS}", "slowest"), rows),
            "",
            below(f"{RACES:,} races observed, one in {NEWS} with news", BAR_MS, ordinary_ms, " ms"),
            "",
            "A race has a handful of news in an hour of 360 polls, so an ordinary poll brings news of fewer than one",
            f"in {NEWS}. The last two rows are what a poll after a long outage could bring; no bar is set for them.",
            "",
            "Checked: nothing was asked where nothing was due, and every race was won by the cluster that ran it, its",
            "losers cancelled first.",
        ]
    )


def _waiting(number: int) -> Race:
    """A race whose copies were all accepted and wait."""
    rivals = tuple(Rival(cluster=f"c{place}", priority=10 * place) for place in range(RIVALS))
    race, _ = observe(RaceSpec(terms=Terms(), rivals=rivals).race(f"job-{number}", 1, 0), (), 0)
    race, _ = observe(race, _shown(Shown.ACCEPTED), 0)
    return observe(race, _shown(Shown.WAITING), 0)[0]


def _shown(state: Shown) -> Sightings:
    return tuple(Sighting(f"c{place}", state) for place in range(RIVALS))


def _one_runs(number: int) -> Sightings:
    """The most preferred cluster runs it, the others wait."""
    return (*_shown(Shown.WAITING)[:-1], Sighting(f"c{RIVALS - 1}", Shown.RUNNING, POLL_MS - number % 1000))


def _some_news(chance: Random) -> list[Sightings]:
    return [_one_runs(number) if chance.randrange(NEWS) == 0 else _shown(Shown.WAITING) for number in range(RACES)]


def _observed(before: list[Race], sightings: list[Sightings], now_ms: int) -> tuple[list[Race], list[Told], float]:
    told, seconds = timed(lambda: [observe(race, seen, now_ms) for race, seen in zip(before, sightings, strict=True)])
    return [race for race, _ in told], told, seconds


def _check(quiet: list[Told], some: list[Told], entered: list[Told], won: list[Told]) -> None:
    if any(actions for told in (quiet, some, entered) for _, actions in told):
        sys.exit("bench: a race asked for something although nothing was due")
    for race, actions in won:
        last = actions[-1]
        if len(actions) != RIVALS or not isinstance(last, Won) or race.winner != f"c{RIVALS - 1}":
            sys.exit(f"bench: {race.job} did not end as it should: {actions}")
