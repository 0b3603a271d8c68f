"""Clusters and nodes: look, cordon, drain, declare lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fastapi import APIRouter

from muster.model import events as ev
from muster.model.jobs import resources_of
from muster.model.nodes import Node
from muster.model.pools import DEFAULT_NAME, Pool, as_pool, called
from muster.model.resources import NOTHING, total
from muster.server.access import Who
from muster.server.api.amounts import amounts_of
from muster.server.api.doors import Admin, Asking, Desk
from muster.server.api.errors import Error, Problem, Refused, not_found
from muster.server.api.queues import NamePath
from muster.server.api.shapes import ClusterView, DrainBody, DrainView, NodeView, PoolBody, PoolView
from muster.server.cordons import CORDON, Cordon, cordon_thing, leaving
from muster.server.finding import node_thing, pool_of, pool_thing
from muster.server.news import Heard, News
from muster.server.service import PATIENCE_S, Service
from muster.store.rows import Thing

router = APIRouter(prefix="/api/v1", tags=["fleet"])


@router.get("/clusters")
def clusters(desk: Desk, _who: Asking) -> list[ClusterView]:
    """All clusters."""
    with desk.world.lock:
        machines = desk.world.state.machines
        known = sorted(machines.clusters.values(), key=lambda cluster: cluster.name)
        nodes = [node.cluster for node in machines.nodes.values()]
    return [
        ClusterView(
            name=cluster.name,
            preference=cluster.preference,
            silent=cluster.silent,
            honours=list(cluster.honours),
            heard=_heard(desk, cluster.name),
            nodes=nodes.count(cluster.name),
        )
        for cluster in known
    ]


def _heard(desk: Service, cluster: str) -> float | None:
    line = desk.leases.lines.get(cluster)
    return None if line is None or not line.seen_ms else line.seen_ms / 1000


@router.post("/clusters/{name}/lost", responses={404: {"model": Error}})
def lost(name: str, desk: Desk, who: Admin) -> list[str]:
    """Declare that a cluster is gone with all that ran there: its jobs go back to their queues."""
    with desk.world.lock:
        if name not in desk.world.state.machines.clusters:
            raise not_found("cluster", name)
        running = [run.job.id for run in desk.world.state.running.values() if run.cluster == name]
    audit = desk.change([ev.ClusterSilent(cluster=name, silent=True)], who, "cluster lost", {"cluster": name})
    audit.result(PATIENCE_S)
    desk.turns.put(News(heard=Heard(cluster=name, is_all=True, is_gone=True))).result(PATIENCE_S)
    desk.leases.end_session(name)  # should it be there after all, it hears what it must stop
    return running


@router.get("/pools")
def pools(desk: Desk, _who: Asking) -> list[PoolView]:
    """All pools that someone made."""
    with desk.world.lock:
        known = sorted(desk.world.state.machines.pools.values(), key=lambda pool: pool.name)
    return [_pool(desk, pool) for pool in known]


@router.put("/pools/{name}")
def put_pool(name: NamePath, body: PoolBody, desk: Desk, who: Admin) -> PoolView:
    """Make a pool, or replace the settings of one. `default` is the pool of the nodes that no other has for itself: it
    takes no selector."""
    if name == DEFAULT_NAME and body.node_selector:
        allowed = "no selector: the default pool has the nodes that no other has for itself"
        problem = Problem(field="nodeSelector", value=str(body.node_selector), allowed=allowed)
        raise Refused(422, f"nodeSelector: not allowed for {name!r}: {allowed}", [problem])
    keep = amounts_of(body.keep, "keep")
    pool = replace(
        pool_of(Thing(kind="pool", name=name, body=body.model_dump(by_alias=True) | {"keep": {}})), keep=keep
    )
    thing = pool_thing(pool)
    desk.change([ev.PoolSet(pool=pool)], who, "pool", {"pool": name}, things=[thing]).result(PATIENCE_S)
    return _pool(desk, pool)


@router.delete("/pools/{name}", status_code=204, responses={404: {"model": Error}})
def delete_pool(name: str, desk: Desk, who: Admin) -> None:
    """Make an end of a pool: its nodes and waiting jobs go where they belong without it. Of `default` the settings go
    back to what they were at first."""
    with desk.world.lock:
        if as_pool(name) not in desk.world.state.machines.pools:
            raise not_found("pool", name)
    gone = desk.change([ev.PoolDeleted(pool=as_pool(name))], who, "pool deleted", {"pool": name}, gone=[("pool", name)])
    gone.result(PATIENCE_S)


def _pool(desk: Service, pool: Pool) -> PoolView:
    with desk.world.lock:
        fleet = desk.world.state.fleet
        nodes = sum(fleet.pool_of(node) == pool.name for node in desk.world.state.machines.nodes)
    return PoolView.model_validate({**pool_thing(pool).body, "name": called(pool.name), "nodes": nodes})


@router.get("/nodes")
def nodes(desk: Desk, _who: Asking, cluster: str = "") -> list[NodeView]:
    """All nodes, or those of one cluster, with what is on them."""
    with desk.world.lock:
        machines = desk.world.state.machines
        chosen = [node for node in machines.nodes.values() if cluster in ("", node.cluster)]
        return [_view(desk, node) for node in sorted(chosen, key=lambda node: (node.cluster, node.key))]


@router.post("/nodes/{name}/cordon", responses={404: {"model": Error}})
def cordon(name: str, desk: Desk, who: Admin) -> NodeView:
    """Let nothing new start on a node; what runs there goes on, unless it is being drained."""
    node = _node(desk, name)
    now_ms = desk.turns.now_ms()
    said = desk.cordons.get(name) or Cordon(node=name, by=who.name, since_ms=now_ms)
    return _close(desk, who, "cordon", node, said)


@router.post("/nodes/{name}/drain", responses={404: {"model": Error}})
def drain(name: str, desk: Desk, who: Admin, body: DrainBody | None = None) -> NodeView:
    """Let nothing new start on a node, and have what runs there leave it, after `grace` seconds.

    Jobs that have their `min` elsewhere go on without their tasks there; others are stopped whole, as when they are
    preempted, and start elsewhere. That costs them no retry. It goes on until `uncordon`, also over restarts.
    """
    node = _node(desk, name)
    now_ms, grace_s = desk.turns.now_ms(), 0.0 if body is None else body.grace
    said = Cordon(node=name, by=who.name, since_ms=now_ms, leaves_ms=now_ms + round(grace_s * 1000))
    return _close(desk, who, "drain", node, said)


@router.post("/nodes/{name}/uncordon", responses={404: {"model": Error}})
def uncordon(name: str, desk: Desk, who: Admin) -> NodeView:
    """Let things start on a node again; nobody must leave it any more."""
    node = replace(_node(desk, name), cordoned=False)
    event = ev.NodeCordoned(node=name, cordoned=False)
    opened = desk.change([event], who, "uncordon", {"node": name}, things=[node_thing(node)], gone=[(CORDON, name)])
    opened.result(PATIENCE_S)
    return _shown(desk, name)


def _node(desk: Service, name: str) -> Node:
    with desk.world.lock:
        node = desk.world.state.machines.nodes.get(name)
    if node is None:
        raise not_found("node", name)
    return node


def _close(desk: Service, who: Who, what: str, node: Node, said: Cordon) -> NodeView:
    things = [node_thing(replace(node, cordoned=True)), cordon_thing(said)]
    desk.change([ev.NodeCordoned(node=node.name)], who, what, {"node": node.name}, things=things).result(PATIENCE_S)
    return _shown(desk, node.name)


def _shown(desk: Service, name: str) -> NodeView:
    node = _node(desk, name)
    with desk.world.lock:
        return _view(desk, node)


def _view(desk: Service, node: Node) -> NodeView:
    state = desk.world.state
    there: Iterable[str] = state.machines.jobs_on(node.name)
    runs = [state.running[job_id] for job_id in there]
    used = total(resources_of(run.job.profile, [task for task in run.tasks if task.node == node.name]) for run in runs)
    return NodeView(
        name=node.name,
        cluster=node.cluster,
        cordoned=node.cordoned,
        allocatable=node.allocatable.to_text(),
        used=(used or NOTHING).to_text(),
        labels=dict(node.labels),
        jobs=sorted(run.job.id for run in runs),
        drain=_drain(desk, node.name),
    )


def _drain(desk: Service, node: str) -> DrainView | None:
    said = desk.cordons.get(node)
    if said is None or said.leaves_ms is None:
        return None
    since, leaves = said.since_ms / 1000, said.leaves_ms / 1000
    return DrainView(by=said.by, since=since, leaves=leaves, leaving=leaving(said, desk.leases))
