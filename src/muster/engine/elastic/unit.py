"""A unit: one running elastic job as the scheduler of widths sees it (paddle-trainingjob.md, `Unit`)."""

from __future__ import annotations

from dataclasses import dataclass

from muster.model.jobs import Running, Task, TaskGroup
from muster.model.names import NameKey

Order = tuple[int, NameKey]


@dataclass(slots=True, eq=False)
class Unit:
    """One attempt of an elastic job, and what this turn makes of its width.

    `virtual` is what it was given per level, as of the last mark; from `thaws_ms` on its width may change. `came` and
    `went` are tasks this turn adds and takes away; a unit is `settled` once something else decided about it.
    """

    run: Running
    row: int
    virtual: int
    thaws_ms: int
    is_thawed: bool
    tasks: tuple[Task, ...]
    came: tuple[Task, ...] = ()
    went: tuple[Task, ...] = ()
    settled: bool = False

    @property
    def obj(self) -> Running:
        """The inner scheduling unit."""
        return self.run

    @property
    def level(self) -> int:
        """The job's level: a higher one is served more (`GetPrio`)."""
        return self.run.job.level

    @property
    def order(self) -> Order:
        """Least served first."""
        return (self.virtual, self.run.job.key)

    @property
    def min_instances(self) -> int:
        """The fewest tasks it can run with."""
        return self.run.job.profile.tasks_min

    @property
    def max_instances(self) -> int:
        """The most tasks it has a use for."""
        return sum(group.max for group in self.run.job.profile.groups)

    @property
    def running_count(self) -> int:
        """How many tasks run; a unit of none would be waiting."""
        return len(self.run.tasks)

    @property
    def expected_count(self) -> int:
        """How many tasks run once the plan is carried out."""
        return len(self.tasks)

    @property
    def resource_score(self) -> int:
        """What it uses per task, in micro-units; rounded down where its groups differ."""
        serving = self.run.serving
        return 0 if serving is None else serving.usage // max(self.running_count, 1)

    @property
    def may_change(self) -> bool:
        """Whether its width may still be changed in this turn: it is thawed, and nothing moved it otherwise."""
        return self.is_thawed and not self.settled

    @property
    def is_untouched(self) -> bool:
        """Whether this turn has not changed its width."""
        return not self.came and not self.went

    def width(self, group: TaskGroup) -> int:
        """How many tasks of the group it has."""
        if len(self.run.job.profile.groups) == 1:
            return len(self.tasks)
        return sum(task.group == group.name for task in self.tasks)

    def surplus(self) -> tuple[Task, ...]:
        """The tasks above each group's min, those to go first in front."""
        above: list[Task] = []
        for group in self.run.job.profile.groups:
            tasks = sorted((task for task in self.tasks if task.group == group.name), key=lambda task: task.index)
            above.extend(reversed(tasks[group.min :]))
        return tuple(above)

    def lose(self, tasks: tuple[Task, ...]) -> None:
        """It goes on without these."""
        self.tasks = tuple(task for task in self.tasks if task not in tasks)
        self.went += tasks

    def gain(self, task: Task) -> None:
        """One more task, which gets the first index that is free."""
        taken = {it.index for it in self.tasks if it.group == task.group}
        index = next(number for number in range(len(taken) + 1) if number not in taken)
        task = task._replace(index=index)
        self.tasks += (task,)
        self.came += (task,)
