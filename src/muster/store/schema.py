"""Which schema a database has, and how it gets the newest one.

A database that is newer than this Muster is refused: what an older one would write into it could be wrong.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from muster.store.connecting import writing
from muster.store.errors import NewerSchema
from muster.store.tables import SCHEMA

MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x6D7573746572  # "muster": one upgrade at a time


def schema_of(connection: sa.Connection) -> str:
    """The schema of the database; "" where Muster has never been."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return ""
    return connection.scalar(sa.text("SELECT version_num FROM alembic_version")) or ""


def upgrade(engine: sa.Engine, *, to: str = SCHEMA, migrations: Path = MIGRATIONS) -> str:
    """Bring the database to schema `to`, in one transaction; what it was before."""
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        found = schema_of(connection)
        if found != to:
            _migrate(connection, found, to, migrations)
    return found


def _migrate(connection: sa.Connection, found: str, to: str, migrations: Path) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions("base", to)}
    if found and found not in known:
        raise NewerSchema(found, to)
    command.upgrade(config, to)
