"""Runs migrations on the connection that muster.store.schema opened: inside its transaction, under its lock."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
