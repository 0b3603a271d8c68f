"""`muster whatif`: a scenario and a change in; who would start when, and who would give way, out."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from muster.cli.ending import BAD_INPUT, ending_well
from muster.engine.kernels import suited_to
from muster.model.errors import InvalidValue
from muster.model.names import name_key
from muster.sim.scenario.changes import load_changed
from muster.sim.scenario.problems import ScenarioError
from muster.sim.simulate import settle_memory
from muster.sim.table import MOST_ROWS, clock, table
from muster.sim.whatif import ask
from muster.state.future import Answer, Comparison, Future, Preemption, Start


def run(
    file: str,
    output: str,
    *,
    at: str,
    events: Sequence[str],
    submits: Sequence[str],
    knows_runtimes: bool = False,
    only_servers: Sequence[str] = (),
) -> int:
    """Answer the question and print; the exit code. `only_servers`: what was said that only a server understands."""
    if only_servers:
        print(f"{only_servers[0]}: not about a file: say it with --submit or --event", file=sys.stderr)
        return BAD_INPUT
    return ending_well(lambda: _run(file, output, at=at, events=events, submits=submits, knows_runtimes=knows_runtimes))


def _run(
    file: str, output: str, *, at: str, events: Sequence[str], submits: Sequence[str], knows_runtimes: bool
) -> int:
    if not events and not submits:
        print("what if what? give --event, --submit or both", file=sys.stderr)
        return BAD_INPUT
    try:
        suited_to(0)  # a wrong setting is said before any work
        changed = load_changed(file, at=at, events=events, submits=submits)
    except (InvalidValue, ScenarioError) as err:
        print(err, file=sys.stderr)
        return BAD_INPUT
    settle_memory()
    with Console(stderr=True).status("running ahead twice: without the change and with it"):
        answer = ask(changed.before, changed.after, changed.at_ms, knows_runtimes=knows_runtimes)
    if output == "json":
        print(json.dumps(as_json(answer), ensure_ascii=False, indent=2))
    else:
        show(answer, Console(width=None if sys.stdout.isatty() else 160, highlight=False, soft_wrap=False))
    return 0


# --- for machines -------------------------------------------------------------------------------


def as_json(answer: Answer) -> dict[str, Any]:
    """The whole answer as one JSON object; times in seconds."""
    return {
        "at": answer.at_ms / 1000,
        "jobs": {one.job: _job(one, answer) for one in answer.jobs()},
        "preempted": {
            "without": [_preemption(one) for one in answer.without.preempted],
            "with": [_preemption(one) for one in answer.with_it.preempted],
        },
        "meanWait": {"without": _mean_wait(answer.without), "with": _mean_wait(answer.with_it)},
    }


def _job(one: Comparison, answer: Answer) -> dict[str, Any]:
    return {
        "queue": one.queue,
        "new": one.is_new,
        "changed": one.is_changed,
        "without": _future_of(one.job, answer.without),
        "with": _future_of(one.job, answer.with_it),
        "earlier": None if one.gain_ms is None else one.gain_ms / 1000,
    }


def _future_of(job: str, ahead: Future) -> dict[str, Any] | None:
    if job not in ahead.queues:
        return None
    starts, before_ms = ahead.starts.get(job, []), ahead.before.get(job)
    return {
        "runningSince": None if before_ms is None else before_ms / 1000,
        "starts": [start.at_ms / 1000 for start in starts],
        "assumed": any(start.is_assumed for start in starts[:1]),
        "lastVerdict": ahead.why[job],
    }


def _preemption(one: Preemption) -> dict[str, Any]:
    return {"t": one.at_ms / 1000, "job": one.job, "by": one.by, "rule": one.rule}


def _mean_wait(ahead: Future) -> float | None:
    return round(sum(ahead.waits.values()) / len(ahead.waits) / 1000, 6) if ahead.waits else None


# --- for people ---------------------------------------------------------------------------------


def show(answer: Answer, console: Console) -> None:
    """Who starts at another time, who gives way, and how the rest fares."""
    jobs = list(answer.jobs())
    rows = _rows([one for one in jobs if one.is_changed])
    if rows:
        console.print(_changed(rows[:MOST_ROWS]))
    if len(rows) > MOST_ROWS:
        more = sum(len(row) for row in rows[MOST_ROWS:])
        console.print(f"… and {more} more jobs: -o json tells of all of them", style="dim")
    if rows:
        console.print()
    if gone := _preemptions(answer):
        console.print(gone)
        console.print()
    console.print(_in_all(jobs, answer))
    if any(start.is_assumed for one in jobs for start in (*one.without, *one.with_it)):
        console.print("~ rests on a run time that nobody stated: as long again as so far, at least 10 minutes")


def _rows(jobs: list[Comparison]) -> list[list[Comparison]]:
    """Jobs of one entry for which the same changes, together."""
    rows: dict[tuple[Any, ...], list[Comparison]] = {}
    for one in jobs:
        fate = (name_key(one.job)[0], one.queue, one.is_new, one.without, one.with_it, _why(one))
        rows.setdefault(fate, []).append(one)
    return list(rows.values())


def _changed(rows: list[list[Comparison]]) -> Table:
    told = table("job", "queue", "starts without it", "with it", "", "why")
    for row in rows:
        one, count = row[0], len(row)
        name = one.job if count == 1 else f"{one.job} … {row[-1].job.rsplit('-', 1)[-1]} ({count})"
        without = "" if one.is_new else _starts(one.without)
        told.add_row(name, one.queue, without, _starts(one.with_it), _gain(one), _why(one))
    return told


def _starts(starts: tuple[Start, ...]) -> str:
    told = [f"{'~' if start.is_assumed else ''}{clock(start.at_ms / 1000)}" for start in starts]
    return ", again ".join([*told[:1], *told[-1:]] if len(told) > 1 else told) or "-"


def _gain(one: Comparison) -> str:
    if one.is_new:
        return "new"
    if one.gain_ms is None:
        return "would start" if one.with_it else "would not start"
    if one.gain_ms == 0:
        return "at the same time"
    return f"{clock(abs(one.gain_ms) / 1000)} {'earlier' if one.gain_ms > 0 else 'later'}"


def _why(one: Comparison) -> str:
    if one.with_it:
        return ""
    why = one.why
    return f"{why['reason']}: {why['why']}" if "reason" in why else str(why["verdict"])


def _preemptions(answer: Answer) -> Table | None:
    """Who gives way with the change, and who no longer does."""

    def named(one: Preemption) -> tuple[str, str, str]:
        return (one.job, one.by, one.rule)

    without, with_it = (list(map(named, ahead.preempted)) for ahead in (answer.without, answer.with_it))
    if not without and not with_it:
        return None
    told = table("preempted", "for", "rule", "at", "")
    for one in answer.with_it.preempted[:MOST_ROWS]:
        note = "also without it" if named(one) in without else "only with it"
        told.add_row(one.job, one.by, one.rule, clock(one.at_ms / 1000), note)
    for one in answer.without.preempted[:MOST_ROWS]:
        if named(one) not in with_it:
            told.add_row(one.job, one.by, one.rule, clock(one.at_ms / 1000), "only without it")
    return told


def _in_all(jobs: list[Comparison], answer: Answer) -> str:
    new, earlier = sum(one.is_new for one in jobs), sum(one.is_better for one in jobs)
    later = sum(one.is_worse for one in jobs)
    same = len(jobs) - new - earlier - later
    came = f"{new} new, " if new else ""
    waits = (_mean_wait(answer.without), _mean_wait(answer.with_it))
    return (
        f"asked at {clock(answer.at_ms / 1000)}: {came}{earlier} earlier, {later} later, {same} as without it; "
        f"mean wait of those who start {clock(waits[0])} without it, {clock(waits[1])} with it"
    )
