"""What the ends of tasks mean for their attempt.

A task that ends badly takes the attempt with it, unless its group keeps its min without it. The attempt is done when
all tasks of the groups that decide have ended well. Pure.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any, NamedTuple

from muster.agent.protocol import Result
from muster.local.sheets import Sheet, TaskOf
from muster.local.supervisor import EXITED, LOST, NOT_STARTED, OUT_OF_MEMORY, STOPPED, TIME_LIMIT
from muster.model.resources import MEMORY, format_amount


class Seen(NamedTuple):
    """A task as it is: its end if it has one, and whether we told it to end because the attempt is over anyway."""

    task: TaskOf
    end: dict[str, Any] | None = None
    is_told: bool = False


class Verdict(NamedTuple):
    """How an attempt ends."""

    result: Result
    message: str = ""
    exit_code: int | None = None


def is_good(end: dict[str, Any]) -> bool:
    """Whether a task ended as it should."""
    return bool(end["how"] == EXITED and end["code"] == 0)


def failed(tasks: Sequence[Seen]) -> list[Seen]:
    """The tasks that ended badly by themselves, the first one first."""
    found = [seen for seen in tasks if seen.end is not None and not seen.is_told and not is_good(seen.end)]
    return sorted(found, key=lambda seen: (seen.end or {})["ended"])


def verdict(sheet: Sheet, tasks: Sequence[Seen]) -> Verdict | None:
    """What the attempt has come to; None: it goes on. `tasks` are those that it has now."""
    bad = failed(tasks)
    for first in bad:
        group = first.task.group
        kept = sum(seen.task.group == group for seen in tasks) - sum(seen.task.group == group for seen in bad)
        if kept < sheet.terms(group).min:
            return _of_task(first, is_only=len(tasks) == 1)
    deciding = [seen for seen in tasks if sheet.terms(seen.task.group).decides and seen not in bad]
    if not deciding and bad:
        return _of_task(bad[0], is_only=len(tasks) == 1)
    if deciding and all(seen.end is not None and is_good(seen.end) for seen in deciding):
        return Verdict("succeeded", exit_code=0)
    return None


def _of_task(seen: Seen, *, is_only: bool) -> Verdict:
    end = seen.end or {}
    message = in_words(end)
    result: Result = "lost" if end["how"] == LOST else "failed"
    return Verdict(result, message if is_only else f"{seen.task.name}: {message}", end.get("code"))


def in_words(end: dict[str, Any]) -> str:
    """How a task ended, for people."""
    match end["how"]:
        case how if how == OUT_OF_MEMORY:
            used, limit = (format_amount(MEMORY, end[name]) for name in ("used", "limit"))
            return f"OUT_OF_MEMORY: it used {used} and its limit is {limit}"
        case how if how == EXITED and "signal" in end:
            return f"killed by {_called(end['signal'])}"
        case how if how == EXITED:
            return f"exit code {end['code']}"
        case how if how in (TIME_LIMIT, STOPPED):
            return str(how)
        case how if how == NOT_STARTED:
            return str(end["message"])
    return str(end.get("message") or "lost")


def _called(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return f"signal {number}"
