"""`muster server`: a store, a service and its HTTP side in one process, until it is told to end."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn

from muster.engine.garbage import collect_seldom
from muster.engine.kernels import have_made_by
from muster.server.api.app import application
from muster.server.configuration import Configuration
from muster.server.haste import USUAL_S
from muster.server.making import Making
from muster.server.recording import Recording
from muster.server.service import Service
from muster.store.store import Store

LAST_ANSWERS_S = 5  # for requests that are under way when the server is told to end
IDLE_S = 75
"""Connections stay open for so long between requests: longer than clients keep theirs, which for most is 5 to 60 s. Who
closes first loses no request; closed here first, a request may be on its way."""


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


Announce = Callable[[str, Service], None]


class _Announcing(uvicorn.Server):
    """Says where it listens once it does, and lets go of those who wait before it ends."""

    def __init__(self, config: uvicorn.Config, service: Service, announce: Announce) -> None:
        super().__init__(config)
        self._service = service
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            self._announce(f"http://{host}:{port}", self._service)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Told to end. To be told so again changes nothing: it takes seconds at most, and what is open is closed."""
        if not self.should_exit:
            super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.begin_to_close()
        await super().shutdown(sockets)


def say_where(url: str, _service: Service) -> None:
    """Say where the server listens: whoever started it waits for this."""
    print(f"listening on {url}", flush=True)  # noqa: T201


def serve(configuration: Configuration, announce: Announce = say_where) -> None:
    """Run until interrupted. The first admin's token goes into a file that only its owner can read.

    `announce` is called with the address once the server answers there.
    """
    host, token_file = configuration.host, Path(configuration.token_file)
    # Said to be TCP, or asyncio does not send answers at once and each waits 40 ms for the other side's delayed ACK.
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, configuration.port))
    store = Store.open(configuration.database)
    store.write_apart()
    gc.disable()  # while all jobs come into being, and none goes
    record = configuration.record
    service = Service(
        store,
        wall_clock,
        configuration.policy,
        configuration.limits,
        configuration.levels,
        Recording(Path(record), configuration.limits.most_record) if record else None,
    )
    gc.enable()
    token = service.first_token()
    if token is not None:
        write_secret(token_file, token)
    for ending in (signal.SIGTERM, signal.SIGINT):  # the server ends by itself, and is then told again: that is all
        signal.signal(ending, lambda *_: None)
    # Next to nothing here refers back to itself, and yet looking for what does took a third of the server's time.
    collect_seldom(200_000)
    sys.setswitchinterval(USUAL_S)
    config = uvicorn.Config(
        application(service),
        log_level="warning",
        access_log=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=LAST_ANSWERS_S,
    )
    making = Making()
    have_made_by(making)
    try:
        _Announcing(config, service, announce).run(sockets=[listener])
    finally:
        making.stop()


def write_secret(path: Path, token: str) -> None:
    """Write a token where only its owner can read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(token + "\n")
