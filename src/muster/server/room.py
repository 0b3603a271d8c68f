"""How many jobs each queue has, as people are told and as its limit counts them.

Kept beside the world, under a lock of its own that nobody holds for long: whoever submits need not wait for the turn
that is under way. Jobs that were let in count at once, before any turn has seen them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from threading import Lock

from muster.store.rows import FINISHED


class Full(Exception):
    """A queue takes no more jobs now."""


class Closed(Exception):
    """A queue is being deleted: nothing comes to it any more."""


class Room:
    """Jobs of each queue: those that are not over, and what became of the others while they are kept."""

    def __init__(self, counts: Mapping[str, Mapping[str, int]], most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._alive: Counter[str] = Counter()
        self._over: dict[str, Counter[str]] = {}
        self._closed: set[str] = set()
        for queue, by_state in counts.items():
            self._over[queue] = Counter({state: many for state, many in by_state.items() if state in FINISHED})
            self._alive[queue] = sum(by_state.values()) - self._over[queue].total()

    def take(self, asked: Mapping[str, int]) -> None:
        """So many jobs come to each queue; raises Full where there is no room, or Closed, and then none comes."""
        with self._lock:
            self._look(asked)
            if closed := sorted(queue for queue in asked if queue in self._closed):
                raise Closed(f"there is no queue {closed[0]!r} any more")
            self._alive.update(asked)

    def close(self, queue: str) -> int:
        """Let nothing come to the queue any more, if it has no jobs; how many it has."""
        with self._lock:
            if not self._alive[queue]:
                self._closed.add(queue)
            return self._alive[queue]

    def open(self, queue: str) -> None:
        """The queue is there, or there again."""
        with self._lock:
            self._closed.discard(queue)

    def look(self, asked: Mapping[str, int]) -> None:
        """Raises Full where there is no room for so many jobs."""
        with self._lock:
            self._look(asked)

    def _look(self, asked: Mapping[str, int]) -> None:
        for queue, many in asked.items():
            if self._alive[queue] + many > self._most:
                raise Full(f"queue {queue!r} has {self._alive[queue]} jobs, and {self._most} is the most it takes")

    def give_back(self, asked: Mapping[str, int]) -> None:
        """They do not come after all."""
        with self._lock:
            self._alive.subtract(asked)

    def end(self, ends: Iterable[tuple[str, str]]) -> None:
        """Jobs are over: the queue and the last state of each."""
        with self._lock:
            for queue, state in ends:
                self._alive[queue] -= 1
                self._over.setdefault(queue, Counter())[state] += 1

    def forget(self, gone: Mapping[tuple[str, str], int]) -> None:
        """So many jobs of a queue that ended in a state are kept no longer."""
        with self._lock:
            for (queue, state), many in gone.items():
                self._over.setdefault(queue, Counter())[state] -= many

    def alive(self, queue: str) -> int:
        """How many jobs of a queue are not over."""
        with self._lock:
            return self._alive[queue]

    def over(self, queue: str) -> dict[str, int]:
        """What became of the jobs of a queue that are still kept."""
        with self._lock:
            return {state: many for state, many in self._over.get(queue, {}).items() if many > 0}
