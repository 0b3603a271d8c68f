"""The world of a scenario: policy, clusters with their nodes, pools, queues, users, priority classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muster.documents.fields import Fields
from muster.documents.jobs.known import DEFAULT_CLASS, Known
from muster.documents.scalars import INT32, NAME, is_name, resource_name
from muster.documents.values import plain
from muster.model.errors import InvalidValue
from muster.model.fleet import Cluster
from muster.model.policy import EVERYONE, Policy, Preemption
from muster.model.queues import MINUTE_MS, Queue, User
from muster.model.resources import DEFAULT_WEIGHTS, MICRO, Weights
from muster.sim.scenario.nodes import Nodes
from muster.sim.scenario.order import read_order
from muster.sim.scenario.placement import read_placement
from muster.sim.scenario.pools import Pools
from muster.sim.scenario.width import read_calendar, read_levels, read_width

QUEUE_KEYS = ("weight", "quota", "excessBudget", "cordoned")

_MILLION = 1_000_000
_MOST_RESERVATIONS = 16


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
            races_bring_clusters=True,
        )


def read_world(top: Fields, default: Policy) -> World:
    """The world that the file's top level describes."""
    clusters, nodes = _read_clusters(top)
    pools = Pools()
    pools.read(top)
    policy, levels = _read_policy(top, default)
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


# --- policy -------------------------------------------------------------------------------------


def _read_policy(top: Fields, default: Policy) -> tuple[Policy, Mapping[str, int]]:
    config = top.mapping("config", "config")
    reservations = _reservations(config, default)
    policy = Policy(
        **read_width(config, default),
        turn_ms=config.duration("turn", default.turn_ms, least_ms=1),
        half_time_ms=config.duration("halfTime", default.half_time_ms, least_ms=1),
        over_share=_over_share(config, default),
        weights=_weights(config),
        order=read_order(config, default.order),
        reservations=reservations,
        reservations_in_all=max(reservations, default.reservations_in_all),
        move_points=None if config.is_off("moves") else config.optional_integer("moves", 1, 100),
        backfill=config.boolean("backfill", default.backfill),
        aging_after_ms=config.duration("agingAfter", default.aging_after_ms),
        preemption=config.choice("preemption", {mode.value: mode for mode in Preemption}, default.preemption),
        starts_per_turn=config.optional_integer("startsPerTurn", 1, INT32),
        starts_per_queue=config.optional_integer("startsPerQueue", 1, INT32),
        placement=read_placement(config),
    )
    levels = read_levels(config)
    config.close()
    return policy, levels


def _reservations(config: Fields, default: Policy) -> int:
    """So many for each cluster and kind, or one for everyone who waits."""
    if config.is_word("reservations", "all"):
        return EVERYONE
    allowed = f"a whole number from 0 to {_MOST_RESERVATIONS}, or all"
    many = config.optional_integer("reservations", 0, _MOST_RESERVATIONS, allowed)
    return default.reservations if many is None else many


def _over_share(config: Fields, default: Policy) -> int | None:
    if config.is_off("overShare"):
        return None
    allowed = f"a number above 0, at most {_MILLION}, with at most six decimals, or off"
    limit = config.micro("overShare", allowed, least=1, most=_MILLION * MICRO)
    return default.over_share if limit is None else limit


def _weights(config: Fields) -> Weights:
    """The default weights, with those changed that are given."""
    fields = config.mapping("weights", "weights")
    given: dict[str, int] = {}
    for key in fields.given():
        name = resource_name(key)
        value = fields.get(key)
        if name is None or value is None:
            fields.refuse_key(key, "resources: cpu, memory, gpu, pods, ephemeral-storage, storage or any with a slash")
            continue
        try:
            ((name, micro),) = Weights.of({key: plain(value)}).micro
        except InvalidValue as err:
            fields.refuse_invalid(err)
            continue
        if name in given:
            fields.add(key, f"{name} has a weight already: gpu is short for nvidia.com/gpu")
        given[name] = micro
    return Weights(micro=tuple(sorted((dict(DEFAULT_WEIGHTS.micro) | given).items())))


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
