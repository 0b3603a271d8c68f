"""What a world is told of: each kind of object, and who listens to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from muster.kubernetes.cache import Change
from muster.kubernetes.disruptions import DISRUPTION_BUDGETS
from muster.kubernetes.groups import NATIVE_GROUPS, PLUGIN_GROUPS, PRIORITY_CLASSES, SCHEDULING_SPECS
from muster.kubernetes.kinds import (
    CLAIMS,
    CSI_DRIVERS,
    CSI_NODES,
    NAMESPACES,
    NODES,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
    Kind,
)
from muster.kubernetes.pools import POOLS
from muster.kubernetes.world import World


class Source(NamedTuple):
    """A kind, and who is told of its changes."""

    kind: Kind[Any]
    hear: Callable[[Change[Any]], None]


def needed_by(world: World) -> list[Source]:
    """What every cluster has."""
    register, around = world.register, world.surroundings
    return [
        Source(NODES, world.hear_node),
        Source(PODS, world.hear_pod),
        Source(PRIORITY_CLASSES, register.hear_class),
        Source(NAMESPACES, around.hear_namespace),
        Source(CLAIMS, around.hear_claim),
        Source(VOLUMES, around.hear_volume),
        Source(STORAGE_CLASSES, around.hear_class),
        Source(CSI_NODES, around.hear_node_drivers),
        Source(CSI_DRIVERS, around.hear_driver),
        Source(DISRUPTION_BUDGETS, world.disruptions.hear),
    ]


def optional_for(world: World) -> list[Source]:
    """What not all clusters serve."""
    return [
        Source(SCHEDULING_SPECS, world.register.hear_spec),
        Source(PLUGIN_GROUPS, world.register.hear_plugin_group),
        Source(NATIVE_GROUPS, world.register.hear_native_group),
        Source(POOLS, world.pools.hear),
    ]
