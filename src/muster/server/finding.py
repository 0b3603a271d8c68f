"""Queues, clusters and nodes as the store keeps them: small documents, and what they mean."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from muster.agent.protocol import NodeReport
from muster.documents.jobs.known import Known
from muster.documents.jobs.requests import MOST_REMEMBERED, JobReader
from muster.documents.jobs.spec import JobSpec, OnLost
from muster.model.after import After
from muster.model.fleet import Cluster
from muster.model.jobs import Job
from muster.model.labels import Taint
from muster.model.nodes import Node
from muster.model.policy import Policy
from muster.model.pools import Pool
from muster.model.queues import Queue, User
from muster.model.resources import GPU, MICRO, Resources, format_amount, parse_amount
from muster.model.retries import COUNTED
from muster.model.width import LEVELS
from muster.server.cordons import Cordons
from muster.server.leases import ACCEPTED, LEASED, RUNNING, STOPPING
from muster.server.memory import EVICTED, FLOW, PROMISE
from muster.server.naming import number_of
from muster.server.world import ONLY_WAITED, Found, Past
from muster.store.rows import Body, JobRow, Thing
from muster.store.store import Store

CLASSES: Mapping[str, int] = {"default": 0, "high": 1000, "low": -1000}
"""The priority classes that jobs may name where nobody made others."""

HOLD, SETTING, CLASS = "hold", "setting", "priorityClass"


def queue_thing(queue: Queue) -> Thing:
    """A queue as the store keeps it."""
    quota = {name: format_amount(name, amount) for name, amount in queue.quota.items()}
    body = {"weight": queue.weight / MICRO, "quota": quota, "cordoned": queue.cordoned}
    return Thing(kind="queue", name=queue.name, body=body)


def queue_of(thing: Thing) -> Queue:
    """The queue that the store keeps."""
    body = thing.body
    quota = {name: parse_amount(name, amount) for name, amount in body["quota"].items()}
    return Queue(name=thing.name, weight=round(body["weight"] * MICRO), quota=quota, cordoned=body["cordoned"])


def cluster_thing(cluster: Cluster) -> Thing:
    """A cluster as the store keeps it."""
    return Thing(kind="cluster", name=cluster.name, body={"preference": cluster.preference})


def cluster_of(thing: Thing) -> Cluster:
    """The cluster that the store keeps: silent until its agent calls in."""
    return Cluster(name=thing.name, preference=thing.body["preference"], silent=True)


def node_thing(node: Node) -> Thing:
    """A node as the store keeps it."""
    body = {
        "cluster": node.cluster,
        "amounts": node.allocatable.to_text(),
        "labels": dict(node.labels),
        "taints": [str(taint) for taint in node.taints],
        "topology": list(node.topology),
        "cordoned": node.cordoned,
    }
    return Thing(kind="node", name=node.name, body=body)


def node_of(thing: Thing) -> Node:
    """The node that the store keeps."""
    return _node(thing.name, thing.body["cluster"], thing.body)


def reported_node(report: NodeReport, cluster: str) -> Node:
    """A node as its agent describes it; raises InvalidValue for what makes no sense."""
    body = {
        "amounts": report.amounts,
        "labels": report.labels,
        "taints": report.taints,
        "topology": report.topology,
        "cordoned": report.cordoned,
    }
    return _node(report.name, cluster, body)


def _node(name: str, cluster: str, body: Mapping[str, Any]) -> Node:
    amounts = {_full(resource): parse_amount(_full(resource), text) for resource, text in body["amounts"].items()}
    return Node(
        name=name,
        cluster=cluster,
        allocatable=Resources.of(amounts),
        labels=dict(body["labels"]),
        taints=tuple(sorted((Taint.parse(text) for text in body["taints"]), key=str)),
        topology=tuple(body["topology"]),
        cordoned=body["cordoned"],
    )


def _full(resource: str) -> str:
    """`gpu` is short for the devices of one vendor."""
    return GPU if resource == "gpu" else resource


def pool_thing(pool: Pool) -> Thing:
    """A pool as the store keeps it, named as in the Pool of Kubernetes."""
    body = {
        "nodeSelector": dict(pool.selector),
        "disableSharing": not pool.shares,
        "disableBorrowing": not pool.borrows,
        "disablePreemption": not pool.preempts,
        "borrowingPools": list(pool.borrows_from),
    }
    return Thing(kind="pool", name=pool.name, body=body)


def pool_of(thing: Thing) -> Pool:
    """The pool that the store keeps."""
    body = thing.body
    return Pool(
        name=thing.name,
        selector=dict(body["nodeSelector"]),
        shares=not body["disableSharing"],
        borrows=not body["disableBorrowing"],
        preempts=not body["disablePreemption"],
        borrows_from=tuple(body["borrowingPools"]),
    )


def user_thing(user: User) -> Thing:
    """A user as the store keeps them."""
    quota = {name: format_amount(name, amount) for name, amount in user.quota.items()}
    return Thing(kind="user", name=user.name, body={"quota": quota})


def user_of(thing: Thing) -> User:
    """The user that the store keeps."""
    quota = {name: parse_amount(name, amount) for name, amount in thing.body["quota"].items()}
    return User(name=thing.name, quota=quota)


def settings_in(store: Store) -> dict[str, Any]:
    """What operators have set."""
    return {"paused": False, "preemption": None} | {thing.name: thing.body["value"] for thing in store.things(SETTING)}


def classes_in(store: Store) -> dict[str, int]:
    """The priority classes that jobs may name."""
    return {**CLASSES, **{thing.name: int(thing.body["value"]) for thing in store.things(CLASS)}}


def found_in(
    store: Store,
    policy: Policy,
    levels: Mapping[str, int] = LEVELS,
    cordons: Cordons = Cordons(),  # noqa: B008
) -> Found:
    """All that a store knows of the world."""
    reader = reader_of_kept(classes_in(store), policy, levels)
    held_by = {thing.name: str(thing.body["by"]) for thing in store.things(HOLD)}
    jobs: list[tuple[Job, Past]] = []
    reruns: set[str] = set()
    specs: dict[int, tuple[Body, JobSpec]] = {}  # by document: the store gives the same one for the same text
    for row in store.unfinished():
        same = specs.get(id(row.spec))
        if same is None:
            if len(specs) >= MOST_REMEMBERED:
                specs.clear()
            same = specs[id(row.spec)] = (row.spec, spec_of(row.spec, reader))
        spec = same[1]
        job = spec.job(row.id, row.submit_ms, spec.after, user=row.user, number=number_of(row.id))
        if (job.priority, job.priority_class, job.user) != (row.priority, row.priority_class, row.user):
            job = replace(job, priority=row.priority, priority_class=row.priority_class, user=row.user)
        if row.id in held_by:
            job = replace(job, held_by=held_by[row.id])
        jobs.append((job, _past(row)))
        if spec.on_lost is OnLost.RERUN:
            reruns.add(row.id)
    over, jobs = _over(store, jobs)
    return Found(
        clusters=[cluster_of(thing) for thing in store.things("cluster")],
        nodes=cordons.closed(node_of(thing) for thing in store.things("node")),
        queues=[queue_of(thing) for thing in store.things("queue")],
        pools=[pool_of(thing) for thing in store.things("pool")],
        users=[user_of(thing) for thing in store.things("user")],
        is_paused=bool(settings_in(store)["paused"]),
        jobs=jobs,
        leases=store.leases(states=(LEASED, ACCEPTED, RUNNING, STOPPING)),
        flows=store.things(FLOW),
        promises=_of_waiting(store.things(PROMISE), jobs),
        gave_way=store.things(EVICTED),
        over=over,
        reruns=reruns,
    )


def _past(row: JobRow) -> Past:
    if row.state == ONLY_WAITED.state and not row.attempt:
        return ONLY_WAITED
    return Past(row.state, row.attempt, {count: getattr(row, count) for count in COUNTED.values()})


def _of_waiting(promises: Iterable[Thing], jobs: Iterable[tuple[Job, Past]]) -> list[Thing]:
    """Promises to jobs that still wait for what was promised to them, in the order in which they were made."""
    pending = {job.id for job, past in jobs if past.state == "pending"}
    kept = [thing for thing in promises if thing.name in pending]
    return sorted(kept, key=lambda thing: (thing.body["admitted"], thing.body["place"], thing.name))


def reader_of_kept(classes: Mapping[str, int], policy: Policy, levels: Mapping[str, int]) -> JobReader:
    """Reads what the store keeps of jobs, whose queues and clusters may be gone by now."""
    known = Known(
        classes=dict(classes),
        levels=levels,
        cores_per_gpu=policy.cores_per_gpu,
        where="this server",
        holds_jobs=True,
    )
    return JobReader(known)


def spec_of(document: Mapping[str, Any], reader: JobReader) -> JobSpec:
    """A job that was read before, from what the store keeps of it."""
    spec = reader.read_one(document)
    return spec if spec.indices is None else next(spec.each())


def _over(store: Store, jobs: list[tuple[Job, Past]]) -> tuple[dict[str, str], list[tuple[Job, Past]]]:
    """What became of those that others come after; and the jobs, without those that they need not wait for any more.

    Who is not kept any more has ended as it had to: else those that come after it would have ended with it.
    """
    before = {need.job for job, _ in jobs for need in job.after}
    if before:
        before -= {job.id for job, _ in jobs}
    over = {name: row.state for name in before if (row := store.job(name)) is not None}
    gone = before - over.keys()
    if gone:
        jobs = [(replace(job, after=_without(job.after, gone)) if job.after else job, past) for job, past in jobs]
    return over, jobs


def _without(after: tuple[After, ...], gone: Collection[str]) -> tuple[After, ...]:
    return tuple(need for need in after if need.job not in gone)
