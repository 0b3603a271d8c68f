"""`muster policy show`, `muster policy set`: the numbers of the rules, while the server runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from muster.cli.grouped import grouped
from muster.cli.remote.where import Where

group = typer.Typer(
    name="policy", help="Numbers of the rules, while the server runs.", no_args_is_help=True, rich_markup_mode=None
)


@group.command("show")
@grouped
def show(where: Where) -> None:
    """Show the numbers of the rules that can be set while the server runs, and which of them were.

    Example: muster policy show

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.ruling import show_policy
    from muster.sdk import operating

    sys.exit(asked(where, operating.policy, show_policy))


@group.command("set")
@grouped
def set_(
    where: Where,
    aging_after: Annotated[
        str, typer.Option("--aging-after", metavar="TIME", help="Who waits longer goes first, such as 12h.")
    ] = "",
    over_share: Annotated[
        str,
        typer.Option("--over-share", metavar="NUMBER", help="Times its share a queue may hold for good, or off."),
    ] = "",
    cores_per_gpu: Annotated[
        str, typer.Option("--cores-per-gpu", metavar="CPUS", help="CPUs beside each GPU of jobs to come, or off.")
    ] = "",
    calendar: Annotated[
        str,
        typer.Option("--calendar", metavar="FILE", help="YAML with the windows of the calendar (-: standard input)."),
    ] = "",
) -> None:
    """Set numbers of the rules; what is not said stays as it is. For admins.

    They hold from the next turn on, and after a restart. `default` is what the server was configured with.

    Example: muster policy set --aging-after 12h --over-share 1.5

    Example: muster policy set --calendar calendar.yaml

    Example: muster policy set --over-share default --calendar default

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.ruling import set_policy

    said = {"aging_after": aging_after, "over_share": over_share, "cores_per_gpu": cores_per_gpu}
    sys.exit(set_policy(where, said, calendar))


def declare(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(group)
