"""Pieces of logs: asked of agents in the answers to their calls, which bring them with the next.

A piece that is asked for is asked for again in every answer until it comes or whoever wants it has gone, so that an
answer that is lost on its way does no harm. All in the event loop of the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import count

import msgspec

from muster.agent.protocol import Piece, Read

ANSWERED_WITHIN_S = 10.0
MOST_AT_ONCE = 16  # pieces in one call: a few megabytes

_WITHOUT = ("1.0",)  # versions of the protocol that know of no logs


class NoAnswer(Exception):
    """No agent hands out the log now; the text says why."""


class Logs:
    """All pieces that somebody waits for."""

    def __init__(self, ring: Callable[[str], None]) -> None:
        self._ring = ring
        self._numbers = count(1)
        self._asked: dict[str, dict[int, Read]] = {}
        self._awaited: dict[int, asyncio.Future[Piece]] = {}
        self._versions: dict[str, str] = {}

    async def piece(self, cluster: str, asked: Read) -> Piece:
        """A piece of a log, from the agent of a cluster; raises NoAnswer."""
        if self._versions.get(cluster) in _WITHOUT:
            raise NoAnswer(f"the agent of cluster {cluster} is too old to hand out logs")
        number = next(self._numbers)
        self._asked.setdefault(cluster, {})[number] = msgspec.structs.replace(asked, number=number)
        self._awaited[number] = asyncio.get_running_loop().create_future()
        self._ring(cluster)
        try:
            return await asyncio.wait_for(self._awaited[number], ANSWERED_WITHIN_S)
        except TimeoutError:
            raise NoAnswer(f"the agent of cluster {cluster} does not answer") from None
        finally:
            del self._awaited[number]
            self._asked[cluster].pop(number, None)

    def wanted(self, cluster: str) -> list[Read]:
        """What the agent of a cluster is to be asked for, the oldest first."""
        return list(self._asked.get(cluster, {}).values())[:MOST_AT_ONCE]

    def heard(self, cluster: str, version: str, pieces: Iterable[Piece]) -> None:
        """An agent calls in, perhaps with pieces."""
        self._versions[cluster] = version
        for piece in pieces:
            self._asked.get(cluster, {}).pop(piece.number, None)
            waiting = self._awaited.get(piece.number)
            if waiting is not None and not waiting.done():
                waiting.set_result(piece)
