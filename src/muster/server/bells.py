"""One bell for each cluster: agents that call in wait for it, the thread that decides rings it."""

from __future__ import annotations

import asyncio


class Bells:
    """The bells of one event loop; they may be rung from any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bells: dict[str, asyncio.Event] = {}

    def ring_in_this_loop(self) -> None:
        """Whoever waits does so in the loop that runs now."""
        self._loop = asyncio.get_running_loop()

    def of(self, cluster: str) -> asyncio.Event:
        """A cluster's bell."""
        return self._bells.setdefault(cluster, asyncio.Event())

    def ring_all(self) -> None:
        """Whoever waits need not wait any longer."""
        for cluster in list(self._bells):
            self.ring(cluster)

    def ring(self, cluster: str) -> None:
        """There is something for the agent of a cluster."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.of(cluster).set)
