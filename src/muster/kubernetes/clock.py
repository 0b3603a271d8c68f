"""The time as the scheduler knows it."""

from __future__ import annotations

from time import time


class Clock:
    """The time of the machine, but that it never goes back."""

    def __init__(self) -> None:
        self._now_ms = 0

    def now_ms(self) -> int:
        """In ms since 1970."""
        self._now_ms = max(self._now_ms, int(time() * 1000))
        return self._now_ms
