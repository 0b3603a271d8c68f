"""What stands in the way of one task on each kind of node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster.model.fleet import Fleet
from muster.model.jobs import Profile, TaskGroup
from muster.model.names import name_key
from muster.model.nodes import NO_POD_LIMIT, Node
from muster.model.resources import GPU, PODS, Resources
from muster.model.snapshot import NodeState, Snapshot

OTHER_CLUSTER = "cluster"
OTHER_POOL = "pool"
NOT_LENT = "notLent"
SILENT = "silent"
CORDONED = "cordoned"
WHOLE_NODE = "wholeNode"
FITS = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Nodes of one kind that lack the same for a task of a group. `first` is one of them, `allocatable` what each has.

    `dimension`: a resource, what else refuses the task, or FITS. For a resource, `most` is the most that is free of it
    on any of them and `asked` what the task asks for.
    """

    group: str
    dimension: str
    count: int
    first: str
    allocatable: Resources
    asked: int = 0
    most: int = 0


def lacks(snapshot: Snapshot, profile: Profile) -> tuple[Lack, ...]:
    """What each kind of node lacks for one more task of each group; kinds with the most nodes first."""
    found: list[Lack] = []
    for group in profile.groups:
        by_kind: dict[tuple[str, Resources], list[tuple[Node, int]]] = {}
        for node in snapshot.fleet.nodes.values():
            dimension, free = _lack(snapshot.fleet, node, snapshot.nodes, profile, group)
            by_kind.setdefault((dimension, node.allocatable), []).append((node, free))
        made = [_as_lack(group, dimension, nodes) for (dimension, _), nodes in by_kind.items()]
        found += sorted(made, key=lambda lack: (lack.dimension == FITS, -lack.count, name_key(lack.first)))
    return tuple(found)


def _lack(
    fleet: Fleet, node: Node, rooms: Mapping[str, NodeState], profile: Profile, group: TaskGroup
) -> tuple[str, int]:
    """What keeps one task off the node, and how much of it is free there."""
    home, pool = fleet.home(profile), fleet.pool_of(node.name)
    if node.cluster not in fleet.parts[home].candidates(profile, silent=True):
        return OTHER_CLUSTER, 0
    if pool != home and pool not in fleet.lenders(profile):
        return OTHER_POOL, 0
    refused = group.constraint.refuses(node.name, node.labels, node.taints)
    if refused is not None:
        return refused, 0
    if fleet.clusters[node.cluster].silent:
        return SILENT, 0
    if node.cordoned:
        return CORDONED, 0
    room, request = rooms[node.name].room, group.request
    if request.whole_node and room.tasks:
        return WHOLE_NODE, 0
    missing = room.free.missing(request.resources)
    if request.gpus and not room.has_devices(request):
        missing[GPU] = missing.get(GPU, 1)
    if not missing:
        return (FITS, 0) if pool == home else (NOT_LENT, 0)
    # Scarce things first: who lacks a GPU cares little for cores.
    name = min(missing, key=lambda name: (name != GPU, name))
    return name, room.free.get(name)


def _as_lack(group: TaskGroup, dimension: str, nodes: list[tuple[Node, int]]) -> Lack:
    first = min((node for node, _ in nodes), key=lambda node: node.key)
    return Lack(
        group=group.name,
        dimension=dimension,
        count=len(nodes),
        first=first.name,
        allocatable=first.allocatable,
        asked=group.request.resources.get(dimension),
        most=max(free for _, free in nodes),
    )


def is_unlimited(name: str, amount: int) -> bool:
    """Whether a node that states no limit of pods is meant."""
    return name == PODS and amount >= NO_POD_LIMIT // 2
