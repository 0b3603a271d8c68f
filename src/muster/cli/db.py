"""`muster db`: care for the database of a server. The commands import the store when they run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.ending import BAD_INPUT, ending_well

FOUND_PROBLEMS = 1

app = typer.Typer(help="Upgrade, check or back up the database of a server.", no_args_is_help=True)

Url = Annotated[
    str,
    typer.Option(
        "--db",
        metavar="URL",
        envvar="MUSTER_DB",
        help="sqlite:///path/to/muster.db or postgresql://user:password@host/database.",
    ),
]


@app.command()
def upgrade(db: Url) -> None:
    """Make the tables of a server, or bring older ones to what this Muster needs. A server does so when it starts, too.

    Example: muster db upgrade --db sqlite:///muster.db

    Exit codes: 0 done, 2 the database cannot be reached, or is newer than this Muster.
    """
    sys.exit(_with_store(lambda: _upgrade(db)))


@app.command()
def check(db: Url) -> None:
    """Read the whole database and say what is wrong in it. It is not changed.

    Example: muster db check --db sqlite:///muster.db

    Exit codes: 0 all is well, 1 something is wrong (one line each), 2 the database cannot be read.
    """
    sys.exit(_with_store(lambda: _check(db)))


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist yet.")], db: Url
) -> None:
    """Copy the database, as it is at one moment, into one file. Servers go on meanwhile.

    Example: muster db backup monday.db --db sqlite:///muster.db

    Exit codes: 0 done, 2 there is no backup.
    """
    sys.exit(_with_store(lambda: _backup(db, target)))


def _with_store(command: Callable[[], int]) -> int:
    try:
        from muster.store.errors import StoreError
    except ModuleNotFoundError as err:
        return _refuse(f"{err.name} is not installed: pip install 'muster-scheduler[server]'")
    from muster.model.errors import InvalidValue

    def guarded() -> int:
        try:
            return command()
        except ModuleNotFoundError as err:
            return _refuse(f"{err.name} is not installed: pip install 'muster-scheduler[server]'")
        except StoreError as err:
            return _refuse(str(err))
        except InvalidValue as err:
            return _refuse(f"--{err}")

    return ending_well(guarded)


def _upgrade(url: str) -> int:
    from muster.store.connecting import engine_for, read_url, shown
    from muster.store.schema import upgrade as upgraded
    from muster.store.tables import SCHEMA

    read = read_url(url)
    engine = engine_for(read)
    found = upgraded(engine)
    engine.dispose()
    if found == SCHEMA:
        print(f"{shown(read)} has schema {SCHEMA} already")
    else:
        print(f"{shown(read)} now has schema {SCHEMA}; before it had {found or 'none'}")
    return 0


def _check(url: str) -> int:
    from muster.store.store import Store

    store = Store.open(url, upgrade=False)
    problems = store.check()
    store.close()
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{store}: all is well")
    return FOUND_PROBLEMS if problems else 0


def _backup(url: str, target: Path) -> int:
    from muster.store.backup import backup as copied
    from muster.store.connecting import read_url, shown

    read = read_url(url)
    copied(read, target)
    print(f"copied {shown(read)} to {target}")
    return 0


def _refuse(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return BAD_INPUT
