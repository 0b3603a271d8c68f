"""A simulation as tables for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from muster.model.names import name_key
from muster.sim.summary import Summary
from muster.state.why import words

MOST_ROWS = 60
_STATE_STYLE = {
    "succeeded": "green",
    "running": "cyan",
    "queued": "yellow",
    "pending": "yellow",
    "failed": "red",
    "cancelled": "dim",
}


def show(summary: Summary, console: Console) -> None:
    """Jobs with reasons, queues with shares, clusters, pools where there are any, totals."""
    told = summary.totals()
    rows = _rows(told["jobs"])
    console.print(_jobs(rows[:MOST_ROWS]))
    if len(rows) > MOST_ROWS:
        more = sum(len(row.names) for row in rows[MOST_ROWS:])
        console.print(f"… and {more} more jobs: -o summary tells of all of them", style="dim")
    pools = [_pools(told["pools"])] if told["pools"] else []
    for part in (_queues(told["queues"]), _clusters(told["clusters"]), *pools, _totals(told["totals"])):
        console.print()
        console.print(part)


@dataclass(slots=True)
class Row:
    """Jobs of one entry to which the same happened."""

    job: dict[str, Any]
    names: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    waited_for: list[str] = field(default_factory=list)
    preempted_by: list[str] = field(default_factory=list)

    def add(self, name: str, job: dict[str, Any]) -> None:
        """One more to whom the same happened."""
        self.names.append(name)
        for mine, theirs in (
            (self.nodes, job["nodes"]),
            (self.waited_for, job["waitedFor"]),
            (self.preempted_by, job["preemptedBy"]),
        ):
            mine += [one for one in theirs if one not in mine]


def _rows(jobs: dict[str, Any]) -> list[Row]:
    """One row for jobs that differ only in their number, in order of submission."""
    rows: dict[tuple[Any, ...], Row] = {}
    for name, job in jobs.items():
        fate = (name_key(name)[0], *(job[key] for key in ("queue", "state", "submitted", "start", "end", "attempts")))
        told = (_why_waiting(job), job["lastVerdict"].get("cause"), str(job.get("race")))
        rows.setdefault((*fate, *told), Row(job)).add(name, job)
    return sorted(rows.values(), key=lambda row: (row.job["submitted"], row.job["start"] or 0, name_key(row.names[0])))


def _jobs(rows: list[Row]) -> Table:
    made = table("job", "queue", "state", "submitted", "started", "ended", "tries", "nodes", "why")
    for row in rows:
        job, count = row.job, len(row.names)
        name = row.names[0] if count == 1 else f"{row.names[0]} … {row.names[-1].rsplit('-', 1)[-1]} ({count})"
        state = Text(job["state"], style=_STATE_STYLE.get(job["state"], ""))
        times = (clock(job["submitted"]), clock(job["start"]), clock(job["end"]))
        made.add_row(name, job["queue"], state, *times, str(job["attempts"]), _few(row.nodes, " "), _why(row))
    return made


def _why_waiting(job: dict[str, Any]) -> str:
    verdict = job["lastVerdict"]
    if verdict["verdict"] == "racing":
        return f"racing: {verdict['why']}"
    if verdict["verdict"] != "waiting":
        return ""
    when = f"; expected to start at {clock(verdict['estimate'])}" if verdict["estimate"] is not None else ""
    return f"{verdict['reason']}: {verdict['why']}{when}"


def _why(row: Row) -> str:
    if waiting := _why_waiting(row.job):
        return waiting
    if "race" in row.job:
        return _raced(row.job["race"])
    cause = row.job["lastVerdict"].get("cause", "")
    told = [cause] if cause and cause != row.job["state"] else []
    has_waited = row.job["attempts"] == 1 and row.job["start"] is not None and row.job["start"] > row.job["submitted"]
    if row.waited_for or has_waited:
        told.append("waited: " + (", ".join(row.waited_for) or "BEHIND"))
    if row.preempted_by:
        told.append("preempted by " + _few(row.preempted_by, ", "))
    return "; ".join(told)


def _raced(race: dict[str, Any]) -> str:
    """How the race went; the row's first job stands for all."""
    told = [f"raced over {', '.join(dict.fromkeys(race['submittedTo']))}"]
    if race["winner"] is not None:
        told.append(f"won by {race['winner']}")
    if race["cause"] is not None:
        told.append(f"failed ({race['cause']})")
    if race["wastedGpuSeconds"]:
        told.append(f"{race['wastedGpuSeconds']:.0f} GPU-seconds wasted")
    return "; ".join(told)


def _queues(queues: dict[str, Any]) -> Table:
    made = table("queue", "jobs started", "mean usage", "mean share")
    for name, queue in queues.items():
        made.add_row(name, str(queue["started"]), f"{queue['usage']:.2f}", f"{queue['share']:.1%}")
    return made


def _clusters(clusters: dict[str, Any]) -> Table:
    made = table("cluster", "mean utilisation", "goodput")
    for name, cluster in clusters.items():
        raced = "opaque: {submitted} submitted, {won} won, {cancelled} cancelled"
        used = (raced.format_map(cluster["races"]),) if "races" in cluster else _used(cluster)
        made.add_row(name, *used)
    return made


def _pools(pools: dict[str, Any]) -> Table:
    made = table("pool", "mean utilisation", "goodput")
    for name, pool in pools.items():
        made.add_row(name, *_used(pool))
    return made


def _used(place: dict[str, Any]) -> Iterator[str]:
    """The part of each resource that was held, and that part without what was thrown away."""
    for parts in (place["utilisation"], place["goodput"]):
        yield ", ".join(f"{resource} {part:.1%}" for resource, part in parts.items()) or "no nodes"


def _totals(totals: dict[str, Any]) -> str:
    wait, slowdown = totals["meanWait"], totals["meanBoundedSlowdown"]
    return (
        f"{totals['started']} of {totals['jobs']} jobs started; simulated until {clock(totals['end'])}; "
        f"mean wait {clock(wait)}, mean bounded slowdown {'-' if slowdown is None else f'{slowdown:.2f}'}; "
        f"{totals['preemptions']} preemptions, {totals['wastedGpuSeconds']:.0f} GPU-seconds wasted"
    )


def table(*columns: str) -> Table:
    """An empty table as all our tables are."""
    made = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def _few(names: list[str], between: str) -> str:
    return between.join(names[:3]) + (f" +{len(names) - 3}" if len(names) > 3 else "")


def clock(seconds: float | None) -> str:
    """`1d 02:03:04`, `02:03:04`, with what is below a second only where there is any."""
    return "-" if seconds is None else words.clock(round(seconds * 1000))
