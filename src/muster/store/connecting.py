"""How a database is reached: which URLs are understood, and what every connection is told first.

Acknowledged means durable, so SQLite runs with a write-ahead log that is flushed at every commit, and PostgreSQL with
synchronous commits even where its configuration says otherwise. Every call is bounded in time.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from muster.model.errors import InvalidValue
from muster.store.errors import StoreDown

ALLOWED = "sqlite:///path/to/muster.db or postgresql://user:password@host:port/database"
BUSY_S = 30  # how long to wait for another process that writes to the same SQLite file
BUSY_PAUSE_S = 0.01
CONNECT_S = 10
STATEMENT_S = 120
_WRITES = "muster_writes"


def read_url(url: str) -> URL:
    """The URL of a database, checked."""
    try:
        read = make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # a port that is no number
        raise InvalidValue(_without_password(url), ALLOWED, "db") from None
    if read.drivername == "sqlite" and read.database and read.database != ":memory:" and not read.host:
        return read
    if read.drivername in ("postgresql", "postgres") and read.database:
        return read.set(drivername="postgresql+psycopg")
    raise InvalidValue(_without_password(url), ALLOWED, "db")


def shown(url: URL) -> str:
    """The URL for people: without its password."""
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def as_given(url: URL) -> str:
    """The URL with its password, as `read_url` reads it."""
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=False)


def engine_for(url: URL) -> sa.Engine:
    """An engine whose connections may be used from any thread, one at a time."""
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url)
    return _postgresql_engine(url)


@contextmanager
def down_when_unreachable() -> Iterator[None]:
    """Wraps trouble with the database once: what is nobody's fault is StoreDown; what is ours stays what it is."""
    try:
        yield
    except (sa.exc.IntegrityError, sa.exc.DataError, sa.exc.ProgrammingError):
        raise
    except sa.exc.DBAPIError as err:
        raise StoreDown(f"the database cannot be used now: {str(err.orig).strip()}") from err
    except sa.exc.TimeoutError as err:
        raise StoreDown("the database cannot be used now: every connection is busy") from err


@contextmanager
def reading(engine: sa.Engine, *, at_one_moment: bool = False) -> Iterator[sa.Connection]:
    """A connection to read by: each statement for itself, or all `at_one_moment`.

    For statements by themselves PostgreSQL need not be told that a transaction begins and ends: two ways there and back
    less, on each of which whoever asks for something small waits for threads that are busy.
    """
    with down_when_unreachable(), engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execution_options(isolation_level="REPEATABLE READ" if at_one_moment else "AUTOCOMMIT")
        yield connection


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection with a transaction that is kept when the block ends well, and undone otherwise."""
    with (
        down_when_unreachable(),
        engine.connect().execution_options(**{_WRITES: True}) as connection,
        connection.begin(),
    ):
        yield connection


def _sqlite_engine(url: URL) -> sa.Engine:
    _make_private(Path(url.database or ""))
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_S}, pool_size=5, max_overflow=40, pool_use_lifo=True)

    @sa.event.listens_for(engine, "connect")
    def tell(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions begin where we say so, below
        _write_ahead(connection)
        for pragma in (
            "synchronous = FULL",
            "temp_store = MEMORY",
            "cache_size = -32768",  # KiB
        ):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # Who reads first and writes then could find that another wrote in between; who says so at once waits instead.
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch the database to a write-ahead log, if it is not there yet.

    SQLite does not wait as told here: who switches while another does is refused at once.
    """
    until = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as err:
            if err.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(BUSY_PAUSE_S)


def _postgresql_engine(url: URL) -> sa.Engine:
    settings = {
        "statement_timeout": f"{STATEMENT_S}s",
        "idle_in_transaction_session_timeout": f"{STATEMENT_S}s",
    }
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    told: dict[str, Any] = {"connect_timeout": CONNECT_S, "options": options, "application_name": "muster"}
    told |= {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
    engine = sa.create_engine(
        url, connect_args=told, pool_size=5, max_overflow=15, pool_use_lifo=True, pool_pre_ping=True
    )

    @sa.event.listens_for(engine, "connect")
    def tell(connection: Any, _record: object) -> None:
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        connection.commit()

    return engine


def _make_private(path: Path) -> None:
    """The file is made for its owner alone: it holds what users submitted, and hashes of tokens.

    One that is there is left alone: closing it here would drop the locks that others in this process hold on it.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as err:
        raise StoreDown(f"cannot open {path}: {err.strerror}") from err


def _without_password(url: str) -> str:
    """A URL that could not be read, for people: what stands before an @ may be a password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}***@{rest.rpartition('@')[2]}" if "@" in rest else url
