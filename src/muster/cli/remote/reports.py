"""`muster usage`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.grouped import grouped
from muster.cli.remote.where import Format, Site


class Whose(StrEnum):
    """Whose usage."""

    QUEUE = "queue"
    USER = "user"


class Printed(StrEnum):
    """How to print a report."""

    TABLE = "table"
    WIDE = "wide"
    CSV = "csv"
    JSON = "json"
    YAML = "yaml"


@grouped
def usage(
    site: Site,
    by: Annotated[Whose, typer.Option("--by", help="Of each queue, or of each user (for admins).")] = Whose.QUEUE,
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="For so long until now: 30d, 12h.")] = "30d",
    output: Annotated[
        Printed,
        typer.Option("-o", "--output", help="A table, a wide one, CSV with all columns, or all as JSON or YAML."),
    ] = Printed.TABLE,
) -> None:
    """Report core-, GiB- and GPU-hours: what of them was good, and what was thrown away, by why.

    Good is what went to attempts that succeeded or still run. What went to attempts that were preempted, lost, moved or
    failed, or whose jobs were cancelled, was thrown away.

    An attempt counts from the moment it was given nodes until its agent says that it is over; what runs counts until
    now. The report goes back no further than the server's --keep; where that is less than --since, it says so.

    Example: muster usage --by user --since 7d

    Example: muster usage --by queue --since 30d -o csv > usage.csv

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.accounting import print_csv, show_usage
    from muster.cli.remote.asking import asked
    from muster.sdk import asking

    is_csv = output is Printed.CSV
    where = site.printing(Format.TABLE if is_csv else Format(output.value))
    show = print_csv if is_csv else show_usage
    sys.exit(asked(where, lambda: asking.usage(by=by.value, since=since), show))


def declare(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(usage)
