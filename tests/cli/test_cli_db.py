"""`muster db` as people and scripts meet it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from store_rows import submitted
from typer.testing import CliRunner

from muster.cli.main import app
from muster.store.store import Store
from muster.store.tables import SCHEMA


def muster(*args, **env):
    return CliRunner().invoke(app, ["db", *map(str, args)], env=env)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'muster.db'}"


@pytest.fixture
def filled(url):
    store = Store.open(url)
    store.write(submitted("a", "b"))
    store.close()
    return url


def test_upgrade_makes_the_tables_once(url):
    first, second = muster("upgrade", "--db", url), muster("upgrade", MUSTER_DB=url)

    assert (first.exit_code, first.stdout) == (0, f"{url} now has schema {SCHEMA}; before it had none\n")
    assert (second.exit_code, second.stdout) == (0, f"{url} has schema {SCHEMA} already\n")


def test_all_three_work_on_postgresql_too(postgres, tmp_path):
    url = postgres.url(postgres.database())

    assert [muster(*args, "--db", url).exit_code for args in (["check"], ["upgrade"], ["check"])] == [2, 0, 0]
    assert muster("backup", tmp_path / "copy", "--db", url).exit_code == 0
    assert (tmp_path / "copy").read_bytes().startswith(b"PGDMP")


def test_check_says_that_all_is_well(filled):
    done = muster("check", "--db", filled)
    assert (done.exit_code, done.stdout) == (0, f"{filled}: all is well\n")


def test_check_says_what_is_wrong_and_fails(filled):
    engine = sa.create_engine(filled)
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM page"))
    engine.dispose()

    done = muster("check", "--db", filled)

    assert (done.exit_code, done.stdout) == (1, "of the events 1 to 2 there are 0, not 2\n")


def test_backup_copies_what_is_there(filled, tmp_path):
    done = muster("backup", tmp_path / "copy.db", "--db", filled)

    assert (done.exit_code, done.stdout) == (0, f"copied {filled} to {tmp_path / 'copy.db'}\n")
    copy = Store.open(f"sqlite:///{tmp_path / 'copy.db'}")
    assert [job.id for job in copy.unfinished()] == ["a", "b"]
    copy.close()


@pytest.mark.parametrize(
    "args, said",
    [
        pytest.param(["upgrade", "--db", "nonsense"], "--db: 'nonsense': sqlite:///path/to/muster.db or", id="no url"),
        pytest.param(["check", "--db", "sqlite:////no/db"], "there is no database at /no/db", id="nothing to check"),
        pytest.param(["backup", "x", "--db", "sqlite:////no/db"], "cannot copy /no/db", id="nothing to copy"),
        pytest.param(["upgrade", "--db", "sqlite:////no/db"], "cannot open /no/db: No such file", id="no folder"),
        pytest.param(
            ["check", "--db", "postgresql://u:secret@localhost:1/m"], "the database cannot be used now", id="no server"
        ),
    ],
)
def test_what_cannot_be_done_is_said(args, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    done = muster(*args)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
    assert "secret" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_newer_database_is_refused(filled):
    engine = sa.create_engine(filled)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()

    for command in ("upgrade", "check"):
        done = muster(command, "--db", filled)
        assert done.exit_code == 2
        assert "the database has schema 9999" in done.stderr
