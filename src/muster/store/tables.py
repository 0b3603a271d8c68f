"""The tables as they are now. How a database gets there is written down in migrations/.

What is submitted never changes and is wide; how a job stands changes a few times and is narrow. They live in two
tables, so that a change of state rewrites 100 bytes and two small indexes instead of a kilobyte and seven.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

SCHEMA = "0004"  # the newest migration

METADATA = sa.MetaData()

# Bytes are compared, not letters of a language: the same order on every machine, and faster.
Name = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
Number = sa.BigInteger()
# SQLite numbers rows itself unless told not to; ours always bring their number along.
Key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _where(condition: str) -> dict[str, Any]:
    """An index of only those rows, on both kinds of database."""
    return {"postgresql_where": sa.text(condition), "sqlite_where": sa.text(condition)}


# Events that came together, as muster.store.pages writes them: from the number `first` to the number `last`.
PAGE = sa.Table(
    "page",
    METADATA,
    sa.Column("last", Key, primary_key=True, autoincrement=False),
    sa.Column("first", Number, nullable=False),
    sa.Column("at_ms", Number, nullable=False),
    sa.Column("body", sa.Text(), nullable=False),
)

JOB = sa.Table(
    "job",
    METADATA,
    sa.Column("id", Name, primary_key=True),
    sa.Column("seq", Number, nullable=False),
    sa.Column("client_id", Name),
    sa.Column("queue", Name, nullable=False),
    sa.Column("job_set", Name, nullable=False),
    sa.Column("user_name", Name, nullable=False),
    sa.Column("submit_ms", Number, nullable=False),
    sa.Column("spec", sa.Text(), nullable=False),
    sa.Index("job_by_seq", "seq", unique=True),
    sa.Index("job_by_client_id", "client_id", unique=True),
    sa.Index("job_by_queue", "queue", "seq"),
    sa.Index("job_by_job_set", "job_set", "seq"),
    sa.Index("job_by_user", "user_name", "seq"),
)

# Always written and deleted together with its job, so it needs no foreign key, which costs PostgreSQL a question a row.
STANDING = sa.Table(
    "standing",
    METADATA,
    sa.Column("job", Name, primary_key=True),
    sa.Column("seq", Number, nullable=False),
    sa.Column("queue", Name, nullable=False),
    sa.Column("state", Name, nullable=False),
    sa.Column("attempt", Number, nullable=False),
    sa.Column("priority", Number, nullable=False),
    sa.Column("priority_class", Number, nullable=False),
    sa.Column("start_ms", Number),
    sa.Column("end_ms", Number),
    sa.Column("failures", Number, nullable=False),
    sa.Column("cluster", Name, nullable=False),
    sa.Column("reason", sa.Text(), nullable=False),
    sa.Column("losses", Number, nullable=False, server_default="0"),
    sa.Column("preemptions", Number, nullable=False, server_default="0"),
    # Its events, as muster.store.pages writes them: pages leave by age, this stays with the job.
    sa.Column("history", sa.Text(), nullable=False, server_default=""),
    sa.Index("standing_by_state", "state", "seq"),
    sa.Index("standing_by_end", "end_ms", **_where("end_ms IS NOT NULL")),
)

# Of a job that is there: whoever writes looks that up for all leases at once, and a job leaves with its leases.
LEASE = sa.Table(
    "lease",
    METADATA,
    sa.Column("job", Name, primary_key=True),
    sa.Column("attempt", Number, primary_key=True, autoincrement=False),
    sa.Column("cluster", Name, nullable=False),
    sa.Column("name", Name, nullable=False),
    sa.Column("state", Name, nullable=False),
    sa.Column("spec", sa.Text(), nullable=False),
    sa.Column("reason", sa.Text(), nullable=False),
    sa.Column("result", sa.Text(), nullable=False),
    sa.Column("changed_ms", Number, nullable=False),
    # The cluster, until the lease has ended. It changes once, so that all other changes leave the index alone.
    sa.Column("held_by", Name),
    sa.Index("lease_held_by", "held_by", **_where("held_by IS NOT NULL")),
)

THING = sa.Table(
    "thing",
    METADATA,
    sa.Column("kind", Name, primary_key=True),
    sa.Column("name", Name, primary_key=True),
    sa.Column("body", sa.Text(), nullable=False),
)

TURN = sa.Table(
    "turn",
    METADATA,
    sa.Column("number", Key, primary_key=True, autoincrement=False),
    sa.Column("at_ms", Number, nullable=False),
    sa.Column("took_ms", Number, nullable=False),
    sa.Column("body", sa.Text(), nullable=False),
)

AUDIT = sa.Table(
    "audit",
    METADATA,
    sa.Column("number", Key, primary_key=True, autoincrement=False),
    sa.Column("at_ms", Number, nullable=False),
    sa.Column("who", Name, nullable=False),
    sa.Column("what", Name, nullable=False),
    sa.Column("body", sa.Text(), nullable=False),
)

# One row. Whoever writes takes it first: so numbers are gapless and become visible in their order, whoever writes.
COUNTER = sa.Table(
    "counter",
    METADATA,
    sa.Column("id", Key, primary_key=True, autoincrement=False),
    sa.Column("event", Number, nullable=False),
    sa.Column("turn", Number, nullable=False),
    sa.Column("audit", Number, nullable=False),
)

# One row: the highest number of an event that was forgotten.
FORGOTTEN = sa.Table(
    "forgotten",
    METADATA,
    sa.Column("id", Key, primary_key=True, autoincrement=False),
    sa.Column("event", Number, nullable=False),
)

LEADER = sa.Table(
    "leader",
    METADATA,
    sa.Column("name", Name, primary_key=True),
    sa.Column("holder", Name, nullable=False),
    sa.Column("until_ms", Number, nullable=False),
)
