"""What the store keeps, as values.

Bodies and specifications are what JSON can say (dicts, lists, strings, numbers, true, false, null); the store does
not look into them. Rows are made by the thousand, so they are msgspec's structs, which cost a fifth of a dataclass and
which the garbage collector need not visit: none refers back to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

FINISHED = ("succeeded", "failed", "cancelled")  # states of a job that nothing follows
LEASED, ENDED = "leased", "ended"  # the state of a lease that begins, and the one that nothing follows

Body = Mapping[str, Any]


class NewEvent(Struct, frozen=True, kw_only=True, gc=False):
    """Something that happened, before it has its place in the order of events."""

    kind: str
    body: Body
    job: str = ""
    queue: str = ""
    job_set: str = ""


class EventRow(Struct, frozen=True, kw_only=True, gc=False):
    """Something that happened. Numbers are gapless, and in the order in which events became durable."""

    seq: int
    at_ms: int
    kind: str
    body: Body
    job: str
    queue: str
    job_set: str


class JobRow(Struct, frozen=True, kw_only=True, gc=False):
    """A job as it stands.

    `seq` is given by the store: the number of the first event that names the job in the batch that brings it.
    """

    id: str
    client_id: str = ""  # "": the client gave none
    queue: str
    job_set: str
    user: str
    state: str
    attempt: int = 0
    priority: int = 0
    priority_class: int = 0
    submit_ms: int
    start_ms: int | None = None
    end_ms: int | None = None
    failures: int = 0
    losses: int = 0
    preemptions: int = 0
    cluster: str = ""
    reason: str = ""
    seq: int = 0
    spec: Body = field(default_factory=dict)


class JobChange(Struct, frozen=True, kw_only=True, gc=False):
    """What becomes different about a job; what is UNSET stays. A job that is not there (any more) is left out.

    A state that is final comes with `end_ms`; any other state takes the end away.
    """

    id: str
    state: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    priority_class: int | UnsetType = UNSET
    start_ms: int | UnsetType | None = UNSET
    end_ms: int | UnsetType | None = UNSET
    failures: int | UnsetType = UNSET
    losses: int | UnsetType = UNSET
    preemptions: int | UnsetType = UNSET
    cluster: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class LeaseRow(Struct, frozen=True, kw_only=True, gc=False):
    """One attempt of a job on one cluster: leased, sent, running, stopping or ended."""

    job: str
    attempt: int
    cluster: str
    name: str  # of the object on the cluster
    state: str
    spec: Body = field(default_factory=dict)
    reason: str = ""  # why it is to stop
    result: Body = field(default_factory=dict)
    changed_ms: int = 0


class LeaseChange(Struct, frozen=True, kw_only=True, gc=False):
    """What an agent or a turn changes about a lease that is there: all but its specification, which is wide."""

    job: str
    attempt: int
    cluster: str
    state: str
    reason: str
    result: Body
    changed_ms: int


class Thing(Struct, frozen=True, kw_only=True, gc=False):
    """A small document with a name: a queue, a cluster, a node, a token, a setting."""

    kind: str
    name: str
    body: Body


class TurnRow(Struct, frozen=True, kw_only=True, gc=False):
    """What one turn decided. `number` is given by the store."""

    at_ms: int
    took_ms: int
    body: Body
    number: int = 0


class AuditRow(Struct, frozen=True, kw_only=True, gc=False):
    """Who changed what. `number` is given by the store."""

    at_ms: int
    who: str
    what: str
    body: Body
    number: int = 0


class JobQuery(Struct, frozen=True, kw_only=True, gc=False):
    """Which jobs: those that match everything that is not empty. `text` is part of an id, job set or user.

    `states`: they are in one of these.
    """

    queue: str = ""
    job_set: str = ""
    user: str = ""
    state: str = ""
    text: str = ""
    states: Sequence[str] = ()


class JobPage(Struct, frozen=True, kw_only=True, gc=False):
    """Some jobs, and the cursor that gives the next ones: None after the last."""

    rows: Sequence[JobRow]
    next: int | None
