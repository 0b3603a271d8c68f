"""When a question is asked again, and after how long.

A server that cannot be reached, is too busy (429) or cannot reach its store (503) did nothing: asking again is always
right. Where the answer was lost on its way it may have been done, so only what is repeatable is asked again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from time import monotonic
from typing import Any

import httpx2

from muster.sdk.asking import Ask
from muster.sdk.errors import ServerUnreachable, error_of

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0

_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
_NOTHING_DONE = (429, 503)
_PROXY_LOST_IT = (502, 504)


class Again(Exception):
    """The server has no time for this now; whoever asks waits a little."""

    def __init__(self, pause_s: float) -> None:
        super().__init__(pause_s)
        self.pause_s = pause_s


class BrokenOff(Exception):
    """An answer that is not good news, be it the first thing that a server said or the last of many."""

    def __init__(self, status: int, body: bytes, retry_after: str | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.retry_after = retry_after


class Patience:
    """How long one question is asked again: `patience_s` since it was asked, or since there was last an answer."""

    def __init__(self, server: str, patience_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._server = server
        self._patience_s = patience_s
        self._clock = clock
        self.renew()

    def renew(self) -> None:
        """There was an answer: patience begins anew."""
        self._until = self._clock() + self._patience_s
        self._pause_s = FIRST_PAUSE_S

    def after_trouble(self, ask: Ask[Any], err: httpx2.TransportError) -> float:
        """How long to wait before the next try; raises ServerUnreachable where there is to be none."""
        may_have_been_done = not isinstance(err, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
        pause_s = None if may_have_been_done and not ask.is_repeatable else self._pause()
        if pause_s is None:
            raise ServerUnreachable(self._server, _in_words(err)) from err
        return pause_s

    def after_answer(self, ask: Ask[Any], status: int, retry_after: str | None) -> float | None:
        """How long to wait before the next try; None: the answer stands."""
        if status in _NOTHING_DONE or (status in _PROXY_LOST_IT and ask.is_repeatable):
            return self._pause(_seconds(retry_after))
        return None

    def after_breaking_off(self, ask: Ask[Any], broken: BrokenOff) -> Exception:
        """What to raise where a stream cannot go on: the error, or that it is worth another try."""
        pause_s = self.after_answer(ask, broken.status, broken.retry_after)
        return error_of(broken.status, broken.body) if pause_s is None else Again(pause_s)

    def _pause(self, least_s: float = 0.0) -> float | None:
        pause_s = max(self._pause_s * random.uniform(0.5, 1.0), least_s)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        return pause_s if self._clock() + pause_s <= self._until else None


def _seconds(retry_after: str | None) -> float:
    """What a Retry-After header asks for; a date, which ours never is, is not read."""
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else 0.0


def _in_words(err: httpx2.TransportError) -> str:
    if isinstance(err, httpx2.TimeoutException):
        return "no answer in time"
    return _ERRNO.sub("", str(err)).rstrip(".") or type(err).__name__
