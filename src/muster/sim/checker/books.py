"""What nodes, queues and users hold, decision by decision.

The books open with what the snapshot's running and pending jobs add up to. Usage and flow are taken from
the accounts, since flow remembers what a snapshot no longer shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from muster.model.jobs import Job, Pending, Running, Task, least_usage_of, resources_of, usage_of
from muster.model.policy import FairBy
from muster.model.queues import Queue
from muster.model.resources import NOTHING, Resources, total
from muster.sim.checker.fitting import Ever
from muster.sim.checker.nodes import NodeBook
from muster.sim.checker.service import Service
from muster.sim.checker.shares import demand_of, shares_of
from muster.sim.checker.world import World, groups_of


@dataclass(slots=True, kw_only=True)
class Holding:
    """What one queue holds: `started`, and `held` with its pending jobs at their min.

    `is_exact` until something is taken from the queue: what its flow is then, inside a turn, is not laid down.
    """

    queue: Queue
    started: Resources
    held: Resources
    started_usage: int
    usage: int
    flow: int
    fixed_usage: int
    fixed_flow: int
    charged: int
    starts: int = 0
    is_exact: bool = True

    @property
    def budget_left(self) -> int | None:
        """What the excess budget can still pay; None: everything."""
        return None if self.queue.excess_budget is None else self.queue.excess_budget - self.charged


class Books:
    """Everything that is held at one point of a plan."""

    def __init__(self, world: World) -> None:
        self.world = world
        cores = world.policy.cores_per_gpu
        self.nodes = {name: NodeBook(state.empty, cores) for name, state in world.snapshot.nodes.items()}
        self.tasks = {name: run.tasks for name, run in world.running.items()}
        self.quotas = {state.user.name: state.user.quota for state in world.snapshot.users}
        self.users = {state.user.name: state.raced for state in world.snapshot.users}
        self.started = dict.fromkeys(world.queues, NOTHING)
        self.starts = 0
        for run in world.running.values():
            self._put(run.job, run.tasks)
            self.started[run.job.queue] = self.started[run.job.queue] + run.resources
            self._hold_for_user(run.job, run.resources)
        self.ever = Ever(world)
        self.shares = shares_of(world, self.ever, self.nodes)
        is_by_service = world.policy.fair_by is FairBy.SERVICE
        self.service = Service(world, self.shares.whole) if is_by_service else None
        self.queues = {name: self._opening(name) for name in world.queues}
        for pending in world.pending.values():
            self.admit(pending.job, 0)

    def _opening(self, name: str) -> Holding:
        state, policy, now_ms = self.world.queues[name], self.world.policy, self.world.now_ms
        # Whose turn it is goes by flows as of every eighth of a half time, or of a later change.
        step_ms = max(policy.half_time_ms // 8, 1)
        mark_ms = max(now_ms // step_ms * step_ms, state.account.as_of_ms)
        return Holding(
            queue=state.queue,
            started=self.started[name],
            held=self.started[name] + state.raced,
            started_usage=state.account.usage,
            usage=state.account.usage,
            flow=state.account.flow_at(mark_ms, policy.half_time_ms),
            fixed_usage=state.fixed.usage,
            fixed_flow=state.fixed.flow_at(now_ms, policy.half_time_ms),
            charged=state.charged,
        )

    def opening_problems(self) -> Iterator[str]:
        """Where the snapshot does not add up."""
        for name, state in self.world.snapshot.nodes.items():
            book, room = self.nodes[name], state.room
            if (room.free, room.devices, room.tasks) != book.shown():
                yield f"node {name}: its room is {room}, its tasks leave {book.shown()}"
            if state.held != book.held:
                yield f"node {name}: its tasks hold {book.held}, the snapshot says {state.held}"
        sums = self._sums()
        for name, queue in self.world.queues.items():
            if queue.started != self.started[name]:
                yield f"queue {name}: its jobs hold {self.started[name]}, the snapshot says {queue.started}"
            if queue.demand != demand_of(self.world, queue):
                yield f"queue {name}: its jobs ask for {demand_of(self.world, queue)}, not for {queue.demand}"
            told = {"usage": queue.account.usage, "fixed usage": queue.fixed.usage, "charges": queue.charged}
            for what, amount in told.items():
                if sums[name, what] != amount:
                    yield f"queue {name}: the {what} of its jobs is {sums[name, what]}, the snapshot says {amount}"
        for user in self.world.snapshot.users:
            held = total(run.resources for run in self.world.running.values() if run.job.user == user.user.name)
            if user.started != held:
                yield f"user {user.user.name}: holds {held}, the snapshot says {user.started}"

    def _sums(self) -> Counter[tuple[str, str]]:
        sums: Counter[tuple[str, str]] = Counter()
        for run in self.world.running.values():
            sums[run.job.queue, "usage"] += self.usage(run.job, run.tasks)
            sums[run.job.queue, "charges"] += run.charge
            if run.job.lifetime_ms is None:
                sums[run.job.queue, "fixed usage"] += self.least_usage(run.job)
        for pending in self.world.pending.values():
            sums[pending.job.queue, "charges"] += pending.charge
        return sums

    # -- what decisions do -----------------------------------------------------------------------------

    def least_usage(self, job: Job) -> int:
        """Usage of the job at its min."""
        return least_usage_of(job.profile, self.world.policy.weights)

    def usage(self, job: Job, tasks: tuple[Task, ...]) -> int:
        """Usage of some of the job's tasks."""
        groups = groups_of(job.profile)
        return usage_of(job.profile, (task for task in tasks if task.group in groups), self.world.policy.weights)

    def flow_with(self, job: Job) -> int:
        """The flow of its queue if the job were admitted."""
        holding = self.queues[job.queue]
        return max(holding.flow, holding.usage + self.least_usage(job))

    def due(self, queue: str) -> Fraction:
        """What is compared, by service, to find whose turn it is."""
        assert self.service is not None
        holding = self.queues[queue]
        return self.service.due(queue, holding.started_usage, holding.queue.weight, self.turn_weight(queue))

    def turn_weight(self, queue: str) -> int:
        """By what flows are divided to find whose turn it is."""
        state = self.world.queues[queue]
        return self.world.policy.turn_weight(state.queue.weight, state.habit)

    def fixed_flow_with(self, job: Job) -> int:
        """The flow of its queue's jobs without a lifetime if this one were admitted."""
        holding = self.queues[job.queue]
        return max(holding.fixed_flow, holding.fixed_usage + self.least_usage(job))

    def charge_for(self, job: Job) -> int:
        """What admitting the job costs its queue's excess budget (design.md 4.4b)."""
        nominal = self.shares.nominal(self.queues[job.queue].queue)
        if not job.declared_lifetime_ms or self.flow_with(job) <= nominal:
            return 0
        return job.declared_lifetime_ms * self.least_usage(job)

    def admit(self, job: Job, charge: int) -> None:
        """A job is pending: it counts its min."""
        holding = self.queues[job.queue]
        holding.charged += charge
        if job.lifetime_ms is None:
            holding.fixed_flow = self.fixed_flow_with(job)
            holding.fixed_usage += self.least_usage(job)
        self._hold(job, job.profile.least, self.least_usage(job))

    def start(self, job: Job, tasks: tuple[Task, ...]) -> None:
        """A pending job starts as wide as these tasks."""
        holding, resources = self.queues[job.queue], resources_of(job.profile, tasks)
        usage, least = self.usage(job, tasks), job.profile.least
        if resources.covers(least):  # a gang that is not whole has been noted already
            self._hold(job, resources - least, usage - self.least_usage(job))
        holding.started = holding.started + resources
        holding.started_usage += usage
        holding.starts += 1
        self.starts += 1
        self._put(job, tasks)

    def give_back(self, pending: Pending) -> None:
        """A pending job returns to its queue."""
        holding, job = self.queues[pending.job.queue], pending.job
        holding.charged -= pending.charge
        if job.lifetime_ms is None:
            holding.fixed_usage -= self.least_usage(job)
        self._release(job, job.profile.least, self.least_usage(job))

    def evict(self, run: Running, tasks: tuple[Task, ...], *, whole: bool) -> None:
        """A running job loses these tasks, which it has."""
        holding, resources = self.queues[run.job.queue], resources_of(run.job.profile, tasks)
        self.tasks[run.job.id] = tuple(task for task in self.tasks[run.job.id] if task not in tasks)
        self.take_away(run.job, tasks)
        holding.started = holding.started - resources
        holding.started_usage -= self.usage(run.job, tasks)
        holding.charged -= run.charge if whole else 0
        self._release(run.job, resources, self.usage(run.job, tasks))

    def widen(self, job: Job, tasks: tuple[Task, ...]) -> None:
        """A running job gets these tasks on top."""
        holding, resources = self.queues[job.queue], resources_of(job.profile, tasks)
        self.tasks[job.id] += tasks
        holding.started = holding.started + resources
        holding.started_usage += self.usage(job, tasks)
        self._hold(job, resources, self.usage(job, tasks))
        self._put(job, tasks)

    def _hold(self, job: Job, resources: Resources, usage: int) -> None:
        holding = self.queues[job.queue]
        holding.held = holding.held + resources
        holding.usage += usage
        holding.flow = max(holding.flow, holding.usage)
        self._hold_for_user(job, resources)

    def _hold_for_user(self, job: Job, resources: Resources) -> None:
        if job.user in self.users:
            self.users[job.user] = self.users[job.user] + resources

    def _release(self, job: Job, resources: Resources, usage: int) -> None:
        holding = self.queues[job.queue]
        holding.is_exact = False
        holding.held = holding.held - resources
        holding.usage -= usage
        if job.user in self.users:
            self.users[job.user] = self.users[job.user] - resources

    # -- tasks on nodes --------------------------------------------------------------------------------

    def _put(self, job: Job, tasks: tuple[Task, ...]) -> None:
        put_on(self.nodes, job, tasks)

    def take_away(self, job: Job, tasks: tuple[Task, ...]) -> None:
        """These tasks leave their nodes."""
        groups = groups_of(job.profile)
        for task in tasks:
            if task.node in self.nodes and task.group in groups:
                self.nodes[task.node].remove(groups[task.group].request, task.devices)


def put_on(nodes: dict[str, NodeBook], job: Job, tasks: tuple[Task, ...]) -> None:
    """These tasks are on their nodes, as far as there are such nodes."""
    groups = groups_of(job.profile)
    for task in tasks:
        if task.node in nodes and task.group in groups:
            nodes[task.node].put(groups[task.group].request, task.devices)
