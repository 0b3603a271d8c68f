"""`muster watch` and `muster top`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from muster.cli.grouped import grouped
from muster.cli.remote.completing import complete_queues
from muster.cli.remote.where import Format, Site

Every = Annotated[float, typer.Option("--every", metavar="SECONDS", help="How often to look.", min=0.1, max=3600)]
Wide = Annotated[bool, typer.Option("--wide", help="With all columns.")]


@grouped
def watch(
    site: Site,
    queue: Annotated[str, typer.Option("--queue", help="Jobs of this queue.", autocompletion=complete_queues)] = "",
    job_set: Annotated[str, typer.Option("--job-set", help="Jobs of this job set.")] = "",
    user: Annotated[str, typer.Option("--user", help="Jobs of this user.")] = "",
    every: Every = 1.0,
    wide: Wide = False,
) -> None:
    """Show jobs as they wait and run, until all of them are over; the latest 1000 in each state, if there are more.

    On a terminal it is a table that stays in its place; elsewhere a line whenever the state of a job changes.

    Example: muster watch --job-set sweep-7

    Exit codes: 0 all that were seen succeeded (or none was there), 1 one did not, or the server refused, 2 bad input, 3
    the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.watching import watch_jobs

    which = {"queue": queue, "job_set": job_set, "user": user}
    where = site.printing(Format.WIDE if wide else Format.TABLE)
    sys.exit(watch_jobs(where, which, every))


@grouped
def top(
    site: Site,
    once: Annotated[bool, typer.Option("--once", help="Print it once, and end.")] = False,
    every: Every = 1.0,
    wide: Wide = False,
) -> None:
    """Show queues with their shares and jobs, and nodes with what is used and free, until Ctrl-C.

    Where nobody looks at a terminal it is printed once.

    Example: muster top

    Example: muster top --once | head

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.watching import show_top

    where = site.printing(Format.WIDE if wide else Format.TABLE)
    sys.exit(show_top(where, every, once=once))


def declare(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (watch, top):
        app.command()(command)
