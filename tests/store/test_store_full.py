"""A full disk: writing fails, nothing is broken, and it goes on when there is room again."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing

import pytest
import sqlalchemy as sa
from store_rows import a_job, everything, submitted

from muster.store.errors import StoreDown
from muster.store.store import Store
from muster.store.writer import Writer

MIB = 2**20


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MiB; None where this user may not make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and (
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=False).returncode == 0
    )
    yield folder if mounted else None
    if mounted:
        subprocess.run(["umount", folder], check=True)


def big(number):
    return submitted(a_job(f"j{number}", spec={"blob": "x" * 200_000}))


def fill(writer):
    """Write until it fails; how many were written."""
    for number in range(100):
        trouble = writer.put(big(number)).exception(60)
        if trouble is not None:
            assert isinstance(trouble, StoreDown)
            assert "full" in str(trouble)
            return number
    raise AssertionError("the disk was never full")


def test_a_full_disk_stops_writing_until_there_is_room(small_disk, tmp_path):
    folder = small_disk or tmp_path
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * MIB)
    with closing(Store.open(f"sqlite:///{folder / 'muster.db'}")) as store, Writer(store) as writer:
        if small_disk is None:
            limit_pages(store, 500)
        written = fill(writer)
        before = everything(store)
        assert [job.id for job in before["unfinished"]] == [f"j{number}" for number in range(written)]
        with pytest.raises(StoreDown):
            writer.put(big(written)).result(60)
        assert everything(store) == before

        ballast.unlink()
        if small_disk is None:
            limit_pages(store, 2_000)
        assert writer.put(big(written)).result(60) == written + 1
        assert store.check() == []


def limit_pages(store, pages):
    """The same without a file system of our own: SQLite takes a file of so many pages as full."""
    store._engine.dispose()
    sa.event.listen(
        store._engine, "connect", lambda connection, _: connection.execute(f"PRAGMA max_page_count = {pages}")
    )
