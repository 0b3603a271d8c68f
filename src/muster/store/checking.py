"""What is wrong inside a database: sentences, none where all is well. Reads everything; for people, not for turns."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from muster.store.rows import ENDED, FINISHED
from muster.store.tables import AUDIT, COUNTER, FORGOTTEN, JOB, LEASE, PAGE, STANDING, TURN

_SHOWN = 5


def problems(connection: sa.Connection) -> Iterator[str]:
    """Everything that should not be so."""
    if connection.dialect.name == "sqlite":
        broken = list(_broken_file(connection))
        yield from broken
        if broken:  # what else could be read from it means nothing
            return
    else:
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        yield from _not_durable(connection)
    yield from _wrong_numbers(connection)
    yield from _wrong_jobs(connection)


def _broken_file(connection: sa.Connection) -> Iterator[str]:
    try:
        said = connection.scalars(sa.text("PRAGMA integrity_check")).all()
    except sa.exc.DatabaseError as err:  # too damaged to say more
        said = [str(err.orig)]
    if said != ["ok"]:
        yield from (f"the file is damaged: {sentence}" for sentence in said)
        return


def _not_durable(connection: sa.Connection) -> Iterator[str]:
    for name in ("fsync", "full_page_writes"):
        found = connection.execute(sa.text(f"SHOW {name}")).scalar_one()
        if found != "on":
            yield f"PostgreSQL runs with {name} = {found}: what was acknowledged may be lost when the machine stops"


def _wrong_numbers(connection: sa.Connection) -> Iterator[str]:
    counter = connection.execute(sa.select(COUNTER)).one()
    forgotten = connection.execute(sa.select(FORGOTTEN)).one()
    in_pages = sa.func.coalesce(sa.func.sum(PAGE.c.last - PAGE.c.first + 1), 0)
    kept = connection.execute(sa.select(in_pages).where(PAGE.c.first > forgotten.event)).scalar_one()
    wanted = counter.event - forgotten.event
    if kept != wanted:
        yield f"of the events {forgotten.event + 1} to {counter.event} there are {kept}, not {wanted}"
    for table, column, last in (
        (PAGE, PAGE.c.last, counter.event),
        (TURN, TURN.c.number, counter.turn),
        (AUDIT, AUDIT.c.number, counter.audit),
        (JOB, JOB.c.seq, counter.event),
    ):
        highest = connection.scalar(sa.select(sa.func.max(column)))
        if highest is not None and highest > last:
            yield f"table {table.name} has number {highest}, and the last one given was {last}"


def _wrong_jobs(connection: sa.Connection) -> Iterator[str]:
    without = sa.select(JOB.c.id).where(~sa.exists().where(STANDING.c.job == JOB.c.id))
    yield from _named(connection, without, "how job {} stands is missing")
    differs = sa.select(JOB.c.id).join(STANDING, STANDING.c.job == JOB.c.id)
    differs = differs.where(sa.or_(JOB.c.seq != STANDING.c.seq, JOB.c.queue != STANDING.c.queue))
    yield from _named(connection, differs, "job {} stands in another place or queue than it was submitted to")
    has_finished = STANDING.c.state.in_(FINISHED)
    endless = sa.select(STANDING.c.job).where(has_finished, STANDING.c.end_ms.is_(None))
    yield from _named(connection, endless, "job {} has finished and has no end")
    ended = sa.select(STANDING.c.job).where(~has_finished, STANDING.c.end_ms.is_not(None))
    yield from _named(connection, ended, "job {} has an end and has not finished")
    orphans = sa.select(LEASE.c.job).where(~sa.exists().where(JOB.c.id == LEASE.c.job))
    yield from _named(connection, orphans, "there is a lease of job {}, and no such job")
    held = sa.select(LEASE.c.job).where(sa.func.coalesce(LEASE.c.held_by, "") != _holder())
    yield from _named(connection, held, "a lease of job {} is marked as held by another cluster than it should be")


def _holder() -> sa.ColumnElement[str]:
    return sa.case((LEASE.c.state == ENDED, ""), else_=LEASE.c.cluster)


def _named(connection: sa.Connection, asked: sa.Select[tuple[str]], sentence: str) -> Iterator[str]:
    for id_ in connection.scalars(asked.limit(_SHOWN)):
        yield sentence.format(id_)
