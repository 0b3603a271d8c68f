"""Writing done by a process beside this one.

What a row looks like to a database takes Python a fifth of all the time that a busy server has, and while one thread
does that no other decides or answers. Here batches go to another process (muster.store.apart_process) as they are, and
numbers come back.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any, Literal

import msgspec
from msgspec import Struct

from muster.store.batch import Batch
from muster.store.errors import AlreadyThere, BadBatch, StoreDown
from muster.store.forgetting import Ends

IS_POSSIBLE = sys.platform == "linux"

_PROCESS = "muster.store.apart_process"  # by name only: it opens stores, and stores start it
_PATIENCE_S = 10.0  # for what is under way when it is told to end


class Together(Struct, tag=True, frozen=True, gc=False):
    """Write these batches in one transaction."""

    batches: Sequence[Batch]


class Alone(Struct, tag=True, frozen=True, gc=False):
    """Write this batch, and say what is wrong with it if it is refused."""

    batch: Batch


class Forget(Struct, tag=True, frozen=True, gc=False):
    """Let what is older leave."""

    before_ms: int
    limit: int


class Done(Struct, tag=True, frozen=True, gc=False):
    """The number of the last event of each batch."""

    lasts: list[int]


class Left(Struct, tag=True, frozen=True, gc=False):
    """So many rows left, and these jobs by queue and state; `down`: then the database could not be used."""

    rows: int
    ends: list[tuple[str, str, int]]
    down: str = ""


class Down(Struct, tag=True, frozen=True, gc=False):
    """StoreDown."""

    message: str


class Bad(Struct, tag=True, frozen=True, gc=False):
    """BadBatch."""

    value: Any
    allowed: str
    field: str


class There(Struct, tag=True, frozen=True, gc=False):
    """AlreadyThere."""

    ids: list[str]
    client_ids: list[str]


class Refused(Struct, tag=True, frozen=True, gc=False):
    """Anything else that went wrong."""

    message: str


Line = Literal["write", "forget"]
Request = Together | Alone | Forget
Answer = Done | Left | Down | Bad | There | Refused

_encode = msgspec.msgpack.Encoder().encode
_read_answer = msgspec.msgpack.Decoder(Answer).decode


class RefusedTogether(Exception):
    """The database did not take several batches; which of them is to blame is not known."""


class Apart:
    """Writes to the database of that URL from another process, which is started again should it be killed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._starting = Lock()
        self._lines: dict[Line, Lock] = {"write": Lock(), "forget": Lock()}  # who forgets does not wait for who writes
        self._process: subprocess.Popen[bytes] | None = None
        self._connections: dict[Line, Connection] = {}
        self._is_closed = False
        self._start()

    @property
    def pid(self) -> int | None:
        """Of the process."""
        return None if self._process is None else self._process.pid

    def write_all(self, batches: Sequence[Batch]) -> list[int]:
        """As that of a store."""
        answer = self._ask("write", Together(batches))
        assert isinstance(answer, Done)
        return answer.lasts

    def write(self, batch: Batch) -> int:
        """As that of a store."""
        answer = self._ask("write", Alone(batch))
        assert isinstance(answer, Done)
        return answer.lasts[0]

    def forget(self, before_ms: int, limit: int, ends: Ends) -> int:
        """As that of a store."""
        answer = self._ask("forget", Forget(before_ms, limit))
        assert isinstance(answer, Left)
        ends.update({(queue, state): many for queue, state, many in answer.ends})
        if answer.down:
            raise StoreDown(answer.down)
        return answer.rows

    def close(self) -> None:
        """End, after what is under way."""
        with self._starting:
            self._is_closed = True
            process = self._process
        for kind, line in self._lines.items():
            with line:
                if (connection := self._connections.pop(kind, None)) is not None:
                    connection.close()
        if process is not None:
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _ask(self, line: Line, request: Request) -> Answer:
        try:
            encoded = _encode(request)
        except (TypeError, ValueError, OverflowError, RecursionError) as err:
            message = f"JSON must be able to say it, with integers of 64 bits and Unicode text ({err})"
            raise BadBatch("what was to be written", message, "batch") from err
        with self._lines[line]:
            try:
                connection = self._connected(line)
                connection.send_bytes(encoded)
                answer = _read_answer(connection.recv_bytes())
            except (OSError, EOFError) as err:
                raise StoreDown("the process that writes to the database has ended; another is started") from err
        if isinstance(answer, Done | Left):
            return answer
        raise _error_of(answer)

    def _connected(self, line: Line) -> Connection:
        with self._starting:
            if self._is_closed:
                raise StoreDown("the store is closed")
            if self._process is None or self._process.poll() is not None:
                self._start()
            return self._connections[line]

    def _start(self) -> None:
        for old in self._connections.values():
            old.close()
        pairs = {kind: socket.socketpair() for kind in self._lines}
        theirs = [str(their.fileno()) for _, their in pairs.values()]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _PROCESS, str(os.getpid()), *theirs],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[their.fileno() for _, their in pairs.values()],
            start_new_session=True,  # Ctrl-C is for its owner
        )
        self._connections = {kind: Connection(ours.detach()) for kind, (ours, _) in pairs.items()}
        for _, their in pairs.values():
            their.close()
        for connection in self._connections.values():
            connection.send_bytes(self._url.encode())  # may hold a password: nothing for a command line


def _error_of(answer: Down | Bad | There | Refused) -> Exception:
    match answer:
        case Down(message=message):
            return StoreDown(message)
        case Bad(value=value, allowed=allowed, field=field):
            return BadBatch(value, allowed, field)
        case There(ids=ids, client_ids=client_ids):
            return AlreadyThere(ids, client_ids)
        case Refused(message=message):
            return RefusedTogether(message)
