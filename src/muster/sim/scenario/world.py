"""The world of a scenario: policy, clusters with their nodes, pools, queues, users, priority classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muster.documents.fields import Fields
from muster.documents.jobs.known import DEFAULT_CLASS, Known
from muster.documents.policy.calendar import read_calendar
from muster.documents.policy.reading import read_policy
from muster.documents.scalars import INT32, NAME, is_name
from muster.model.fleet import Cluster
from muster.model.policy import Policy
from muster.model.queues import MINUTE_MS, Queue, User
from muster.model.resources import MICRO
from muster.sim.scenario.nodes import Nodes
from muster.sim.scenario.pools import Pools

QUEUE_KEYS = ("weight", "quota", "excessBudget", "cordoned", "defaultTimeLimit", "defaultExpectedRuntime")

_MILLION = 1_000_000


@dataclass(slots=True, kw_only=True)
class World:
    """Everything but jobs and events. `queues` None: the file declares none, jobs bring their own."""

    policy: Policy
    clusters: dict[str, Cluster]
    nodes: Nodes
    pools: Pools
    queues: dict[str, Queue] | None
    users: dict[str, User]
    classes: dict[str, int] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)
    where: str = "this file"  # as problems call it

    @property
    def known(self) -> Known:
        """What jobs may name. Its clusters are those of this world: a race may bring more."""
        return Known(
            queues=self.queues,
            clusters=self.clusters,
            classes=self.classes,
            levels=self.levels,
            cores_per_gpu=self.policy.cores_per_gpu,
            resize_cost_ms=self.policy.resize_cost_ms,
            where=self.where,
            races_bring_clusters=True,
        )


def read_world(top: Fields, default: Policy) -> World:
    """The world that the file's top level describes."""
    clusters, nodes = _read_clusters(top)
    pools = Pools()
    pools.read(top)
    config = top.mapping("config", "config")
    policy, levels = read_policy(config, default)
    return World(
        policy=replace(policy, calendar=read_calendar(top, clusters, pools)),
        levels=levels,
        clusters=clusters,
        nodes=nodes,
        pools=pools,
        queues=_read_queues(top),
        users=_read_users(top),
        classes=_read_classes(top),
    )


# --- clusters -----------------------------------------------------------------------------------


def _read_clusters(top: Fields) -> tuple[dict[str, Cluster], Nodes]:
    clusters: dict[str, Cluster] = {}
    lines: dict[str, int] = {}
    nodes = Nodes()
    for fields in top.entries("clusters", "cluster"):
        name = fields.required_name("name")
        preference = fields.integer("priority", 50, 0, 100)
        kind = fields.choice("kind", {"transparent": "transparent", "opaque": "opaque"}, "transparent")
        if name in lines:
            fields.refuse("name", f"a cluster of that name is on line {lines[name]}: names are unique")
        is_opaque = kind == "opaque"
        if is_opaque and fields.has("nodes"):
            fields.add("nodes", "not allowed where kind is opaque: such a cluster shows no nodes")
        nodes.read(fields, name or "", None)
        fields.close()
        if name is not None:
            lines.setdefault(name, fields.line)
            clusters[name] = Cluster(name=name, preference=preference, opaque=is_opaque)
    return clusters, nodes


# --- queues, users, classes ---------------------------------------------------------------------


def _read_queues(top: Fields) -> dict[str, Queue] | None:
    queues: dict[str, Queue] = {}
    lines: dict[str, int] = {}
    for fields in top.entries("queues", "queue"):
        name = fields.required_name("name")
        changes = read_queue(fields)
        fields.close()
        if name in lines:
            fields.refuse("name", f"a queue of that name is on line {lines[name]}: names are unique")
        elif name is not None:
            lines[name] = fields.line
            queues[name] = Queue(name=name, **changes)
    return queues if top.has("queues") else None


def read_queue(fields: Fields) -> dict[str, Any]:
    """The fields of model.queues.Queue that are given."""
    given: dict[str, Any] = {}
    weight = fields.micro(
        "weight", f"a number from 0.000001 to {_MILLION} with at most six decimals", least=1, most=_MILLION * MICRO
    )
    if weight is not None:
        given["weight"] = weight
    quota = fields.quota("quota")
    if fields.has("quota"):
        given["quota"] = quota
    if fields.is_off("excessBudget"):
        given["excess_budget"] = None
    elif fields.has("excessBudget"):
        allowed = "a number of usage × minutes from 0 to 1e12 with at most six decimals, or off"
        budget = fields.micro("excessBudget", allowed, least=0, most=10**12 * MICRO)
        given["excess_budget"] = None if budget is None else budget * MINUTE_MS
    cordoned = fields.boolean("cordoned", False)
    if fields.has("cordoned"):
        given["cordoned"] = cordoned
    for key, name, least_ms in (
        ("defaultTimeLimit", "default_time_limit_ms", 1),
        ("defaultExpectedRuntime", "default_expected_ms", 0),
    ):
        if fields.is_off(key):
            given[name] = None
        elif fields.has(key):
            given[name] = fields.optional_duration(key, least_ms=least_ms)
    return given


def _read_users(top: Fields) -> dict[str, User]:
    everyone = top.mapping("users", "users")
    users: dict[str, User] = {}
    for name in everyone.given():
        fields = everyone.mapping(name, "user")
        quota = fields.quota("quota")
        fields.close()
        if is_name(name):
            users[name] = User(name=name, quota=quota)
        else:
            everyone.refuse_key(name, NAME)
    return users


def _read_classes(top: Fields) -> dict[str, int]:
    fields = top.mapping("priorityClasses", "priorityClasses")
    classes = {DEFAULT_CLASS: 0}
    for name in fields.given():
        value = fields.integer(name, 0, -INT32, INT32)
        if not is_name(name):
            fields.refuse_key(name, NAME)
        elif name == DEFAULT_CLASS and value != 0:
            fields.refuse(name, "0: the default class has no other value")
        classes[name] = value
    return classes
