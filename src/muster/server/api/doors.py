"""Who is asking, and whether they may.

What every request needs is asynchronous although it waits for nothing: FastAPI takes anything else to another thread.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from muster.server.access import Who
from muster.server.api.errors import Problem, Refused
from muster.server.service import Service

_bearer = HTTPBearer(auto_error=False, description="A token made by `muster token` or by the server's first start.")


async def only_known(request: Request) -> None:
    """Refuse query parameters that mean nothing here: a misspelt filter would show everything."""
    if request.scope["query_string"]:
        refuse_others(request, _query_of(request.scope["route"], request.method))


_known_queries: dict[tuple[str, str], tuple[str, ...]] = {}  # by path and method


def _query_of(route: APIRoute, method: str) -> tuple[str, ...]:
    """The query parameters that a path knows. The OpenAPI document says them too, but takes long to make."""
    known = _known_queries.get((route.path, method))
    if known is None:
        found, ahead = set[str](), [route.dependant]
        while ahead:
            needed = ahead.pop()
            found |= {it.alias for it in needed.query_params}
            ahead += needed.dependencies
        known = _known_queries[route.path, method] = tuple(sorted(found))
    return known


def refuse_others(request: Request, known: Collection[str]) -> None:
    """Refuse query parameters that are none of these."""
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        allowed = f"one of {', '.join(known)}" if known else "no query parameters"
        problems = [Problem(field=name, value=repr(request.query_params[name]), allowed=allowed) for name in unknown]
        raise Refused(422, f"{unknown[0]!r} is not allowed as a query parameter: {allowed}", problems)


async def service_of(request: Request) -> Service:
    """The service behind the app."""
    service: Service = request.app.state.service
    return service


async def who_asks(
    desk: Annotated[Service, Depends(service_of)],
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Who:
    """Whoever the token belongs to."""
    return who_has(desk, None if given is None else given.credentials)


def who_has(desk: Service, token: str | None) -> Who:
    """Whoever a token belongs to; refused if that is nobody."""
    who = None if token is None else desk.access.who(token, desk.world.queues)
    if who is None:
        message = "this needs a token" if token is None else "this token is not known here"
        raise Refused(401, f"{message}: send it as `Authorization: Bearer TOKEN`")
    return who


async def admin(who: Annotated[Who, Depends(who_asks)]) -> Who:
    """An admin."""
    must_be_admin(who)
    return who


Asking = Annotated[Who, Depends(who_asks)]
Admin = Annotated[Who, Depends(admin)]
Desk = Annotated[Service, Depends(service_of)]


def must_be_admin(who: Who) -> None:
    """Refuse who is no admin."""
    if not who.is_admin:
        raise Refused(403, f"only an admin may do that, and {who.name} is none")


def must_operate(who: Who, queue: str) -> None:
    """Refuse who may not do all to the jobs of the queue."""
    if not who.operates(queue):
        raise Refused(403, f"only an admin or an owner of queue {queue!r} may do that, and {who.name} is neither")


def must(who: Who, right: str, queue: str) -> None:
    """Refuse who may not do that in the queue."""
    if not who.may(right, queue):
        raise Refused(403, f"{who.name} may not {right} in queue {queue!r}")
