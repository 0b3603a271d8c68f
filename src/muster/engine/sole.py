"""The only node there is at the moment of a turn, in a few amounts: what is free, who leaves, who is promised what."""

from __future__ import annotations

from collections.abc import Mapping
from operator import gt

import numpy as np

from muster.engine import runs
from muster.engine.kernels import glancing
from muster.engine.roll import Roll
from muster.engine.runs import Runs
from muster.engine.shapes import ShapeTable
from muster.engine.table import NONE
from muster.model.jobs import NEVER_MS, Job, Reservation, Task
from muster.model.plan import Action, Admit, Plan, Promise, Start
from muster.model.policy import Policy
from muster.model.snapshot import Snapshot

Amounts = list[list[int]]

_MOST_STARTS = 256  # in one turn: of more, a whole turn is the quicker one for each


class Refused:
    """Whom such a turn would refuse: who finds no room now, or stays beyond the promised moment and finds none then.

    `amounts` are those of muster.engine.kernels.glancing, once the turn is carried out; `start_ms` is the promised
    moment, and None if nobody is promised anything: then nobody waits, and nobody is refused.
    """

    def __init__(
        self, roll: Roll, policy: Policy, shapes: ShapeTable, amounts: Amounts, now_ms: int, start_ms: int | None
    ) -> None:
        self._roll, self._policy, self._shapes = roll, policy, shapes
        self.amounts, self.start_ms = amounts, start_ms
        self._now_ms = now_ms
        self._known = len(roll.profiles)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a plan that is stored goes without

    @property
    def are_for_want_of_room(self) -> bool:
        """Whether nothing but more room could change anything for those who wait."""
        return self.start_ms is not None

    def hold_for(self, job: Job) -> bool:
        """Whether the job would only wait."""
        profiles = self._roll.profiles
        if self.start_ms is None or job.profile not in profiles or job.priority_class > max(self._roll.classes):
            return False
        if len(profiles) > self._known or job.lifetime_ms is not None:
            return False
        asked, bound_ms = self._shapes.leasts[profiles[job.profile]], self._policy.bound_ms(job)
        if any(map(gt, asked, self.amounts[glancing.FREE])):
            return True
        stays = bound_ms is None or self._now_ms + bound_ms > self.start_ms
        return stays and any(map(gt, asked, self.amounts[glancing.SPARE]))


class Sole:
    """The node, as a turn finds it and fills it."""

    def __init__(
        self, snapshot: Snapshot, roll: Roll, running: Runs, shapes: ShapeTable, free: Mapping[str, int]
    ) -> None:
        self.snapshot, self.policy, self.now_ms = snapshot, snapshot.policy, snapshot.now_ms
        self.roll, self.shapes = roll, shapes
        self.pending = next(iter(snapshot.pending), None)
        cells = running.table.cells[:, : running.table.size]
        self.running = glancing.Running(cells[runs.MANY], cells[runs.END], cells[runs.PROFILE])
        self.started = np.empty((_MOST_STARTS, glancing.STARTED), np.int64)
        self._free, self._told = [free.get(name, 0) for name in shapes.resources], self._facts()
        self.open()

    def open(self) -> None:
        """Nothing is decided yet."""
        self.facts = np.array(self._told, np.int64)
        self.amounts = np.array([self._free] * glancing.AMOUNTS, np.int64)

    def _facts(self) -> list[int]:
        """All that is known before anything is decided."""
        promised, start_ms, known_ms = NONE, NEVER_MS, None
        if self.pending is not None and self.pending.reservation is not None:
            job, start_ms = self.pending.job, self.pending.reservation.start_ms
            promised, known_ms = self.shapes.number(job.profile), job.known_ms
        since_ms = self.now_ms - self.policy.aging_after_ms
        bound_ms, deep = NONE if known_ms is None else known_ms, self.policy.profiles_deep
        told = [self.now_ms, start_ms, promised, bound_ms, deep, since_ms, NEVER_MS, len(self.roll), NONE, NONE]
        return told + [0] * (glancing.FACTS - len(told))

    @property
    def is_promised(self) -> bool:
        """Whether someone is promised room, as far as it is decided."""
        return bool(self.facts[glancing.PROMISED] != NONE)

    def plan(self, fate: int) -> Plan:
        """What was decided, and what became of the promise."""
        facts: list[int] = self.facts.tolist()
        start_ms = wake_ms = None  # where nobody waits
        if facts[glancing.PROMISED] != NONE:
            start_ms = facts[glancing.START]
            ages_ms = facts[glancing.NEXT_AGE] + self.policy.aging_after_ms
            wake_ms = min(start_ms, facts[glancing.NEXT_END], ages_ms)
        return Plan(
            now_ms=self.now_ms,
            actions=self._actions(fate, facts),
            wake_ms=wake_ms,
            waits_ms=wake_ms,
            refusals=Refused(self.roll, self.policy, self.shapes, self.amounts.tolist(), self.now_ms, start_ms),
        )

    def _actions(self, fate: int, facts: list[int]) -> list[Action]:
        """In the order in which they were decided."""
        many, place, row = facts[glancing.MANY], facts[glancing.PLACE], facts[glancing.RESERVED]
        actions: list[Action] = []
        if fate == glancing.SOONER and self.pending is not None:
            reservation = self._reservation(self.pending.job)
            actions.append(Promise(job=self.pending.job.id, attempt=self.pending.attempt, reservation=reservation))
        rows = self.started[:many, glancing.ROW].tolist()
        for at, started in enumerate(rows):
            if row != NONE and at == place:
                actions.append(self._admit(self.roll.job(row)))
            actions.append(self._start(started))
        if row != NONE and place == many:
            actions.append(self._admit(self.roll.job(row)))
        return actions

    def _start(self, row: int) -> Start:
        """Who stood in that row starts, or who was promised room before."""
        if row == NONE:
            assert self.pending is not None, "only who was promised room stands in no row"
            job, attempt = self.pending.job, self.pending.attempt
        else:
            job = self.roll.job(row)
            attempt = self.snapshot.next_attempt(job)
        cluster, tasks = self._place_of(job)
        return Start(job=job.id, queue=job.queue, attempt=attempt, cluster=cluster, tasks=tasks)

    def _admit(self, job: Job) -> Admit:
        reservation, attempt = self._reservation(job), self.snapshot.next_attempt(job)
        return Admit(job=job.id, attempt=attempt, cluster=reservation.cluster, reservation=reservation)

    def _reservation(self, job: Job) -> Reservation:
        """The job is to start there at the promised moment."""
        cluster, tasks = self._place_of(job)
        return Reservation(cluster=cluster, start_ms=int(self.facts[glancing.START]), tasks=tasks, is_firm=True)

    def _place_of(self, job: Job) -> tuple[str, tuple[Task, ...]]:
        (node,), (group,) = self.snapshot.fleet.nodes.values(), job.profile.groups
        return node.cluster, (Task(group=group.name, index=0, node=node.name),)
