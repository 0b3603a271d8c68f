"""What may leave, and leaving in small steps.

A finished job leaves when its end is old enough and every lease of it has ended; its leases and its events leave with
it. Other events (of no job, or of one that is gone), turns and audit lines leave by age. What has not finished stays,
with its whole history, however old.

Each step is a short transaction of its own, so that whoever writes never waits long. One at a time forgets: the row
of `forgotten` is taken first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import sqlalchemy as sa

from muster.store.bulk import is_among
from muster.store.tables import AUDIT, EVENT, FORGOTTEN, JOB, LEASE, STANDING, TURN

JOBS_AT_ONCE = 500
ROWS_AT_ONCE = 2_000

Ends = Counter[tuple[str, str]]
"""How many jobs, by queue and the state that they ended in."""

Step = Callable[[sa.Connection, int, int, Ends], tuple[int, bool]]
"""Before when and how many at most -> how many rows left, and whether more may. Jobs that leave are counted."""


def forget_jobs(connection: sa.Connection, before_ms: int, limit: int, ends: Ends) -> tuple[int, bool]:
    """Finished jobs with their leases and events."""
    _take_turn(connection)
    most = min(limit, JOBS_AT_ONCE)
    is_held = sa.exists().where(LEASE.c.job == STANDING.c.job, LEASE.c.held_by.is_not(None))
    found = connection.execute(
        sa.select(STANDING.c.job, STANDING.c.queue, STANDING.c.state)
        .where(STANDING.c.end_ms < before_ms, ~is_held)  # who has an end has finished
        .order_by(STANDING.c.end_ms)
        .limit(most)
        .with_for_update(skip_locked=True)
    ).all()
    if not found:
        return 0, False
    leaving = [job for job, _, _ in found]
    ends.update((queue, state) for _, queue, state in found)
    of_them = sa.and_(EVENT.c.job != "", is_among(connection, EVENT.c.job, leaving))  # the first part names the index
    events = connection.scalars(sa.delete(EVENT).where(of_them).returning(EVENT.c.seq)).all()
    left = len(events)
    for column in (LEASE.c.job, STANDING.c.job, JOB.c.id):
        left += connection.execute(sa.delete(column.table).where(is_among(connection, column, leaving))).rowcount
    _note_forgotten(connection, events)
    return left, len(leaving) == most


def forget_events(connection: sa.Connection, before_ms: int, limit: int, _ends: Ends) -> tuple[int, bool]:
    """Old events that belong to no job that is there. Each is looked at once: those of jobs leave with their job."""
    swept = _take_turn(connection)
    upto, may_have_more = _old_upto(connection, EVENT.c.seq, swept, before_ms, min(limit, ROWS_AT_ONCE))
    if upto == swept:
        return 0, False
    is_of_job = sa.exists().where(JOB.c.id == EVENT.c.job)
    of_nobody = sa.or_(EVENT.c.job == "", ~is_of_job)
    events = connection.scalars(
        sa.delete(EVENT).where(EVENT.c.seq > swept, EVENT.c.seq <= upto, of_nobody).returning(EVENT.c.seq)
    ).all()
    connection.execute(sa.update(FORGOTTEN).values(swept=upto))
    _note_forgotten(connection, events)
    return len(events), may_have_more


def forget_turns(connection: sa.Connection, before_ms: int, limit: int, _ends: Ends) -> tuple[int, bool]:
    """Old turns."""
    return _forget_numbered(connection, TURN, before_ms, limit)


def forget_audit(connection: sa.Connection, before_ms: int, limit: int, _ends: Ends) -> tuple[int, bool]:
    """Old audit lines."""
    return _forget_numbered(connection, AUDIT, before_ms, limit)


STEPS: Sequence[Step] = (forget_jobs, forget_events, forget_turns, forget_audit)


def _forget_numbered(connection: sa.Connection, table: sa.Table, before_ms: int, limit: int) -> tuple[int, bool]:
    _take_turn(connection)
    upto, may_have_more = _old_upto(connection, table.c.number, 0, before_ms, min(limit, ROWS_AT_ONCE))
    if upto == 0:
        return 0, False
    return connection.execute(sa.delete(table).where(table.c.number <= upto)).rowcount, may_have_more


def _old_upto(
    connection: sa.Connection, number: sa.Column[int], after: int, before_ms: int, most: int
) -> tuple[int, bool]:
    """The number up to which all rows after `after` are old, looking at so many at most; whether more may be."""
    first = connection.scalar(sa.select(sa.func.min(number)).where(number > after))
    last = connection.scalar(sa.select(sa.func.max(number)))
    if first is None or last is None:
        return after, False
    upto = min(first + most - 1, last)
    is_young = number.table.c.at_ms >= before_ms
    young = connection.scalar(sa.select(sa.func.min(number)).where(number > after, number <= upto, is_young))
    return (upto, upto < last) if young is None else (young - 1, False)


def _take_turn(connection: sa.Connection) -> int:
    """Wait for whoever else forgets; up to where events have been looked at."""
    return int(connection.execute(sa.select(FORGOTTEN.c.swept).with_for_update()).scalar_one())


def _note_forgotten(connection: sa.Connection, events: Sequence[int]) -> None:
    if events:
        highest = max(events)
        connection.execute(sa.update(FORGOTTEN).where(FORGOTTEN.c.event < highest).values(event=highest))
