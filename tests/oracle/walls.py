"""How many of certain tasks may still be evicted in a turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from muster.model.budgets import EvictionLimit
from muster.model.jobs import Running, Task

Gone = Iterable[tuple[Running, Task]]


class Walls:
    """What each limit leaves, by name. Where a task is in its job is as the turn found it."""

    def __init__(self, limits: Iterable[EvictionLimit], running: Iterable[Running]) -> None:
        self._limits = tuple(limits)
        self._places = {(run.job.id, task.name): place for run in running for place, task in enumerate(run.tasks)}
        self.left = {limit.name: max(limit.allowed, 0) for limit in self._limits}

    def wall_of(self, run: Running, task: Task) -> str | None:
        """The limit of a task: the first limit covers the first tasks of a job, the next one those behind."""
        before, place = 0, self._places[run.job.id, task.name]
        for limit in self._limits:
            before += dict(limit.covers).get(run.job.id, 0)
            if place < before:
                return limit.name
        return None

    def counted(self, gone: Gone) -> Counter[str]:
        walls = (self.wall_of(run, task) for run, task in gone)
        return Counter(name for name in walls if name is not None)

    def allow(self, gone: Gone, besides: Mapping[str, int]) -> bool:
        """Whether these tasks may go, besides so many behind each wall."""
        return all(many + besides.get(name, 0) <= self.left[name] for name, many in self.counted(gone).items())

    def note_gone(self, gone: Gone) -> None:
        for name, many in self.counted(gone).items():
            self.left[name] -= many
