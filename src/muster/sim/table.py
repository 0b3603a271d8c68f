"""A simulation as tables for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from muster.sim.summary import Summary

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
    """Jobs with reasons, queues with shares, clusters, totals."""
    told = summary.totals()
    console.print(_jobs(told["jobs"]))
    if len(told["jobs"]) > MOST_ROWS:
        console.print(f"… and {len(told['jobs']) - MOST_ROWS} more jobs: -o summary tells of all of them", style="dim")
    console.print(_queues(told["queues"]))
    console.print(_clusters(told["clusters"]))
    console.print(_totals(told["totals"]))


def _jobs(jobs: dict[str, Any]) -> Table:
    table = _table("job", "queue", "state", "submitted", "started", "ended", "tries", "nodes", "why it waits")
    shown = sorted(jobs.items(), key=lambda entry: (entry[1]["state"] in ("succeeded", "cancelled"),))
    picked = {name for name, _ in shown[:MOST_ROWS]}
    for name, job in jobs.items():
        if name in picked:
            state = Text(job["state"], style=_STATE_STYLE.get(job["state"], ""))
            times = (_clock(job["submitted"]), _clock(job["start"]), _clock(job["end"]))
            table.add_row(name, job["queue"], state, *times, str(job["attempts"]), _nodes(job["nodes"]), _why(job))
    return table


def _why(job: dict[str, Any]) -> str:
    verdict = job["lastVerdict"]
    if verdict["verdict"] != "waiting":
        return ""
    when = f"; expected to start at {_clock(verdict['estimate'])}" if verdict["estimate"] is not None else ""
    return f"{verdict['reason']}: {verdict['why']}{when}"


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
