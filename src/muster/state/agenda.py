"""What is to come, moment by moment: at each, ends come first, then the rest in the order expected."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from muster.model import events as ev
from muster.model.names import NameKey

_END, _OTHER = 0, 1


class Entry(NamedTuple):
    """An event, and what decides when it comes."""

    at_ms: int
    kind: int
    place: tuple[NameKey, int] | int  # of an end: by job and attempt; of others: as they were expected
    number: int
    event: ev.Event


class Agenda:
    """Things to come. Most are expected in order, often a million of them: those wait in a row, not on the heap."""

    def __init__(self) -> None:
        self._row: deque[Entry] = deque()
        self._heap: list[Entry] = []
        self._numbers = count()

    def expect(self, at_ms: int, event: ev.Event) -> None:
        """Something will happen."""
        number = next(self._numbers)
        entry = Entry(at_ms, _OTHER, number, number, event)
        if not self._row or self._row[-1].at_ms <= at_ms:
            self._row.append(entry)
        else:
            heappush(self._heap, entry)

    def expect_end(self, at_ms: int, key: NameKey, attempt: int, event: ev.Event) -> None:
        """An attempt will end."""
        heappush(self._heap, Entry(at_ms, _END, (key, attempt), next(self._numbers), event))

    def first(self) -> Entry | None:
        """What comes next."""
        row, heap = self._row, self._heap
        if not row or not heap:
            return row[0] if row else heap[0] if heap else None
        return min(row[0], heap[0])

    def pop(self, first: Entry) -> None:
        """The first has come."""
        if self._heap and self._heap[0] is first:
            heappop(self._heap)
        else:
            self._row.popleft()
