"""What is written together, and what several batches come to when they are written in one transaction.

Later batches win over earlier ones, as if they had been written one after the other: the last change of each column
of a job, the last of each lease and thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from muster.store.errors import BadBatch
from muster.store.pages import add_to_histories, numbered, page_rows
from muster.store.rows import (
    ENDED,
    FINISHED,
    LEASED,
    AuditRow,
    Body,
    JobChange,
    JobRow,
    LeaseChange,
    LeaseRow,
    NewEvent,
    Thing,
    TurnRow,
)

CHANGEABLE = (
    *("state", "attempt", "priority", "priority_class", "start_ms", "end_ms"),
    *("failures", "cluster", "reason", "losses", "preemptions"),
)

_encoder = msgspec.json.Encoder()
_values_of = attrgetter(*CHANGEABLE)
_END = CHANGEABLE.index("end_ms")
_UNCHANGED = (UNSET,) * len(CHANGEABLE)
_EMPTY: Body = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What happened at one moment and what it changed: written whole or not at all.

    New jobs come before changes, leases and things replace those of the same key, changes of leases come after leases,
    and `gone` names things by kind and name that are there no longer, whatever `things` says.
    """

    at_ms: int
    events: Sequence[NewEvent] = ()
    jobs: Sequence[JobRow] = ()
    changes: Sequence[JobChange] = ()
    leases: Sequence[LeaseRow] = ()
    lease_changes: Sequence[LeaseChange] = ()
    things: Sequence[Thing] = ()
    gone: Sequence[tuple[str, str]] = ()
    turn: TurnRow | None = None
    audit: Sequence[AuditRow] = ()


def as_json(body: Body) -> str:
    """The text that is kept of a body."""
    if not body:
        return "{}"
    try:
        return _encoder.encode(body).decode()
    except (TypeError, ValueError, RecursionError) as err:
        raise BadBatch(body, f"JSON must be able to say it ({err})", "body") from err


def pages_and_histories(batches: Iterable[Batch], first: int) -> tuple[list[tuple[Any, ...]], dict[str, str]]:
    """Rows of the table `page` with all events, numbered from `first` on; and what each job's history gains."""
    pages: list[tuple[Any, ...]] = []
    histories: dict[str, str] = {}
    for batch in batches:
        events = numbered(batch.events, first)
        pages += page_rows(events, batch.at_ms)
        for job in batch.jobs:  # what came before it was not about it
            histories.pop(job.id, None)
        add_to_histories(histories, events, batch.at_ms)
        first += len(events)
    return pages, histories


def numbered_jobs(batches: Iterable[Batch], first: int) -> Iterator[tuple[JobRow, int]]:
    """New jobs, each with the number of the first event of its batch that names it."""
    for batch in batches:
        if batch.jobs:
            seqs: dict[str, int] = {}
            for place, event in enumerate(batch.events):
                seqs.setdefault(event.job, first + place)
            for place, job in enumerate(batch.jobs):
                _check_job(job, f"jobs[{place}]", is_named=bool(job.id) and job.id in seqs)
                yield job, seqs[job.id]
        first += len(batch.events)


def job_row(job: JobRow, seq: int) -> tuple[Any, ...]:
    """A row of the table `job`: what never changes."""
    client = job.client_id or None
    return job.id, seq, client, job.queue, job.job_set, job.user, job.submit_ms, as_json(job.spec)


def standing_row(job: JobRow, seq: int, history: str) -> tuple[Any, ...]:
    """A row of the table `standing`: what changes."""
    return (
        job.id,
        seq,
        job.queue,
        job.state,
        job.attempt,
        job.priority,
        job.priority_class,
        job.start_ms,
        job.end_ms,
        job.failures,
        job.cluster,
        job.reason,
        job.losses,
        job.preemptions,
        history,
    )


def changes_by_columns(
    batches: Iterable[Batch], histories: Mapping[str, str]
) -> Mapping[tuple[str, ...], list[tuple[Any, ...]]]:
    """Jobs that change, with what changes and what their `histories` gain; those with the same columns together, as
    (id, *columns, history)."""
    by_job: dict[str, tuple[Any, ...]] = dict.fromkeys(histories, _UNCHANGED)
    for batch in batches:
        for place, change in enumerate(batch.changes):
            _check_end(change.state, change.end_ms, f"changes[{place}].end_ms")
            values, before = _values_of(change), by_job.get(change.id, _UNCHANGED)
            if change.state is not UNSET and change.state not in FINISHED:
                values = (*values[:_END], None, *values[_END + 1 :])
            by_job[change.id] = values if before is _UNCHANGED else tuple(map(_later, before, values))
    together: dict[tuple[bool, ...], list[tuple[Any, ...]]] = {}
    for job, values in by_job.items():
        is_set = tuple([value is not UNSET for value in values])
        together.setdefault(is_set, []).append((job, *compress(values, is_set), histories.get(job, "")))
    return {tuple(compress(CHANGEABLE, is_set)): rows for is_set, rows in together.items()}


