"""A thin client of the Kubernetes API: JSON in, JSON out, only what we need decoded.

Each request is bounded in time, and so is how many are on their way at once. A request that the server did not look at
(too busy, or it did not believe our token) is made again; whatever else goes wrong is told, since only the caller knows
whether a write may be done twice. Raises what errors.py draws.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from random import Random
from types import TracebackType
from typing import Any
from urllib.parse import urlencode
from weakref import WeakSet

import aiohttp
import msgspec
from yarl import URL

from muster.kubernetes import tls
from muster.kubernetes.access import Access
from muster.kubernetes.answers import Heard, Page, read_lines, read_object, read_page
from muster.kubernetes.backoff import Backoff
from muster.kubernetes.credentials import Proof, remembered
from muster.kubernetes.errors import Busy, NoCredentials, Unauthorised, Unreachable, refusal
from muster.kubernetes.kinds import EVERYTHING, Kind, Scope, T
from muster.kubernetes.wires import CONNECT_S, Answer, Wires, notice_silence

IN_FLIGHT = 32
REQUEST_S = 30.0
HANG_UP_S, CLOSED = 1.0, -1  # for connections to be gone in the end; the number of a socket that is
WATCH_S = 300.0  # a watch is ended by the server after so long, or up to twice that
PAGE = 500
BUSY_TRIES = 6

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_encode = msgspec.json.Encoder().encode
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)  # then nobody knows whether a write was done


class Client:
    """One server, seen as one user. Use it as `async with Client(access) as client`."""

    def __init__(
        self,
        access: Access,
        *,
        in_flight: int = IN_FLIGHT,
        request_s: float = REQUEST_S,
        watch_s: float = WATCH_S,
        random: Random | None = None,
        agent: str = "muster",
    ) -> None:
        self.access = access
        self.random = random or Random()  # jitter only; tests seed it
        self._room = asyncio.Semaphore(in_flight)
        self._request_s, self._watch_s = request_s, watch_s
        self._timeout = aiohttp.ClientTimeout(total=request_s, sock_connect=CONNECT_S)
        self._agent = agent
        self._session: aiohttp.ClientSession | None = None
        said = {"User-Agent": agent, "Accept": JSON}
        self._wires = Wires(access.server, server_name=access.server_name, headers=said)
        self._ca = remembered(access.ca) if access.ca else None
        self._shown: tuple[str | None, Proof] | None = None
        self._tls: ssl.SSLContext | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()

    async def __aenter__(self) -> Client:
        # Watches hold a connection each; requests are bounded by their own count.
        connector = aiohttp.TCPConnector(limit=0, socket_factory=self._socket)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": self._agent, "Accept": JSON},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._wires.close()
        await self._session.close()
        await self._hang_up()

    async def _hang_up(self) -> None:
        """Let go of connections that aiohttp closes in its own time: of watches that were stopped, which it leaves to
        the loop, and the loop may end before."""
        ahead = asyncio.get_running_loop().time() + HANG_UP_S
        while left := [each for each in self._sockets if each.fileno() != CLOSED]:
            for each in left:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            if asyncio.get_running_loop().time() > ahead:
                return
            await asyncio.sleep(0)

    # -- one object ------------------------------------------------------------------------------------------

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """An object."""
        return read_object(kind, await self.request("GET", kind.path(namespace, name)))

    async def create(self, kind: Kind[T], body: object, namespace: str = "") -> T:
        """Make an object; `body` is a dict or a struct."""
        return read_object(kind, await self.request("POST", kind.path(namespace), body=body))

    async def replace(self, kind: Kind[T], name: str, body: object, namespace: str = "", subresource: str = "") -> T:
        """Put `body` in its place. With a resourceVersion inside, only if nobody was quicker (else Conflict)."""
        path = kind.path(namespace, name, subresource)
        return read_object(kind, await self.request("PUT", path, body=body))

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        body: object,
        namespace: str = "",
        *,
        subresource: str = "",
        how: str = MERGE_PATCH,
        query: Mapping[str, str] | None = None,
    ) -> T:
        """Change some of its fields."""
        path = kind.path(namespace, name, subresource)
        return read_object(kind, await self.request("PATCH", path, body=body, content_type=how, query=query))

    async def act(self, kind: Kind[Any], name: str, subresource: str, body: object, namespace: str = "") -> None:
        """Ask for something to be done with it: `binding` and `eviction` of a pod. The answer says nothing more."""
        await self.request("POST", kind.path(namespace, name, subresource), body=body)

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_s: int | None = None,
        propagation: str = "",
    ) -> None:
        """Have it deleted; with `uid`, only if it is still that one (else Conflict)."""
        body: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            body["preconditions"] = {"uid": uid}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        if propagation:
            body["propagationPolicy"] = propagation
        await self.request("DELETE", kind.path(namespace, name), body=body)

    # -- many objects ----------------------------------------------------------------------------------------

    async def pages(self, kind: Kind[T], scope: Scope = EVERYTHING, *, size: int = PAGE) -> AsyncIterator[Page[T]]:
        """A list of one moment, page by page. Expired if it takes so long that the server forgets that moment."""
        query = {**scope.query(), "limit": str(size)}
        while True:
            page = read_page(kind, await self.request("GET", kind.path(scope.namespace), query=query))
            yield page
            if not page.proceed:
                return
            query["continue"] = page.proceed

    async def count(self, kind: Kind[Any]) -> int:
        """How many there are, more or less: the server counts what follows the first."""
        async for page in self.pages(kind, size=1):
            return len(page.items) + page.remaining
        return 0

    async def list(self, kind: Kind[T], scope: Scope = EVERYTHING, *, size: int = PAGE) -> list[T]:
        """All objects of one moment."""
        return [each async for page in self.pages(kind, scope, size=size) for each in page.items]

    async def watch(self, kind: Kind[T], version: str, scope: Scope = EVERYTHING) -> AsyncIterator[Heard[T]]:
        """What happens after `version`, until the server ends it: ask again from where it has come to.

        Lines are split here: aiohttp's own reader gives up on long ones.
        """
        seconds = int(self._watch_s * self.random.uniform(1.0, 2.0))  # not all at once
        query = {
            **scope.query(),
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(seconds, 1)),
        }
        timeout = aiohttp.ClientTimeout(total=seconds + self._request_s, sock_connect=CONNECT_S)
        answer = await self._send("GET", kind.path(scope.namespace), query=query, timeout=timeout)
        async with answer:
            if answer.status != 200:
                raise refusal(answer.status, await self._whole(answer), answer.headers.get("Retry-After", ""))
            rest = b""
            while chunk := await self._some(answer):
                *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                if lines:
                    heard = read_lines(kind, lines, version)
                    version = heard.version
                    yield heard

    # -- requests --------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
    ) -> bytes:
        """One request, and its answer whole."""
        data = None if body is None else _encode(body)
        busy, is_believed = 0, True
        backoff: Backoff | None = None
        while True:
            async with self._room:
                answer = await self._ask(method, path, query, data, content_type)
            if answer.status < 300:
                return answer.content
            refused = refusal(answer.status, answer.content, answer.retry_after)
            if isinstance(refused, Unauthorised) and is_believed:
                is_believed = False  # a token may have been renewed meanwhile
                continue
            if not isinstance(refused, Busy) or busy == BUSY_TRIES:
                raise refused
            busy += 1
            backoff = backoff or Backoff(self.random)
            await asyncio.sleep(backoff.wait_s(refused.wait_s))

    async def _ask(
        self, method: str, path: str, query: Mapping[str, str] | None, data: bytes | None, content_type: str
    ) -> Answer:
        """Send it, and hear all that is said. A proxy is left to aiohttp."""
        if self.access.proxy:
            said = await self._send(
                method, path, query=query, data=data, content_type=content_type, timeout=self._timeout
            )
            return Answer(said.status, await self._whole(said), said.headers.get("Retry-After", ""))
        proof = await self.access.credentials.proof()
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            answer = await self._wires.ask(
                method,
                target,
                self._context(proof),
                data=data,
                headers=_headers(proof, data, content_type),
                timeout_s=self._request_s,
            )
        except _BROKEN as err:
            raise self._unreachable(err) from err
        if answer.status == 401:
            self.access.credentials.forget()
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        *,
        timeout: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None = None,
        data: bytes | None = None,
        content_type: str = JSON,
    ) -> aiohttp.ClientResponse:
        """Send it, and hear what is said at first. Reading it to its end, or closing it, frees its connection."""
        proof = await self.access.credentials.proof()
        assert self._session is not None, "use it as `async with Client(access) as client`"
        url = URL(self.access.server + path, encoded=True)  # names in Kubernetes need no quoting
        try:
            answer = await self._session.request(
                method,
                url.with_query(query) if query else url,
                data=data,
                headers=_headers(proof, data, content_type),
                timeout=timeout,
                ssl=self._context(proof) or True,
                server_hostname=self.access.server_name,
                proxy=self.access.proxy,
                allow_redirects=False,
            )
        except _BROKEN as err:
            raise self._unreachable(err) from err
        if answer.status == 401:
            self.access.credentials.forget()
        return answer

    async def _whole(self, answer: aiohttp.ClientResponse) -> bytes:
        try:
            return await answer.read()
        except _BROKEN as err:
            raise self._unreachable(err) from err

    async def _some(self, answer: aiohttp.ClientResponse) -> bytes:
        """What has come of it; nothing if that was all."""
        try:
            return await answer.content.readany()
        except _BROKEN as err:
            raise self._unreachable(err) from err

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        """One that notices when the other side is gone without a word; a watch may have nothing to say for long."""
        made = socket.socket(address[0], address[1], address[2])
        self._sockets.add(made)
        notice_silence(made)
        return made

    def _unreachable(self, err: Exception) -> Unreachable:
        return Unreachable(f"{self.access.server}: {str(err) or type(err).__name__}")

    def _context(self, proof: Proof) -> ssl.SSLContext | None:
        """Made anew only when a certificate was: connections are shared by those that have the same."""
        if self.access.server.startswith("http://"):
            return None
        ca = self._ca() if self._ca else None
        shown = (ca, Proof(certificate=proof.certificate, key=proof.key))
        if self._tls is None or shown != self._shown:
            self._tls = tls.context(ca, proof, is_verified=self.access.is_verified)
            self._shown = shown
        return self._tls


def _headers(proof: Proof, data: bytes | None, content_type: str) -> dict[str, str]:
    headers = {"Content-Type": content_type} if data is not None else {}
    if proof.token:
        if not proof.token.isprintable():
            raise NoCredentials("the token has letters that no header may have")
        headers["Authorization"] = f"Bearer {proof.token}"
    return headers
