"""The engine's jobs and the pods that each is of.

A batch is one job of the engine: pods that start together, or one pod. Whatever happens to batches is told to the
engine as events, in order: who asks takes them from `news`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from muster.kubernetes.amounts import kept_apart
from muster.kubernetes.asks import Ask
from muster.kubernetes.jobs import POD, Gang, Hold, Terms, job_of
from muster.kubernetes.objects import Pod
from muster.kubernetes.places import Devices
from muster.model import events as ev
from muster.model.jobs import Job, Task
from muster.model.nodes import Node
from muster.model.queues import Queue

CLUSTER = "kubernetes"
SHORTEST_RETRY_MS, LONGEST_RETRY_MS = 1_000, 60_000  # after a bind was refused


@dataclass(slots=True, eq=False)
class Member:
    """A pod of ours that is not over. `job` is the one it is in, while it is in line or placed; `task` while placed.

    `is_apart`: it may share no node with others that start together with it.
    `node`: where it is bound, or is being bound. `hold`: why it does not even stand in line. After a bind was
    refused, the next is not before `retry_ms`. `number`: its place among those that we heard of.
    """

    pod: Pod
    ask: Ask
    gang: Gang
    node: str = ""
    job: str = ""
    group: str = ""
    task: Task | None = None
    is_apart: bool = False
    is_leaving: bool = False
    hold: Hold | None = None
    refusals: int = 0
    retry_ms: int = 0
    number: int = 0

    @property
    def uid(self) -> str:
        """Of the pod."""
        return self.pod.metadata.uid

    def may_start(self) -> bool:
        """Whether a pod that is not bound may be as things are; if not, `hold` says why, where that is ours to say."""
        self.hold = None
        if self.ask.unsupported:
            self.hold = Hold("UNSUPPORTED", self.ask.unsupported)
        elif self.ask.waits:
            self.hold = Hold("VOLUME_MISSING", self.ask.waits)
        is_going = self.pod.metadata.deletion_timestamp is not None
        return self.hold is None and not is_going and not self.ask.gates

    def put_off(self, now_ms: int) -> None:
        """It stands in line again after a while, longer each time."""
        self.refusals += 1
        self.retry_ms = now_ms + min(SHORTEST_RETRY_MS << min(self.refusals - 1, 10), LONGEST_RETRY_MS)

    @property
    def planned(self) -> Ask:
        """What the engine is told that it asks for."""
        return replace(self.ask, request=kept_apart(self.ask.request)) if self.is_apart else self.ask


@dataclass(slots=True, eq=False)
class Batch:
    """A job of the engine, and its pods."""

    job: Job
    gang: Gang
    members: dict[str, Member]
    is_started: bool = False


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods to start together; `is_gang`: because their gang asks for it."""

    members: Sequence[Member]
    is_gang: bool = False


