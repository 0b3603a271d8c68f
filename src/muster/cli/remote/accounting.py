"""Reports of usage as tables, and as CSV for spreadsheets."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from muster.cli.remote.tables import Column, clock, print_table
from muster.sdk.shapes import Held, UsageLine, UsageReport

_SUMS = ("attempts", "core_hours", "gib_hours", "gpu_hours")
_PARTS = ("good", "preempted", "lost", "failed", "moved", "cancelled")


def show_usage(report: UsageReport, wide: bool) -> None:
    """One line for each queue or user."""
    columns = [Column(report.by.upper(), lambda line: line.name), *_SHOWN]
    print_table(report.lines, columns, wide=wide, none=f"nothing ran since {clock(report.from_)}")
    _say_if_shorter(report)


def print_csv(report: UsageReport, _wide: bool) -> None:
    """All columns, one line for each queue or user; times in UTC."""
    written = csv.writer(sys.stdout, lineterminator="\n")
    parts = [f"{part}_{name}" for part in _PARTS for name in _SUMS]
    written.writerow([report.by, "from", "until", *_SUMS, *parts])
    for line in report.lines:
        written.writerow([line.name, _utc(report.from_), _utc(report.until), *_numbers(line)])
    _say_if_shorter(report)


def _numbers(line: UsageLine) -> Iterator[str]:
    """Without exponents, which not every spreadsheet reads."""
    for held in (line, *(getattr(line, part) for part in _PARTS)):
        yield str(held.attempts)
        yield from (f"{getattr(held, name):.6f}" for name in _SUMS[1:])


def _utc(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _say_if_shorter(report: UsageReport) -> None:
    if report.from_ > report.since:
        print(f"counted since {clock(report.from_)}: the server keeps nothing older (--keep)", file=sys.stderr)


def _hours(head: str, name: str, of: str = "", *, wide: bool = False) -> Column:
    def cell(line: UsageLine) -> str:
        held: Held = getattr(line, of) if of else line
        return f"{getattr(held, name):.2f}"

    return Column(head, cell, wide=wide, right=True)


def _part(part: str) -> list[Column]:
    """Attempts and core-hours, and the rest where there is room."""
    is_rare, is_short = part in ("moved", "cancelled"), part not in ("good", "preempted")
    return [
        Column(part.upper(), lambda line: str(getattr(line, part).attempts), wide=is_rare, right=True),
        _hours("CORE-H", "core_hours", part, wide=is_rare),
        _hours("GIB-H", "gib_hours", part, wide=True),
        _hours("GPU-H", "gpu_hours", part, wide=is_short),
    ]


_SHOWN = [
    Column("ATTEMPTS", lambda line: str(line.attempts), right=True),
    _hours("CORE-H", "core_hours"),
    _hours("GIB-H", "gib_hours"),
    _hours("GPU-H", "gpu_hours"),
    *(column for part in _PARTS for column in _part(part)),
]
