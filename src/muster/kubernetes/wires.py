"""Short requests over HTTP/1.1 connections of our own: a fifth of the CPU time that a general client takes for one.

A connection carries one request at a time and is kept for the next. Whatever goes wrong on the way (cut, refused, too
late, no HTTP) is an OSError: then nobody knows whether a write was done.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from typing import NamedTuple, cast
from urllib.parse import quote, urlsplit

import httptools

KEPT_S = 15.0  # a connection that was idle for longer may be about to be closed by the server
CONNECT_S = 10.0
SILENCE_S, PROBES, PROBE_EVERY_S = 30, 3, 10  # a peer that is gone without a word is noticed after a minute

_SAFE = "/:@!$&'()*+,;=~-._%"


class Answer(NamedTuple):
    """What a server said, whole."""

    status: int
    content: bytes
    retry_after: str


class NotHttp(ConnectionError):
    """What came is no answer."""


class Wires:
    """Connections to one server."""

    def __init__(self, server: str, *, server_name: str | None, headers: Mapping[str, str]) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or (80 if parts.scheme == "http" else 443)
        self._server_name = server_name or self._host
        self._prefix = quote(parts.path.rstrip("/"), safe=_SAFE)
        place = f"[{self._host}]" if ":" in self._host else self._host
        lines = (f"{name}: {value}\r\n" for name, value in {"Host": f"{place}:{self._port}", **headers}.items())
        self._headers = "".join(lines)
        self._idle: list[_Wire] = []
        self._open: set[_Wire] = set()

    async def close(self) -> None:
        """Let all connections go; requests on their way fail."""
        wires = list(self._open)
        for wire in wires:
            wire.close()
        await asyncio.gather(*(wire.gone for wire in wires))

    async def ask(
        self,
        method: str,
        target: str,
        context: ssl.SSLContext | None,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> Answer:
        """One request for a path with its query, and its answer whole; without a context it is not encrypted."""
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        length = "" if data is None else f"Content-Length: {len(data)}\r\n"
        head = f"{method} {self._prefix}{quote(target, safe=_SAFE + '?')} HTTP/1.1\r\n{self._headers}{more}{length}\r\n"
        request = head.encode("ascii") + (data or b"")
        async with asyncio.timeout(timeout_s):
            while (kept := self._kept(context)) is not None:
                try:
                    return await self._ask(kept, request)
                except ConnectionError:
                    if method != "GET":  # reading is safe to do twice; the server may have closed it just now
                        raise
            return await self._ask(await self._connected(context), request)

    async def _ask(self, wire: _Wire, request: bytes) -> Answer:
        try:
            answer = await wire.ask(request)
        except BaseException:  # also who asked gave up: an answer that still comes is nobody's
            wire.close()
            raise
        if wire.may_be_kept:
            self._idle.append(wire)
        else:
            wire.close()
        return answer

    def _kept(self, context: ssl.SSLContext | None) -> _Wire | None:
        """The connection that was used last, if it is still good for who we are now."""
        while self._idle:
            wire = self._idle.pop()
            if wire.is_good_for(context):
                return wire
            wire.close()
        return None

    async def _connected(self, context: ssl.SSLContext | None) -> _Wire:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_S):
            _, wire = await loop.create_connection(
                lambda: _Wire(loop, context, self._open),
                self._host,
                self._port,
                ssl=context,
                server_hostname=self._server_name if context else None,
            )
        return wire


class _Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, context: ssl.SSLContext | None, everyone: set[_Wire]) -> None:
        self._loop = loop
        self._context = context
        self._everyone = everyone
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self.gone: asyncio.Future[None] = loop.create_future()
        self._idle_since = 0.0
        self.may_be_kept = True
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._retry_after = ""

    def is_good_for(self, context: ssl.SSLContext | None) -> bool:
        """Whether a request of somebody who shows this may still go this way."""
        is_fresh = self._loop.time() - self._idle_since < KEPT_S
        return is_fresh and self.may_be_kept and self._context is context

    async def ask(self, request: bytes) -> Answer:
        """Send it, and wait for the answer."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection was closed")
        self._waiting = self._loop.create_future()
        self._transport.write(request)
        return await self._waiting

    def close(self) -> None:
        """Let it go."""
        self.may_be_kept = False
        if self._transport is not None:
            self._transport.abort()

    # -- what the loop tells ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._everyone.add(self)
        notice_silence(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        """Part of an answer."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as err:
            self._fail(NotHttp(f"no answer: {err}"))

    def connection_lost(self, err: Exception | None) -> None:
        """It is gone, perhaps before the answer came."""
        self._everyone.discard(self)
        self.gone.set_result(None)
        self._fail(err or ConnectionResetError("the server closed the connection before it answered"))

    def _fail(self, err: Exception) -> None:
        self.may_be_kept = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(err if isinstance(err, OSError) else NotHttp(str(err)))

    # -- what the parser tells -------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header of the answer."""
        if len(name) == 11 and name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """Part of its content."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """That was all of it."""
        status = self._parser.get_status_code()
        if status < 200:  # on its way: the answer is still to come
            return
        self.may_be_kept = self.may_be_kept and self._parser.should_keep_alive()
        answer = Answer(status, b"".join(self._body), self._retry_after)
        self._begin()
        self._idle_since = self._loop.time()
        if self._waiting is None or self._waiting.done():  # nobody asked for it
            self.close()
        else:
            self._waiting.set_result(answer)


def notice_silence(made: socket.socket) -> None:
    """Have it noticed when the other side is gone without a word."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not everywhere
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_EVERY_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
