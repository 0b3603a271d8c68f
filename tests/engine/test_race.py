"""The rule of races, row by row: what the behaviour cases leave open. Times are minutes."""

from __future__ import annotations

import pytest
from racing import Clusters, run

from muster.engine.race import observe
from muster.engine.race.words import explain, wasted_gpu_ms
from muster.model.race import CancelAt, Ended, Grace, RaceSpec, Result, Rival, Shown, Sighting, SubmitTo, Terms, Won
from muster.model.resources import GPU, Resources

MINUTE = 60_000
RUNNING, WAITING, SUCCEEDED, FAILED = Shown.RUNNING, Shown.WAITING, Shown.SUCCEEDED, Shown.FAILED


def spec(grace=Grace.STRICT, **priorities):
    """A race with a guard of 10 minutes and a timeScale of 1; each copy asks for one GPU."""
    gpu = Resources.of({GPU: 1000})
    rivals = tuple(Rival(cluster=name, priority=priority, asks=gpu) for name, priority in priorities.items())
    return RaceSpec(terms=Terms(grace=grace), rivals=rivals)


def steps(*shown):
    return tuple((round(at * MINUTE), state) for at, state in shown)


def outcome(raced):
    """What mattered, in order: (minute, event, cluster)."""
    told = []
    for now_ms, action in raced.actions:
        match action:
            case CancelAt(cluster=cluster, is_again=False):
                told.append((now_ms / MINUTE, "cancel", cluster))
            case Won(cluster=cluster):
                told.append((now_ms / MINUTE, "won", cluster))
            case Ended(result=result):
                told.append((now_ms / MINUTE, result.value, ""))
    return told


def every(minutes, until=200):
    gap = round(minutes * MINUTE)
    return list(range(gap, until * MINUTE, gap))


@pytest.mark.parametrize(
    "priorities, clusters, polls, told",
    [
        pytest.param(
            {"a": 50, "b": 50},
            {"a": steps((6, RUNNING)), "b": steps((5, RUNNING))},
            [20 * MINUTE],
            [(20, "cancel", "a"), (20, "won", "b")],
            id="seen in one poll, the one that was scheduled first wins",
        ),
        pytest.param(
            {"a": 20, "b": 80},
            {"a": steps((2, RUNNING)), "b": steps((50, RUNNING))},
            [40 * MINUTE, 100 * MINUTE],
            [(100, "cancel", "a"), (100, "won", "b")],
            id="scheduled in time wins although the poll that saw it was late",
        ),
        pytest.param(
            {"a": 20, "b": 80},
            {"a": steps((5, RUNNING)), "b": steps((5, RUNNING))},
            [20 * MINUTE],
            [(20, "cancel", "a"), (20, "won", "b")],
            id="at equal times the higher priority wins at once",
        ),
        pytest.param(
            {"b": 50, "a": 50},
            {"a": steps((5, RUNNING)), "b": steps((5, RUNNING))},
            [20 * MINUTE],
            [(20, "cancel", "b"), (20, "won", "a")],
            id="at equal times and priorities the alias decides",
        ),
        pytest.param(
            {"a": 50, "b": 50},
            {"a": steps((12, RUNNING), (15, SUCCEEDED)), "b": steps((5, RUNNING))},
            [20 * MINUTE],
            [(20, "won", "b")],
            id="at equal times the earliest entry wins, before a success",
        ),
        pytest.param(
            {"a": 10, "b": 30, "c": 90},
            {"a": steps((0, RUNNING)), "b": steps((19, RUNNING)), "c": ()},
            every(1),
            [(29, "cancel", "a"), (89, "cancel", "c"), (89, "won", "b")],
            id="the deadline of a still higher rival is counted from the new leader where that is earlier",
        ),
        pytest.param(
            {"a": 20, "b": 50, "c": 80},
            {"a": steps((0, RUNNING), (15, FAILED)), "b": steps((100, RUNNING)), "c": ()},
            every(1),
            [(110 + 30, "cancel", "c"), (110 + 30, "won", "b")],
            id="when the leader fails its deadlines are void and the race goes on",
        ),
        pytest.param(
            {"a": 50, "b": 20},
            {"a": steps((0, RUNNING), (15, FAILED)), "b": steps((1, RUNNING))},
            every(1),
            [(10, "cancel", "b"), (10, "won", "a"), (15, "failed", "")],
            id="cancelled rivals stay cancelled when the winner fails",
        ),
        pytest.param(
            {"a": 50, "b": 20, "c": 60},
            {"a": steps((0, RUNNING), (15, FAILED)), "b": steps((1, RUNNING)), "c": steps((16, FAILED))},
            every(1),
            [(10, "cancel", "b"), (16, "failed", "")],
            id="also when it fails before the race is decided",
        ),
        pytest.param(
            {"a": 50, "b": 50},
            {"a": steps((0, RUNNING), (8, WAITING), (9, RUNNING)), "b": steps((5, RUNNING))},
            every(1),
            [(15, "cancel", "a"), (15, "won", "b")],
            id="who leaves RUNNING starts its guard anew",
        ),
        pytest.param(
            {"a": 50, "b": 50},
            {"a": steps((0, RUNNING), (8, WAITING), (9, RUNNING)), "b": steps((5, RUNNING))},
            [7 * MINUTE, 11 * MINUTE, 16 * MINUTE],
            [(16, "cancel", "a"), (16, "won", "b")],
            id="also where no poll saw it leave, since its entry is later",
        ),
        pytest.param(
            {"a": 20, "b": 80},
            {"a": steps((2, RUNNING), (40, SUCCEEDED)), "b": steps((50, RUNNING))},
            every(1),
            [(40, "cancel", "b"), (40, "won", "a"), (40, "succeeded", "")],
            id="a leader that has succeeded has done the job: nobody need do it again",
        ),
        pytest.param(
            {"a": 20, "b": 80},
            {"a": steps((2, RUNNING), (40, SUCCEEDED)), "b": steps((29, RUNNING))},
            [20 * MINUTE, 45 * MINUTE],
            [(45, "won", "b")],
            id="unless a higher priority was scheduled before that",
        ),
    ],
)
def test_order(priorities, clusters, polls, told):
    assert outcome(run(spec(**priorities), Clusters(clusters), polls)) == told


