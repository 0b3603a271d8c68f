"""Questions a server asks: pages of jobs, events from a cursor, leases of a cluster; and who waits is woken."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
from store_rows import a_job, a_lease, finished, happened, submitted

from muster.store.errors import StoreDown
from muster.store.rows import JobQuery, NewEvent
from muster.store.store import Batch, Store


@pytest.fixture
def filled(store):
    store.write(
        submitted(
            a_job("a", queue="q1", job_set="s1", user="ann"),
            a_job("b", queue="q2", job_set="s1", user="bob", state="running"),
            a_job("c", queue="q1", job_set="s2", user="bob"),
            a_job("d_50%", queue="q1", job_set="s2", user="ann", state="running", client_id="Mine"),
            a_job("e", queue="q1", job_set="", user="ann"),
        )
    )
    store.write(finished("e", at_ms=2))
    return store


@pytest.mark.parametrize(
    "query, ids",
    [
        pytest.param({}, ["e", "d_50%", "c", "b", "a"], id="all, newest first"),
        pytest.param({"queue": "q1"}, ["e", "d_50%", "c", "a"], id="of a queue"),
        pytest.param({"job_set": "s1"}, ["b", "a"], id="of a job set"),
        pytest.param({"user": "bob"}, ["c", "b"], id="of a user"),
        pytest.param({"state": "running"}, ["d_50%", "b"], id="in a state"),
        pytest.param({"state": "running", "queue": "q1", "user": "ann"}, ["d_50%"], id="all of it together"),
        pytest.param({"states": ["queued", "running"], "queue": "q1"}, ["d_50%", "c", "a"], id="in one of some states"),
        pytest.param({"states": ["pending"]}, [], id="in a state that none is in"),
        pytest.param({"text": "mIn"}, ["d_50%"], id="part of a client id, whatever the case"),
        pytest.param({"text": "_5"}, ["d_50%"], id="an underscore is only that"),
        pytest.param({"text": "%"}, ["d_50%"], id="a percent sign is only that"),
        pytest.param({"text": "s1"}, ["b", "a"], id="part of a job set"),
        pytest.param({"queue": "none"}, [], id="none"),
    ],
)
def test_jobs_are_found_and_paged(filled, query, ids):
    asked = JobQuery(**query)
    whole = filled.jobs(asked)
    assert ([job.id for job in whole.rows], whole.next) == (ids, None)

    paged, cursor = [], None
    for _ in range(len(ids) + 1):
        page = filled.jobs(asked, after=cursor, limit=1)
        paged += [job.id for job in page.rows]
        if (cursor := page.next) is None:
            break
    assert paged == ids
    assert [job.id for job in filled.jobs(asked, newest_first=False).rows] == ids[::-1]


def test_a_page_that_ends_with_the_last_job_has_no_next(filled):
    page = filled.jobs(limit=2)
    assert [job.id for job in page.rows] == ["e", "d_50%"]
    assert filled.jobs(after=page.next, limit=3).next is None


def test_jobs_are_counted_by_queue_and_state(filled):
    assert filled.count_jobs() == {"q1": {"queued": 2, "running": 1, "succeeded": 1}, "q2": {"running": 1}}
    assert filled.count_jobs("q2") == {"q2": {"running": 1}}


def test_what_has_not_finished_is_streamed_in_the_order_of_submission(filled):
    assert [job.id for job in filled.unfinished()] == ["a", "b", "c", "d_50%"]


def test_what_is_written_while_streaming_changes_nothing(store):
    ids = [f"{number:05}" for number in range(5_000)]
    store.write(submitted(*ids))

    stream = store.unfinished()
    first = next(stream)
    store.write(finished(*ids, at_ms=2))

    assert [first.id, *(job.id for job in stream)] == ids
    assert list(store.unfinished()) == []


def test_states_of_jobs_are_looked_up_together(filled):
    assert filled.states_of(["a", "b", "e", "nobody"]) == {"a": "queued", "b": "running", "e": "succeeded"}
    assert filled.states_of([]) == {}


def test_clients_ids_are_looked_up_together(filled):
    assert filled.ids_of_clients(["Mine", "mine", ""]) == {"Mine": "d_50%"}
    assert filled.ids_of_clients([]) == {}
    assert filled.ids_of_clients([str(number) for number in range(25_000)] + ["Mine"]) == {"Mine": "d_50%"}


@pytest.mark.parametrize(
    "asked, kinds",
    [
        pytest.param({}, ["a", "b", "c", "d"], id="all"),
        pytest.param({"queue": "q1"}, ["a", "b"], id="of a queue"),
        pytest.param({"job_set": "s1"}, ["a", "c"], id="of a job set"),
        pytest.param({"job": "j"}, ["b", "d"], id="of a job"),
        pytest.param({"job": "j", "queue": "q1"}, ["b"], id="of both"),
    ],
)
def test_events_are_filtered(store, asked, kinds):
    store.write(Batch(at_ms=1, events=happened("i", kind="a", queue="q1", job_set="s1"), jobs=[a_job("i")]))
    store.write(Batch(at_ms=2, events=happened("j", kind="b", queue="q1"), jobs=[a_job("j")]))
    store.write(Batch(at_ms=3, events=happened("i", kind="c", job_set="s1")))
    store.write(Batch(at_ms=4, events=happened("j", kind="d")))

    assert [event.kind for event in store.events(0, 10, **asked)] == kinds
    assert [event.kind for event in store.events(0, 1, **asked)] == kinds[:1]
    assert [event.kind for event in store.events(1, 10, **asked)] == [kind for kind in kinds if kind != "a"]


def test_what_happened_to_a_job_before_it_came_is_not_about_it(store):
    store.write(Batch(at_ms=1, events=happened("j", kind="unheard of")))
    store.write_all([Batch(at_ms=2, events=happened("j", kind="nor this")), submitted("j", at_ms=3)])

    assert [event.kind for event in store.events(0, 10)] == ["unheard of", "nor this", "submitted"]
    assert [event.kind for event in store.events(0, 10, job="j")] == ["submitted"]


def test_many_events_of_one_moment_are_read_from_anywhere(store):
    store.write(Batch(at_ms=1, events=[NewEvent(kind=str(number), body={}) for number in range(1, 2_502)]))
    store.write(Batch(at_ms=2, events=happened("j", kind="last")))

    for after, limit, first, last in ((0, 5_000, 1, 2_502), (999, 2, 1_000, 1_001), (2_500, 10, 2_501, 2_502)):
        found = store.events(after, limit)
        assert [event.seq for event in found] == list(range(first, last + 1))
        assert [event.kind for event in found[:-1]] == [str(event.seq) for event in found[:-1]]


def test_events_of_a_job_set_begin_with_its_first_job(store):
    store.write(Batch(at_ms=1, events=happened("x", "y")))
    store.write(submitted(a_job("i", job_set="s")))
    store.write(Batch(at_ms=2, events=happened("i", kind="later", job_set="s")))

    assert [event.kind for event in store.events(0, 10, job_set="s")] == ["submitted", "later"]


@pytest.mark.parametrize(
    "asked, found",
    [
        pytest.param({}, ["a1", "a2", "b1"], id="all"),
        pytest.param({"cluster": "c"}, ["a1", "a2"], id="of a cluster, ended or not"),
        pytest.param({"cluster": "c", "states": ("leased", "sent")}, ["a2"], id="of a cluster, those it holds"),
        pytest.param({"states": ("leased", "running")}, ["a2", "b1"], id="held by anyone"),
        pytest.param({"states": ("ended", "running")}, ["a1", "b1"], id="ended or running"),
    ],
)
def test_leases_are_found_by_cluster_and_state(store, asked, found):
    leases = [
        a_lease("a", name="a1", state="ended"),
        a_lease("a", name="a2", attempt=2),
        a_lease("b", name="b1", cluster="d", state="running"),
    ]
    store.write(submitted("a", "b", leases=leases))

    assert [lease.name for lease in store.leases(**asked)] == found


def test_attempts_that_have_not_ended_or_did_since_a_moment_are_streamed(store):
    ends = {"early": 5, "then": 10, "late": 15}
    store.write(submitted(*ends, "runs"))
    leases = [a_lease(job, state="ended", changed_ms=at_ms) for job, at_ms in ends.items()]
    store.write(Batch(at_ms=20, leases=[*leases, a_lease("runs", state="running", changed_ms=1)]))

    found = sorted(store.attempts(10), key=lambda row: row.job)

    assert found == [store.lease(job, 1) for job in ("late", "runs", "then")]


def test_who_waits_is_woken_by_the_next_event(store):
    seen = []
    waiting = threading.Thread(target=lambda: seen.append(store.wait(0, 60)))
    waiting.start()

    store.write(Batch(at_ms=1, events=happened("a", "b")))

    waiting.join(60)
    assert seen == [2]
    assert store.wait(1, 60) == 2  # there already: no waiting
    assert store.wait(2, 0.01) == 2  # the time is over


def test_closing_lets_those_who_wait_go(url):
    store = Store.open(url)
    seen = []

    def wait():
        try:
            seen.append(store.wait(0, 60))
        except StoreDown as err:  # it was closed before the wait began
            seen.append(str(err))

    waiting = threading.Thread(target=wait)
    waiting.start()

    store.close()

    waiting.join(30)
    assert seen in ([0], ["the store is closed"])
    with pytest.raises(StoreDown, match="closed"):
        store.last_seq()


def test_other_servers_hear_it_too(postgres, template):
    name = postgres.database(template)
    with closing(Store.open(postgres.url(name))) as one, closing(Store.open(postgres.url(name))) as other:
        seen = []
        waiting = threading.Thread(target=lambda: seen.append(other.wait(0, 60)))
        waiting.start()

        one.write(Batch(at_ms=1, events=happened("a")))

        waiting.join(30)
        assert seen == [1]
        # A connection that breaks is made anew, and what was missed is heard then.
        postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'", name)
        waiting = threading.Thread(target=lambda: seen.append(other.wait(1, 60)))
        waiting.start()
        one.write(Batch(at_ms=2, events=happened("b")))
        waiting.join(30)
        assert seen == [1, 2]
    postgres.drop(name)
