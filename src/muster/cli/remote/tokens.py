"""`muster token make|list|remove`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from muster.cli.grouped import grouped
from muster.cli.remote.where import Site, Where

group = typer.Typer(name="token", help="Say who may come in. For admins.", no_args_is_help=True, rich_markup_mode=None)


@group.command("make")
@grouped
def make(
    where: Where,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is.")],
    admin: Annotated[bool, typer.Option("--admin", help="It may do everything.")] = False,
    may: Annotated[
        list[str] | None,
        typer.Option(
            "--may",
            metavar="QUEUE=RIGHTS",
            help="submit, cancel, view in a queue ('*': in all), such as vision=submit,cancel; repeatable.",
        ),
    ] = None,
    cluster: Annotated[str, typer.Option("--cluster", help="It is the agent of this cluster.")] = "",
) -> None:
    """Make a token and print it. It is shown this once.

    Example: muster token make ana --may vision=submit,cancel > ana.token

    Example: muster token make lab-agent --cluster lab > lab.token

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.granting import make_token

    sys.exit(make_token(where, name, admin=admin, may=may or [], cluster=cluster))


@group.command("list")
@grouped
def list_(where: Where) -> None:
    """List who may come in, and what they may do.

    Example: muster token list

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_tokens
    from muster.sdk import asking

    sys.exit(asked(where, asking.tokens, show_tokens))


@group.command("remove")
@grouped
def remove(
    site: Site,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its first letters, as `muster token list` has them.")],
) -> None:
    """Take a token back: whoever has it is not let in any more.

    Example: muster token remove 3f9ac1d20b7e

    Exit codes: 0 fine, 1 there is no such token or the server refused, 2 bad input, 3 the server cannot be reached, 130
    interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_nothing
    from muster.sdk import asking

    where = site.printing()
    sys.exit(asked(where, lambda: asking.remove_token(token), show_nothing))


def declare(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(group)
