"""Attempts that were lost and preempted are counted beside those that failed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Nobody counted them until now."""
    for name in ("losses", "preemptions"):
        op.add_column("standing", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
