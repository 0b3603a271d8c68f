"""The state of the world with the loop that turns it, and how it is found again in the store after a restart.

The loop is the one of simulations (`muster.state.run`); here attempts run until an agent says otherwise. What a turn
decided is true once the store has it, so a world is always what the store says, and nothing else need be kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import NamedTuple

from muster.engine.columns.bulk import Crowd
from muster.model import events as ev
from muster.model.budgets import Budget
from muster.model.fleet import Cluster
from muster.model.jobs import NEVER_MS, Job, Running
from muster.model.nodes import Node
from muster.model.policy import Policy
from muster.model.pools import Pool
from muster.model.queues import Queue, User
from muster.server.leases import ENDED, STOPPING
from muster.server.memory import (
    as_evicted,
    recall_evicted,
    recall_flow,
    recall_promise,
    recall_virtual,
    serving_of,
)
from muster.server.writing import tasks_of
from muster.state.lining import line_up
from muster.state.run import Listener, Moment, Run
from muster.state.state import State
from muster.store.rows import LeaseRow, Thing


class Past(NamedTuple):
    """What a job that is not over went through before: a million that only ever waited share one."""

    state: str
    attempts: int
    counts: Mapping[str, int]  # how many of its attempts ended by what, as muster.model.retries names it


ONLY_WAITED = Past("queued", 0, {})
Recalled = tuple[Job, Past]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the store knows of the world: `jobs` are those that are not over, in order of submission, each with its
    past, or crowds that only ever waited; `over` what became of others that they wait for; `reruns` those that run
    again when their cluster is silent.

    What the world remembers beside rows (`muster.server.memory`): `flows` of queues, `promises` to jobs, to whom they
    `gave_way`, and the `virtual` times of elastic jobs.
    """

    clusters: Sequence[Cluster] = ()
    nodes: Sequence[Node] = ()
    queues: Sequence[Queue] = ()
    jobs: Sequence[Recalled | Crowd] = ()
    leases: Sequence[LeaseRow] = ()
    over: Mapping[str, str] = field(default_factory=dict)
    reruns: Collection[str] = ()
    pools: Sequence[Pool] = ()
    users: Sequence[User] = ()
    is_paused: bool = False
    budgets: Sequence[Budget] = ()
    flows: Sequence[Thing] = ()
    promises: Sequence[Thing] = ()
    gave_way: Sequence[Thing] = ()
    virtual: Sequence[Thing] = ()


def with_past(jobs: Iterable[Recalled | Crowd]) -> Iterator[Recalled]:
    """The jobs that did more than wait."""
    return (one for one in jobs if not isinstance(one, Crowd))


def ids_of(jobs: Sequence[Recalled | Crowd]) -> set[str]:
    """Of all of them."""
    return {job.id for job, _ in with_past(jobs)}.union(*(some.ids for some in jobs if isinstance(some, Crowd)))


def _queues(state: State) -> Mapping[str, Queue]:
    return {name: books.queue for name, books in state.books.items()}


class World:
    """Everything the server knows, one turn after the other. Hold `lock` while looking at `state`.

    `queues` and `clusters` may be looked at any time: they are never changed, only replaced.
    """

    def __init__(self, state: State) -> None:
        self.lock = RLock()
        self._run = Run(state, _until_told)
        self.queues: Mapping[str, Queue] = _queues(state)  # as of the last turn, and so are the clusters
        self.clusters: Mapping[str, Cluster] = dict(state.machines.clusters)
        self.reruns: set[str] = set()  # jobs that run again when their cluster is silent for long

    @property
    def state(self) -> State:
        """As of the last turn."""
        return self._run.state

    @property
    def is_paused(self) -> bool:
        """Whether nothing is decided until someone says so."""
        return self._run.is_paused

    @is_paused.setter
    def is_paused(self, paused: bool) -> None:
        self._run.is_paused = paused
        self.state.has_news = True

    def listen(self, listener: Listener) -> None:
        """Have someone hear all that happens from now on, and all that is decided."""
        self._run.listener = listener

    def set_policy(self, policy: Policy) -> None:
        """Decide by this policy from now on."""
        self.state.policy = policy
        self.state.has_news = True

    def turn(self, news: Iterable[ev.Event], now_ms: int) -> Moment:
        """Take in what happened, and decide."""
        moment = self._run.step(now_ms, news)
        if any(isinstance(event, ev.QueueSet | ev.QueueChanged | ev.QueueDeleted) for event in moment.events):
            self.queues = _queues(self.state)
        if self.clusters != self.state.machines.clusters:
            self.clusters = dict(self.state.machines.clusters)
        return moment

    def next_ms(self) -> int | None:
        """When to look again although nothing happened.

        Agents may speak at any time, so there is always more to come than the run knows of: else it would not look at
        widths once nobody waits.
        """
        found_ms = self._run.next_moment_ms(NEVER_MS)
        return None if found_ms == NEVER_MS else found_ms

    def ahead(self) -> Run:
        """A copy of the world that can be looked at, and go on, without the lock."""
        return self._run.ahead(_until_told)


