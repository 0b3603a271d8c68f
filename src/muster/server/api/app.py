"""The application: every path, in front of one service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from starlette.routing import Route

from muster import __version__
from muster.server.api import (
    agents,
    changing,
    describing,
    errors,
    events,
    fleet,
    jobs,
    logs,
    operations,
    policy,
    queues,
    records,
    selecting,
    usage,
    whatif,
)
from muster.server.api.doors import only_known
from muster.server.api.gate import Gate
from muster.server.service import Service
from muster.server.tail import Tail

_PARTS = (
    jobs,
    selecting,
    changing,
    whatif,
    logs,
    queues,
    fleet,
    agents,
    events,
    operations,
    policy,
    records,
    usage,
)

_DESCRIPTION = """One batch scheduler for many clusters.

Send a token with every request: `Authorization: Bearer TOKEN`. What is wrong with a request is said as
`{"error": {"message", "problems": [{"field", "value", "allowed"}]}}`, and then nothing was changed.
"""


def application(service: Service) -> FastAPI:
    """The HTTP side of a server; the service begins and ends with it."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        service.bells.ring_in_this_loop()
        service.start()
        app.state.tail = tail = Tail(service.store)
        tail.start()
        yield
        tail.stop()
        service.close()

    app = FastAPI(
        title="Muster", version=__version__, description=_DESCRIPTION, lifespan=life, dependencies=[Depends(only_known)]
    )
    app.state.service = service
    errors.register(app)
    app.router.routes.append(Route("/api/v1/jobs", jobs.submit_plainly, methods=["POST"], include_in_schema=False))
    for part in _PARTS:
        app.include_router(part.router, responses=errors.ANYWHERE)
    app.include_router(operations.open_router)
    describing.describe(app)
    app.add_middleware(Gate, service=service)
    return app
