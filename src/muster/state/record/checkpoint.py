"""A world that has been running for long, as events that build one that decides the same.

So a record can begin in the middle. What no event of that time tells any more (what queues used lately, how often jobs
were tried, what elastic jobs were given) is told by events of its own, as when a server finds its world again in its
store. Races over opaque clusters are no part of it: a server has none, it decides races when it admits the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from muster.model import events as ev
from muster.model.after import After
from muster.model.jobs import Job, Pending, Running
from muster.model.plan import Rule
from muster.model.retries import COUNTED
from muster.state.state import State

Told = tuple[int, ev.Event]
"""When something happened, and what."""


def checkpoint(state: State) -> Iterator[Told]:
    """The events, none before the one that stands in front of it. The state stays as it is."""
    yield from ((0, event) for event in _fleet(state))
    yield from ((0, event) for event in _people(state))
    yield from sorted(_jobs(state), key=lambda told: told[0])
    for pending in sorted(state.pending.values(), key=lambda it: it.line):
        yield pending.admitted_ms, _admitted(pending)
    now_ms = state.now_ms
    for run in state.running.values():
        if run.serving is not None:
            yield now_ms, ev.ServingRecalled(job=run.job.id, serving=run.serving)
    if state.elastic.kept or state.elastic.floors:
        kept, floors = sorted(state.elastic.kept.items()), sorted(state.elastic.floors.items())
        yield now_ms, ev.VirtualRecalled(kept=tuple(kept), floors=tuple(floors))
    for name, books in state.books.items():
        found = books.state()
        yield (
            now_ms,
            ev.QueueRecalled(
                queue=name,
                account=found.account,
                fixed=found.fixed,
                active_ms=found.active_ms,
                habit=found.habit,
                last_start_ms=found.last_start_ms,
                stands_since_ms=found.stands_since_ms,
            ),
        )


def _fleet(state: State) -> Iterator[ev.Event]:
    machines = state.machines
    yield from (ev.ClusterSet(cluster=cluster) for cluster in machines.clusters.values())
    yield from (ev.NodeAdded(node=node) for node in machines.nodes.values())
    yield from (ev.PoolSet(pool=pool) for pool in machines.pools.values())
    for node, pod, amounts in machines.foreign():
        yield ev.ForeignPlaced(id=pod, node=node, amounts=amounts)


def _people(state: State) -> Iterator[ev.Event]:
    yield from (ev.QueueSet(queue=books.queue) for books in state.books.values())
    yield from (ev.UserSet(user=user) for user in state.users.values())
    yield from (ev.BudgetSet(budget=budget) for budget in state.protection.budgets())
    yield from (ev.EvictionLimitSet(limit=limit) for limit in state.protection.limits())


def _jobs(state: State) -> Iterator[Told]:
    """Every job that is not over with the attempt it has, and what became of those that they come after."""
    alive = [*(run.job for run in state.running.values()), *(it.job for it in state.pending.values())]
    alive += [job for name in state.waiting() - state.pending.keys() if (job := state.find(name)) is not None]
    for name in sorted({need.job for job in alive for need in job.after}):
        if name in state.jobs and state.jobs[name].phase.is_over:
            yield 0, ev.JobOver(job=name, state=state.jobs[name].phase.value)
    for job in sorted(alive, key=lambda job: (job.submit_ms, job.number, job.key)):
        yield from ((job.submit_ms, event) for event in _submitted(state, job))
    for run in sorted(state.running.values(), key=lambda it: (it.started_ms, it.job.key)):
        yield from ((run.started_ms, event) for event in _started(run))


def _submitted(state: State, job: Job) -> Iterator[ev.Event]:
    yield ev.JobSubmitted(job=replace(job, after=_still_known(state, job)) if job.after else job)
    run, record = state.running.get(job.id), state.jobs[job.id]
    attempts = record.attempts if run is None else run.attempt - 1
    counts = {count: record.times(cause) for cause, count in COUNTED.items()}
    if attempts or any(counts.values()):
        yield ev.JobRecalled(job=job.id, attempts=attempts, **counts)
    for by in state.preempted_by(job.id):
        yield ev.JobPreempted(job=job.id, attempt=0, rule=Rule.FAIR_SHARE, by=by, tasks=())


def _still_known(state: State, job: Job) -> tuple[After, ...]:
    """What the job comes after, without what was fulfilled by jobs that are forgotten by now."""
    waits_for = state.dependencies.waits_for(job)
    return tuple(need for need in job.after if need.job in state.jobs or need in waits_for)


def _started(run: Running) -> Iterator[ev.Event]:
    yield ev.JobAdmitted(job=run.job.id, attempt=run.attempt, cluster=run.cluster, place=0, charge=run.charge)
    yield ev.JobStarted(
        job=run.job.id,
        attempt=run.attempt,
        cluster=run.cluster,
        tasks=run.tasks,
        overtook=run.overtook,
        protected_until_ms=run.protected_until_ms,
    )


def _admitted(pending: Pending) -> ev.Event:
    return ev.JobAdmitted(
        job=pending.job.id,
        attempt=pending.attempt,
        cluster="" if pending.reservation is None else pending.reservation.cluster,
        place=pending.turn_place,
        charge=pending.charge,
        reservation=pending.reservation,
    )
