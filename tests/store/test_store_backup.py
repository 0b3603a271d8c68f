"""A backup is the database as it was at one moment: whole, in one file, for its owner alone."""

from __future__ import annotations

import stat
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from postgres import program
from store_rows import everything, finished, submitted

from muster.store.errors import BackupFailed, StoreDown
from muster.store.rows import JobChange
from muster.store.store import Batch, Store


@pytest.fixture
def restored(request):
    """How to open a backup of either kind."""
    opened = []

    def open_backup(store, path):
        if store.is_embedded:
            opened.append(Store.open(f"sqlite:///{path}", upgrade=False))
        else:
            server = request.getfixturevalue("postgres")
            name = server.database()
            ran = subprocess.run([program("pg_restore"), "-d", server.url(name), path], check=False)
            assert ran.returncode == 0
            opened.append(Store.open(server.url(name), upgrade=False))
        return opened[-1]

    yield open_backup
    for store in opened:
        store.close()


def test_a_backup_holds_everything(store, restored, tmp_path):
    store.write(submitted("a", "b"))
    store.write(finished("a", at_ms=2))
    (tmp_path / "copies").mkdir()

    store.backup(tmp_path / "copies" / "copy")

    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["copy"]
    assert stat.S_IMODE((tmp_path / "copies" / "copy").stat().st_mode) == 0o600
    copy = restored(store, tmp_path / "copies" / "copy")
    assert everything(copy) == everything(store)
    assert copy.check() == []


def test_a_backup_made_while_others_write_is_of_one_moment(store, restored, tmp_path):
    enough = threading.Event()

    def write():
        number = 0
        while not enough.is_set():
            number += 1
            store.write(submitted(f"{number}-a", f"{number}-b"))

    writing = threading.Thread(target=write)
    writing.start()
    try:
        store.wait(20, 60)
        store.backup(tmp_path / "copy")
    finally:
        enough.set()
        writing.join()

    copy = restored(store, tmp_path / "copy")
    jobs = list(copy.unfinished())
    assert len(jobs) == copy.last_seq() >= 2
    assert len(jobs) % 2 == 0
    assert copy.check() == []


def test_a_file_that_exists_is_left_alone(store, tmp_path):
    (tmp_path / "copy").write_text("precious")

    with pytest.raises(BackupFailed, match="exists already"):
        store.backup(tmp_path / "copy")

    assert (tmp_path / "copy").read_text() == "precious"


def test_a_folder_that_is_not_there_is_named(store, tmp_path):
    with pytest.raises(BackupFailed, match=r"no-folder.*No such file or directory"):
        store.backup(tmp_path / "no-folder" / "copy")


def test_without_pg_dump_one_is_told_what_to_install(postgres, template, tmp_path, monkeypatch):
    with closing(Store.open(postgres.url(template))) as store:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(BackupFailed, match=r"pg_dump is not installed: .*postgresql-client"):
            store.backup(tmp_path / "copy")


def test_a_server_that_is_gone_leaves_no_file_behind(tmp_path):
    from muster.store.backup import backup
    from muster.store.connecting import read_url

    with pytest.raises(StoreDown, match="pg_dump could not copy") as down:
        backup(read_url("postgresql://ann:secret@localhost:1/muster"), tmp_path / "copy")

    assert "secret" not in str(down.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damage, said",
    [
        pytest.param("DELETE FROM page WHERE last = 2", "of the events 1 to 3 there are 1, not 3", id="a lost page"),
        pytest.param("UPDATE counter SET event = 1", "table page has number 3", id="a counter that went back"),
        pytest.param("DELETE FROM standing WHERE job = 'a'", "how job a stands is missing", id="half a job"),
        pytest.param("UPDATE standing SET seq = 7 WHERE job = 'b'", "job b stands in another place", id="two places"),
        pytest.param("UPDATE standing SET end_ms = 1", "job b has an end and has not finished", id="an end too many"),
        pytest.param("UPDATE standing SET end_ms = NULL", "job a has finished and has no end", id="no end"),
    ],
)
def test_a_check_finds_what_is_wrong(store, url, damage, said):
    store.write(submitted("a", "b"))
    store.write(Batch(at_ms=2, events=[], changes=[JobChange(id="b", priority=1)]))
    store.write(finished("a", at_ms=3))
    assert store.check() == []

    with store._engine.begin() as connection:
        connection.execute(sa.text(damage))

    assert any(problem.startswith(said) for problem in store.check())


def test_a_check_finds_a_damaged_file(tmp_path):
    path = Path(tmp_path / "muster.db")
    with closing(Store.open(f"sqlite:///{path}")) as store:
        store.write(submitted(*(f"job-{number}" for number in range(500))))
    page = 4096
    whole = path.read_bytes()
    where = whole.index(b"job-400") // page * page
    path.write_bytes(whole[:where] + b"\xff" * page + whole[where + page :])

    with closing(Store.open(f"sqlite:///{path}", upgrade=False)) as store:
        assert any("damaged" in problem for problem in store.check())
