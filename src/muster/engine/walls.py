"""How many of certain tasks may still be evicted in this turn: who carries evictions out would refuse more.

Unlike a disruption budget, which is a preference, nobody has a way around it (docs/adr/0046-eviction-limits.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from muster.engine.victims import Unit
from muster.model.budgets import EvictionLimit
from muster.model.jobs import Task


class Walls:
    """The limits by number, and how many of each are `left` after those who went in this turn."""

    def __init__(self, limits: Iterable[EvictionLimit]) -> None:
        self.left: list[int] = []
        self._by_job: dict[str, list[tuple[int, int]]] = {}
        for number, limit in enumerate(limits):
            self.left.append(limit.allowed)
            for job, tasks in limit.covers:
                self._by_job.setdefault(job, []).append((number, tasks))

    @property
    def jobs(self) -> Iterable[str]:
        """Those of which tasks are behind a wall."""
        return self._by_job

    def before(self, job: str, tasks: int) -> list[int]:
        """For each of so many tasks of a job, in their order, the number of its wall, or -1."""
        numbers = [number for number, covered in self._by_job.get(job, ()) for _ in range(covered)]
        return [*numbers, *[-1] * tasks][:tasks]

    def _of(self, unit: Unit) -> list[int]:
        """For each task of a unit the number of its wall, or -1."""
        run = unit.run
        behind = dict(zip(run.tasks, self.before(run.job.id, len(run.tasks)), strict=True))
        return [behind[task] for task in unit.tasks]

    def gone(self, units: Iterable[Unit]) -> Counter[int]:
        """How many tasks these units have behind each wall."""
        found: Counter[int] = Counter()
        for unit in units:
            if unit.run.job.id in self._by_job:
                found.update(number for number in self._of(unit) if number >= 0)
        return found

    def not_behind(self, unit: Unit) -> list[Task]:
        """The tasks of a unit that are behind no wall."""
        return [task for task, number in zip(unit.tasks, self._of(unit), strict=True) if number < 0]

    def forbid(self, units: Iterable[Unit]) -> bool:
        """Whether these cannot all go."""
        return any(many > max(self.left[number], 0) for number, many in self.gone(units).items())

    def note_gone(self, unit: Unit) -> None:
        """The unit goes."""
        for number, many in self.gone([unit]).items():
            self.left[number] -= many
