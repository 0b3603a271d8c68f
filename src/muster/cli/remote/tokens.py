"""`muster token make|list|remove`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from muster.cli.remote.options import ContextName, Output, Server, TokenFile
from muster.cli.remote.where import Format, Where

group = typer.Typer(name="token", help="Say who may come in. For admins.", no_args_is_help=True, rich_markup_mode=None)


@group.command("make")
def make(
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
    output: Output = Format.TABLE,
    server: Server = "",
    token_file: TokenFile = "",
    context: ContextName = "",
) -> None:
    """Make a token and print it. It is shown this once.

    Example: muster token make ana --may vision=submit,cancel > ana.token

    Example: muster token make lab-agent --cluster lab > lab.token

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.granting import make_token

    where = Where(output, server, token_file, context)
    sys.exit(make_token(where, name, admin=admin, may=may or [], cluster=cluster))


@group.command("list")
def list_(
    output: Output = Format.TABLE, server: Server = "", token_file: TokenFile = "", context: ContextName = ""
) -> None:
    """List who may come in, and what they may do.

    Example: muster token list

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_tokens
    from muster.sdk import asking

    sys.exit(asked(Where(output, server, token_file, context), asking.tokens, show_tokens))


@group.command("remove")
def remove(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its first letters, as `muster token list` has them.")],
    server: Server = "",
    token_file: TokenFile = "",
    context: ContextName = "",
) -> None:
    """Take a token back: whoever has it is not let in any more.

    Example: muster token remove 3f9ac1d20b7e

    Exit codes: 0 fine, 1 there is no such token or the server refused, 2 bad input, 3 the server cannot be reached, 130
    interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_nothing
    from muster.sdk import asking

    where = Where(Format.TABLE, server, token_file, context)
    sys.exit(asked(where, lambda: asking.remove_token(token), show_nothing))


def declare(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(group)
