"""What is turned away before anyone looks at it: too many requests, and requests that are too long; and who is answered
soon, whatever else goes on.

Requests are counted by token; those of agents and of Prometheus apart, so that people who share their token cannot hold
them up. Who has no token that is known here is counted by address.
"""

from __future__ import annotations

from math import ceil
from time import monotonic

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.server.access import digest
from muster.server.api.errors import answer
from muster.server.haste import Haste
from muster.server.rates import Rate
from muster.server.service import Service

_APART = ("/api/v1/agents/", "/metrics")


class Gate:
    """In front of everything else."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._access = service.access
        self._most_bytes = service.limits.most_bytes
        self._known = Rate(service.limits.most_requests)
        self._unknown = Rate(service.limits.most_strangers)
        self._haste = Haste()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if "\0" in scope.get("path", "") or b"%00" in scope.get("query_string", b""):
            await answer(422, "a null character is not allowed in a path or a query")(scope, receive, send)
            return
        headers = dict(scope["headers"])
        often = self._too_often(scope, headers.get(b"authorization", b""))
        if often is not None:
            wait_s, allowed = often
            message = f"too many requests: {allowed} are allowed; try again in {wait_s:.1f} s"
            await answer(429, message, headers={"Retry-After": str(ceil(wait_s))})(scope, receive, send)
        elif _number(headers.get(b"content-length", b"")) > self._most_bytes:
            await answer(413, self._too_long())(scope, receive, send)
        elif scope["method"] == "GET":
            await self._answered_soon(scope, receive, send)
        else:
            await self._app(scope, self._counted(receive), send)

    async def _answered_soon(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have others give way until the answer begins."""
        no_hurry = self._haste.begin()

        async def sent(message: Message) -> None:
            no_hurry()
            await send(message)

        try:
            await self._app(scope, self._counted(receive), sent)
        finally:
            no_hurry()

    def _too_often(self, scope: Scope, authorization: bytes) -> tuple[float, str] | None:
        """After how long the request may come again, and how many may; None if it may come in."""
        path: str = scope["path"]
        if not path.startswith(("/api/", "/metrics")):
            return None  # whether the server is well, and what it can be asked, is for everybody
        hashed = digest(authorization[7:].decode("latin-1"))
        if self._access.is_known(hashed):
            apart = next((it for it in _APART if path.startswith(it)), "")
            wait_s = self._known.wait_s(hashed + apart, monotonic())
            return (wait_s, f"{self._known.per_s:g} a second with one token") if wait_s else None
        wait_s = self._unknown.wait_s((scope.get("client") or ("",))[0], monotonic())
        return (wait_s, f"{self._unknown.per_s:g} a second without a token that is known here") if wait_s else None

    def _counted(self, receive: Receive) -> Receive:
        """The body, as long as it is not too long."""
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._most_bytes:
                raise HTTPException(413, self._too_long())
            return message

        return counted

    def _too_long(self) -> str:
        return f"a request of more than {self._most_bytes} bytes is not allowed: send it in parts"


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() else 0
