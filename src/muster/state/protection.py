"""What keeps running tasks from being evicted, as events told it: disruption budgets and limits of evictions."""

from __future__ import annotations

from muster.model import events as ev
from muster.model.budgets import Budget, EvictionLimit


class Protection:
    """Budgets by job and group, and limits by name; each stays until it is set anew or goes."""

    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, Budget]] = {}
        self._limits: dict[str, EvictionLimit] = {}

    def takes(self, event: ev.Event) -> bool:
        """Whether the event is about a budget or a limit; if so it is taken note of."""
        match event:
            case ev.BudgetSet(budget=budget):
                self._budgets.setdefault(budget.job, {})[budget.group] = budget
            case ev.BudgetGone(job=job, group=group):
                left = self._budgets.get(job, {})
                left.pop(group, None)
                if not left:
                    self._budgets.pop(job, None)
            case ev.EvictionLimitSet(limit=limit):
                self._limits[limit.name] = limit
            case ev.EvictionLimitGone(limit=name):
                self._limits.pop(name, None)
            case _:
                return False
        return True

    def forget(self, job: str) -> None:
        """The job is over: nothing of it can be evicted any more."""
        self._budgets.pop(job, None)

    def budgets(self) -> tuple[Budget, ...]:
        """The disruption budgets of groups, job by job in the order in which they came."""
        return tuple(budget for of_job in self._budgets.values() for budget in of_job.values())

    def limits(self) -> tuple[EvictionLimit, ...]:
        """How many of certain tasks may be evicted, by name."""
        return tuple(self._limits[name] for name in sorted(self._limits))

    def fork(self) -> Protection:
        """A copy that can go its own way."""
        other = Protection()
        other._budgets = {job: dict(of_job) for job, of_job in self._budgets.items()}
        other._limits = dict(self._limits)
        return other
