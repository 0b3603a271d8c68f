"""What every command that asks a server can be told."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.remote.completing import complete_contexts
from muster.cli.remote.where import Format

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
