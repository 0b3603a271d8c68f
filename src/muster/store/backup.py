"""A copy of a database that is in use: as it was at one moment, whole or not there.

SQLite copies itself (its online backup); PostgreSQL is dumped by pg_dump, to be read back by pg_restore. Both work on
any schema, so that one can make a copy before an upgrade.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy.engine import URL

from muster.store.errors import BackupFailed, StoreDown


def backup(url: URL, target: Path) -> None:
    """Copy the database into the file `target`, which must not exist."""
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        if target.exists():
            raise BackupFailed(f"{target} exists already: choose another name, or move it away")
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # it holds hashes of tokens
        try:
            _copy(url, unfinished)
            _flush(unfinished)
            os.link(unfinished, target)  # unlike a rename, this never replaces what came in between
            _flush(target.parent)
        finally:
            unfinished.unlink()
    except OSError as err:
        raise BackupFailed(f"cannot write {err.filename2 or err.filename or target}: {err.strerror}") from err


def _copy(url: URL, target: Path) -> None:
    if url.get_backend_name() == "sqlite":
        _copy_sqlite(Path(url.database or ""), target)
    else:
        _dump_postgresql(url, target)


def _copy_sqlite(source: Path, target: Path) -> None:
    try:
        # All pages in one step: it reads one state of the log, and those who write go on meanwhile.
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as there,
            closing(sqlite3.connect(target)) as here,
        ):
            there.backup(here)
            here.execute("PRAGMA journal_mode = DELETE")  # one file, nothing beside it
    except sqlite3.Error as err:
        raise BackupFailed(f"cannot copy {source} to {target.parent}: {err}") from err


def _dump_postgresql(url: URL, target: Path) -> None:
    program = shutil.which("pg_dump")
    if program is None:
        raise BackupFailed("pg_dump is not installed: it comes with PostgreSQL's client programs (postgresql-client)")
    password = {"PGPASSWORD": url.password} if isinstance(url.password, str) else {}
    plain = url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    ran = subprocess.run(
        [program, "--format=custom", "--no-password", f"--file={target}", f"--dbname={plain}"],
        env=os.environ | password,  # not in the command, which everybody on the machine could read
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        raise StoreDown(f"pg_dump could not copy the database: {ran.stderr.strip()}")


def _flush(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
