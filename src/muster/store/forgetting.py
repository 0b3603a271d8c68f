"""What may leave, and leaving in small steps.

A finished job leaves when its end is old enough and every lease of it has ended; its leases and its history leave with
it. Pages of events, turns and audit lines leave by age. What has not finished stays, with its whole history, however
old.

Each step is a short transaction of its own, so that whoever writes never waits long. One at a time forgets: the row
of `forgotten` is taken first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile

import sqlalchemy as sa

from muster.store.bulk import is_among
from muster.store.tables import AUDIT, FORGOTTEN, JOB, LEASE, PAGE, STANDING, TURN

JOBS_AT_ONCE = 500
ROWS_AT_ONCE = 2_000

Ends = Counter[tuple[str, str]]
"""How many jobs, by queue and the state that they ended in."""

Step = Callable[[sa.Connection, int, int, Ends], tuple[int, bool]]
"""Before when and how many at most -> how many rows left, and whether more may. Jobs that leave are counted."""


def forget_jobs(connection: sa.Connection, before_ms: int, limit: int, ends: Ends) -> tuple[int, bool]:
    """Finished jobs with their leases and histories."""
    _take_turn(connection)
    most = min(limit, JOBS_AT_ONCE)
    finished = (
        sa.select(STANDING.c.job, STANDING.c.queue, STANDING.c.state)
        .where(STANDING.c.end_ms < before_ms)  # who has an end has finished
        .order_by(STANDING.c.end_ms)
        .limit(most)
    )
    found = connection.execute(finished).all()
    # Hardly ever is a lease still held. To ask for that first, of each job, takes the database as long as all the rest.
    with connection.begin_nested() as leases:
        left, is_any_held = _forget_leases(connection, [job for job, _, _ in found])
        if is_any_held:
            leases.rollback()
    if is_any_held:
        is_held = sa.exists().where(LEASE.c.job == STANDING.c.job, LEASE.c.held_by.is_not(None))
        found = connection.execute(finished.where(~is_held)).all()
        left, _ = _forget_leases(connection, [job for job, _, _ in found])
    if not found:
        return 0, False
    leaving = [job for job, _, _ in found]
    ends.update((queue, state) for _, queue, state in found)
    for column in (STANDING.c.job, JOB.c.id):
        left += connection.execute(sa.delete(column.table).where(is_among(connection, column, leaving))).rowcount
    return left, len(leaving) == most


def _forget_leases(connection: sa.Connection, jobs: Sequence[str]) -> tuple[int, bool]:
    """How many leases of these jobs left, and whether a cluster still held one."""
    if not jobs:
        return 0, False
    gone = sa.delete(LEASE).where(is_among(connection, LEASE.c.job, jobs)).returning(LEASE.c.held_by)
    held_by = connection.scalars(gone).all()
    return len(held_by), any(it is not None for it in held_by)


def forget_events(connection: sa.Connection, before_ms: int, limit: int, _ends: Ends) -> tuple[int, bool]:
    """Old pages of events."""
    left, upto, may_have_more = _forget_numbered(connection, PAGE.c.last, before_ms, limit)
    if left:
        connection.execute(sa.update(FORGOTTEN).values(event=upto))
    return left, may_have_more


def forget_turns(connection: sa.Connection, before_ms: int, limit: int, _ends: Ends) -> tuple[int, bool]:
    """Old turns."""
    left, _, may_have_more = _forget_numbered(connection, TURN.c.number, before_ms, limit)
    return left, may_have_more


def forget_audit(connection: sa.Connection, before_ms: int, limit: int, _ends: Ends) -> tuple[int, bool]:
    """Old audit lines."""
    left, _, may_have_more = _forget_numbered(connection, AUDIT.c.number, before_ms, limit)
    return left, may_have_more


STEPS: Sequence[Step] = (forget_jobs, forget_events, forget_turns, forget_audit)


def _forget_numbered(
    connection: sa.Connection, number: sa.Column[int], before_ms: int, limit: int
) -> tuple[int, int, bool]:
    """Rows before the first that is young: how many left, the number of the last, and whether more may."""
    _take_turn(connection)
    most = min(limit, ROWS_AT_ONCE)
    rows = connection.execute(sa.select(number, number.table.c.at_ms).order_by(number).limit(most)).all()
    old = [last for last, _ in takewhile(lambda row: row[1] < before_ms, rows)]
    if not old:
        return 0, 0, False
    left = connection.execute(sa.delete(number.table).where(number <= old[-1])).rowcount
    return left, old[-1], len(old) == most


def _take_turn(connection: sa.Connection) -> None:
    """Wait for whoever else forgets."""
    connection.execute(sa.select(FORGOTTEN.c.event).with_for_update()).one()
