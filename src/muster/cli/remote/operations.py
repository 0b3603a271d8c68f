"""`muster events`, `turns`, `turn`, `status`, `pause`, `resume`, `preemption`, `audit`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.grouped import grouped
from muster.cli.remote.completing import complete_jobs, complete_queues
from muster.cli.remote.where import Where


class Setting(StrEnum):
    """Whether turns evict jobs for others."""

    ON = "on"
    OFF = "off"
    DRY_RUN = "dry-run"


@grouped
def events(
    where: Where,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for what will happen, until Ctrl-C.")] = False,
    after: Annotated[
        int | None,
        typer.Option(
            "--after", min=0, metavar="ID", help="After this event.  [--follow: from now on; else 0: from the oldest]"
        ),
    ] = None,
    queue: Annotated[str, typer.Option("--queue", help="Only of this queue.", autocompletion=complete_queues)] = "",
    job_set: Annotated[str, typer.Option("--job-set", help="Only of this job set.")] = "",
    job: Annotated[str, typer.Option("--job", help="Only of this job.", autocompletion=complete_jobs)] = "",
) -> None:
    """Print what happened and, with --follow, what happens. A connection that breaks is made again.

    With -o json one event in a line, with its id; the last one that was seen is where --after goes on.

    Example: muster events --follow --queue vision

    Example: muster events --after 1234 -o json

    Exit codes: 0 fine, 1 the server refused (an event that is no longer kept, too), 2 bad input, 3 the server cannot be
    reached, 130 interrupted.
    """
    from muster.cli.remote.following import print_events

    which = {"queue": queue, "job_set": job_set, "job": job}
    sys.exit(print_events(where, which, after=after, follow=follow))


@grouped
def turns(
    where: Where,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="The last so many.")] = 20,
) -> None:
    """List what the last turns decided, the latest first.

    Example: muster turns --limit 5

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_turns
    from muster.sdk import asking

    sys.exit(asked(where, lambda: asking.turns(limit=limit), show_turns))


@grouped
def turn(
    where: Where,
    number: Annotated[int, typer.Argument(min=1, metavar="NUMBER", help="The turn, as `muster turns` numbers them.")],
) -> None:
    """Show what a turn decided, and why those waited who did: one line for each queue, kind of job and reason.

    Example: muster turn 812

    Exit codes: 0 fine, 1 the server refused (a turn that is no longer kept, too), 2 bad input, 3 the server cannot be
    reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_turn
    from muster.sdk import asking

    sys.exit(asked(where, lambda: asking.turn(number), show_turn))


@grouped
def status(where: Where) -> None:
    """Say how the server is.

    Example: muster status

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_status
    from muster.sdk import asking

    sys.exit(asked(where, asking.status, show_status))


@grouped
def audit(
    where: Where,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="The last so many.")] = 100,
) -> None:
    """List who changed what, the latest first. For admins.

    Example: muster audit --limit 10

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_audit
    from muster.sdk import asking

    sys.exit(asked(where, lambda: asking.audit(limit=limit), show_audit))


@grouped
def pause(where: Where) -> None:
    """Let the server decide nothing until `muster resume`; what runs goes on. For admins.

    Example: muster pause

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_status
    from muster.sdk import asking

    sys.exit(asked(where, lambda: asking.change_settings(paused=True), show_status))


@grouped
def resume(where: Where) -> None:
    """Let the server decide again. For admins.

    Example: muster resume

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_status
    from muster.sdk import asking

    sys.exit(asked(where, lambda: asking.change_settings(paused=False), show_status))


@grouped
def preemption(
    where: Where,
    setting: Annotated[Setting, typer.Argument(help="on, off, or dry-run: turns only say whom they would evict.")],
) -> None:
    """Let turns evict jobs for others, or not. For admins.

    Example: muster preemption dry-run

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_status
    from muster.sdk import asking

    sys.exit(asked(where, lambda: asking.change_settings(preemption=setting.value), show_status))


def declare(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (events, turns, turn, status, pause, resume, preemption, audit):
        app.command()(command)
