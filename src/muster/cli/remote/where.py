"""Which server a command asks, and how it prints the answer: options that every command that asks a server has."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, NamedTuple

import typer


class Format(StrEnum):
    """How to print an answer."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def complete_contexts(incomplete: str) -> list[str]:
    """The contexts whose names begin like that, for the shell to complete."""
    from muster.model.errors import MusterError
    from muster.sdk.contexts import contexts_path, read_contexts

    try:
        return [name for name in sorted(read_contexts(contexts_path()).known) if name.startswith(incomplete)]
    except MusterError:
        return []


Output = Annotated[
    Format,
    typer.Option(
        "-o", "--output", help="A table, a wide one with all columns, or the server's answer as JSON or YAML."
    ),
]
Server = Annotated[str, typer.Option("--server", metavar="URL", help="Ask this server.  [else: MUSTER_SERVER]")]
TokenFile = Annotated[
    str, typer.Option("--token-file", metavar="FILE", help="Its token is in this file.  [else: MUSTER_TOKEN]")
]
ContextName = Annotated[
    str,
    typer.Option(
        "--context",
        metavar="NAME",
        help="A server from `muster context list`.  [else: the one in use]",
        autocompletion=complete_contexts,
    ),
]


class Where(NamedTuple):
    """Which server is meant, as far as the command line says, and how to print its answer."""

    output: Output = Format.TABLE
    server: Server = ""
    token_file: TokenFile = ""
    context: ContextName = ""


class Site(NamedTuple):
    """Which server is meant, of a command that prints in one way only."""

    server: Server = ""
    token_file: TokenFile = ""
    context: ContextName = ""

    def printing(self, output: Format = Format.TABLE) -> Where:
        """The same, and how to print."""
        return Where(output, *self)
