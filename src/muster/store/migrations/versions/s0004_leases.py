"""Leases refer to their jobs without a foreign key, which asked a question for each of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"

NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
NUMBER = sa.BigInteger()
COLUMNS = "job, attempt, cluster, name, state, spec, reason, result, changed_ms, held_by"


def upgrade() -> None:
    """PostgreSQL drops the constraint; SQLite, which cannot, gets a table without it."""
    if op.get_context().dialect.name == "postgresql":
        op.drop_constraint("lease_job_fkey", "lease")
        return
    op.drop_index("lease_held_by", "lease")
    op.rename_table("lease", "lease_before")
    op.create_table(
        "lease",
        sa.Column("job", NAME, primary_key=True),
        sa.Column("attempt", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("cluster", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("changed_ms", NUMBER, nullable=False),
        sa.Column("held_by", NAME),
    )
    op.execute(f"INSERT INTO lease ({COLUMNS}) SELECT {COLUMNS} FROM lease_before")
    op.drop_table("lease_before")
    op.create_index("lease_held_by", "lease", ["held_by"], sqlite_where=sa.text("held_by IS NOT NULL"))
