"""Nodes of a Kubernetes cluster as the engine sees them."""

from __future__ import annotations

from muster.kubernetes import objects
from muster.kubernetes.amounts import PLACE_APART, resources_of
from muster.model.labels import Taint
from muster.model.nodes import Node
from muster.model.resources import PODS


def node_of(node: objects.Node, cluster: str) -> Node:
    """A node of `cluster`; one that takes no new pods, for whatever reason, is cordoned."""
    allocatable = resources_of(node.status.allocatable)
    return Node(
        name=node.metadata.name,
        cluster=cluster,
        allocatable=allocatable + PLACE_APART,
        labels=node.metadata.labels,
        taints=tuple(Taint(key=each.key, value=each.value, effect=each.effect) for each in node.spec.taints),
        # To Kubernetes a node that states no `pods` has room for none; to the engine, for any number.
        cordoned=takes_nothing(node) or not allocatable.get(PODS),
    )


def takes_nothing(node: objects.Node) -> bool:
    """Whether it was cordoned, is not ready, has fallen silent or is being deleted."""
    return node.spec.unschedulable or not node.is_ready or node.metadata.deletion_timestamp is not None
