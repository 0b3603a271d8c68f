"""What holds for every race, whatever clusters show (cases.md 7.11)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from oracle.race import RaceOracle
from racing import Clusters, run

from muster.engine.race import observe
from muster.model.race import CancelAt, Ended, Grace, RaceSpec, Result, Rival, Shown, Terms, Won

MINUTE = 60_000
LAST = 400 * MINUTE
NAMES = ("a", "b", "c", "d")
ENDS = (Shown.SUCCEEDED, Shown.FAILED, Shown.STOPPED)


@st.composite
def scripts(draw: Any, unit_ms: int = MINUTE) -> tuple[tuple[int, Shown], ...]:
    """Times in whole units, WAITING and RUNNING by turns, and perhaps an end."""
    times = sorted(draw(st.sets(st.integers(0, 60), max_size=5)))
    states = [Shown.RUNNING if place % 2 == 0 else Shown.WAITING for place in range(len(times))]
    if times and draw(st.booleans()):
        states[-1] = draw(st.sampled_from(ENDS))
    return tuple((at * unit_ms, state) for at, state in zip(times, states, strict=True))


@st.composite
def races(draw: Any) -> tuple[RaceSpec, dict[str, tuple[tuple[int, Shown], ...]]]:
    """A race over two to four clusters, and what each shows."""
    names = NAMES[: draw(st.integers(2, 4))]
    terms = Terms(
        guard_ms=draw(st.sampled_from([0, 1, 5, 10])) * MINUTE,
        time_scale_ms=draw(st.sampled_from([0, 1, 2])) * MINUTE,
        grace=draw(st.sampled_from(list(Grace))),
    )
    rivals = tuple(Rival(cluster=name, priority=draw(st.sampled_from([0, 5, 20, 40]))) for name in names)
    return RaceSpec(terms=terms, rivals=rivals), {name: draw(scripts()) for name in names}


@st.composite
def silences(draw: Any) -> dict[str, tuple[int, int]]:
    """Some clusters cannot be reached for a while; all can in the end."""
    made = {}
    for name in draw(st.sets(st.sampled_from(NAMES), max_size=2)):
        start = draw(st.integers(0, 80))
        made[name] = (start * MINUTE, (start + draw(st.integers(1, 60))) * MINUTE)
    return made


def every(gap_ms: int) -> list[int]:
    return list(range(gap_ms, LAST, gap_ms))


@given(races(), silences(), st.frozensets(st.sampled_from(NAMES), max_size=2), st.sampled_from([0, 25_000]))
def test_property_one_winner_survives_and_every_loser_is_cancelled(raced, silent, refuse, slow_ms):
    spec, steps = raced
    clusters = Clusters(steps, silent=silent, refuse=refuse, cancel_takes_ms=slow_ms)

    told = run(spec, clusters, every(30_000))

    winners = told.of(Won)
    assert len(winners) <= 1
    assert len(told.of(Ended)) <= 1
    alive = [name for name in steps if name in clusters.submissions and not clusters.shown(name, LAST).shown.is_end]
    if winners:
        assert alive in ([], [winners[0].cluster])
    elif told.race.result is Result.FAILED:
        assert alive == []
    # Losers' cancels are out before anyone hears who won; those that ended by themselves need none.
    kinds = [action for _, action in told.actions]
    if winners:
        told_at = next(place for place, action in enumerate(kinds) if isinstance(action, Won))
        before = {action.cluster for action in kinds[:told_at] if isinstance(action, CancelAt)}
        for rival in told.race.rivals:
            assert rival.cluster == winners[0].cluster or rival.cluster in before or rival.ended_ms is not None
    assert all(count == 1 for count in clusters.submissions.values())
    assert told.race.result is None or told.race.is_over  # and no cancel is repeated for ever


@given(
    races(), st.lists(st.integers(1, 59), min_size=1, max_size=6), st.lists(st.integers(1, 59), min_size=1, max_size=6)
)
def test_property_any_rhythm_of_polls_gives_the_same_winner(raced, gaps, others):
    """Everything happens at whole minutes, and polls are less than a minute apart: nothing lies between."""
    spec, steps = raced
    outcomes = set()
    for rhythm in (gaps, others):
        polls, now_ms, place = [], 0, 0
        while now_ms < 200 * MINUTE:
            now_ms += rhythm[place % len(rhythm)] * 1000
            place += 1
            polls.append(now_ms)
        told = run(spec, Clusters(steps), polls)
        outcomes.add((told.race.winner, told.race.leader, told.race.result))
    assert len(outcomes) == 1


@given(races())
def test_property_the_rule_agrees_with_a_plain_telling_of_it(raced):
    spec, steps = raced
    oracle = RaceOracle(spec, steps, MINUTE)
    oracle.run(LAST // MINUTE)

    race = run(spec, Clusters(steps), [0, *every(MINUTE)]).race

    assert race.winner == oracle.winner
    assert (None if race.result is None else race.result.value) == oracle.result


@given(races(), silences())
def test_property_seen_again_nothing_is_left_to_do(raced, silent):
    """The same sightings at the same moment ask for nothing more, and change nothing."""
    spec, steps = raced
    clusters = Clusters(steps, silent=silent)
    told = run(spec, clusters, [])
    for now_ms in every(5 * MINUTE)[:30]:
        sightings = clusters.look(now_ms)
        stood, _ = observe(told.race, sightings, now_ms)
        again, actions = observe(stood, sightings, now_ms)
        assert actions == ()
        assert again == stood
        told.race = stood


@given(races(), silences())
def test_property_looking_only_when_something_is_due_or_new_changes_nothing(raced, silent):
    spec, steps = raced
    polls = every(10_000)[: 100 * 6]
    thorough = run(spec, Clusters(steps, silent=silent), polls)

    lazy = Clusters(steps, silent=silent)
    told = run(spec, lazy, [])
    told.actions.clear()
    for now_ms in polls:
        sightings = lazy.look(now_ms)
        if sightings == told.race.heard and now_ms < told.race.due_ms:
            continue
        told.race, actions = observe(told.race, sightings, now_ms)
        told.actions += [(now_ms, action) for action in actions]
        for action in actions:
            if isinstance(action, CancelAt):
                lazy.cancel(action.cluster, now_ms)
            elif not isinstance(action, Won | Ended):
                told.race, _ = observe(told.race, (lazy.submit(action.cluster, now_ms),), now_ms)

    def outcome(actions: Any) -> Any:
        return [(now_ms, action) for now_ms, action in actions if isinstance(action, Won | Ended)]

    assert outcome(told.actions) == outcome(thorough.actions)
