"""What tasks write, piece by piece, from the agent that has it."""

from __future__ import annotations

import asyncio
import codecs
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Query

from muster.agent.protocol import Piece, Read
from muster.server.api.doors import Asking, Desk, must
from muster.server.api.errors import Error, Refused, not_found
from muster.server.api.shapes import Shape
from muster.server.logs import NoAnswer
from muster.server.service import Service
from muster.store.rows import JobRow, LeaseRow

router = APIRouter(prefix="/api/v1", tags=["jobs"])

FOLLOWED_FOR_S = 15.0  # then there is an answer although there is nothing new
LOOK_EVERY_S = 0.3


class Log(Shape):
    """A piece of what a task wrote. Ask again from `next` on, until it is `over`.

    `attempt` 0: it has not begun.
    """

    job: str
    attempt: int
    offset: int
    next: int
    over: bool
    text: str


class Asked(NamedTuple):
    """Which log, and from where on."""

    group: str
    number: int
    stream: Literal["out", "err"]
    offset: int
    attempt: int | None
    follow: bool


def asked_for(
    task: Annotated[
        str, Query(max_length=300, pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*/[0-9]{1,9})?$", description="group/index")
    ] = "",
    stream: Literal["out", "err"] = "out",
    offset: Annotated[int, Query(ge=0, le=1 << 50, description="in bytes")] = 0,
    attempt: Annotated[int | None, Query(ge=1, le=1 << 31, description="the last one unless said")] = None,
    follow: Annotated[bool, Query(description="wait a little for more")] = False,
) -> Asked:
    """What is asked for."""
    group, _, index = task.partition("/")
    return Asked(group, int(index) if index else -1, stream, offset, attempt, follow)


@router.get("/jobs/{job_id}/logs", responses={404: {"model": Error}, 409: {"model": Error}, 503: {"model": Error}})
async def logs(job_id: str, desk: Desk, who: Asking, asked: Annotated[Asked, Depends(asked_for)]) -> Log:
    """A piece of the output of a task: of the first one unless one is named."""
    loop = asyncio.get_running_loop()
    until = loop.time() + FOLLOWED_FOR_S
    while True:
        row = await asyncio.to_thread(desk.store.job, job_id)
        if row is None:
            raise not_found("job", job_id)
        must(who, "view", row.queue)
        found = await _log(desk, row, asked)
        if not asked.follow or found.over or found.text or loop.time() > until or desk.is_closing:
            return found
        await asyncio.sleep(LOOK_EVERY_S)


async def _log(desk: Service, row: JobRow, asked: Asked) -> Log:
    lease = await asyncio.to_thread(_lease, desk, row, asked)
    if lease is None and not asked.follow:
        raise Refused(409, f"{row.id} is {row.state} and did not run, so there is no output")
    if lease is None:
        is_over = row.end_ms is not None
        return Log(job=row.id, attempt=0, offset=asked.offset, next=asked.offset, over=is_over, text="")
    wanted = Read(
        number=0,
        job=row.id,
        attempt=lease.attempt,
        group=asked.group,
        index=asked.number,
        stream=asked.stream,
        offset=asked.offset,
    )
    try:
        piece = await desk.logs.piece(lease.cluster, wanted)
    except NoAnswer as err:
        raise Refused(503, f"{err}: try again later") from None
    if piece.problem:
        raise Refused(404, f"{row.id}: {piece.problem}")
    text, many = decoded(piece)
    return Log(
        job=row.id,
        attempt=lease.attempt,
        offset=asked.offset,
        next=asked.offset + many,
        over=piece.is_over,
        text=text,
    )


def _lease(desk: Service, row: JobRow, asked: Asked) -> LeaseRow | None:
    """The attempt that is meant: one, or the last."""
    leases = {lease.attempt: lease for lease in desk.store.leases_of(row.id)}
    if asked.attempt is None:
        return leases[max(leases)] if leases else None
    if asked.attempt not in leases:
        raise Refused(404, f"{row.id} has no attempt {asked.attempt}")
    return leases[asked.attempt]


def decoded(piece: Piece) -> tuple[str, int]:
    """The text of a piece, and of how many bytes it was made: a letter that is cut in two waits for the next piece."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(piece.data, final=piece.is_over)
    return text, len(piece.data) - len(decoder.getstate()[0])
