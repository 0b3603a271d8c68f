"""What is written is there, whole, numbered without gaps; what cannot be written leaves nothing behind."""

from __future__ import annotations

import pytest
from store_rows import a_job, a_lease, everything, finished, happened, submitted

from muster.store.errors import AlreadyThere, BadBatch
from muster.store.rows import AuditRow, JobChange, NewEvent, Thing, TurnRow
from muster.store.store import Batch, Store


def test_a_new_store_is_empty(store):
    assert (store.last_seq(), store.oldest_seq()) == (0, 1)
    assert store.events(0, 10) == []
    assert store.job("j") is None
    assert list(store.unfinished()) == []
    assert store.check() == []


def test_a_job_comes_back_as_it_was_given(store):
    odd = {"text": 'tab\t "quoted" \\N back\\slash\nline \u0000 ü 漢 😀', "n": [1, -2.5, None, True], "deep": {"a": {}}}
    job = a_job(
        "j-1",
        client_id="my-1",
        queue="vision",
        job_set="sweep",
        user="zoë\t\\N",
        state="running",
        attempt=3,
        priority=-7,
        priority_class=2,
        submit_ms=2**50,
        start_ms=0,
        failures=1,
        cluster="east",
        reason="tab\t\\N new\nline",
        spec=odd,
    )

    store.write(submitted(job))

    (event,) = store.events(0, 10)
    found = store.job("j-1")
    assert found.seq == event.seq == 1
    assert {name: getattr(found, name) for name in job.__slots__ if name != "seq"} == {
        name: getattr(job, name) for name in job.__slots__ if name != "seq"
    }


def test_events_are_numbered_in_their_order_without_gaps(store):
    first = store.write(Batch(at_ms=5, events=[NewEvent(kind="a", body={"n": 1}), NewEvent(kind="b", body={})]))
    nothing = store.write(Batch(at_ms=6))
    second = store.write(Batch(at_ms=7, events=[NewEvent(kind="c", body={}, queue="q", job_set="s", job="j")]))

    assert (first, nothing, second) == (2, 2, 3)
    assert [(e.seq, e.at_ms, e.kind, e.queue, e.job_set, e.job) for e in store.events(0, 10)] == [
        (1, 5, "a", "", "", ""),
        (2, 5, "b", "", "", ""),
        (3, 7, "c", "q", "s", "j"),
    ]
    assert store.last_seq() == 3


def test_a_job_has_the_number_of_the_event_that_brought_it(store):
    store.write(Batch(at_ms=1, events=happened("b", "a", "b"), jobs=[a_job("a"), a_job("b")]))

    assert (store.job("b").seq, store.job("a").seq) == (1, 2)
    assert [job.id for job in store.unfinished()] == ["b", "a"]


def test_a_change_changes_what_it_names_and_nothing_else(store):
    store.write(submitted(a_job("j", priority=4, spec={"x": 1}), "other"))
    other = store.job("other")

    store.write(Batch(at_ms=2, changes=[JobChange(id="j", state="running", start_ms=9, cluster="c")]))
    store.write(
        Batch(at_ms=3, changes=[JobChange(id="j", state="queued", start_ms=None), JobChange(id="j", attempt=1)])
    )

    job = store.job("j")
    assert (job.state, job.start_ms, job.cluster, job.attempt, job.priority) == ("queued", None, "c", 1, 4)
    assert store.job("other") == other


def test_a_job_that_is_queued_again_has_no_end(store):
    store.write(submitted("j"))
    store.write(finished("j", at_ms=5, state="failed"))
    assert store.job("j").end_ms == 5

    store.write(Batch(at_ms=6, changes=[JobChange(id="j", state="queued")]))

    store.forget(1_000)
    assert (store.job("j").state, store.job("j").end_ms) == ("queued", None)


def test_a_change_of_a_job_that_left_is_left_out(store):
    store.write(Batch(at_ms=1, changes=[JobChange(id="gone", state="running"), JobChange(id="gone")]))

    assert store.job("gone") is None


def test_the_last_lease_of_an_attempt_counts(store):
    store.write(submitted("j", leases=[a_lease("j"), a_lease("j", state="sent")]))
    store.write(Batch(at_ms=2, leases=[a_lease("j", attempt=2, cluster="d", result={"exit": 0})]))
    store.write(Batch(at_ms=3, leases=[a_lease("j", state="ended", reason="cancelled", changed_ms=3)]))

    first, second = store.leases_of("j")
    assert (first.state, first.reason, first.changed_ms) == ("ended", "cancelled", 3)
    assert second == store.lease("j", 2) == a_lease("j", attempt=2, cluster="d", result={"exit": 0})
    assert store.lease("j", 3) is None


def test_things_are_replaced_and_deleted_by_name(store):
    kept, other = Thing(kind="queue", name="a", body={"weight": 1}), Thing(kind="node", name="a", body={})
    store.write(Batch(at_ms=1, things=[kept, other, Thing(kind="queue", name="b", body={})]))
    store.write(Batch(at_ms=2, things=[Thing(kind="queue", name="a", body={"weight": 2})], gone=[("queue", "b")]))
    store.write(Batch(at_ms=3, things=[Thing(kind="queue", name="c", body={})], gone=[("queue", "c"), ("x", "y")]))

    assert store.things("queue") == [Thing(kind="queue", name="a", body={"weight": 2})]
    assert store.thing("node", "a") == other
    assert store.thing("queue", "b") is None


