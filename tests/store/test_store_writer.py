"""One writer for everybody: order, one flush for many, and trouble that stays with whom it belongs to."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
from postgres import Postgres
from store_rows import a_lease, happened, submitted

from muster.store.errors import AlreadyThere, BadBatch, StoreDown
from muster.store.store import Batch, Store
from muster.store.writer import Writer


class Held(Store):
    """A store whose next transaction begins when the test says so; it counts those that were begun."""

    def hold(self):
        self.may_write = threading.Event()
        self.is_writing = threading.Event()
        self.sizes = []

    def write_all(self, batches):
        self.is_writing.set()
        self.may_write.wait(60)
        self.sizes.append(len(batches))
        return super().write_all(batches)


@pytest.fixture
def held(url):
    with closing(Held.open(url)) as store:
        store.hold()
        yield store


def put_while_writing(held, writer, *batches):
    """The futures of batches that came while a first one was being written."""
    first = writer.put(Batch(at_ms=1, events=happened("first")))
    held.is_writing.wait(60)
    futures = [first, *map(writer.put, batches)]
    held.may_write.set()
    return futures


def outcome(future):
    try:
        return future.result(60)
    except Exception as err:
        return type(err)


def test_batches_that_wait_are_written_together_in_their_order(held):
    with Writer(held) as writer:
        futures = put_while_writing(held, writer, submitted("a", "b"), Batch(at_ms=2), submitted("c"))

        assert [future.result(60) for future in futures] == [1, 3, 3, 4]
    assert held.sizes == [1, 3]
    assert [event.job for event in held.events(0, 10)] == ["first", "a", "b", "c"]


def test_only_the_faulty_one_fails(held):
    with Writer(held) as writer:
        futures = put_while_writing(
            held,
            writer,
            submitted("a"),
            submitted("a"),  # comes second
            Batch(at_ms=2, leases=[a_lease("nobody")]),
            submitted("b", changes=[]),
        )

        assert [outcome(future) for future in futures] == [1, 2, AlreadyThere, BadBatch, 3]
    assert [event.job for event in held.events(0, 10)] == ["first", "a", "b"]
    assert held.check() == []


def test_a_batch_that_its_owner_cancelled_in_time_is_not_written(held):
    with Writer(held) as writer:
        first = writer.put(Batch(at_ms=1, events=happened("first")))
        held.is_writing.wait(60)
        second = writer.put(submitted("a"))
        assert second.cancel()
        held.may_write.set()
        assert first.result(60) == 1
    assert held.job("a") is None


def test_closing_writes_what_waits_and_refuses_what_comes_later(store):
    writer = Writer(store)
    futures = [writer.put(submitted(f"j{number}")) for number in range(50)]

    writer.close()

    assert [future.result(0) for future in futures] == list(range(1, 51))
    with pytest.raises(StoreDown, match="closed"):
        writer.put(Batch(at_ms=1))


def test_many_threads_write_and_every_number_is_given_once(store):
    def submit(thread):
        for number in range(20):
            mine.append(writer.put(submitted(f"{thread}-{number}")).result(60))

    mine = []
    with Writer(store) as writer:
        threads = [threading.Thread(target=submit, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert sorted(mine) == list(range(1, 161))
    assert [event.seq for event in store.events(0, 1_000)] == list(range(1, 161))


def test_a_broken_connection_is_made_anew(postgres, template):
    name = postgres.database(template)
    with closing(Store.open(postgres.url(name))) as store, Writer(store) as writer:
        assert writer.put(submitted("a")).result(60) == 1
        kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()"
        postgres.execute(kill.format(name))

        assert writer.put(submitted("b")).result(60) == 2
    postgres.drop(name)


def test_while_the_server_is_down_writing_fails_and_then_goes_on():
    server = Postgres()
    try:
        server.start()
        url = server.url(server.database())
        with closing(Store.open(url)) as store, Writer(store) as writer:
            assert writer.put(submitted("a")).result(60) == 1
            server.stop()
            assert outcome(writer.put(submitted("b"))) is StoreDown
            with pytest.raises(StoreDown):
                store.last_seq()
            server.start()
            assert writer.put(submitted("b")).result(60) == 2
            assert [job.id for job in store.unfinished()] == ["a", "b"]
            assert store.check() == []
    finally:
        server.remove()
