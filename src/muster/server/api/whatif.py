"""What would happen if: jobs that nobody submitted, changes that nobody made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from fastapi import APIRouter

from muster.server.access import Who
from muster.server.api.doors import Asking, Desk
from muster.server.api.errors import Error, Problem, Refused
from muster.server.api.shapes import WhatIf, WhatIfAnswer, WhatIfFuture, WhatIfJob, WhatIfPreempted, WhatIfPreemption
from muster.server.trying import Busy, Forbidden, TooMany, Tried
from muster.state.future import Comparison, Future, Preemption

router = APIRouter(prefix="/api/v1", tags=["jobs"])

MOST_LISTED = 1_000


@router.post("/whatif", responses={409: {"model": Error}, 503: {"model": Error}})
def whatif(body: WhatIf, desk: Desk, who: Asking) -> WhatIfAnswer:
    """When would something start if …? Tried out on a copy of the world; nothing is changed.

    `jobs` are tried as if they were submitted now, which needs the right to submit them; `events` are written as in
    scenario files (`{"setJob": {"name": ID, "priority": 9}}`, `{"drainNode": NAME}`, `{"addNodes": …}`), about what
    whoever asks may view. `at` of an event counts from now.
    """
    if not body.jobs and not body.events:
        allowed = "jobs, events or both: what if what?"
        raise Refused(422, f"body: {allowed}", [Problem(field="body", allowed=allowed)])
    try:
        tried = desk.trials.ask(who, body.jobs, body.events)
    except Forbidden as err:
        raise Refused(403, str(err)) from None
    except TooMany as err:
        raise Refused(409, str(err)) from None
    except Busy as err:
        raise Refused(503, str(err)) from None
    return _answer(tried, who)


def _answer(tried: Tried, who: Who) -> WhatIfAnswer:
    answer = tried.answer
    compared = list(answer.jobs())
    seen = [it for it in compared if who.may("view", it.queue)]
    told = [it for it in seen if it.is_changed or it.job in tried.asked]
    told.sort(key=lambda it: it.job not in tried.asked)  # those first that the question is about
    visible = {it.job for it in seen}
    return WhatIfAnswer(
        at=answer.at_ms / 1000,
        until=min(answer.without.until_ms, answer.with_it.until_ms) / 1000,
        complete=answer.without.is_whole and answer.with_it.is_whole,
        paused=tried.is_paused,
        jobs=[_job(it, answer.without, answer.with_it, is_asked=it.job in tried.asked) for it in told[:MOST_LISTED]],
        more=max(len(told) - MOST_LISTED, 0),
        earlier=sum(it.is_better for it in compared),
        later=sum(it.is_worse for it in compared),
        same=sum(not it.is_changed for it in compared),
        hidden=sum(it.is_changed for it in compared) - sum(it.is_changed for it in seen),
        preempted=WhatIfPreempted(
            without=_preempted(answer.without.preempted, visible.__contains__),
            with_it=_preempted(answer.with_it.preempted, visible.__contains__),
        ),
    )


def _job(it: Comparison, without: Future, with_it: Future, *, is_asked: bool) -> WhatIfJob:
    return WhatIfJob(
        job=it.job,
        queue=it.queue,
        new=it.is_new,
        asked=is_asked,
        without=None if it.is_new else _future(it.job, without),
        with_it=_future(it.job, with_it),
        earlier=None if it.gain_ms is None else it.gain_ms / 1000,
    )


def _future(job: str, ahead: Future) -> WhatIfFuture:
    starts, before_ms, why = ahead.starts.get(job, []), ahead.before.get(job), ahead.why.get(job, {})
    last = starts[-1] if starts else None
    return WhatIfFuture(
        running_since=None if before_ms is None else before_ms / 1000,
        starts=[start.at_ms / 1000 for start in starts],
        assumed=any(start.is_assumed for start in starts),
        cluster="" if last is None else last.cluster,
        nodes=[] if last is None else list(last.nodes),
        reason=why.get("reason"),
        text=why.get("why", ""),
    )


def _preempted(found: Sequence[Preemption], is_visible: Callable[[str], bool]) -> list[WhatIfPreemption]:
    """Those that whoever asks may see; for whom, only if they may see that one too."""

    def told(it: Preemption) -> dict[str, Any]:
        by = it.by if is_visible(it.by) or it.rule == "drain" else ""
        return {"t": it.at_ms / 1000, "job": it.job, "by": by, "rule": it.rule}

    return [WhatIfPreemption(**told(it)) for it in islice((it for it in found if is_visible(it.job)), MOST_LISTED)]
