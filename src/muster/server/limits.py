"""What one server takes on, and for how long it remembers and waits."""

from __future__ import annotations

from dataclasses import dataclass

SECOND_MS = 1000
DAY_MS = 24 * 3600 * SECOND_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The numbers, which operators may change."""

    most_queued: int = 1_000_000  # in one queue
    most_jobs: int = 5_000  # in one request
    most_bytes: int = 32 << 20  # of one request
    most_requests: int = 1_000  # a second with one token; 0: any number
    most_strangers: int = 20  # requests a second from one address without a token that is known; 0: any number
    most_record: int = 64 << 20  # bytes of recorded turns
    keep_ms: int = 7 * DAY_MS  # for which what is over is kept
    silent_ms: int = 30 * SECOND_MS  # without a call after which an agent gets nothing new
    lost_ms: int = 900 * SECOND_MS  # after which jobs of a silent cluster that want it run again