def restored(policy: Policy, found: Found) -> World:
    """The world as the store left it."""
    state = State(policy)
    for cluster in found.clusters:
        state.apply(ev.ClusterSet(cluster=cluster), 0)
    for node in found.nodes:
        state.apply(ev.NodeAdded(node=node), 0)
    for pool in found.pools:
        state.apply(ev.PoolSet(pool=pool), 0)
    for queue in found.queues:
        state.apply(ev.QueueSet(queue=queue), 0)
    for user in found.users:
        state.apply(ev.UserSet(user=user), 0)
    for name, phase in found.over.items():
        state.apply(ev.JobOver(job=name, state=phase), 0)
    gave_way = {thing.name: thing for thing in found.gave_way}
    for one in found.jobs:
        if isinstance(one, Crowd):
            line_up(state, one)
        else:
            _recall(state, *one, gave_way)
    for budget in found.budgets:
        state.apply(ev.BudgetSet(budget=budget), state.now_ms)
    newest_ms = state.now_ms
    for lease in sorted(_standing(found.leases), key=lambda lease: (lease.spec["started"], lease.job)):
        _start(state, lease)
    state.now_ms = max(state.now_ms, newest_ms)
    for thing in found.promises:
        recall_promise(state, thing)
    for thing in found.flows:
        recall_flow(state, thing)
    recall_virtual(state, found.virtual)
    world = World(state)
    world.reruns = set(found.reruns)
    world.is_paused = found.is_paused
    return world


def _recall(state: State, job: Job, past: Past, gave_way: Mapping[str, Thing]) -> None:
    """A job stands in line again with its past; one that runs is started after that."""
    if job.id in gave_way:
        job = as_evicted(job, gave_way[job.id])
    state.apply(ev.JobSubmitted(job=job), max(job.submit_ms, state.now_ms))
    if past.attempts:
        state.apply(ev.JobRecalled(job=job.id, attempts=past.attempts, **past.counts), state.now_ms)
    if job.id in gave_way:
        recall_evicted(state, gave_way[job.id])


def _standing(leases: Iterable[LeaseRow]) -> Iterable[LeaseRow]:
    """Those whose attempt goes on."""
    return (lease for lease in leases if lease.state not in (STOPPING, ENDED))


def _start(state: State, lease: LeaseRow) -> None:
    spec = lease.spec
    charge = int(spec.get("charge", 0))
    admitted = ev.JobAdmitted(job=lease.job, attempt=lease.attempt, cluster=lease.cluster, place=0, charge=charge)
    started = ev.JobStarted(
        job=lease.job,
        attempt=lease.attempt,
        cluster=lease.cluster,
        tasks=tasks_of(lease),
        overtook=tuple(spec.get("overtook", ())),
        protected_until_ms=int(spec["protectedUntil"]),
    )
    for event in (admitted, started):
        state.apply(event, int(spec["started"]))
    serving = serving_of(spec)
    if serving is not None:
        state.apply(ev.ServingRecalled(job=lease.job, serving=serving), int(spec["started"]))


def _until_told(_run: Running) -> None:
    """An attempt runs until its agent says that it ended."""
