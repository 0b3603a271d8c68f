"""Events are kept in pages, and the history of a job with the job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

NUMBER = sa.BigInteger()
KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOST = 1_000
EVENTS = "SELECT seq, at_ms, kind, job, queue, job_set, body FROM event WHERE seq > :after ORDER BY seq LIMIT :most"


def upgrade() -> None:
    """Every event moves into a page and, if its job is there, into the job's history."""
    op.create_table(
        "page",
        sa.Column("last", KEY, primary_key=True, autoincrement=False),
        sa.Column("first", NUMBER, nullable=False),
        sa.Column("at_ms", NUMBER, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
    )
    op.add_column("standing", sa.Column("history", sa.Text(), nullable=False, server_default=""))
    connection = op.get_bind()
    forgotten = connection.execute(sa.text("SELECT event FROM forgotten")).scalar_one()
    after = 0
    # A page at a time: there may be many.
    while some := connection.execute(sa.text(EVENTS), {"after": after, "most": MOST}).all():
        for row in some:
            _add_to_history(connection, row)
        for page in _pages([row for row in some if row.seq > forgotten]):
            connection.execute(sa.text("INSERT INTO page VALUES (:last, :first, :at_ms, :body)"), page)
        after = some[-1].seq
    op.drop_table("event")
    op.drop_column("forgotten", "swept")


def _add_to_history(connection: sa.Connection, row: sa.Row[tuple[int, int, str, str, str, str, str]]) -> None:
    if row.job:
        entry = json.dumps([row.seq, row.at_ms, row.kind, row.queue, row.job_set, json.loads(row.body)]) + ","
        added = sa.text("UPDATE standing SET history = history || :entry WHERE job = :job")
        connection.execute(added, {"entry": entry, "job": row.job})


def _pages(rows: list[sa.Row[tuple[int, int, str, str, str, str, str]]]) -> Iterator[dict[str, int | str]]:
    """Events of one moment that follow each other without a gap stand in one page."""
    placed = enumerate(rows)
    for _, some in groupby(placed, key=lambda it: (it[1].at_ms, it[1].seq - it[0])):
        page = [row for _, row in some]
        body = [[row.kind, row.job, row.queue, row.job_set, json.loads(row.body)] for row in page]
        yield {"last": page[-1].seq, "first": page[0].seq, "at_ms": page[0].at_ms, "body": json.dumps(body)}
