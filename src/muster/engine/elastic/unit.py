"""A unit: one running elastic job as the scheduler of widths sees it (paddle-trainingjob.md, `Unit`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count, repeat

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
    in_line: tuple[Task, ...] = ()  # the tasks as its row has them, once it stands in line to shrink
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

    @property
    def has_spare(self) -> bool:
        """Whether it has tasks above some group's min."""
        groups = self.run.job.profile.groups
        if len(groups) == 1:
            return len(self.tasks) > groups[0].min
        return any(self.width(group) > group.min for group in groups)

    @property
    def has_use_for_more(self) -> bool:
        """Whether some group is below its max."""
        groups = self.run.job.profile.groups
        if len(groups) == 1:
            return len(self.tasks) < groups[0].max
        return any(self.width(group) < group.max for group in groups)

    def width(self, group: TaskGroup) -> int:
        """How many tasks of the group it has."""
        if len(self.run.job.profile.groups) == 1:
            return len(self.tasks)
        return sum(task.group == group.name for task in self.tasks)

    def surplus(self) -> tuple[Task, ...]:
        """The tasks above each group's min, those to go first in front: the last to come go first."""
        return tuple(self.tasks[place] for place in self.spare_places())

    def spare_places(self) -> Sequence[int]:
        """Where those are among its tasks."""
        groups = self.run.job.profile.groups
        if len(groups) == 1:
            return range(len(self.tasks) - 1, groups[0].min - 1, -1)
        found: list[int] = []
        for group in groups:
            places = [place for place, task in enumerate(self.tasks) if task.group == group.name]
            found += reversed(places[group.min :])
        return found

    def lose(self, tasks: tuple[Task, ...]) -> None:
        """It goes on without these."""
        self.tasks = tuple(task for task in self.tasks if task not in tasks)
        self.went += tasks

    def keep(self, task: Task) -> None:
        """It need not lose this one after all."""
        self.tasks += (task,)
        self.went = tuple(it for it in self.went if it != task)

    def gain(self, group: str, nodes: Sequence[str], devices: Iterable[tuple[int, ...]]) -> None:
        """More tasks of one group, which get the first indexes that are free."""
        taken = {task.index for task in self.tasks if task.group == group}
        free = (number for number in count() if number not in taken)
        indexes = range(len(taken), len(taken) + len(nodes)) if not taken or max(taken) < len(taken) else free
        # Thousands of them in a turn: Task(...) for each would take most of it.
        new = tuple(map(tuple.__new__, repeat(Task), zip(repeat(group), indexes, nodes, devices, strict=False)))
        self.tasks += new
        self.came += new
