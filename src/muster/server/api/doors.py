"""Who is asking, and whether they may.

What every request needs is asynchronous although it waits for nothing: FastAPI takes anything else to another thread.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from muster.server.access import Who
from muster.server.api.errors import Refused
from muster.server.service import Service

_bearer = HTTPBearer(auto_error=False, description="A token made by `muster token` or by the server's first start.")


async def service_of(request: Request) -> Service:
    """The service behind the app."""
    service: Service = request.app.state.service
    return service


async def who_asks(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> Who:
    """Whoever the token belongs to."""
    desk: Service = request.app.state.service
    who = None if given is None else desk.access.who(given.credentials)
    if who is None:
        message = "this needs a token" if given is None else "this token is not known here"
        raise Refused(401, f"{message}: send it as `Authorization: Bearer TOKEN`")
    return who


async def admin(who: Annotated[Who, Depends(who_asks)]) -> Who:
    """An admin."""
    if not who.is_admin:
        raise Refused(403, f"only an admin may do that, and {who.name} is none")
    return who


Asking = Annotated[Who, Depends(who_asks)]
Admin = Annotated[Who, Depends(admin)]
Desk = Annotated[Service, Depends(service_of)]


def must(who: Who, right: str, queue: str) -> None:
    """Refuse who may not do that in the queue."""
    if not who.may(right, queue):
        raise Refused(403, f"{who.name} may not {right} in queue {queue!r}")