@dataclass(slots=True, eq=False)
class Batches:
    """All of them, by the ids of their jobs."""

    by_id: dict[str, Batch] = field(default_factory=dict)
    news: list[ev.Event] = field(default_factory=list)
    over: list[str] = field(default_factory=list)  # ids of jobs that need not be remembered
    _in_line: dict[Gang, set[str]] = field(default_factory=dict)
    _queues: set[str] = field(default_factory=set)
    _devices: Devices = field(default_factory=Devices)

    def line_up(self, gang: Gang, units: Sequence[Unit], terms: Terms) -> None:
        """Have exactly these units of a gang stand in line. One that asks for what it asked for keeps its place."""
        names = [self._name(gang, unit) for unit in units]
        self.withdraw(gang, keep=names)
        for name, unit in zip(names, units, strict=True):
            batch = self.by_id.get(name)
            job = _job(name, unit, terms)
            if batch is not None and batch.job == job:
                _fill(batch, unit)
                continue
            if batch is not None:
                self.end(batch)
            self._submit(job, gang, unit)
        if not units:
            self._in_line.pop(gang, None)

    def withdraw(self, gang: Gang, keep: Iterable[str] = ()) -> None:
        """Jobs of a gang that have not started stand in line no more."""
        for name in sorted(self._in_line.get(gang, set()).difference(keep)):
            self.end(self.by_id[name])

    def adopt(self, gang: Gang, unit: Unit, terms: Terms, nodes: Mapping[str, Node]) -> None:
        """These pods are bound: they have been running before we knew of them."""
        name = self._name(gang, unit)
        batch = self._submit(_job(name, unit, terms), gang, unit)
        counts: dict[str, int] = {}
        tasks = []
        for member in unit.members:
            index = counts[member.group] = counts.get(member.group, -1) + 1
            devices = self._devices.choose(nodes[member.node], member.ask.request)
            tasks.append(Task(member.group, index, member.node, devices))
            self._place(member, tasks[-1])
        self._begin(batch)
        self.news.append(ev.JobAdmitted(job=name, attempt=1, cluster=CLUSTER, place=0))
        self.news.append(ev.JobStarted(job=name, attempt=1, cluster=CLUSTER, tasks=tuple(tasks)))

    def start(self, name: str, tasks: Iterable[Task]) -> Batch:
        """The engine started a job: its pods have their places."""
        batch = self.by_id[name]
        ready: dict[str, list[Member]] = {}
        for member in batch.members.values():
            ready.setdefault(member.group, []).append(member)
        for task in sorted(tasks, key=lambda task: (task.group, -task.index)):
            self._place(ready[task.group].pop(), task)
        assert not any(ready.values()), f"{name} starts whole"
        self._begin(batch)
        return batch

    def leave(self, member: Member) -> None:
        """A pod is in its job no more. Others that are placed go on; others in line are put there anew."""
        batch = self.by_id.get(member.job)
        if batch is None:
            return
        task = member.task
        if task is None or len(batch.members) == 1:
            self.end(batch)
            return
        self._remove(member)
        del batch.members[member.uid]
        left = tuple(it.task for it in batch.members.values() if it.task is not None and it.task.group == task.group)
        self.news.append(
            ev.JobResized(job=batch.job.id, group=task.group, before=len(left) + 1, after=len(left), tasks=left)
        )

    def end(self, batch: Batch) -> None:
        """The job is no more; its pods are in none."""
        name = batch.job.id
        for member in batch.members.values():
            if member.job == name:
                self._remove(member)
        del self.by_id[name]
        self._in_line.get(batch.gang, set()).discard(name)
        self.over.append(name)
        self.news.append(ev.JobCancelled(job=name))

    def _submit(self, job: Job, gang: Gang, unit: Unit) -> Batch:
        batch = self.by_id[job.id] = Batch(job, gang, {})
        _fill(batch, unit)
        self._in_line.setdefault(gang, set()).add(job.id)
        if job.queue not in self._queues:
            self._queues.add(job.queue)
            self.news.append(ev.QueueSet(queue=Queue(name=job.queue)))
        self.news.append(ev.JobSubmitted(job=job))
        return batch

    def _begin(self, batch: Batch) -> None:
        batch.is_started = True
        in_line = self._in_line[batch.gang]
        in_line.discard(batch.job.id)
        if not in_line:
            del self._in_line[batch.gang]

    def _place(self, member: Member, task: Task) -> None:
        member.task = task
        self._devices.take(task.node, task.devices)

    def _remove(self, member: Member) -> None:
        member.job = ""
        if member.task is not None:
            self._devices.give(member.task.node, member.task.devices)
            member.task = None

    def _name(self, gang: Gang, unit: Unit) -> str:
        """What the job of a unit is called: as its gang, unless a part of that has a job of that name already."""
        pod = unit.members[0].pod.metadata
        if not unit.is_gang:
            return Gang(POD, pod.namespace, pod.name).id
        batch = self.by_id.get(gang.id)
        return gang.id if batch is None or not batch.is_started else f"{gang.id}/{pod.name}"


def _job(name: str, unit: Unit, terms: Terms) -> Job:
    """The job of a unit; its pods are told their task groups."""
    number = min(member.number for member in unit.members)
    job, groups = job_of(name, [(member.pod, member.planned) for member in unit.members], terms, number)
    for member, group in zip(unit.members, groups, strict=True):
        member.group = group
    return job


def _fill(batch: Batch, unit: Unit) -> None:
    batch.members = {member.uid: member for member in unit.members}
    for member in unit.members:
        member.job = batch.job.id
