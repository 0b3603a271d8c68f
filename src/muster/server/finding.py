"""Queues, clusters and nodes as the store keeps them: small documents, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.agent.protocol import NodeReport
from muster.engine.columns.bulk import Crowd
from muster.model.fleet import Cluster
from muster.model.labels import Taint
from muster.model.nodes import Node
from muster.model.policy import SECOND_MS
from muster.model.pools import Pool, as_pool, called
from muster.model.queues import MINUTE_MS, Queue, User
from muster.model.resources import GPU, MICRO, Resources, format_amount, parse_amount
from muster.model.width import LEVELS
from muster.server.cordons import Cordons
from muster.server.leases import ACCEPTED, LEASED, RUNNING, STOPPING
from muster.server.memory import EVICTED, FLOOR, FLOW, KEPT, PROMISE
from muster.server.notes import BUDGET, budget_of
from muster.server.unfinished import Unfinished, reader_of_kept
from muster.server.world import Found, Recalled
from muster.store.rows import Thing
from muster.store.store import Store

CLASSES: Mapping[str, int] = {"default": 0, "high": 1000, "low": -1000}
"""The priority classes that jobs may name where nobody made others."""

SETTING, CLASS = "setting", "priorityClass"
POLICY = "policy"  # the setting with what operators have set of it


def queue_thing(queue: Queue) -> Thing:
    """A queue as the store keeps it."""
    quota = {name: format_amount(name, amount) for name, amount in queue.quota.items()}
    body: dict[str, Any] = {"weight": queue.weight / MICRO, "quota": quota, "cordoned": queue.cordoned}
    if queue.excess_budget is not None:
        body["excessBudget"] = queue.excess_budget / (MICRO * MINUTE_MS)
    if queue.default_time_limit_ms is not None:
        body["defaultTimeLimit"] = queue.default_time_limit_ms / SECOND_MS
    if queue.default_expected_ms is not None:
        body["defaultExpectedRuntime"] = queue.default_expected_ms / SECOND_MS
    if queue.owners:
        body["owners"] = list(queue.owners)
    if queue.labels:
        body["labels"] = dict(queue.labels)
    return Thing(kind="queue", name=queue.name, body=body)


def queue_of(thing: Thing) -> Queue:
    """The queue that the store keeps."""
    body = thing.body
    quota = {name: parse_amount(name, amount) for name, amount in body["quota"].items()}
    return Queue(
        name=thing.name,
        weight=round(body["weight"] * MICRO),
        quota=quota,
        cordoned=body["cordoned"],
        excess_budget=_scaled(body.get("excessBudget"), MICRO * MINUTE_MS),
        default_time_limit_ms=_scaled(body.get("defaultTimeLimit"), SECOND_MS),
        default_expected_ms=_scaled(body.get("defaultExpectedRuntime"), SECOND_MS),
        owners=tuple(body.get("owners", ())),
        labels=dict(body.get("labels", {})),
    )


def _scaled(number: float | None, unit: int) -> int | None:
    return None if number is None else round(number * unit)


def cluster_thing(cluster: Cluster) -> Thing:
    """A cluster as the store keeps it."""
    body: dict[str, Any] = {"preference": cluster.preference}
    if cluster.honours:
        body["honours"] = list(cluster.honours)
    return Thing(kind="cluster", name=cluster.name, body=body)


def cluster_of(thing: Thing) -> Cluster:
    """The cluster that the store keeps: silent until its agent calls in."""
    honours = tuple(thing.body.get("honours", ()))
    return Cluster(name=thing.name, preference=thing.body["preference"], silent=True, honours=honours)


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
        "borrowingPools": [called(name) for name in pool.borrows_from],
        "keep": {name: format_amount(name, amount) for name, amount in pool.keep.items()},
    }
    return Thing(kind="pool", name=called(pool.name), body=body)


def pool_of(thing: Thing) -> Pool:
    """The pool that the store keeps."""
    body = thing.body
    return Pool(
        name=as_pool(thing.name),
        selector=dict(body["nodeSelector"]),
        shares=not body["disableSharing"],
        borrows=not body["disableBorrowing"],
        preempts=not body["disablePreemption"],
        borrows_from=tuple(map(as_pool, body["borrowingPools"])),
        keep={name: parse_amount(name, amount) for name, amount in body.get("keep", {}).items()},
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
    return {"paused": False, "preemption": None, POLICY: {}} | {
        thing.name: thing.body["value"] for thing in store.things(SETTING)
    }


def classes_in(store: Store) -> dict[str, int]:
    """The priority classes that jobs may name."""
    return {**CLASSES, **{thing.name: int(thing.body["value"]) for thing in store.things(CLASS)}}


def found_in(
    store: Store,
    levels: Mapping[str, int] = LEVELS,
    cordons: Cordons = Cordons(),  # noqa: B008
) -> Found:
    """All that a store knows of the world."""
    unfinished = Unfinished(store, reader_of_kept(classes_in(store), levels))
    jobs, over = unfinished.found()
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
        budgets=[budget_of(thing) for thing in store.things(BUDGET)],
        virtual=[*store.things(KEPT), *store.things(FLOOR)],
        over=over,
        reruns=unfinished.reruns,
    )


def _of_waiting(promises: Iterable[Thing], jobs: Iterable[Recalled | Crowd]) -> list[Thing]:
    """Promises to jobs that still wait for what was promised to them, in the order in which they were made."""
    pending = {one[0].id for one in jobs if not isinstance(one, Crowd) and one[1].state == "pending"}
    kept = [thing for thing in promises if thing.name in pending]
    return sorted(kept, key=lambda thing: (thing.body["admitted"], thing.body["place"], thing.name))