@pytest.mark.parametrize(
    "silent, told",
    [
        pytest.param((5, 25), [(32, "won", "a")], id="unseen time earns no guard"),
        pytest.param((1, 4), [(14, "won", "a")], id="nor does time unseen before and after the entry: 2 of 3 minutes"),
        pytest.param((40, 60), [(12, "won", "a")], id="once won it may be silent"),
    ],
)
def test_silence(silent, told):
    clusters = Clusters({"a": steps((2, RUNNING))}, silent={"a": (silent[0] * MINUTE, silent[1] * MINUTE)})

    assert outcome(run(spec(a=50), clusters, every(1))) == told


def test_a_cluster_that_cannot_be_reached_has_neither_won_nor_lost():
    clusters = Clusters({"a": steps((30, RUNNING)), "b": steps((1, FAILED))}, silent={"a": (0, 20 * MINUTE)})

    raced = run(spec(a=50, b=50), clusters, every(1))

    assert outcome(raced) == [(40, "won", "a")]
    assert clusters.submissions == {"a": 1, "b": 1}  # sent again and again until it was there, and then no more


def test_deadlines_run_on_while_a_cluster_cannot_be_reached():
    clusters = Clusters({"a": steps((2, RUNNING)), "b": ()}, silent={"b": (60 * MINUTE, 90 * MINUTE)})

    raced = run(spec(a=20, b=80), clusters, every(1))

    assert outcome(raced) == [(72, "cancel", "b"), (72, "won", "a")]
    cancels = [now_ms / MINUTE for now_ms, action in raced.actions if isinstance(action, CancelAt)]
    assert cancels == [*range(72, 91)]  # until it is back, has heard of it and shows its end


