"""Who shrinks for a job that waits for quota: the most served of its queue or user, never below min (design.md 5.6).

What growth has taken of a quota is not kept from a job that needs it. As few tasks go as are enough. And until such a
job has started, nobody grows into the quota that it could have if all shrank: what falls free bit by bit adds up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.engine.elastic.shrinking import Cuts
from muster.engine.elastic.unit import Unit
from muster.engine.limits import Lack
from muster.model.jobs import Task
from muster.model.resources import Resources


class _Wants:
    """What is still lacking of each quota while tasks are given up for it."""

    def __init__(self, lacks: Sequence[Lack]) -> None:
        self._lacks = lacks
        self._left = [dict(lack.amounts.items()) for lack in lacks]

    def are_met(self) -> bool:
        """Whether nothing lacks any more."""
        return all(amount <= 0 for left in self._left for amount in left.values())

    def is_helped_by(self, unit: Unit, task: Task) -> bool:
        """Whether less would be lacking without that task."""
        asks = _asks(unit, task)
        return any(
            amount > 0 and asks.get(name)
            for lack, left in zip(self._lacks, self._left, strict=True)
            if lack.is_of(unit.run.job)
            for name, amount in left.items()
        )

    def give(self, unit: Unit, task: Task, sign: int = +1) -> None:
        """The task goes (sign +1), or stays after all (-1)."""
        asks = _asks(unit, task)
        for lack, left in zip(self._lacks, self._left, strict=True):
            if lack.is_of(unit.run.job):
                for name in left:
                    left[name] -= sign * asks.get(name)


def cuts_for_quota(lacks: Sequence[Lack], units: Iterable[Unit]) -> Cuts | None:
    """The tasks that these give up, those of the first first, so that nothing lacks any more; None: not enough."""
    wants, given = _Wants(lacks), list[tuple[Unit, Task]]()
    for unit in units:
        for task in () if wants.are_met() else unit.surplus():
            if wants.is_helped_by(unit, task):
                wants.give(unit, task)
                given.append((unit, task))
    if not wants.are_met():
        return None
    cuts: dict[Unit, tuple[Task, ...]] = {}
    for unit, task in reversed(given):  # the least served first: theirs stay if they can
        wants.give(unit, task, -1)
        if not wants.are_met():
            wants.give(unit, task)
            cuts[unit] = (task, *cuts.get(unit, ()))
    return list(reversed(cuts.items()))


def may_eat(unit: Unit, lacks: Iterable[Lack]) -> bool:
    """Whether the unit would take of such a quota if it grew."""
    elastic = [group for group in unit.run.job.profile.groups if group.min < group.max]
    return any(
        lack.is_of(unit.run.job) and any(group.request.resources.get(name) for group in elastic)
        for lack in lacks
        for name in lack.amounts
    )


def _asks(unit: Unit, task: Task) -> Resources:
    return unit.run.job.profile.group(task.group).request.resources
