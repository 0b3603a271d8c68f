"""Many rows at once: in, over what is there, and changed.

PostgreSQL takes new rows by COPY (1 µs of ours a row), others as one JSON document that it unfolds itself; SQLite takes
a prepared statement and the rows. Rows are tuples in the order of `columns`; texts and integers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

Row = Sequence[str | int | None]

_encode = msgspec.json.Encoder().encode


def insert(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """New rows with all columns of the table."""
    if not rows:
        return
    columns = [column.name for column in table.columns]
    if connection.dialect.name == "postgresql":
        _copy(connection, table, columns, rows)
    else:
        marks = ", ".join("?" * len(columns))
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks})", _tuples(rows))


def upsert(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Rows with all columns of the table; what is there under the same key is replaced. No key comes twice."""
    if not rows:
        return
    columns = [column.name for column in table.columns]
    keys = [column.name for column in table.primary_key]
    changed = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in keys)
    into = f"INSERT INTO {table.name} ({', '.join(columns)})"
    conflict = f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changed}"
    if connection.dialect.name == "postgresql":
        unfolded = f"SELECT {', '.join(columns)} FROM {_unfolded(table, columns)}"
        connection.exec_driver_sql(f"{into} {unfolded} {conflict}", (_document(columns, rows),))
    else:
        marks = ", ".join("?" * len(columns))
        connection.exec_driver_sql(f"{into} VALUES ({marks}) {conflict}", _tuples(rows))


def insert_or_replace(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """As `upsert`, for rows that are new, most likely: then PostgreSQL need not unfold a document."""
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        try:
            with connection.begin_nested():
                insert(connection, table, rows)
        except sa.exc.IntegrityError:
            pass  # some are there
        else:
            return
    upsert(connection, table, rows)


def replace(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """As `upsert`, for rows that are there already, most likely: then PostgreSQL has half the work."""
    if not rows or connection.dialect.name != "postgresql":
        upsert(connection, table, rows)
        return
    columns = [column.name for column in table.columns]
    keys = [column.name for column in table.primary_key]
    changed = ", ".join(f"{name} = x.{name}" for name in columns if name not in keys)
    same = " AND ".join(f"{table.name}.{key} = x.{key}" for key in keys)
    found = connection.exec_driver_sql(
        f"UPDATE {table.name} SET {changed} FROM {_unfolded(table, columns)} WHERE {same}", (_document(columns, rows),)
    )
    if found.rowcount != len(rows):
        upsert(connection, table, rows)


def update(
    connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[Row], *, appended: str = ""
) -> int:
    """Change these columns of the rows that are there and, if it is named, add to the text of one more; how many were.

    A row begins with the table's key, then come the columns, then what is appended.
    """
    if not rows:
        return 0
    keys = [column.name for column in table.primary_key]
    more = [appended] if appended else []
    if connection.dialect.name == "postgresql":
        changed = [f"{name} = x.{name}" for name in columns]
        changed += [f"{name} = {table.name}.{name} || x.{name}" for name in more]
        names = [*keys, *columns, *more]
        same = " AND ".join(f"{table.name}.{key} = x.{key}" for key in keys)
        found = connection.exec_driver_sql(
            f"UPDATE {table.name} SET {', '.join(changed)} FROM {_unfolded(table, names)} WHERE {same}",
            (_document(names, rows),),
        )
    else:
        changed = [f"{name} = ?" for name in columns] + [f"{name} = {name} || ?" for name in more]
        same = " AND ".join(f"{key} = ?" for key in keys)
        found = connection.exec_driver_sql(
            f"UPDATE {table.name} SET {', '.join(changed)} WHERE {same}",
            [(*row[len(keys) :], *row[: len(keys)]) for row in rows],
        )
    return found.rowcount


def is_among(connection: sa.Connection, column: sa.Column[str], values: Sequence[str]) -> sa.TextClause:
    """Whether a text is one of many. They travel as one parameter, so that the statement is the same for any number."""
    if connection.dialect.name == "postgresql":
        unfolded = "= ANY(ARRAY(SELECT json_array_elements_text(CAST(:many AS json))))"
    else:
        unfolded = "IN (SELECT value FROM json_each(:many))"
    return sa.text(f"{column} {unfolded}").bindparams(many=_encode(values).decode())


def _copy(connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Iterable[Row]) -> None:
    import psycopg

    statement = f"COPY {table.name} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(["int8" if _is_number(table, name) else "text" for name in columns])
            for row in rows:
                copy.write_row(row)
    except psycopg.Error as err:  # what SQLAlchemy would make of it, so that callers know one kind of error
        raise sa.exc.DBAPIError.instance(statement, None, err, psycopg.Error, dialect=connection.dialect) from err


def _unfolded(table: sa.Table, columns: Sequence[str]) -> str:
    kinds = (f"{name} {'bigint' if _is_number(table, name) else 'text'}" for name in columns)
    return f"json_to_recordset(%s::json) AS x({', '.join(kinds)})"


def _document(columns: Sequence[str], rows: Iterable[Row]) -> str:
    return _encode([dict(zip(columns, row, strict=True)) for row in rows]).decode()


def _tuples(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows]


def _is_number(table: sa.Table, column: str) -> bool:
    return isinstance(table.columns[column].type, sa.Integer)
