"""The loop every agent runs: call in, hear what to start and stop, have it done, tell what became of it.

Whatever the agent has to tell is told again until the server has it for good. A server that cannot be reached is called
again, a little later each time; what runs goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Callable, Sequence
from typing import Protocol

import httpx2
import msgspec

from muster.agent.protocol import Answer, Call, Lease, NodeReport, Piece, Read, Report, Stop

log = logging.getLogger(__name__)

WAIT_S = 20.0
SOONEST_AGAIN_S, LATEST_AGAIN_S = 0.2, 5.0
GAP_S = 0.05  # between calls, at least: what comes up meanwhile is told together

_answer = msgspec.json.Decoder(Answer)
_encode = msgspec.json.Encoder().encode


class Untold:
    """What became of attempts and the server is still to be told: of each the latest only."""

    def __init__(self) -> None:
        self.reports: dict[tuple[str, int], Report] = {}
        self.news = asyncio.Event()

    def tell(self, report: Report) -> None:
        """Something became of an attempt."""
        self.reports[report.job, report.attempt] = report
        self.news.set()


class Machines(Protocol):
    """What an agent does its work with."""

    @property
    def untold(self) -> Untold:
        """What there is to say."""

    def nodes(self) -> list[NodeReport]:
        """All nodes as they are."""

    def has(self) -> list[Report]:
        """Every attempt that is here, or that ended and was not told yet."""

    def start(self, leases: Sequence[Lease]) -> None:
        """Begin attempts, or give those that run the places they have now."""

    def stop(self, stops: Sequence[Stop]) -> None:
        """End attempts; one that is not here is told as over."""

    def settle(self) -> None:
        """What is about to be told must not be forgotten any more."""

    def told(self, reports: Sequence[Report]) -> None:
        """The server knows these."""

    def read(self, asked: Read) -> Piece:
        """A piece of a log."""


class Refused(Exception):
    """The server does not want this agent: its token, its version, or what it said is wrong."""


class Caller:
    """One agent's side of the conversation."""

    def __init__(self, url: str, token: str, cluster: str, machines: Machines) -> None:
        self._url = f"{url.rstrip('/')}/api/v1/agents/{cluster}/call"
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._machines = machines
        self._session = secrets.token_hex(8)
        self._got = 0
        self._number = 0  # of the last call
        self._untold = machines.untold
        self._unheard: dict[int, list[Report]] = {}  # by call: what the server knows, but may forget yet
        self._pieces: list[Piece] = []

    async def run(self, on_connect: Callable[[], None] = lambda: None) -> None:
        """Call in until cancelled."""
        again_s, is_known = SOONEST_AGAIN_S, False
        loop = asyncio.get_running_loop()
        called_s = loop.time() - GAP_S
        async with httpx2.AsyncClient(timeout=WAIT_S + 30) as client:
            while True:
                await asyncio.sleep(called_s + GAP_S - loop.time())
                called_s = loop.time()
                try:
                    answer = await self._call(client, hello=not is_known)
                except (httpx2.TransportError, _Unwell) as err:
                    log.warning("the server cannot be reached (%s), trying again", str(err) or type(err).__name__)
                    least_s = err.wait_s if isinstance(err, _Unwell) else 0.0
                    await asyncio.sleep(max(again_s * random.uniform(0.5, 1.0), least_s))
                    again_s, is_known = min(again_s * 2, LATEST_AGAIN_S), False
                    continue
                if not is_known and not answer.again:
                    on_connect()
                again_s, is_known = SOONEST_AGAIN_S, not answer.again
                self._machines.stop(answer.stops)
                self._machines.start(answer.leases)
                self._pieces = [self._machines.read(asked) for asked in answer.reads]

    async def _call(self, client: httpx2.AsyncClient, *, hello: bool) -> Answer:
        """Say what there is to say, and hear what to do."""
        if hello:
            self._untold.reports = {(report.job, report.attempt): report for report in self._machines.has()}
            self._unheard.clear()
        self._untold.news.clear()
        self._machines.settle()
        saying = dict(self._untold.reports)
        self._number += 1
        call = Call(
            session=self._session,
            number=self._number,
            hello=hello,
            nodes=self._machines.nodes() if hello else None,
            reports=list(saying.values()),
            pieces=self._pieces,
            wait_s=0.0 if hello or saying or self._pieces else WAIT_S,
            got=self._got,
        )
        asked = asyncio.ensure_future(client.post(self._url, content=_encode(call), headers=self._headers))
        asked.add_done_callback(_hear_of_trouble)
        if not saying and not hello and not self._pieces:  # nothing to say: whatever comes up meanwhile ends the wait
            news = asyncio.ensure_future(self._untold.news.wait())
            try:
                await asyncio.wait({asked, news}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
                is_told = not asked.cancel()
            if not is_told:
                return Answer()
        heard = await asked
        if heard.status_code >= 500 or heard.status_code == 429:
            raise _Unwell(f"it answers {heard.status_code}", _seconds(heard.headers.get("Retry-After", "")))
        if heard.status_code != 200:
            raise Refused(f"{heard.status_code}: {heard.text}")
        answer = _answer.decode(heard.content)
        if answer.again:
            return answer
        for key, report in saying.items():
            if self._untold.reports.get(key) is report:
                del self._untold.reports[key]
        self._unheard[self._number] = list(saying.values())
        self._forget_until(self._number if answer.heard < 0 else answer.heard)
        self._got = answer.number
        return answer

    def _forget_until(self, heard: int) -> None:
        """The server has for good what was said until that call."""
        for number in [number for number in self._unheard if number <= heard]:
            self._machines.told(self._unheard.pop(number))


def _hear_of_trouble(asked: asyncio.Future[httpx2.Response]) -> None:
    """Who is told to end does not wait for the answer, nor for why there is none: that would be logged as forgotten."""
    if not asked.cancelled():
        asked.exception()


class _Unwell(Exception):
    """The server answers, but cannot help now; it may have said for how long to leave it alone."""

    def __init__(self, message: str, wait_s: float) -> None:
        super().__init__(message)
        self.wait_s = wait_s


def _seconds(retry_after: str) -> float:
    return min(float(retry_after), LATEST_AGAIN_S) if retry_after.isdecimal() else 0.0
