"""What became of widths in a turn, as actions of its plan: those who shrink apart from those who grow."""

from __future__ import annotations

from collections.abc import Iterator

from muster.engine.elastic.unit import Unit
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

    def shrinks(self) -> list[Resize]:
        """Who loses tasks, in the order in which that was decided."""
        return [action for unit in self._why for action in self._actions(unit) if action.removed]

    def growths(self) -> list[Resize]:
        """Who gains some."""
        return [action for unit in self._why for action in self._actions(unit) if action.added]

    def _actions(self, unit: Unit) -> Iterator[Resize]:
        groups = unit.run.job.profile.groups
        for group in groups:
            added, removed, had = (
                tasks if len(groups) == 1 else tuple(task for task in tasks if task.group == group.name)
                for tasks in (unit.came, unit.went, unit.run.tasks)
            )
            if added or removed:
                before = len(had)
                yield Resize(
                    job=unit.run.job.id,
                    attempt=unit.run.attempt,
                    group=group.name,
                    before=before,
                    after=before + len(added) - len(removed),
                    why=self._why[unit],
                    added=added,
                    removed=removed,
                    by=tuple(self._by.get(unit, ())) if removed else (),
                )
