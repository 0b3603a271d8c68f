"""Ids of new jobs: the name that someone gave, and letters that say when.

Later ids come after earlier ones of the same name, so that databases add to the end of their indexes; and the number in
them says in which order jobs were submitted whatever they are called, so that those that were submitted together start
in the order in which they were listed, also after a restart. Ids must also be new to agents, which remember what they
ran when the database is gone or was set back to a backup; numbers counted in the database would come again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from threading import Lock

NAMELESS = "job"

_LETTERS = "bcdfghjkmnpqrstvwxz"  # none that are mistaken for another, and no words; no digits, which sort as numbers
_PAIRS = [first + second for first in _LETTERS for second in _LETTERS]
_OURS = re.compile(f"[{_LETTERS}]+")
_AS_DIGITS = str.maketrans(_LETTERS, "0123456789abcdefghi")
_EPOCH_MS = 1_767_225_600_000  # 2026-01-01
_TICKS_PER_MS = 125  # 11 letters last until 2055

_WIDTH = 11


class Names:
    """Gives out ids, none twice and each after the last."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = Lock()

    def ids(self, names: Sequence[str | None], now_ms: int) -> tuple[int, list[str]]:
        """An id for each of these, in order, and the number of the first."""
        with self._lock:
            first = max((now_ms - _EPOCH_MS) * _TICKS_PER_MS, self._last + 1)
            self._last = first + len(names) - 1
        return first, [f"{name or NAMELESS}-{letters(first + place)}" for place, name in enumerate(names)]


def letters(number: int) -> str:
    """A number in letters, all of the same length and in the same order as the numbers."""
    pairs = []
    for _ in range(_WIDTH // 2):
        number, rest = divmod(number, len(_PAIRS))
        pairs.append(_PAIRS[rest])
    pairs.append(_LETTERS[number])
    return "".join(reversed(pairs))


def number_of(job_id: str) -> int:
    """The number that an id was made of; 0 where it is none of ours."""
    written = job_id.rpartition("-")[2]
    return int(written.translate(_AS_DIGITS), len(_LETTERS)) if _OURS.fullmatch(written) else 0
