"""`muster context list|use|set|remove`: the servers that somebody works with."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from muster.cli.remote.where import Format, Output, complete_contexts

group = typer.Typer(
    name="context", help="Say which servers there are, and which is asked.", no_args_is_help=True, rich_markup_mode=None
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a context.", autocompletion=complete_contexts)]


@group.command("list")
def list_(output: Output = Format.TABLE) -> None:
    """List the servers that are known here; * marks the one in use. Tokens are not shown.

    Example: muster context list

    Exit codes: 0 fine, 2 the file with contexts is wrong.
    """
    from muster.cli.remote.keeping import list_contexts

    sys.exit(list_contexts(output))


@group.command("use")
def use(name: Name) -> None:
    """Ask this server from now on, where nothing else is said.

    Example: muster context use lab

    Exit codes: 0 fine, 2 there is no such context.
    """
    from muster.cli.remote.keeping import use_context

    sys.exit(use_context(name))


@group.command("set")
def set_(
    name: Name,
    server: Annotated[str, typer.Option("--server", metavar="URL", help="Where the server is.")] = "",
    token_file: Annotated[str, typer.Option("--token-file", metavar="FILE", help="A file that has the token.")] = "",
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Read the token from standard input and keep it with the context.")
    ] = False,
) -> None:
    """Note down a server; the first one becomes the one in use. What is not said stays as it is.

    Example: muster context set lab --server https://muster.example.org --token-file ~/lab.token

    Exit codes: 0 fine, 2 bad input.
    """
    from muster.cli.remote.keeping import set_context

    sys.exit(set_context(name, server=server, token_file=token_file, reads_token=token_stdin))


@group.command("remove")
def remove(name: Name) -> None:
    """Forget a server.

    Example: muster context remove lab

    Exit codes: 0 fine, 2 there is no such context.
    """
    from muster.cli.remote.keeping import remove_context

    sys.exit(remove_context(name))


def declare(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(group)
