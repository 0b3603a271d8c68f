"""What turns take in, and what they hand on to be written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from muster.agent.protocol import Report
from muster.model import events as ev
from muster.store.batch import Batch
from muster.store.rows import AuditRow, Thing


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What the agent of a cluster said; `is_all`: it named every attempt it has.

    `is_gone`: an operator speaks for it, because it will not speak again.
    """

    cluster: str
    reports: Sequence[Report] = ()
    is_all: bool = False
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Something that happened, with the rows that go with it. `done` is resolved once its turn is durable."""

    events: Sequence[ev.Event] = ()
    heard: Heard | None = None
    things: Sequence[Thing] = ()
    gone: Sequence[tuple[str, str]] = ()
    audit: Sequence[AuditRow] = ()
    done: Future[int] = field(default_factory=Future)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """A turn that was decided: its rows, what it was about, and the clusters that it gave up."""

    batch: Batch
    news: Sequence[News]
    lost: Collection[str] = ()
