"""What is there: rows of the tables as values. Nothing here loads all of something that can be many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
import sqlalchemy as sa

from muster.store.bulk import is_among
from muster.store.errors import Expired
from muster.store.pages import read_history, read_page
from muster.store.rows import (
    ENDED,
    FINISHED,
    AuditRow,
    Body,
    EventRow,
    JobPage,
    JobQuery,
    JobRow,
    LeaseRow,
    Thing,
    TurnRow,
)
from muster.store.tables import AUDIT, COUNTER, FORGOTTEN, JOB, LEASE, PAGE, STANDING, THING, TURN

_decode = msgspec.json.Decoder().decode
_AT_ONCE = 2_000  # rows fetched together where all are streamed
_PAGES_AT_ONCE = 8

_JOB_COLUMNS = (
    JOB.c.id,
    JOB.c.client_id,
    JOB.c.queue,
    JOB.c.job_set,
    JOB.c.user_name,
    STANDING.c.state,
    STANDING.c.attempt,
    STANDING.c.priority,
    STANDING.c.priority_class,
    JOB.c.submit_ms,
    STANDING.c.start_ms,
    STANDING.c.end_ms,
    STANDING.c.failures,
    STANDING.c.losses,
    STANDING.c.preemptions,
    STANDING.c.cluster,
    STANDING.c.reason,
    JOB.c.seq,
    JOB.c.spec,
)
_JOBS = sa.select(*_JOB_COLUMNS).select_from(JOB.join(STANDING, JOB.c.id == STANDING.c.job))
_LEASES = sa.select(*(column for column in LEASE.columns if column.name != "held_by"))


def last_seq(connection: sa.Connection) -> int:
    """The number of the newest event."""
    return int(connection.execute(sa.select(COUNTER.c.event)).scalar_one())


def oldest_seq(connection: sa.Connection) -> int:
    """From this number on, every event is there."""
    return int(connection.execute(sa.select(FORGOTTEN.c.event)).scalar_one()) + 1


def events(connection: sa.Connection, after: int, limit: int, *, queue: str, job_set: str, job: str) -> list[EventRow]:
    """The next events that match everything that is not empty."""
    if job:
        history = connection.scalar(sa.select(STANDING.c.history).where(STANDING.c.job == job)) or ""
        found = (event for event in read_history(job, history) if event.seq > after)
        ours = (it for it in found if queue in ("", it.queue) and job_set in ("", it.job_set))
        return list(islice(ours, limit))
    start = after
    if job_set:  # its first job tells where its events begin; without one they may be anywhere
        start = max(
            (connection.scalar(sa.select(sa.func.min(JOB.c.seq)).where(JOB.c.job_set == job_set)) or 0) - 1, after
        )
    rows = list(islice(_in_pages(connection, start, queue=queue, job_set=job_set), limit))
    # Looked up after the rows: had some been forgotten in between, this would say so.
    oldest = oldest_seq(connection)
    if after < oldest - 1:
        raise Expired(after, oldest)
    return rows


def _in_pages(connection: sa.Connection, after: int, *, queue: str, job_set: str) -> Iterator[EventRow]:
    """Events in their order, as many as someone takes."""
    while True:
        asked = sa.select(PAGE).where(PAGE.c.last > after).order_by(PAGE.c.last).limit(_PAGES_AT_ONCE)
        pages = connection.execute(asked).all()
        for last, first, at_ms, body in pages:
            yield from read_page(first, at_ms, body, after=after, queue=queue, job_set=job_set)
            after = last
        if len(pages) < _PAGES_AT_ONCE:
            return


def unfinished(connection: sa.Connection) -> Iterator[JobRow]:
    """Jobs that have not ended, in the order of submission, as they were at one moment."""
    states = [state for state in _states(connection) if state not in FINISHED]
    if states:
        # By number, which both have: so both are read along an index, and nothing has to be sorted before the first.
        both = sa.select(*_JOB_COLUMNS).select_from(JOB.join(STANDING, JOB.c.seq == STANDING.c.seq))
        asked = both.where(STANDING.c.state.in_(states)).order_by(STANDING.c.seq)
        streaming = connection.execution_options(stream_results=True, max_row_buffer=_AT_ONCE)
        bodies = _Bodies()
        for rows in streaming.execute(asked).partitions(_AT_ONCE):
            for row in rows:
                yield _job(row, bodies)


class _Bodies(dict[str, Body]):
    """Documents by their text: of many jobs, many were submitted as the same one."""

    def __missing__(self, text: str) -> Body:
        if len(self) >= _AT_ONCE:
            self.clear()
        body: Body = _decode(text)
        self[text] = body
        return body


def job(connection: sa.Connection, id_: str) -> JobRow | None:
    """The job with this id."""
    row = connection.execute(_JOBS.where(JOB.c.id == id_)).one_or_none()
    return None if row is None else _job(row)


def jobs(connection: sa.Connection, query: JobQuery, *, after: int | None, limit: int, newest_first: bool) -> JobPage:
    """The next jobs that match, by their place in the order of submission."""
    # Both tables hold the number. Who asks for a state is answered along the index of states.
    seq = STANDING.c.seq if query.state or query.states else JOB.c.seq
    asked = _JOBS.where(*_matching(query)).order_by(seq.desc() if newest_first else seq).limit(limit + 1)
    if after is not None:
        asked = asked.where(seq < after if newest_first else seq > after)
    rows = [_job(row) for row in connection.execute(asked).all()]
    more = len(rows) > limit
    return JobPage(rows=rows[:limit], next=rows[limit - 1].seq if more else None)


def count_jobs(connection: sa.Connection, queue: str) -> dict[str, dict[str, int]]:
    """How many jobs are in which state, by queue."""
    asked = sa.select(STANDING.c.queue, STANDING.c.state, sa.func.count()).group_by(STANDING.c.queue, STANDING.c.state)
    if queue:
        asked = asked.where(STANDING.c.queue == queue)
    counts: dict[str, dict[str, int]] = {}
    for name, state, count in connection.execute(asked.order_by(STANDING.c.queue, STANDING.c.state)):
        counts.setdefault(name, {})[state] = count
    return counts


def ids_of_clients(connection: sa.Connection, client_ids: Sequence[str]) -> dict[str, str]:
    """The jobs that came with these client ids; those that never came are left out."""
    asked = sa.select(JOB.c.client_id, JOB.c.id).where(is_among(connection, JOB.c.client_id, client_ids))
    return {row.client_id: row.id for row in connection.execute(asked).all()} if client_ids else {}


def specs(connection: sa.Connection, ids: Sequence[str]) -> dict[str, Body]:
    """What these jobs were submitted as; those that are not there are left out."""
    asked = sa.select(JOB.c.id, JOB.c.spec).where(is_among(connection, JOB.c.id, ids))
    return {row.id: _decode(row.spec) for row in connection.execute(asked).all()} if ids else {}


def states_of(connection: sa.Connection, ids: Sequence[str]) -> dict[str, str]:
    """The state that each of these jobs is in; those that are not there are left out."""
    asked = sa.select(STANDING.c.job, STANDING.c.state).where(is_among(connection, STANDING.c.job, ids))
    return {row.job: row.state for row in connection.execute(asked).all()} if ids else {}


def leases(connection: sa.Connection, cluster: str, states: Sequence[str]) -> list[LeaseRow]:
    """Leases of a cluster (of all, if empty) in these states (in any, if empty), by job and attempt."""
    asked = _LEASES.order_by(LEASE.c.job, LEASE.c.attempt)
    if states:
        asked = asked.where(LEASE.c.state.in_(states))
    if states and ENDED not in states:  # the short way: only those that are held have an entry in this index
        asked = asked.where(LEASE.c.held_by == cluster if cluster else LEASE.c.held_by.is_not(None))
    elif cluster:
        asked = asked.where(LEASE.c.cluster == cluster)
    return [_lease(row) for row in connection.execute(asked).all()]


def leases_of(connection: sa.Connection, job_id: str) -> list[LeaseRow]:
    """Every attempt of a job, the first one first."""
    return [_lease(row) for row in connection.execute(_LEASES.where(LEASE.c.job == job_id).order_by(LEASE.c.attempt))]


def attempts(connection: sa.Connection, since_ms: int) -> Iterator[LeaseRow]:
    """Leases that have not ended, or did since that moment, as they were at one moment; in no order."""
    asked = _LEASES.where(sa.or_(LEASE.c.held_by.is_not(None), LEASE.c.changed_ms >= since_ms))
    streaming = connection.execution_options(stream_results=True, max_row_buffer=_AT_ONCE)
    for rows in streaming.execute(asked).partitions(_AT_ONCE):
        yield from map(_lease, rows)


def lease(connection: sa.Connection, job_id: str, attempt: int) -> LeaseRow | None:
    """One attempt of a job."""
    row = connection.execute(_LEASES.where(LEASE.c.job == job_id, LEASE.c.attempt == attempt)).one_or_none()
    return None if row is None else _lease(row)


def things(connection: sa.Connection, kind: str) -> list[Thing]:
    """All things of a kind, by name."""
    asked = sa.select(THING).where(THING.c.kind == kind).order_by(THING.c.name)
    return [Thing(kind=of, name=name, body=_decode(body)) for of, name, body in connection.execute(asked)]


def thing(connection: sa.Connection, kind: str, name: str) -> Thing | None:
    """The thing of this kind and name."""
    body = connection.scalar(sa.select(THING.c.body).where(THING.c.kind == kind, THING.c.name == name))
    return None if body is None else Thing(kind=kind, name=name, body=_decode(body))


def turns(connection: sa.Connection, before: int | None, limit: int) -> list[TurnRow]:
    """Turns before that number, the latest first."""
    return [
        TurnRow(number=number, at_ms=at_ms, took_ms=took_ms, body=_decode(body))
        for number, at_ms, took_ms, body in connection.execute(_latest(TURN, before, limit))
    ]


def turn(connection: sa.Connection, number: int) -> TurnRow | None:
    """The turn with this number."""
    row = connection.execute(sa.select(TURN).where(TURN.c.number == number)).one_or_none()
    return None if row is None else TurnRow(number=row[0], at_ms=row[1], took_ms=row[2], body=_decode(row[3]))


def last_turn(connection: sa.Connection) -> int:
    """The number of the newest turn, also when it was forgotten; 0 before the first."""
    return int(connection.execute(sa.select(COUNTER.c.turn)).scalar_one())


def audit(connection: sa.Connection, before: int | None, limit: int) -> list[AuditRow]:
    """Changes people made before that number, the latest first."""
    return [
        AuditRow(number=number, at_ms=at_ms, who=who, what=what, body=_decode(body))
        for number, at_ms, who, what, body in connection.execute(_latest(AUDIT, before, limit))
    ]


def _latest(table: sa.Table, before: int | None, limit: int) -> sa.Select[Any]:
    asked = sa.select(table).order_by(table.c.number.desc()).limit(limit)
    return asked if before is None else asked.where(table.c.number < before)


def _states(connection: sa.Connection) -> Iterator[str]:
    """The states that jobs are in, each by one step along their index: there are few, of many jobs."""
    state = ""
    while (
        after := connection.scalar(sa.select(sa.func.min(STANDING.c.state)).where(STANDING.c.state > state))
    ) is not None:
        yield after
        state = after


def _matching(query: JobQuery) -> Iterator[sa.ColumnElement[bool]]:
    if query.queue:
        yield JOB.c.queue == query.queue
    if query.job_set:
        yield JOB.c.job_set == query.job_set
    if query.user:
        yield JOB.c.user_name == query.user
    if query.state:
        yield STANDING.c.state == query.state
    if query.states:
        yield STANDING.c.state.in_(query.states)
    if query.text:
        searched = (JOB.c.id, JOB.c.client_id, JOB.c.job_set, JOB.c.user_name)
        yield sa.or_(*(column.icontains(query.text, autoescape=True) for column in searched))


def _job(row: Any, bodies: Mapping[str, Body] | None = None) -> JobRow:
    id_, client, queue, job_set, user, state, attempt, priority, priority_class, submit_ms, *rest = row
    start_ms, end_ms, failures, losses, preemptions, cluster, reason, seq, spec = rest
    return JobRow(
        id=id_,
        client_id=client or "",
        queue=queue,
        job_set=job_set,
        user=user,
        state=state,
        attempt=attempt,
        priority=priority,
        priority_class=priority_class,
        submit_ms=submit_ms,
        start_ms=start_ms,
        end_ms=end_ms,
        failures=failures,
        losses=losses,
        preemptions=preemptions,
        cluster=cluster,
        reason=reason,
        seq=seq,
        spec=_decode(spec) if bodies is None else bodies[spec],
    )


def _lease(row: Any) -> LeaseRow:
    job_id, attempt, cluster, name, state, spec, reason, result, changed_ms = row
    return LeaseRow(
        job=job_id,
        attempt=attempt,
        cluster=cluster,
        name=name,
        state=state,
        spec=_decode(spec),
        reason=reason,
        result=_decode(result),
        changed_ms=changed_ms,
    )
