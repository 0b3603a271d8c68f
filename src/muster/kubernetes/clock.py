"""The time, as the scheduler reckons with it and as objects write it."""

from __future__ import annotations

from datetime import UTC, datetime
from time import time


class Clock:
    """The time of the machine, but that it never goes back."""

    def __init__(self) -> None:
        self._now_ms = 0

    def now_ms(self) -> int:
        """In ms since 1970."""
        self._now_ms = max(self._now_ms, int(time() * 1000))
        return self._now_ms


def now() -> str:
    """As a condition writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
