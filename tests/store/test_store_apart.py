"""Writing from a process of its own: it does what writing here does, and lives no longer than its owner."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing, contextmanager

import pytest
from store_rows import a_lease, finished, happened, submitted

from muster.store.errors import AlreadyThere, BadBatch, StoreDown
from muster.store.rows import NewEvent
from muster.store.store import Batch, Store
from muster.store.writer import Writer

PATIENCE_S = 60


@contextmanager
def end_of(pid):
    """Something to wait with for the end of a process, whoever its parent is."""
    file = os.pidfd_open(pid)
    try:
        yield file
    finally:
        os.close(file)


@pytest.fixture
def apart(postgres, template):
    name = postgres.database(template)
    with closing(Store.open(postgres.url(name))) as store:
        store.write_apart()
        yield store
    postgres.drop(name)


def ends(pid_file: int) -> bool:
    """Whether the process of this pidfd ends, sooner or later."""
    return bool(select.select([pid_file], [], [], PATIENCE_S)[0])


@pytest.mark.parametrize(
    "batch, error, message",
    [
        pytest.param(submitted("a"), AlreadyThere, "there already: job a", id="a job that is there already"),
        pytest.param(
            Batch(at_ms=2, leases=[a_lease("nobody")]), BadBatch, r"leases\[0\].job: 'nobody'", id="a lease of nobody"
        ),
        pytest.param(
            Batch(at_ms=2, events=happened("a", queue="\ud800")), BadBatch, "Unicode", id="text that is not Unicode"
        ),
        pytest.param(Batch(at_ms=1 << 80, events=happened("a")), BadBatch, "64 bits", id="a number that is too large"),
        pytest.param(
            Batch(at_ms=2, events=[NewEvent(kind="e", body={"x": object()})]), BadBatch, "JSON", id="no JSON at all"
        ),
    ],
)
def test_what_is_refused_is_refused_as_it_is_here_and_what_comes_next_is_written(apart, batch, error, message):
    assert apart.write(submitted("a")) == 1

    with pytest.raises(error, match=message):
        apart.write(batch)

    assert apart.write(submitted("b")) == 2
    assert [event.job for event in apart.events(0, 10)] == ["a", "b"]


def test_only_the_faulty_one_of_many_fails(apart):
    with Writer(apart) as writer:
        futures = [writer.put(batch) for batch in (submitted("a"), submitted("b"), submitted("a"), submitted("c"))]

        assert [type(future.exception(PATIENCE_S)) for future in futures] == [
            type(None),
            type(None),
            AlreadyThere,
            type(None),
        ]
    assert [event.job for event in apart.events(0, 10)] == ["a", "b", "c"]


def test_what_is_forgotten_is_counted(apart):
    apart.write(submitted("a", "b", "c"))
    apart.write(finished("a", "c", at_ms=5))
    gone: Counter[tuple[str, str]] = Counter()

    while apart.forget(10, ends=gone):
        pass

    assert gone == {("q", "succeeded"): 2}
    assert [job.id for job in apart.unfinished()] == ["b"]


def test_whoever_waits_for_an_event_hears_of_it(apart):
    apart.write(submitted("a"))

    assert apart.wait(0, PATIENCE_S) == 1


def test_another_is_started_should_it_be_killed(apart):
    apart.write(submitted("a"))
    before = apart.writer_pid
    with end_of(before) as gone:
        os.kill(before, signal.SIGKILL)
        assert ends(gone)

    apart.write(submitted("b"))

    assert apart.writer_pid != before
    assert [event.job for event in apart.events(0, 10)] == ["a", "b"]


def test_it_ends_when_the_store_is_closed(postgres, template):
    store = Store.open(postgres.url(postgres.database(template)))
    store.write_apart()
    store.write(submitted("a"))
    with end_of(store.writer_pid) as gone:
        store.close()
        assert ends(gone)
    with pytest.raises(StoreDown, match="closed"):
        store.write(submitted("b"))


def test_it_ends_with_its_owner_however_that_ends(postgres, template):
    code = """
import sys
from muster.store.store import Store
store = Store.open(sys.argv[1])
store.write_apart()
print(store.writer_pid, flush=True)
sys.stdin.read()
"""
    url = postgres.url(postgres.database(template))
    command = [sys.executable, "-c", code, url]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner,
        end_of(int(owner.stdout.readline())) as gone,
    ):
        owner.kill()
        assert ends(gone)


def test_a_file_is_written_by_the_process_that_opened_it(tmp_path):
    with closing(Store.open(f"sqlite:///{tmp_path / 'muster.db'}")) as store:
        store.write_apart()
        assert store.writer_pid is None
