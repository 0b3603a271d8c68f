"""Events, jobs and how they stand, leases, things, turns, audit; counters, what was forgotten, who leads."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
NUMBER = sa.BigInteger()
KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """An empty database becomes one of Muster."""
    _history()
    _jobs()
    _the_rest()
    if op.get_context().dialect.name == "postgresql":
        # Room in every page for the next version of its rows: a change need not touch the indexes then.
        for table in ("standing", "lease", "counter", "forgotten"):
            op.execute(f"ALTER TABLE {table} SET (fillfactor = 60)")


def _history() -> None:
    op.create_table(
        "event",
        sa.Column("seq", KEY, primary_key=True, autoincrement=False),
        sa.Column("at_ms", NUMBER, nullable=False),
        *_names("kind", "job", "queue", "job_set"),
        sa.Column("body", sa.Text(), nullable=False),
    )
    _index("event_of_job", "event", ["job", "seq"], where="job <> ''")
    op.create_table(
        "turn",
        sa.Column("number", KEY, primary_key=True, autoincrement=False),
        *_numbers("at_ms", "took_ms"),
        sa.Column("body", sa.Text(), nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("number", KEY, primary_key=True, autoincrement=False),
        sa.Column("at_ms", NUMBER, nullable=False),
        *_names("who", "what"),
        sa.Column("body", sa.Text(), nullable=False),
    )


def _jobs() -> None:
    op.create_table(
        "job",
        sa.Column("id", NAME, primary_key=True),
        sa.Column("seq", NUMBER, nullable=False),
        sa.Column("client_id", NAME),
        *_names("queue", "job_set", "user_name"),
        sa.Column("submit_ms", NUMBER, nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
    )
    _index("job_by_seq", "job", ["seq"], unique=True)
    _index("job_by_client_id", "job", ["client_id"], unique=True)
    _index("job_by_queue", "job", ["queue", "seq"])
    _index("job_by_job_set", "job", ["job_set", "seq"])
    _index("job_by_user", "job", ["user_name", "seq"])
    op.create_table(
        "standing",
        sa.Column("job", NAME, primary_key=True),
        sa.Column("seq", NUMBER, nullable=False),
        *_names("queue", "state"),
        *_numbers("attempt", "priority", "priority_class"),
        sa.Column("start_ms", NUMBER),
        sa.Column("end_ms", NUMBER),
        sa.Column("failures", NUMBER, nullable=False),
        sa.Column("cluster", NAME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
    )
    _index("standing_by_state", "standing", ["state", "seq"])
    _index("standing_by_end", "standing", ["end_ms"], where="end_ms IS NOT NULL")
    op.create_table(
        "lease",
        sa.Column("job", NAME, sa.ForeignKey("job.id"), primary_key=True),
        sa.Column("attempt", NUMBER, primary_key=True, autoincrement=False),
        *_names("cluster", "name", "state"),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("changed_ms", NUMBER, nullable=False),
        sa.Column("held_by", NAME),
    )
    _index("lease_held_by", "lease", ["held_by"], where="held_by IS NOT NULL")


def _the_rest() -> None:
    op.create_table(
        "thing",
        sa.Column("kind", NAME, primary_key=True),
        sa.Column("name", NAME, primary_key=True),
        sa.Column("body", sa.Text(), nullable=False),
    )
    op.create_table(
        "leader",
        sa.Column("name", NAME, primary_key=True),
        sa.Column("holder", NAME, nullable=False),
        sa.Column("until_ms", NUMBER, nullable=False),
    )
    op.create_table(
        "counter",
        sa.Column("id", KEY, primary_key=True, autoincrement=False),
        *_numbers("event", "turn", "audit"),
    )
    op.create_table(
        "forgotten",
        sa.Column("id", KEY, primary_key=True, autoincrement=False),
        *_numbers("event", "swept"),
    )
    op.execute("INSERT INTO counter (id, event, turn, audit) VALUES (1, 0, 0, 0)")
    op.execute("INSERT INTO forgotten (id, event, swept) VALUES (1, 0, 0)")


def _names(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, NAME, nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, NUMBER, nullable=False) for name in names]


def _index(name: str, table: str, columns: list[str], *, unique: bool = False, where: str = "") -> None:
    only: dict[str, Any] = {f"{dialect}_where": sa.text(where) for dialect in ("postgresql", "sqlite") if where}
    op.create_index(name, table, columns, unique=unique, **only)
