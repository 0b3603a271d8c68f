"""`muster replay` without a file: fetches the turns that a server keeps, and decides them again here."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import NamedTuple

from muster.cli.ending import BAD_INPUT
from muster.cli.remote.asking import FAILED, client, ended
from muster.cli.remote.tables import clock
from muster.cli.remote.where import Where
from muster.cli.replay import Replayed
from muster.engine.kernels import suited_to
from muster.sdk.client import Client
from muster.sdk.errors import NotFound
from muster.state.record import Record, RecordError


class Fetched(NamedTuple):
    """A record of the server, and how many of its last turns are wanted (None: all)."""

    name: str
    data: bytes
    last: int | None


def replay_server(where: Where, *, last: int | None, folder: str | None) -> int:
    """Replay and print; the exit code."""

    def run() -> int:
        suited_to(0)  # a wrong setting is said before any work
        replayed = Replayed()
        try:
            with client(where) as to:
                found = fetched(to, last)
            for it in found:
                replayed.add(io.BytesIO(it.data), it.last)
            if folder is not None:
                _save(found, Path(folder))
        except RecordError as err:
            print(err, file=sys.stderr)
            return BAD_INPUT
        except OSError as err:
            print(f"{folder}: {err.strerror or err}", file=sys.stderr)
            return BAD_INPUT
        if not found:
            print("the server has recorded no turn yet", file=sys.stderr)
            return FAILED
        return replayed.told(where.output.value, lambda now_ms: clock(now_ms / 1000))

    return ended(run)


def fetched(to: Client, last: int | None) -> list[Fetched]:
    """The records, the oldest first; only as many as the last so many turns need. Raises RecordError."""
    found: list[Fetched] = []
    left = last
    for about in reversed(to.records()):
        if left == 0:
            break
        try:
            data = to.record(about.name)
        except NotFound:  # no turn is in it yet, or it was thrown away meanwhile
            continue
        turns = Record(io.BytesIO(data)).turns
        found.append(Fetched(about.name, data, left if left is not None and left < turns else None))
        left = None if left is None else max(left - turns, 0)
    return found[::-1]


def _save(found: list[Fetched], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for it in found:
        (folder / it.name).write_bytes(it.data)