@pytest.mark.parametrize(
    "silent, b, told",
    [
        pytest.param(
            (70, 200),
            steps((60, RUNNING)),
            [(70, "cancel", "a"), (70, "won", "b")],
            id="one that is scheduled in time wins as ever",
        ),
        pytest.param(
            (71, 200),
            steps((65, RUNNING)),
            [(86, "cancel", "a"), (86, "won", "b")],
            id="one that is scheduled after its time leads at once, and has won once the leader is lost",
        ),
        pytest.param(
            (71, 84),
            steps((65, RUNNING)),
            [(84, "cancel", "b"), (84, "won", "a")],
            id="a leader that is heard in time was first",
        ),
        pytest.param((71, 80), (), [(80, "cancel", "b"), (80, "won", "a")], id="its deadline comes when it is heard"),
        pytest.param(
            (71, 200),
            steps((90, RUNNING)),
            [(86, "cancel", "a"), (100, "won", "b")],
            id="without a leader nobody has a deadline",
        ),
        pytest.param(
            (71, 200),
            steps((65, RUNNING), (78, FAILED)),
            [(78, "won", "a")],
            id="if the one that took over fails, nobody is left but the leader",
        ),
        pytest.param(
            (71, 84),
            steps((65, RUNNING), (80, SUCCEEDED)),
            [(80, "cancel", "a"), (80, "won", "b"), (80, "succeeded", "")],
            id="a job that is done need not be done again",
        ),
    ],
)
def test_a_leader_that_cannot_be_heard(silent, b, told):
    """It leads from minute 12 on; the rival has until minute 72."""
    clusters = Clusters({"a": steps((2, RUNNING)), "b": b}, silent={"a": (silent[0] * MINUTE, silent[1] * MINUTE)})

    assert outcome(run(spec(a=20, b=80), clusters, every(1))) == told


def test_a_leader_that_was_given_up_is_cancelled_when_it_is_heard():
    clusters = Clusters(
        {"a": steps((2, RUNNING)), "b": steps((65, RUNNING))}, silent={"a": (71 * MINUTE, 120 * MINUTE)}
    )

    raced = run(spec(a=20, b=80), clusters, every(1))

    assert raced.race.is_won
    assert raced.race.leader == "b"
    assert clusters.stopped == {"a": 120 * MINUTE}


@pytest.mark.parametrize(
    "said, won_at",
    [
        pytest.param(-5, 10, id="a clock that is behind: not before the race began"),
        pytest.param(50, 16, id="a clock that is ahead: not after the poll that saw it"),
        pytest.param(None, 16, id="no time at all: that of the poll"),
    ],
)
def test_the_time_of_entry_is_believed_as_far_as_it_can_be_true(said, won_at):
    race, _ = observe(spec(a=50).race("j", 1, 0), (), 0)
    seen = (Sighting("a", RUNNING, None if said is None else said * MINUTE),)
    won = []
    for minute in range(6, 30):
        race, actions = observe(race, seen, minute * MINUTE)
        won += [minute for action in actions if isinstance(action, Won)]

    assert won == [won_at]


def test_a_quiet_poll_gives_the_very_same_race():
    clusters = Clusters({"a": (), "b": ()})
    race = run(spec(a=50, b=50), clusters, [MINUTE]).race

    again, actions = observe(race, clusters.look(2 * MINUTE), 2 * MINUTE)

    assert again is race
    assert actions == ()


def test_a_submission_without_an_answer_is_sent_again_and_adopted():
    race, _ = observe(spec(a=50).race("j", 1, 0), (), 0)

    race, actions = observe(race, (Sighting("a", Shown.UNREACHABLE),), 5_000)
    assert actions == ()
    race, actions = observe(race, (Sighting("a", Shown.UNREACHABLE),), 10_000)
    assert actions == (SubmitTo("j", 1, "a", is_again=True),)
    race, actions = observe(race, (Sighting("a", Shown.EXISTS),), 10_000)
    assert (race.rival("a").shown, actions) == (WAITING, ())


def test_a_copy_that_never_arrived_is_over_once_it_is_cancelled():
    clusters = Clusters({"a": steps((0, RUNNING)), "b": ()}, silent={"b": (0, 10 * MINUTE)})

    raced = run(spec(a=50, b=50), clusters, every(1))

    assert outcome(raced) == [(10, "cancel", "b"), (10, "won", "a")]
    assert len(raced.of(CancelAt)) == 1
    assert clusters.submissions == {"a": 1}


