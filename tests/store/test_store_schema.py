"""Schemas: migrations lead to the tables the code knows; older ones are upgraded with what they hold, newer refused."""

from __future__ import annotations

import multiprocessing
import shutil
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from store_rows import everything, submitted

from muster.model.errors import InvalidValue
from muster.store import schema
from muster.store.connecting import engine_for, read_url
from muster.store.errors import NewerSchema, OlderSchema, StoreDown
from muster.store.store import Store
from muster.store.tables import METADATA, SCHEMA

LATER = """
from __future__ import annotations
import sqlalchemy as sa
from alembic import op
revision = "9999"
down_revision = "{schema}"
def upgrade():
    op.add_column("job", sa.Column("colour", sa.Text(), nullable=False, server_default="green"))
"""


@pytest.fixture
def later(tmp_path):
    """The migrations of a Muster to come."""
    folder = tmp_path / "later % migrations"
    shutil.copytree(schema.MIGRATIONS, folder)
    (folder / "versions" / "s9999_later.py").write_text(LATER.format(schema=SCHEMA))
    return folder


@pytest.fixture
def engine(empty_url):
    opened = engine_for(read_url(empty_url))
    yield opened
    opened.dispose()


def test_migrations_lead_to_the_tables_we_know(engine):
    assert schema.upgrade(engine) == ""
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
        assert schema.schema_of(connection) == SCHEMA
    assert schema.upgrade(engine) == SCHEMA


def test_the_newest_migration_is_the_one_the_code_is_made_for():
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA]


def test_an_older_database_is_upgraded_with_what_it_holds(empty_url, engine, later):
    with closing(Store.open(empty_url)) as store:
        store.write(submitted("a", "b"))
        before = everything(store)

    assert schema.upgrade(engine, to="9999", migrations=later) == SCHEMA

    with engine.connect() as connection:
        assert connection.scalars(sa.text("SELECT colour FROM job")).all() == ["green", "green"]
        connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{SCHEMA}'"))
        connection.commit()
    with closing(Store.open(empty_url, upgrade=False)) as store:
        assert everything(store) == before


def test_events_of_the_first_schema_move_into_pages_and_histories(empty_url, engine):
    schema.upgrade(engine, to="0001")
    rows = [  # seq, at_ms, kind, job: "a" is there and "b" has left, so that only events from 3 on are kept for all
        (1, 1, "submitted", "a"),
        (3, 2, "started", "a"),
        (4, 2, "noted", ""),
        (5, 3, "succeeded", "b"),
    ]
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO job VALUES ('a', 1, NULL, 'q', 's', 'ann', 1, '{}')"))
        connection.execute(
            sa.text("INSERT INTO standing VALUES ('a', 1, 'q', 'running', 1, 0, 0, 2, NULL, 0, 'c', '')")
        )
        for seq, at_ms, kind, job in rows:
            connection.execute(
                sa.text("INSERT INTO event VALUES (:seq, :at_ms, :kind, :job, 'q', 's', :body)"),
                {"seq": seq, "at_ms": at_ms, "kind": kind, "job": job, "body": f'{{"is": {seq}}}'},
            )
        connection.execute(sa.text("UPDATE counter SET event = 5"))
        connection.execute(sa.text("UPDATE forgotten SET event = 2, swept = 2"))

    with closing(Store.open(empty_url)) as store:
        told = [(event.seq, event.at_ms, event.kind, event.job, event.body["is"]) for event in store.events(2, 10)]
        assert told == [(*row, row[0]) for row in rows[1:]]
        assert [(event.seq, event.queue, event.job_set) for event in store.events(0, 10, job="a")] == [
            (1, "q", "s"),
            (3, "q", "s"),
        ]
        assert store.check() == []
        assert store.write(submitted("c")) == 6


def test_an_upgrade_that_fails_changes_nothing(empty_url, engine, later):
    Store.open(empty_url).close()
    broken = (later / "versions" / "s9999_later.py").read_text() + "    op.execute('SELECT nonsense FROM nowhere')\n"
    (later / "versions" / "s9999_later.py").write_text(broken)

    with pytest.raises(Exception, match="nowhere"):
        schema.upgrade(engine, to="9999", migrations=later)

    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
        assert schema.schema_of(connection) == SCHEMA


def test_a_newer_database_is_refused_and_left_alone(empty_url, engine, later):
    Store.open(empty_url).close()
    schema.upgrade(engine, to="9999", migrations=later)

    for upgrade in (True, False):
        with pytest.raises(NewerSchema) as refused:
            Store.open(empty_url, upgrade=upgrade)
        assert (refused.value.found, refused.value.known) == ("9999", SCHEMA)
        assert "newer Muster" in str(refused.value)
    with engine.connect() as connection:
        assert schema.schema_of(connection) == "9999"


def test_several_servers_may_upgrade_at_once(empty_url):
    with ThreadPoolExecutor(4) as several:
        for store in several.map(lambda _: Store.open(empty_url), range(4)):
            assert store.check() == []
            store.close()


def _journal_of(url):
    engine = engine_for(read_url(url))
    with closing(engine.raw_connection()) as connection:
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    engine.dispose()
    return journal


def test_several_processes_may_make_the_same_file_at_once(tmp_path):
    # Which of them finds another in the middle of it is chance: on files by the hundred somebody does.
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in range(400) for _ in range(8)]
    with ProcessPoolExecutor(8, mp_context=multiprocessing.get_context("spawn")) as several:
        assert set(several.map(_journal_of, urls)) == {"wal"}


def test_who_does_not_want_to_upgrade_is_told_what_is_there(empty_url, engine):
    with engine.connect():  # an empty database, of either kind
        pass
    with pytest.raises(OlderSchema, match="no schema of Muster"):
        Store.open(empty_url, upgrade=False)


@pytest.mark.parametrize(
    "url, shown",
    [
        pytest.param("muster.db", "'muster.db'", id="a path"),
        pytest.param("sqlite://", "'sqlite://'", id="a database in memory"),
        pytest.param("sqlite://host/path", "'sqlite://host/path'", id="two slashes"),
        pytest.param("mysql://u:secret@h/db", "'mysql://***@h/db'", id="another kind of database"),
        pytest.param("postgresql://u:secret@h", "'postgresql://***@h'", id="no name of a database"),
        pytest.param("postgresql://u:se@cret@h:port/db", "'postgresql://***@h:port/db'", id="no number as port"),
    ],
)
def test_an_url_that_is_none_is_refused_without_its_password(url, shown):
    with pytest.raises(InvalidValue) as refused:
        Store.open(url)
    assert str(refused.value).startswith(f"db: {shown}: sqlite:///path/to/muster.db or postgresql://")


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("sqlite:////no/such/folder/muster.db", id="no folder"),
        pytest.param("postgresql://u:secret@localhost:1/db", id="no server"),
    ],
)
def test_a_database_that_cannot_be_reached_is_down(url):
    with pytest.raises(StoreDown) as down:
        Store.open(url)
    assert "secret" not in str(down.value)
