"""Ids of new jobs."""

from __future__ import annotations

from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from muster.model.names import name_key
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.server.access import Who
from muster.server.finding import queue_thing
from muster.server.naming import Names, letters, number_of
from muster.server.service import Service
from muster.store.batch import Batch
from muster.store.store import Store

NOW_MS = 1_800_000_000_000


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 400)), max_size=8))
def test_ids_are_new_and_sort_in_the_order_they_were_given_out(batches):
    names, given_out, now_ms = Names(), [], NOW_MS
    for passed_ms, many in batches:  # clocks may go back
        now_ms += passed_ms
        first, ids = names.ids(["train"] * many, now_ms)
        assert [number_of(job_id) for job_id in ids] == list(range(first, first + many))
        given_out += ids
    assert len(set(given_out)) == len(given_out)
    assert sorted(given_out, key=name_key) == given_out == sorted(given_out)


@given(st.integers(0, 19**11 - 1), st.integers(0, 19**11 - 1))
def test_letters_sort_as_their_numbers_do(one, other):
    assert (letters(one) < letters(other)) == (one < other)
    assert len(letters(one)) == 11


def test_a_job_without_a_name_is_called_job():
    _, (first, second) = Names().ids([None, "train"], NOW_MS)
    assert (first[:4], second[:6]) == ("job-", "train-")


def test_a_server_that_forgot_everything_gives_out_other_ids_than_before():
    before = Names().ids(["train"], NOW_MS)
    assert Names().ids(["train"], NOW_MS + 1) > before


def test_an_id_of_other_letters_has_no_number():
    assert number_of("train-7x2k9qd") == 0


def test_two_servers_that_give_out_the_same_id_at_once_both_get_their_job_in(tmp_path):
    url, who = f"sqlite:///{tmp_path / 'muster.db'}", Who(name="ann", is_admin=True)
    with closing(Store.open(url)) as store:
        store.write(Batch(at_ms=NOW_MS, things=[queue_thing(Queue(name="a"))]))
    one, other = (Service(Store.open(url), lambda: NOW_MS, Policy()) for _ in range(2))
    with closing(one), closing(other):
        one.start()
        other.start()
        ids = [
            job_id
            for server in (one, other)
            for job_id, _ in server.submit({"jobs": [{"name": "train", "queue": "a", "cpu": 1}] * 3}, who)
        ]
        assert len(set(ids)) == 6
        assert [row.id for row in one.store.jobs(newest_first=False).rows] == ids
