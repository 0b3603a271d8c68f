"""A simulation as lines of JSON: one per event, in order (scenario.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from muster.model import events as ev
from muster.model.pools import called
from muster.sim.simulate import Notice, Tick
from muster.state.forecast import Estimate
from muster.state.telling import told

Line = dict[str, Any]


def lines(tick: Tick) -> Iterator[Line]:
    """What one moment adds to the log: events, then news of those who wait."""
    t = tick.moment.now_ms / 1000
    for event in tick.moment.events:
        if (line := told(event)) is not None:
            yield {"t": t, **line}
        if isinstance(event, ev.JobStarted) and event.borrowed is not None:
            yield {"t": t, **_borrowed(event, called(event.borrowed))}
    for notice in tick.notices:
        yield {"t": t, **_waiting(notice)}


def dumps(line: Line) -> str:
    """One line of the log."""
    return json.dumps(line, ensure_ascii=False)


def estimate_s(estimate: Estimate | None) -> float | None:
    """An estimated start in seconds."""
    return None if estimate is None else estimate.start_ms / 1000


def _waiting(notice: Notice) -> Line:
    facts = dict(notice.waiting.facts)
    if notice.estimate is not None:
        facts["assumed"] = notice.estimate.is_assumed
    return {
        "event": "waiting",
        "job": notice.job,
        "reason": notice.waiting.reason.name,
        "facts": facts,
        "estimate": estimate_s(notice.estimate),
    }


def _borrowed(event: ev.JobStarted, pool: str) -> Line:
    return {"event": "borrowed", "job": event.job, "attempt": event.attempt, "pool": pool}
