"""Reports: what queues and users had, what of it was good, and what was thrown away."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from muster.documents.scalars import DURATION, LONGEST_MS, milliseconds
from muster.documents.values import Scalar
from muster.server.api.doors import Asking, Desk, must_be_admin
from muster.server.api.errors import Problem, Refused
from muster.server.api.shapes import Held, UsageLine, UsageReport
from muster.server.usage import By, Sum, Used, used

router = APIRouter(prefix="/api/v1", tags=["reports"])


@router.get("/usage")
def usage(
    desk: Desk,
    who: Asking,
    by: Annotated[By, Query(description="Whose: of each queue, or (admins only) of each user.")] = "queue",
    since: Annotated[str, Query(description="For how long until now, such as 30d or 12h.")] = "30d",
) -> UsageReport:
    """Core-, GiB- and GPU-hours of attempts until now: what was good, and what was thrown away, by why.

    Good are attempts that succeeded or still run. The rest went to attempts that were preempted, lost, moved or failed,
    or whose jobs were cancelled. As parts of what there was, all hours are utilisation, and good hours goodput.

    It goes back no further than what is over is kept: `from` says since when it counts.
    """
    if by == "user":
        must_be_admin(who)
    until_ms, span_ms = desk.turns.now_ms(), _span_ms(since)
    since_ms = max(until_ms - span_ms, 0)
    from_ms = max(since_ms, until_ms - desk.limits.keep_ms)
    found = used(desk.store.attempts(from_ms), by, from_ms, until_ms, lambda queue: who.may("view", queue))
    return UsageReport(
        by=by,
        since=since_ms / 1000,
        from_=from_ms / 1000,
        until=until_ms / 1000,
        lines=[_line(name, one) for name, one in found.items()],
    )


def _span_ms(text: str) -> int:
    ms = milliseconds(Scalar(0, text, text))
    if ms is None or not 0 < ms <= LONGEST_MS:
        problem = Problem(field="since", value=repr(text), allowed=DURATION)
        raise Refused(422, f"since: {text!r} is not allowed: {DURATION}", [problem])
    return ms


def _line(name: str, one: Used) -> UsageLine:
    parts = {"good": _held(one.good), **{str(why): _held(total) for why, total in one.wasted.items()}}
    return UsageLine.model_validate({"name": name, **_held(one.all).model_dump(), **parts})


def _held(total: Sum) -> Held:
    return Held(attempts=total.attempts, **total.hours())
