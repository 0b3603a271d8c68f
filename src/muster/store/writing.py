"""One transaction: events are numbered and appended, and the rows they change are changed with them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from muster.store import bulk
from muster.store.batch import (
    CHANGED_LEASE,
    Batch,
    audit_rows,
    changes_by_columns,
    job_row,
    lease_rows,
    numbered_jobs,
    pages_and_histories,
    standing_row,
    things_and_gone,
    turn_rows,
)
from muster.store.bulk import is_among
from muster.store.errors import AlreadyThere, BadBatch
from muster.store.tables import AUDIT, COUNTER, JOB, LEASE, PAGE, STANDING, THING, TURN

# Put together once: to do so costs SQLAlchemy more than the statement costs the database.
_TAKE = sa.text(
    f"UPDATE {COUNTER.name} SET event = event + :events, turn = turn + :turns, audit = audit + :audit "
    "WHERE id = 1 RETURNING event, turn, audit"
)

CHANNEL = "muster"  # of PostgreSQL's NOTIFY: the number of the newest event


def write_all(connection: sa.Connection, batches: Sequence[Batch]) -> list[int]:
    """Write the batches in their order; the number of the last event of each."""
    turns = [batch.turn for batch in batches if batch.turn is not None]
    audit = [row for batch in batches for row in batch.audit]
    events = sum(len(batch.events) for batch in batches)
    last_event, last_turn, last_audit = _take_numbers(connection, events, len(turns), len(audit))
    first = last_event - events + 1

    pages, histories = pages_and_histories(batches, first)
    bulk.insert(connection, PAGE, pages)
    there = _write_jobs(connection, batches, first, histories)
    _write_leases(connection, batches, there)
    _write_things(connection, batches)
    bulk.insert(connection, TURN, turn_rows(turns, last_turn - len(turns) + 1))
    bulk.insert(connection, AUDIT, audit_rows(audit, last_audit - len(audit) + 1))
    if events and connection.dialect.name == "postgresql":
        connection.execute(sa.func.pg_notify(CHANNEL, str(last_event)).select())
    return _last_of_each(batches, first - 1)


def refused(connection: sa.Connection, batch: Batch, err: sa.exc.DBAPIError) -> AlreadyThere | BadBatch:
    """Why the database did not take a batch: jobs that are there already, or something that does not belong there."""
    ids = [job.id for job in batch.jobs]
    clients = [job.client_id for job in batch.jobs if job.client_id]
    there = set(_found(connection, JOB.c.id, ids)) | _twice(ids)
    clients_there = set(_found(connection, JOB.c.client_id, clients)) | _twice(clients)
    if there or clients_there:
        return AlreadyThere(sorted(there), sorted(clients_there))
    return BadBatch(f"{len(batch.events)} events, {len(batch.jobs)} jobs", str(err.orig).strip(), "batch")


def _take_numbers(connection: sa.Connection, events: int, turns: int, audit: int) -> tuple[int, int, int]:
    """The last numbers of each kind after taking so many. Other writers wait here until this transaction ends."""
    taken = connection.execute(_TAKE, {"events": events, "turns": turns, "audit": audit}).one()
    return taken.event, taken.turn, taken.audit


def _write_jobs(connection: sa.Connection, batches: Sequence[Batch], first: int, histories: dict[str, str]) -> set[str]:
    """Write new jobs and what changes about others; some of those that are there, as was seen on the way."""
    jobs = list(numbered_jobs(batches, first))
    bulk.insert(connection, JOB, [job_row(job, seq) for job, seq in jobs])
    # Their history leaves `histories`: what is left there is added to that of jobs which were there before.
    bulk.insert(connection, STANDING, [standing_row(job, seq, histories.pop(job.id)) for job, seq in jobs])
    there = {job.id for job, _ in jobs}
    for columns, rows in changes_by_columns(batches, histories).items():
        if bulk.update(connection, STANDING, columns, rows, appended="history") == len(rows):
            there.update(row[0] for row in rows)
    return there


def _write_leases(connection: sa.Connection, batches: Sequence[Batch], there: set[str]) -> None:
    _check_jobs_of(connection, batches, there)
    rows = lease_rows(batches)
    bulk.insert_or_replace(connection, LEASE, rows.begun)
    bulk.replace(connection, LEASE, rows.replaced)
    bulk.update(connection, LEASE, CHANGED_LEASE, rows.changed)


def _check_jobs_of(connection: sa.Connection, batches: Sequence[Batch], there: set[str]) -> None:
    """Leases are of jobs that are there. Asked once for all: a foreign key asks for each, and again when jobs leave."""
    wanted = {lease.job for batch in batches for lease in batch.leases} - there
    if not wanted:
        return
    many = connection.scalar(
        sa.select(sa.func.count()).select_from(JOB).where(is_among(connection, JOB.c.id, list(wanted)))
    )
    if many != len(wanted):
        known = there | set(_found(connection, JOB.c.id, list(wanted)))
        at, lost = next(
            (place, lease.job)
            for batch in batches
            for place, lease in enumerate(batch.leases)
            if lease.job not in known
        )
        raise BadBatch(lost, "must be a job that is there", f"leases[{at}].job")


def _write_things(connection: sa.Connection, batches: Sequence[Batch]) -> None:
    rows, gone = things_and_gone(batches)
    bulk.upsert(connection, THING, rows)
    if gone:
        connection.execute(sa.delete(THING).where(sa.tuple_(THING.c.kind, THING.c.name).in_(gone)))


def _last_of_each(batches: Sequence[Batch], before: int) -> list[int]:
    lasts = []
    for batch in batches:
        before += len(batch.events)
        lasts.append(before)
    return lasts


def _found(connection: sa.Connection, column: sa.Column[str], values: Sequence[str]) -> Sequence[str]:
    return connection.scalars(sa.select(column).where(is_among(connection, column, values))).all() if values else ()


def _twice(values: Sequence[str]) -> set[str]:
    seen: set[str] = set()
    return {value for value in values if value in seen or seen.add(value)}  # type: ignore[func-returns-value]
