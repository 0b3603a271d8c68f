"""Connections of our own: answers however they come, and who gets which of them when something goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from muster.kubernetes.access import Access
from muster.kubernetes.client import Client
from muster.kubernetes.credentials import Given, written
from muster.kubernetes.errors import NoCredentials, Unreachable
from muster.kubernetes.wires import Answer, Wires

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CUT = b"cut"  # in the place of an answer: the connection is


class Peer:
    """Gives the answers it was given, in order, and notes what it was asked and over which connection."""

    def __init__(self, *answers: bytes) -> None:
        self.left = list(answers)
        self.asked: list[tuple[int, str]] = []
        self.heard = asyncio.Event()
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def close(self) -> None:
        """End all connections."""
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self._writers.append(writer)
        mine = len(self._writers)
        while head := await _head(reader):
            self.asked.append((mine, head))
            self.heard.set()
            answer = self.left.pop(0) if self.left else b""
            if answer.startswith(CUT):
                answer = answer.removeprefix(CUT)
                writer.write(answer)
                writer.close()
                return
            writer.write(answer)


async def _head(reader: asyncio.StreamReader) -> str:
    try:
        return (await reader.readuntil(b"\r\n\r\n")).decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return ""


@asynccontextmanager
async def a_peer(*answers: bytes) -> AsyncIterator[tuple[Peer, Callable[..., Coroutine[Any, Any, Answer]]]]:
    """A server, and how to ask it for a path."""
    peer = Peer(*answers)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    peer.port = server.sockets[0].getsockname()[1]
    wires = Wires(f"http://127.0.0.1:{peer.port}/below", server_name=None, headers={"Accept": "x"})

    async def ask(path: str = "/a") -> Answer:
        return await wires.ask("GET", path, None, headers={}, timeout_s=20)

    try:
        yield peer, ask
    finally:
        await wires.close()
        await peer.close()
        server.close()


@pytest.mark.parametrize(
    "said, answer",
    [
        pytest.param(OK, Answer(200, b"ok", ""), id="with its length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
            Answer(200, b"ok", ""),
            id="in chunks",
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", Answer(204, b"", ""), id="without content"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\n" + OK, Answer(200, b"ok", ""), id="after a word that it will come"
        ),
        pytest.param(
            b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nContent-Length: 4\r\n\r\nbusy",
            Answer(429, b"busy", "7"),
            id="that says when to come again",
        ),
        pytest.param(
            b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n",
            Answer(302, b"", ""),
            id="that sends us elsewhere, where we do not go",
        ),
    ],
)
def test_an_answer_is_read(said: bytes, answer: Answer) -> None:
    async def story() -> tuple[Answer, Answer]:
        async with a_peer(said, OK) as (_, ask):
            return await ask(), await ask()

    assert asyncio.run(story()) == (answer, Answer(200, b"ok", ""))


def test_a_connection_is_kept_for_the_next_request_unless_the_server_closes_it() -> None:
    async def story() -> list[int]:
        last = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        async with a_peer(OK, last, CUT + OK, OK) as (peer, ask):
            for _ in range(4):
                await ask()
            return [connection for connection, _ in peer.asked]

    # The third answer is whole, and its connection is closed behind it without a word.
    assert asyncio.run(story()) == [1, 1, 2, 3]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(CUT, id="no answer"),
        pytest.param(CUT + OK[:-1], id="an answer that is cut"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", id="something else"),
    ],
)
def test_what_is_no_answer_is_an_error_and_the_next_request_goes_another_way(said: bytes) -> None:
    async def story() -> tuple[bool, Answer]:
        async with a_peer(said, OK) as (_, ask):
            with pytest.raises(ConnectionError):
                await ask()
            return True, await ask()

    assert asyncio.run(story()) == (True, Answer(200, b"ok", ""))


def test_an_answer_for_somebody_who_gave_up_is_nobody_elses() -> None:
    async def story() -> tuple[Answer, list[int]]:
        async with a_peer(b"", OK) as (peer, ask):
            given_up = asyncio.ensure_future(ask())
            await peer.heard.wait()
            given_up.cancel()
            await asyncio.wait([given_up])
            return await ask(), [connection for connection, _ in peer.asked]

    assert asyncio.run(story()) == (Answer(200, b"ok", ""), [1, 2])


def test_a_path_cannot_smuggle_a_request() -> None:
    async def story() -> list[str]:
        async with a_peer(OK) as (peer, ask):
            await ask("/a b\r\nX: y?watch=1&name=%20")
            return [head.splitlines()[0] for _, head in peer.asked]

    assert asyncio.run(story()) == ["GET /below/a%20b%0D%0AX:%20y?watch=1&name=%20 HTTP/1.1"]


def test_a_token_that_no_header_may_have_is_refused_before_anything_is_sent() -> None:
    async def story() -> list[tuple[int, str]]:
        async with a_peer(OK) as (peer, _):
            access = Access(server=f"http://127.0.0.1:{peer.port}", credentials=Given(token=written("a\r\nX: y")))
            async with Client(access) as client:
                with pytest.raises(NoCredentials, match="token"):
                    await client.request("GET", "/a")
            return peer.asked

    assert asyncio.run(story()) == []


def test_who_answers_too_late_is_unreachable() -> None:
    async def story() -> None:
        async with a_peer(b"") as (peer, _):
            access = Access(server=f"http://127.0.0.1:{peer.port}", credentials=Given())
            async with Client(access, request_s=0.05) as client:
                await client.request("GET", "/a")

    with pytest.raises(Unreachable, match="TimeoutError"):
        asyncio.run(story())