@dataclass(frozen=True, slots=True)
class LeaseRows:
    """Rows of the table `lease`, the last of each key: those that are new, most likely, those that replace what is
    there, and changes of some columns, as CHANGED_LEASE names them."""

    begun: list[tuple[Any, ...]]
    replaced: list[tuple[Any, ...]]
    changed: list[tuple[Any, ...]]


CHANGED_LEASE = ("state", "reason", "result", "changed_ms", "held_by")


def lease_rows(batches: Iterable[Batch]) -> LeaseRows:
    """What becomes of leases."""
    begun: dict[tuple[str, int], LeaseRow] = {}
    replaced: dict[tuple[str, int], LeaseRow] = {}
    changed: dict[tuple[str, int], LeaseChange] = {}
    for batch in batches:
        for lease in batch.leases:
            key = (lease.job, lease.attempt)
            (begun if lease.state == LEASED or key in begun else replaced)[key] = lease
            changed.pop(key, None)
        for change in batch.lease_changes:
            key = (change.job, change.attempt)
            whole = begun if key in begun else replaced
            if key in whole:
                whole[key] = _changed(whole[key], change)
            else:
                changed[key] = change
    for key in begun.keys() & replaced.keys():
        del replaced[key]  # it began anew
    return LeaseRows(
        [_lease_row(lease) for lease in begun.values()],
        [_lease_row(lease) for lease in replaced.values()],
        [(change.job, change.attempt, *_changing_columns(change)) for change in changed.values()],
    )


def _changed(lease: LeaseRow, change: LeaseChange) -> LeaseRow:
    return msgspec.structs.replace(
        lease, state=change.state, reason=change.reason, result=change.result, changed_ms=change.changed_ms
    )


def things_and_gone(batches: Iterable[Batch]) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """Rows of the table `thing`, and the keys of those to delete."""
    last: dict[tuple[str, str], Thing | None] = {}
    for batch in batches:
        last.update({(thing.kind, thing.name): thing for thing in batch.things})
        last.update(dict.fromkeys(batch.gone))
    rows = [(thing.kind, thing.name, as_json(thing.body)) for thing in last.values() if thing is not None]
    return rows, [key for key, thing in last.items() if thing is None]


def turn_rows(turns: Iterable[TurnRow], first: int) -> list[tuple[Any, ...]]:
    """Rows of the table `turn`, numbered from `first` on."""
    return [(number, turn.at_ms, turn.took_ms, as_json(turn.body)) for number, turn in enumerate(turns, first)]


def audit_rows(audit: Iterable[AuditRow], first: int) -> list[tuple[Any, ...]]:
    """Rows of the table `audit`, numbered from `first` on."""
    return [(number, row.at_ms, row.who, row.what, as_json(row.body)) for number, row in enumerate(audit, first)]


def _lease_row(lease: LeaseRow) -> tuple[Any, ...]:
    return (
        lease.job,
        lease.attempt,
        lease.cluster,
        lease.name,
        lease.state,
        as_json(lease.spec),
        *_changing_columns(lease)[1:],
    )


def _changing_columns(lease: LeaseRow | LeaseChange) -> tuple[Any, ...]:
    held_by = None if lease.state == ENDED else lease.cluster
    return lease.state, lease.reason, as_json(lease.result), lease.changed_ms, held_by


def _later(before: object, after: object) -> object:
    return before if after is UNSET else after


def _check_job(job: JobRow, path: str, *, is_named: bool) -> None:
    if not is_named:
        raise BadBatch(job.id, "an event of the same batch must name a new job: it gives its place in the order", path)
    _check_end(job.state, job.end_ms, f"{path}.end_ms")


def _check_end(state: str | UnsetType, end_ms: int | UnsetType | None, path: str) -> None:
    """Whoever has finished has an end, and nobody else: so retention need not look at states."""
    if state in FINISHED and end_ms in (None, UNSET):
        raise BadBatch(None, f"a job that has {state} has an end", path)
    if state not in FINISHED and isinstance(end_ms, int):
        raise BadBatch(end_ms, f"only a job that has {', '.join(FINISHED)} has an end", path)
