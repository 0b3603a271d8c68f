"""What is done with contexts: the file is read, changed and written whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from muster.cli.remote.asking import as_body, ended, print_plain
from muster.cli.remote.tables import Column, print_table
from muster.cli.remote.where import Format, Where
from muster.model.errors import InvalidValue
from muster.sdk.contexts import Context, Contexts, checked_server, contexts_path, read_contexts, write_contexts

_COLUMNS = (
    Column("", lambda row: "*" if row["current"] else ""),
    Column("CONTEXT", lambda row: row["name"]),
    Column("SERVER", lambda row: row["server"]),
    Column("TOKEN", lambda row: row["token"]),
)


def list_contexts(output: Format) -> int:
    """Print all contexts, without their tokens; the exit code."""

    def run() -> int:
        contexts = read_contexts(contexts_path())
        rows = [_row(name, context, contexts) for name, context in sorted(contexts.known.items())]
        if output in (Format.TABLE, Format.WIDE):
            none = "no contexts yet: `muster context set NAME --server URL` makes one"
            print_table(rows, _COLUMNS, wide=output is Format.WIDE, none=none)
        else:
            print_plain(Where(output=output), as_body(rows))
        return 0

    return ended(run)


def _row(name: str, context: Context, contexts: Contexts) -> dict[str, Any]:
    token = "kept here" if context.token else f"in {context.token_file}" if context.token_file else "none"
    return {"name": name, "server": context.server, "token": token, "current": name == contexts.current}


def use_context(name: str) -> int:
    """Ask this one from now on; the exit code."""
    return _changed(lambda contexts: contexts.using(name))


def remove_context(name: str) -> int:
    """Forget one; the exit code."""
    return _changed(lambda contexts: contexts.without(name))


def set_context(name: str, *, server: str, token_file: str, reads_token: bool) -> int:
    """Note one down; the exit code."""

    def change(contexts: Contexts) -> Contexts:
        before = contexts.known.get(name)
        if not name or not name.isprintable():
            raise InvalidValue(name, "a name for the context", "name")
        if before is None and not server:
            raise InvalidValue(server, "a new context needs the address of its server: --server URL", "server")
        if token_file and reads_token:
            raise InvalidValue(token_file, "either --token-file or --token-stdin", "token-file")
        address = checked_server(server) if server else before.server if before else ""
        token, file = (before.token, before.token_file) if before else ("", "")
        if reads_token:
            token, file = sys.stdin.readline().strip(), ""
        elif token_file:
            token, file = "", os.path.abspath(os.path.expanduser(token_file))
        return contexts.with_context(name, Context(server=address, token=token, token_file=file))

    return _changed(change)


def _changed(change: Callable[[Contexts], Contexts]) -> int:
    def run() -> int:
        path = contexts_path()
        write_contexts(path, change(read_contexts(path)))
        return 0

    return ended(run)