def test_turns_and_audit_lines_are_numbered_and_come_latest_first(store):
    for at_ms in (10, 20, 30):
        turn = TurnRow(at_ms=at_ms, took_ms=1, body={"started": at_ms})
        store.write(Batch(at_ms=at_ms, turn=turn, audit=[AuditRow(at_ms=at_ms, who="ann", what="cancel", body={})]))

    assert [(turn.number, turn.at_ms, turn.body) for turn in store.turns(limit=2)] == [
        (3, 30, {"started": 30}),
        (2, 20, {"started": 20}),
    ]
    assert [turn.number for turn in store.turns(before=2)] == [1]
    assert [store.turn(number).number for number in (1, 2)] == [1, 2]
    assert (store.turn(99), store.last_turn()) == (None, store.turns(limit=1)[0].number)
    assert [(row.number, row.who) for row in store.audit(before=3)] == [(2, "ann"), (1, "ann")]


def test_all_is_there_after_closing_and_opening(store, url):
    store.write(submitted(*"abcde", leases=[a_lease("a")], things=[Thing(kind="queue", name="q", body={"w": 1})]))
    store.write(finished("b", at_ms=7))
    before = everything(store)
    store.close()

    again = Store.open(url)

    assert everything(again) == before
    assert again.write(Batch(at_ms=9, events=happened("a"))) == before["last"] + 1
    again.close()


@pytest.mark.parametrize(
    "batch, ids, clients",
    [
        pytest.param(submitted("new", "old"), ("old",), (), id="an id that is there"),
        pytest.param(submitted(a_job("new", client_id="mine")), (), ("mine",), id="a client id that is there"),
        pytest.param(submitted("new", "new"), ("new",), (), id="an id twice in the batch"),
        pytest.param(
            submitted(a_job("x", client_id="c"), a_job("y", client_id="c")), (), ("c",), id="a client id twice in it"
        ),
        pytest.param(submitted(a_job("old", client_id="mine")), ("old",), ("mine",), id="both"),
    ],
)
def test_a_job_that_is_there_already_is_named_and_nothing_written(store, batch, ids, clients):
    store.write(submitted(a_job("old", client_id="mine"), "none-1", "none-2"))
    before = everything(store)

    with pytest.raises(AlreadyThere) as refused:
        store.write(batch)

    assert (refused.value.ids, refused.value.client_ids) == (ids, clients)
    assert everything(store) == before
    assert store.write(Batch(at_ms=2, events=happened("old"))) == before["last"] + 1


@pytest.mark.parametrize(
    "batch, field",
    [
        pytest.param(Batch(at_ms=1, leases=[a_lease("nobody")]), "leases[0].job", id="a lease of no job"),
        pytest.param(Batch(at_ms=1, jobs=[a_job("j")]), "jobs[0]", id="a job that no event names"),
        pytest.param(
            submitted("j", changes=[JobChange(id="j", state="failed")]), "changes[0].end_ms", id="an end at no time"
        ),
        pytest.param(
            submitted("j", changes=[JobChange(id="j", end_ms=7)]), "changes[0].end_ms", id="an end of nothing"
        ),
        pytest.param(submitted(a_job("j", end_ms=7)), "jobs[0].end_ms", id="a new job that ended and waits"),
        pytest.param(submitted(a_job("j", state="cancelled")), "jobs[0].end_ms", id="a new job that ended at no time"),
        pytest.param(submitted(a_job("j", priority=2**63)), "batch", id="a number of more than 64 bits"),
        pytest.param(submitted(a_job("j", spec={"x": object()})), "body", id="a body that JSON cannot say"),
        pytest.param(submitted(a_job("j", reason="\ud800")), "batch", id="half a character"),
    ],
)
def test_a_batch_that_no_store_could_take_leaves_nothing_behind(store, batch, field):
    store.write(submitted("old"))
    before = everything(store)

    with pytest.raises(BadBatch) as refused:
        store.write(batch)

    assert refused.value.field == field
    assert everything(store) == before


def test_one_leads_at_a_time(store):
    assert store.lead("a", now_ms=0, for_ms=10)
    assert not store.lead("b", now_ms=9, for_ms=10)
    assert store.lead("a", now_ms=9, for_ms=10)
    assert not store.lead("b", now_ms=18, for_ms=10)
    assert store.lead("b", now_ms=19, for_ms=10)
    assert not store.lead("a", now_ms=20, for_ms=10)
    assert store.lead("a", now_ms=20, for_ms=10, name="something else")
    store.give_up_lead("a")
    assert not store.lead("a", now_ms=21, for_ms=10)
    store.give_up_lead("b")
    assert store.lead("a", now_ms=21, for_ms=10)


def test_of_leases_whose_jobs_change_with_them_and_others_the_one_of_nobody_is_named(store):
    store.write(submitted("a", "b"))
    running = [JobChange(id="a", state="running", start_ms=2)]
    batch = Batch(at_ms=2, changes=running, leases=[a_lease("a"), a_lease("b"), a_lease("nobody")])

    with pytest.raises(BadBatch, match=r"leases\[2\].job: 'nobody'"):
        store.write(batch)

    assert store.leases() == []
