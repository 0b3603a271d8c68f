"""Retention: what is old leaves in small steps; what has not finished stays, with its history."""

from __future__ import annotations

import pytest
from store_rows import a_lease, finished, happened, submitted

from muster.store.errors import Expired
from muster.store.rows import AuditRow, NewEvent, TurnRow
from muster.store.store import Batch


def forget_all(store, before_ms, limit=1_000):
    """Forget until nothing is left to forget; how many rows left."""
    total = 0
    while left := store.forget(before_ms, limit):
        total += left
    return total


def note(store, at_ms, kind="note"):
    return store.write(Batch(at_ms=at_ms, events=[NewEvent(kind=kind, body={})]))


def test_a_finished_job_leaves_with_its_leases_and_history(store):
    store.write(submitted("old", "young", "waits", at_ms=1, leases=[a_lease("old", state="ended")]))
    store.write(finished("old", at_ms=5))
    store.write(finished("young", at_ms=10))

    assert forget_all(store, 10) == 5  # two pages of events, one lease, and the two rows of a job

    assert [job.id for job in store.jobs().rows] == ["waits", "young"]
    assert store.leases() == []
    assert [(event.seq, event.kind) for event in store.events(4, 10)] == [(5, "succeeded")]
    assert store.events(0, 10, job="old") == []
    assert [event.kind for event in store.events(0, 10, job="young")] == ["submitted", "succeeded"]
    assert store.check() == []


def test_what_has_not_finished_stays_however_old(store):
    store.write(submitted("waits", at_ms=1))
    store.write(Batch(at_ms=2, events=happened("waits", kind="held")))

    assert forget_all(store, 1_000) == 2  # the pages of events, which everybody reads

    assert [job.id for job in store.unfinished()] == ["waits"]
    assert [event.kind for event in store.events(0, 10, job="waits")] == ["submitted", "held"]


def test_a_finished_job_stays_while_a_cluster_holds_it(store):
    store.write(submitted("j", at_ms=1, leases=[a_lease("j", state="stopping")]))
    store.write(finished("j", at_ms=2, state="cancelled"))

    forget_all(store, 1_000)
    assert [event.kind for event in store.events(0, 10, job="j")] == ["submitted", "cancelled"]

    store.write(Batch(at_ms=3, leases=[a_lease("j", state="ended")]))
    assert forget_all(store, 1_000) == 3  # the lease, and the two rows of a job
    assert store.job("j") is None


def test_events_turns_and_audit_lines_leave_by_age(store):
    for at_ms in (1, 2, 3):
        turn = TurnRow(at_ms=at_ms, took_ms=1, body={})
        audit = [AuditRow(at_ms=at_ms, who="ann", what="w", body={})]
        store.write(Batch(at_ms=at_ms, events=happened("never there"), turn=turn, audit=audit))

    assert forget_all(store, 3) == 6

    assert [event.at_ms for event in store.events(2, 10)] == [3]
    assert ([turn.number for turn in store.turns()], [row.number for row in store.audit()]) == ([3], [3])
    store.write(Batch(at_ms=4, turn=TurnRow(at_ms=4, took_ms=1, body={})))
    assert store.turns()[0].number == 4


def test_a_cursor_older_than_what_is_kept_is_told_so(store):
    for at_ms in (1, 2, 3, 4):
        note(store, at_ms)
    forget_all(store, 3)

    assert store.oldest_seq() == 3
    assert [event.seq for event in store.events(2, 10)] == [3, 4]
    with pytest.raises(Expired) as expired:
        store.events(1, 10)
    assert (expired.value.after, expired.value.oldest) == (1, 3)
    assert "the oldest kept is 3" in str(expired.value)


def test_a_clock_that_went_back_hides_nothing(store):
    for at_ms in (1, 9, 2, 10):
        note(store, at_ms)

    forget_all(store, 5)

    assert [event.at_ms for event in store.events(store.oldest_seq() - 1, 10)] == [9, 2, 10]


@pytest.mark.parametrize("limit", [1, 2, 7, 1_000])
def test_however_small_the_steps_all_of_it_leaves(store, limit):
    ids = [f"j{number}" for number in range(12)]
    store.write(submitted(*ids, "stays", at_ms=1, leases=[a_lease(job, state="ended") for job in ids]))
    for at_ms in range(2, 9):
        note(store, at_ms)
    store.write(finished(*ids, at_ms=9))
    note(store, 10)

    assert forget_all(store, 10, limit) == 12 * 3 + 9  # of each job three rows; pages of nine moments

    assert [job.id for job in store.jobs().rows] == ["stays"]
    assert [event.kind for event in store.events(0, 10, job="stays")] == ["submitted"]
    assert len(store.events(store.oldest_seq() - 1, 100)) == store.last_seq() - store.oldest_seq() + 1 == 1
    assert store.check() == []


def test_a_step_is_small(store):
    store.write(submitted(*(f"j{number}" for number in range(1_000)), at_ms=1))
    store.write(finished(*(f"j{number}" for number in range(1_000)), at_ms=2))

    assert 100 <= store.forget(3, 100) <= 400
