"""How many of certain tasks may still be evicted in this turn: who carries evictions out would refuse more.

Unlike a disruption budget, which is a preference, nobody has a way around it (docs/adr/0046-eviction-limits.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from muster.engine.stays import Stays
from muster.engine.victims import Unit
from muster.model.budgets import EvictionLimit
from muster.model.jobs import Task


class Walls:
    """The limits by number, and how many of each are `left` after those who went in this turn.

    A task keeps the wall it had when the turn began, whoever of its job goes: `stays` are as the turn found them.
    """

    def __init__(self, limits: Iterable[EvictionLimit], stays: Stays) -> None:
        self.left: list[int] = []
        by_job: dict[str, list[int]] = {}
        for number, limit in enumerate(limits):
            self.left.append(limit.allowed)
            for job, tasks in limit.covers:
                by_job.setdefault(job, []).extend([number] * tasks)
        running = [stays.run(row) for row in stays.rows_of(by_job)]
        self._behind = {run.job.id: dict(zip(_names(run.tasks), by_job[run.job.id], strict=False)) for run in running}

    @property
    def jobs(self) -> Iterable[str]:
        """Those of which tasks are behind a wall."""
        return self._behind

    def before(self, job: str, tasks: Iterable[Task]) -> list[int]:
        """For each of these tasks of a job the number of its wall, or -1."""
        behind = self._behind[job]
        return [behind.get(name, -1) for name in _names(tasks)]

    def gone(self, units: Iterable[Unit]) -> Counter[int]:
        """How many tasks these units have behind each wall."""
        found: Counter[int] = Counter()
        for unit in units:
            if (job := unit.run.job.id) in self._behind:
                found.update(number for number in self.before(job, unit.tasks) if number >= 0)
        return found

    def not_behind(self, unit: Unit) -> list[Task]:
        """The tasks of a unit that are behind no wall."""
        behind = self._behind.get(unit.run.job.id, {})
        return [task for task, name in zip(unit.tasks, _names(unit.tasks), strict=True) if name not in behind]

    def forbid(self, units: Iterable[Unit]) -> bool:
        """Whether these cannot all go."""
        return any(many > max(self.left[number], 0) for number, many in self.gone(units).items())

    def note_gone(self, unit: Unit) -> None:
        """The unit goes."""
        for number, many in self.gone([unit]).items():
            self.left[number] -= many


def _names(tasks: Iterable[Task]) -> list[tuple[str, int]]:
    """What tells the tasks of a job apart, wherever they are."""
    return [(task.group, task.index) for task in tasks]
