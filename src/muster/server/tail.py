"""The newest event there is, for any number of streams: one thread waits for the store, all streams wait for that."""

from __future__ import annotations

import asyncio
import logging
from threading import Event, Thread

from muster.store.errors import StoreDown
from muster.store.store import Store

LOOK_EVERY_S = 1.0

log = logging.getLogger(__name__)


class Tail:
    """From `start`, in the event loop that it is called in, to `stop`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._newest = 0
        self._news = asyncio.Event()
        self._is_stopping = Event()
        self._thread = Thread(target=self._run, name="tail", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """End after the look that is under way."""
        self._is_stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    async def wait(self, after: int, timeout_s: float) -> bool:
        """Whether there is an event after that number, before the time was over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while self._newest <= after and (left := until - loop.time()) > 0:
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except TimeoutError:
                break
        return self._newest > after

    def _run(self) -> None:
        newest = 0
        while not self._is_stopping.is_set():
            try:
                found = self._store.wait(newest, LOOK_EVERY_S)
            except StoreDown as err:
                log.debug("no news while the store is down: %s", err)
                self._is_stopping.wait(LOOK_EVERY_S)
                continue
            if found > newest and self._loop is not None and not self._loop.is_closed():
                newest = found
                self._loop.call_soon_threadsafe(self._ring, newest)

    def _ring(self, newest: int) -> None:
        """Whoever waits now looks again; whoever comes later waits for the next time."""
        self._newest = newest
        self._news.set()
        self._news = asyncio.Event()
