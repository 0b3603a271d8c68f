"""The behaviour cases of races: FAC rows of section 6, told through scenarios. Times are minutes from submission."""

from __future__ import annotations

import pytest
from story import story

from muster.engine.race import observe
from muster.model.race import RaceSpec, Rival, Shown, Sighting, SubmitTo, Terms

MINUTE_MS = 60_000


def race(clusters, *, events=(), grace="strict"):
    """The log of a race with a guard of 10 minutes and a timeScale of 1: (minute, event, cluster) of each line."""
    declared = [{"name": name, "kind": "opaque"} for name in clusters]
    raced = {"guard": "10m", "timeScale": "1m", "grace": grace, "clusters": clusters}
    told = story({"clusters": declared, "jobs": [{"name": "j", "gpu": 1, "race": raced}], "events": list(events)})
    return [(line["t"] / 60, line["event"], line.get("cluster", line.get("cause", ""))) for line in told.log]


def seen(*sightings, priority=50, **rest):
    """What one cluster shows: (minute, state) in order."""
    return {"priority": priority, "sightings": [[f"{minute}m", state] for minute, state in sightings], **rest}


def after_submission(log):
    """Everything but the submissions."""
    return [line for line in log if line[1] not in ("submitted", "submitted_to")]


@pytest.mark.parametrize(
    "clusters, outcome",
    [
        pytest.param(
            {"A": seen((5, "RUNNING")), "B": seen((7, "RUNNING"))},
            [(15, "cancelled_at", "B"), (15, "won", "A")],
            id="FAC-1 the first to have run for the guard time wins, the other is cancelled then",
        ),
        pytest.param(
            {"A": seen((5, "RUNNING"), (9, "FAILED")), "B": seen((7, "RUNNING"))},
            [(17, "won", "B")],
            id="FAC-2 one that fails inside its guard drops out, and needs no cancel",
        ),
        pytest.param(
            {"K80": seen((2, "RUNNING"), priority=20), "V100": seen(priority=80)},
            [(72, "cancelled_at", "V100"), (72, "won", "K80")],
            id="FAC-4 a rival of higher priority lives 60 time units longer and is then cancelled",
        ),
        pytest.param(
            {"K80": seen((2, "RUNNING"), priority=20), "V100": seen((50, "RUNNING"), priority=80)},
            [(60, "cancelled_at", "K80"), (60, "won", "V100")],
            id="FAC-5 scheduled in that time, the higher priority wins",
        ),
        pytest.param(
            {"K80": seen((2, "RUNNING"), priority=20), "V100": seen((65, "RUNNING"), priority=80)},
            [(72, "cancelled_at", "V100"), (72, "won", "K80")],
            id="FAC-6 a guard that would end after the deadline is too late",
        ),
        pytest.param(
            {"K80": seen((5, "RUNNING"), priority=20), "V100": seen((2, "RUNNING"), priority=80)},
            [(12, "cancelled_at", "K80"), (12, "won", "V100")],
            id="FAC-7 the lower priority is cancelled at once",
        ),
        pytest.param(
            {"A": seen((2, "RUNNING")), "B": seen((3, "RUNNING"))},
            [(12, "cancelled_at", "B"), (12, "won", "A")],
            id="FAC-8 at equal priority the first one wins at once",
        ),
        pytest.param(
            {"A": seen((5, "FAILED")), "B": seen(submit=400), "C": seen((6, "STOPPED"))},
            [(6, "failed", "A: failed; B: rejected (400); C: stopped")],
            id="FAC-10 when all dropped out the job fails with each reason",
        ),
        pytest.param(
            {"A": seen((1, "RUNNING"), (4, "SUCCEEDED")), "B": seen((2, "RUNNING")), "C": seen(priority=90)},
            [(4, "cancelled_at", "B"), (4, "cancelled_at", "C"), (4, "won", "A"), (4, "succeeded", "")],
            id="FAC-11 a success wins at once, whatever the guard, and the rest is cancelled",
        ),
        pytest.param(
            {"A": seen((5, "RUNNING")), "B": seen((1, "RUNNING"), submit=409)},
            [(15, "won", "A")],
            id="FAC-12 a cluster that refuses the job is dropped and the race goes on",
        ),
    ],
)
def test_a_race(clusters, outcome):
    assert after_submission(race(clusters)) == outcome


@pytest.mark.parametrize(
    "entered, outcome",
    [
        pytest.param(
            65,
            [(75, "cancelled_at", "K80"), (75, "won", "V100")],
            id="FAC-6 with grace running an entry before the deadline is kept until its guard ends",
        ),
        pytest.param(
            72,
            [(72, "cancelled_at", "V100"), (72, "won", "K80")],
            id="FAC-6 with grace running an entry at the deadline is too late",
        ),
    ],
)
def test_a_race_with_grace(entered, outcome):
    clusters = {"K80": seen((2, "RUNNING"), priority=20), "V100": seen((entered, "RUNNING"), priority=80)}

    assert after_submission(race(clusters, grace="running")) == outcome


def test_a_cancel_is_repeated_until_the_cluster_confirms():
    clusters = {"A": seen((5, "RUNNING")), "B": seen((7, "RUNNING"))}
    silence = {"at": "14m", "silentCluster": {"name": "B", "for": "30m"}}
    raced = {"guard": "10m", "clusters": clusters}
    declared = [{"name": name, "kind": "opaque"} for name in clusters]
    told = story({"clusters": declared, "jobs": [{"name": "j", "gpu": 1, "race": raced}], "events": [silence]})

    assert [(line["t"] / 60, line["event"]) for line in told.log[-2:]] == [(15, "cancelled_at"), (15, "won")]
    # B runs on until it hears of its cancel at 44, when the silence ends; that is confirmed by the next poll.
    assert told.simulation.run.state.now_ms == 44 * MINUTE_MS + 10_000
    assert [rival.ended_ms for rival in told.simulation.state.races.live["j", 1].rivals] == [None, 44 * MINUTE_MS]


def test_a_user_who_cancels_stops_every_rival():
    clusters = {"A": seen((5, "RUNNING")), "B": seen((7, "RUNNING")), "C": seen()}
    log = race(clusters, events=[{"at": "8m", "cancel": "j"}])

    assert after_submission(log) == [
        (8, "cancelled", ""),
        (8, "cancelled_at", "A"),
        (8, "cancelled_at", "B"),
        (8, "cancelled_at", "C"),
    ]


def test_a_restart_resumes_from_stored_times_and_submits_nothing_twice():
    spec = RaceSpec(terms=Terms(), rivals=(Rival(cluster="A"), Rival(cluster="B")))
    stored, sent = observe(spec.race("j", 1, 0), (), 0)  # stored; then the scheduler dies while it sends
    assert [type(action) for action in sent] == [SubmitTo, SubmitTo]

    # It is back at 6 minutes and looks first: A runs since 5 minutes, of B nothing arrived.
    looked = (Sighting("A", Shown.RUNNING, 5 * MINUTE_MS), Sighting("B", Shown.GONE))
    resumed, again = observe(stored, looked, 6 * MINUTE_MS)
    assert again == (SubmitTo("j", 1, "B", is_again=True),)

    # Somebody had sent it after all: the name is taken, by us.
    adopted, more = observe(resumed, (Sighting("B", Shown.EXISTS, reason="409"),), 6 * MINUTE_MS)
    assert more == ()
    assert adopted.rival("B").shown is Shown.WAITING

    won, _ = observe(adopted, (Sighting("A", Shown.RUNNING, 5 * MINUTE_MS),), 15 * MINUTE_MS)
    assert won.winner == "A"
