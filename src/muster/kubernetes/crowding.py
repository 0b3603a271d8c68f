"""Who must leave a node that holds more than it has, because somebody else binds pods of our names as well.

One lease has one leader, so that happens only if schedulers with different leases run at once, or somebody binds by
hand. A pod is bound once whatever they do: the API server sees to that. But each may fill a node before it hears what
the other put there. Kubelets refuse such pods when they come; where none does, we evict what is too much. Whoever else
looks at the same pods comes to the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from muster.kubernetes.batches import Member
from muster.kubernetes.jobs import bound_ms
from muster.model.nodes import Node
from muster.model.resources import NOTHING, Resources


class Crowding:
    """Nodes that somebody else put a pod of ours on."""

    def __init__(self) -> None:
        self._suspected: dict[str, None] = {}

    def suspect(self, node: str) -> None:
        """Somebody else put a pod of ours there."""
        self._suspected[node] = None

    def going(
        self, nodes: Mapping[str, Node], others: Callable[[str], Resources], ours: Callable[[str], Sequence[Member]]
    ) -> Iterator[Member]:
        """Who must leave now. That is known of a node once all whom we want there are bound, or are not."""
        for name in list(self._suspected):
            here = ours(name)
            if name in nodes and not all(member.pod.spec.node_name for member in here):
                continue
            del self._suspected[name]
            if name in nodes:
                yield from who_must_go(nodes[name], others(name), (it for it in here if not it.is_leaving))


def who_must_go(node: Node, others: Resources, members: Iterable[Member]) -> list[Member]:
    """Of our pods on a node the least urgent, and of those who came last, as many as it takes; `others`: what pods of
    others hold there."""
    staying = sorted(members, key=lambda member: (-member.ask.priority, bound_ms(member.pod, 0), member.uid))
    going: list[Member] = []
    while staying and not node.allocatable.covers(others + _held(staying)):
        going.append(staying.pop())
    return going


def _held(members: Iterable[Member]) -> Resources:
    held = NOTHING
    for member in members:
        held = held + member.ask.request.resources
    return held
