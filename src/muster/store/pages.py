"""How events are kept: in pages, in their order, and once more with the job that they are about.

A turn that starts a thousand jobs writes one row instead of a thousand with two indexes each: that was a third of all
work of PostgreSQL. Whoever follows what happens reads pages. Whoever asks about one job reads the history in its row,
which stays as long as the job does, while pages leave by age.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from muster.store.errors import BadBatch
from muster.store.rows import Body, EventRow, NewEvent

MOST = 1_000  # events in a page: whoever wants one of them reads them all

_encode = msgspec.json.Encoder().encode
_page = msgspec.json.Decoder(list[tuple[str, str, str, str, msgspec.Raw]])
_history = msgspec.json.Decoder(list[tuple[int, int, str, str, str, dict[str, Any]]])
_body = msgspec.json.Decoder(dict[str, Any])

Numbered = tuple[int, NewEvent, msgspec.Raw]
"""An event with its number, and its body as JSON."""


def numbered(events: Sequence[NewEvent], first: int) -> list[Numbered]:
    """Events with their numbers, from `first` on."""
    return [(seq, event, _as_json(event.body)) for seq, event in enumerate(events, first)]


def page_rows(events: Sequence[Numbered], at_ms: int) -> Iterator[tuple[Any, ...]]:
    """Rows of the table `page` with the events of one moment."""
    for start in range(0, len(events), MOST):
        some = events[start : start + MOST]
        body = _encode([(event.kind, event.job, event.queue, event.job_set, raw) for _, event, raw in some])
        yield some[-1][0], some[0][0], at_ms, body.decode()


def add_to_histories(histories: dict[str, str], events: Iterable[Numbered], at_ms: int) -> None:
    """What is to be added to the history of each job."""
    for seq, event, raw in events:
        if event.job:
            entry = _encode((seq, at_ms, event.kind, event.queue, event.job_set, raw)).decode() + ","
            before = histories.get(event.job)
            histories[event.job] = entry if before is None else before + entry


def read_page(first: int, at_ms: int, body: str, *, after: int, queue: str, job_set: str) -> Iterator[EventRow]:
    """The events of a page after a number that match everything that is not empty."""
    for seq, (kind, job, in_queue, in_set, raw) in enumerate(_page.decode(body), first):
        if seq > after and (not queue or in_queue == queue) and (not job_set or in_set == job_set):
            yield EventRow(
                seq=seq, at_ms=at_ms, kind=kind, job=job, queue=in_queue, job_set=in_set, body=_body.decode(raw)
            )


def read_history(job: str, history: str) -> Iterator[EventRow]:
    """The events of one job."""
    for seq, at_ms, kind, queue, job_set, body in _history.decode(f"[{history.removesuffix(',')}]"):
        yield EventRow(seq=seq, at_ms=at_ms, kind=kind, job=job, queue=queue, job_set=job_set, body=body)


def _as_json(body: Body) -> msgspec.Raw:
    try:
        return msgspec.Raw(_encode(body))
    except (TypeError, ValueError, RecursionError) as err:
        raise BadBatch(body, f"JSON must be able to say it ({err})", "body") from err
