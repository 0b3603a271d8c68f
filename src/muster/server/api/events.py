"""What happens, as a stream that can be resumed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from muster.server.access import Who
from muster.server.api.doors import Asking, Desk, must
from muster.server.api.errors import Error, Problem, Refused, in_midstream
from muster.server.api.shapes import LAST
from muster.server.service import Service
from muster.store.errors import Expired, StoreDown
from muster.store.rows import EventRow

router = APIRouter(prefix="/api/v1", tags=["events"])

PAGE = 1000
HEARTBEAT_S = 15.0
LOOK_EVERY_S = 1.0  # whether the other side is still there, and we are


class Asked(NamedTuple):
    """Which events, and after which number."""

    queue: str
    job_set: str
    job: str
    after: int
    is_from_oldest: bool


def asked_for(
    desk: Desk,
    who: Asking,
    queue: str = "",
    jobSet: str = "",  # noqa: N803  # as it is called in job files
    job: str = "",
    after: Annotated[
        int | None, Query(ge=0, le=LAST, description="go on after this event; 0: from the oldest kept")
    ] = None,
    last_event_id: Annotated[str, Header(max_length=20)] = "",
) -> Asked:
    """What is asked for; refused before anything is sent."""
    if queue:
        must(who, "view", queue)
    is_number = last_event_id.isascii() and last_event_id.isdigit()
    if last_event_id and not (is_number and int(last_event_id) <= LAST):
        problem = Problem(field="Last-Event-ID", value=last_event_id, allowed="the id of an event: a number")
        raise Refused(422, f"Last-Event-ID: {last_event_id!r} is not the id of an event", [problem])
    if last_event_id:
        after = int(last_event_id)
    if after is None:
        after = desk.store.last_seq()
    asked = Asked(queue, jobSet, job, after, is_from_oldest=after == 0)
    _page(desk, asked, 1)  # raises Expired where that is too old
    return asked


@router.get("/events", response_class=EventSourceResponse, responses={410: {"model": Error}})
async def events(
    request: Request,
    desk: Desk,
    who: Asking,
    asked: Annotated[Asked, Depends(asked_for)],
    follow: Annotated[bool, Query(description="whether to wait for what will happen")] = True,
) -> AsyncIterator[ServerSentEvent]:
    """Events in order, each with its number as id: whoever reconnects goes on with `after` or Last-Event-ID.

    Without either, from now on. A cursor older than what is kept is answered with 410. What goes wrong once the stream
    has begun is told as its last event, `broken`: the status and the error that a new request would have got.
    """
    try:
        async for row in _rows(request, desk, asked, follow=follow):
            if row is None:
                yield ServerSentEvent(comment="nothing new")
            elif _may_see(who, row):
                yield _sent(row)
    except (Expired, StoreDown) as err:
        yield ServerSentEvent(event="broken", data=in_midstream(err))


async def _rows(request: Request, desk: Service, asked: Asked, *, follow: bool) -> AsyncIterator[EventRow | None]:
    """Events as they come; None now and then while there are none."""
    quiet_s, tail = 0.0, request.app.state.tail
    while not desk.is_closing and not await request.is_disconnected():
        last = await asyncio.to_thread(desk.store.last_seq)
        rows = await asyncio.to_thread(_page, desk, asked, PAGE)
        for row in rows:
            yield row
        if len(rows) == PAGE:
            asked = asked._replace(after=rows[-1].seq, is_from_oldest=False)
            continue
        asked = asked._replace(after=max(last, rows[-1].seq if rows else 0), is_from_oldest=False)
        if not follow:
            return
        has_news = await tail.wait(asked.after, LOOK_EVERY_S)
        quiet_s = 0.0 if has_news else quiet_s + LOOK_EVERY_S
        if quiet_s >= HEARTBEAT_S:
            quiet_s = 0.0
            yield None


def _page(desk: Service, asked: Asked, limit: int) -> list[EventRow]:
    """The next events; the oldest, whichever they are by now, for those who asked for that."""
    while True:
        after = desk.store.oldest_seq() - 1 if asked.is_from_oldest else asked.after
        try:
            return desk.store.events(after, limit, queue=asked.queue, job_set=asked.job_set, job=asked.job)
        except Expired:  # between one question and the next, or for good
            if not asked.is_from_oldest:
                raise


def _may_see(who: Who, row: EventRow) -> bool:
    return who.is_admin or who.may("view", row.queue)


def _sent(row: EventRow) -> ServerSentEvent:
    return ServerSentEvent(id=str(row.seq), event=row.kind, data={"t": row.at_ms / 1000, "event": row.kind, **row.body})
