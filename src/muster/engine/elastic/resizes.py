"""What became of widths in a turn, as actions of its plan: those who shrink apart from those who grow."""

from __future__ import annotations

from collections.abc import Iterator

from muster.engine.elastic.unit import Unit
from muster.model.jobs import Task
from muster.model.plan import Resize, Why


class Resizes:
    """The units whose width changes, each with the first reason for it and the jobs it shrinks for."""

    def __init__(self) -> None:
        self._why: dict[Unit, Why] = {}
        self._by: dict[Unit, list[str]] = {}

    def __len__(self) -> int:
        return len(self._why)

    def note(self, unit: Unit, why: Why, by: str = "") -> None:
        """The width of the unit changes."""
        self._why.setdefault(unit, why)
        if by:
            self._by.setdefault(unit, []).append(by)

    def of(self, why: Why) -> list[Unit]:
        """The units that change for this reason, in the order in which that was decided."""
        return [unit for unit, reason in self._why.items() if reason is why]

    def actions(self) -> tuple[list[Resize], list[Resize]]:
        """Who loses tasks, and who gains some, in the order in which that was decided."""
        shrinks: list[Resize] = []
        growths: list[Resize] = []
        for unit, why in self._why.items():
            for action in self._actions(unit, why):
                (growths if action.added else shrinks).append(action)
        return shrinks, growths

    def _actions(self, unit: Unit, why: Why) -> Iterator[Resize]:
        run, groups, by = unit.run, unit.run.job.profile.groups, tuple(self._by.get(unit, ()))
        for group in groups:
            added, removed, had = unit.came, unit.went, run.tasks
            if len(groups) > 1:
                added, removed, had = (_of(group.name, tasks) for tasks in (added, removed, had))
            if added or removed:
                after = len(had) + len(added) - len(removed)
                yield Resize(
                    run.job.id, run.attempt, group.name, len(had), after, why, added, removed, by if removed else ()
                )


def _of(group: str, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    return tuple(task for task in tasks if task.group == group)
