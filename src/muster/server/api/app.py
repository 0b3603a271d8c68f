"""The application: every path, in front of one service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from muster import __version__
from muster.server.api import agents, errors, events, fleet, jobs, logs, operations, queues
from muster.server.service import Service

_DESCRIPTION = """One batch scheduler for many clusters.

Send a token with every request: `Authorization: Bearer TOKEN`. What is wrong with a request is said as
`{"error": {"message", "problems": [{"field", "value", "allowed"}]}}`, and then nothing was changed.
"""


def application(service: Service) -> FastAPI:
    """The HTTP side of a server; the service begins and ends with it."""

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        service.bells.ring_in_this_loop()
        service.start()
        yield
        service.close()

    app = FastAPI(title="Muster", version=__version__, description=_DESCRIPTION, lifespan=life)
    app.state.service = service
    errors.register(app)
    for part in (jobs, logs, queues, fleet, agents, events, operations):
        app.include_router(part.router)
    return app
