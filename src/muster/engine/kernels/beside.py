"""Work beside other work: compiled kernels let go of the interpreter, so several can run in threads.

What each does must not depend on the others: then threads change when things are worked out, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """How many can run at the same time."""
    return os.cpu_count() or 1


def all_at_once(work: Callable[[T], R], parts: Iterable[T], threads: int) -> list[R]:
    """What comes of the work on every part, in their order; it is done in so many threads."""
    from concurrent.futures import ThreadPoolExecutor  # only who has pools needs it

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))