def test_a_name_that_is_taken_at_the_first_try_is_somebody_elses_job():
    race, _ = observe(spec(a=50).race("j", 1, 0), (), 0)

    race, actions = observe(race, (Sighting("a", Shown.EXISTS, reason="409"),), 0)

    assert actions == (Ended("j", 1, Result.FAILED, "a: rejected (409)"),)


def test_a_race_withdrawn_before_anything_was_sent_asks_for_nothing():
    race, actions = observe(spec(a=50).race("j", 1, 0).withdrawn(), (), 0)

    assert actions == (Ended("j", 1, Result.WITHDRAWN),)
    assert race.is_over


def test_with_grace_one_that_leaves_running_after_its_deadline_is_cancelled():
    clusters = {"a": steps((2, RUNNING)), "b": steps((65, RUNNING), (74, WAITING))}

    raced = run(spec(Grace.RUNNING, a=20, b=80), Clusters(clusters), every(1))

    assert outcome(raced) == [(74, "cancel", "b"), (74, "won", "a")]


def test_with_grace_one_that_succeeds_after_its_deadline_wins_if_it_entered_before():
    clusters = {"a": steps((2, RUNNING)), "b": steps((70, RUNNING), (74, SUCCEEDED))}

    raced = run(spec(Grace.RUNNING, a=20, b=80), Clusters(clusters), every(1))

    assert outcome(raced) == [(74, "cancel", "a"), (74, "won", "b"), (74, "succeeded", "")]


def test_with_grace_the_deadline_of_a_still_higher_rival_stays_where_the_old_one_was_earlier():
    clusters = {"a": steps((0, RUNNING)), "b": steps((19, RUNNING)), "c": ()}

    raced = run(spec(Grace.RUNNING, a=10, b=20, c=60), Clusters(clusters), every(1))

    assert outcome(raced) == [(29, "cancel", "a"), (60, "cancel", "c"), (60, "won", "b")]  # not 29 + 40


def test_with_grace_a_cluster_that_stays_silent_holds_up_the_race_for_one_guard_at_most():
    clusters = Clusters(
        {"a": steps((2, RUNNING)), "b": steps((65, RUNNING))}, silent={"b": (70 * MINUTE, 190 * MINUTE)}
    )

    raced = run(spec(Grace.RUNNING, a=20, b=80), clusters, every(1))

    assert outcome(raced) == [(82, "cancel", "b"), (82, "won", "a")]


@pytest.mark.parametrize(
    "clusters, minutes",
    [
        pytest.param({"a": steps((5, RUNNING)), "b": steps((7, RUNNING))}, 8, id="what the loser ran"),
        pytest.param({"a": steps((5, RUNNING)), "b": ()}, 0, id="nothing, where the loser only waited"),
        pytest.param(
            {"a": steps((0, RUNNING), (4, WAITING), (5, RUNNING)), "b": ()}, 4, id="what the winner ran in vain"
        ),
        pytest.param(
            {"a": steps((5, RUNNING), (40, FAILED)), "b": ()}, 35, id="all of it, when the winner fails in the end"
        ),
        pytest.param({"a": steps((5, RUNNING), (40, SUCCEEDED)), "b": ()}, 0, id="nothing, when it succeeds"),
    ],
)
def test_wasted_gpu_time(clusters, minutes):
    raced = run(spec(a=50, b=50), Clusters(clusters), every(1))

    assert wasted_gpu_ms(raced.race, 200 * MINUTE) == minutes * MINUTE


@pytest.mark.parametrize(
    "minute, sentence",
    [
        pytest.param(1, "raced over a, b: a, b may still run it", id="nobody runs it"),
        pytest.param(5, "raced over a, b: a runs it, not yet for the guard time of 600 s", id="one runs it"),
        pytest.param(20, "a leads; b could still win until t = 4320 s", id="one leads"),
        pytest.param(80, "a won the race over a, b", id="one has won"),
    ],
)
def test_a_race_in_words(minute, sentence):
    clusters = Clusters({"a": steps((2, RUNNING)), "b": ()})

    assert explain(run(spec(a=20, b=80), clusters, every(1, until=minute + 1)).race) == sentence
