"""In which order pools did what they did: each writes its own minutes, some of them more than once."""

from __future__ import annotations

from bisect import bisect_right

from muster.engine.minutes import Minutes


class Diary:
    """When each part of the minutes of a turn was written."""

    def __init__(self) -> None:
        self._written: dict[Minutes, list[tuple[int, int]]] = {}  # from which place on, in which entry
        self._lengths: dict[Minutes, int] = {}
        self._entries = 0

    def note(self, minutes: Minutes) -> None:
        """What was added to the minutes since they were last noted comes next."""
        begin = self._lengths.get(minutes, 0)
        if len(minutes) > begin:
            self._written.setdefault(minutes, []).append((begin, self._entries))
            self._lengths[minutes] = len(minutes)
            self._entries += 1

    def order(self, minutes: Minutes, place: int) -> tuple[int, int]:
        """Where something stands among all that was written."""
        written = self._written[minutes]
        begin, entry = written[bisect_right(written, (place, self._entries)) - 1]
        return entry, place - begin
