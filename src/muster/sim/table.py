"""A simulation as tables for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from muster.model.names import name_key
from muster.sim.summary import Summary

MOST_ROWS = 60
_WAITING = ("queued", "pending")
_STATE_STYLE = {
    "succeeded": "green",
    "running": "cyan",
    "queued": "yellow",
    "pending": "yellow",
    "failed": "red",
    "cancelled": "dim",
}


def show(summary: Summary, console: Console) -> None:
    """Jobs with reasons, queues with shares, clusters, totals."""
    told = summary.totals()
    rows = _rows(told["jobs"])
    console.print(_jobs(rows[:MOST_ROWS]))
    if len(rows) > MOST_ROWS:
        more = sum(len(row.names) for row in rows[MOST_ROWS:])
        console.print(f"… and {more} more jobs: -o summary tells of all of them", style="dim")
    for part in (_queues(told["queues"]), _clusters(told["clusters"]), _totals(told["totals"])):
        console.print()
        console.print(part)


@dataclass(slots=True)
class Row:
    """Jobs of one entry to which the same happened."""

    names: list[str]
    job: dict[str, Any]
    nodes: list[str]
    why: str


def _rows(jobs: dict[str, Any]) -> list[Row]:
    """One row for jobs that differ only in their number, in order of submission."""
    rows: dict[tuple[Any, ...], Row] = {}
    for name, job in jobs.items():
        fate = (name_key(name)[0], *(job[key] for key in ("queue", "state", "submitted", "start", "end", "attempts")))
        why = _why(job)
        row = rows.setdefault((*fate, why if job["state"] in _WAITING else ""), Row([], job, [], why))
        row.names.append(name)
        row.nodes += [node for node in job["nodes"] if node not in row.nodes]
    return sorted(rows.values(), key=lambda row: (row.job["submitted"], row.job["start"] or 0, name_key(row.names[0])))


def _jobs(rows: list[Row]) -> Table:
    table = _table("job", "queue", "state", "submitted", "started", "ended", "tries", "nodes", "why")
    for row in rows:
        job, count = row.job, len(row.names)
        name = row.names[0] if count == 1 else f"{row.names[0]} … {row.names[-1].rsplit('-', 1)[-1]} ({count})"
        state = Text(job["state"], style=_STATE_STYLE.get(job["state"], ""))
        times = (_clock(job["submitted"]), _clock(job["start"]), _clock(job["end"]))
        table.add_row(name, job["queue"], state, *times, str(job["attempts"]), _nodes(row.nodes), row.why)
    return table


def _why(job: dict[str, Any]) -> str:
    verdict = job["lastVerdict"]
    if verdict["verdict"] == "waiting":
        when = f"; expected to start at {_clock(verdict['estimate'])}" if verdict["estimate"] is not None else ""
        return f"{verdict['reason']}: {verdict['why']}{when}"
    told = []
    has_waited = job["start"] is not None and job["start"] > job["submitted"]
    if job["waitedFor"] or has_waited:
        told.append("waited: " + (", ".join(job["waitedFor"]) or "BEHIND"))
    if job["preemptedBy"]:
        told.append("preempted by " + ", ".join(job["preemptedBy"]))
    return "; ".join(told)


def _queues(queues: dict[str, Any]) -> Table:
    table = _table("queue", "jobs started", "mean usage", "mean share")
    for name, queue in queues.items():
        table.add_row(name, str(queue["started"]), f"{queue['usage']:.2f}", f"{queue['share']:.1%}")
    return table


def _clusters(clusters: dict[str, Any]) -> Table:
    table = _table("cluster", "mean utilisation")
    for name, cluster in clusters.items():
        used = cluster["utilisation"].items()
        table.add_row(name, ", ".join(f"{resource} {share:.1%}" for resource, share in used) or "no nodes")
    return table


def _totals(totals: dict[str, Any]) -> str:
    wait, slowdown = totals["meanWait"], totals["meanBoundedSlowdown"]
    return (
        f"{totals['started']} of {totals['jobs']} jobs started; simulated until {_clock(totals['end'])}; "
        f"mean wait {_clock(wait)}, mean bounded slowdown {'-' if slowdown is None else f'{slowdown:.2f}'}; "
        f"{totals['preemptions']} preemptions, {totals['wastedGpuSeconds']:.0f} GPU-seconds wasted"
    )


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _nodes(nodes: list[str]) -> str:
    return " ".join(nodes[:3]) + (f" +{len(nodes) - 3}" if len(nodes) > 3 else "")


def _clock(seconds: float | None) -> str:
    """`1d 02:03:04`, `02:03:04`, with what is below a second only where there is any."""
    if seconds is None:
        return "-"
    whole, rest_ms = divmod(round(seconds * 1000), 1000)
    days, left = divmod(whole, 86400)
    clock = f"{left // 3600:02}:{left % 3600 // 60:02}:{left % 60:02}"
    return (f"{days}d " if days else "") + clock + (f".{rest_ms:03}" if rest_ms else "")
