"""From what traces say of a job, so many processors or GPUs, to task groups on the nodes of a fleet.

A job that one node can hold is one task. A wider one is a gang of tasks that fill a node each, and one for the rest;
where it must have whole nodes, the last one is filled up too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from muster.model.fleet import Cluster
from muster.model.jobs import Profile, TaskGroup
from muster.model.nodes import DEVICE_MILLI, Node, Request
from muster.model.resources import CPU, GPU, PODS, Resources

_MANY_PODS = 1 << 31
_MILLI = {CPU: 1000, GPU: DEVICE_MILLI}


@dataclass(frozen=True, slots=True)
class Machine:
    """A fleet of equal nodes: `nodes` of them with `each` units (cores or GPUs) of one resource."""

    nodes: int
    each: int
    resource: str = CPU
    cluster: str = "trace"

    @property
    def units(self) -> int:
        """All there are."""
        return self.nodes * self.each

    def clusters(self) -> tuple[Cluster, ...]:
        """The one cluster there is."""
        return (Cluster(name=self.cluster),)

    def made(self) -> tuple[Node, ...]:
        """Its nodes."""
        has = Resources.of({self.resource: self.each * _MILLI[self.resource], PODS: _MANY_PODS})
        return tuple(Node(name=f"node-{number}", cluster=self.cluster, allocatable=has) for number in range(self.nodes))

    def profile(self, units: int, *, whole_nodes: bool = False) -> Profile:
        """What a job of so many units asks for; the same value for equal jobs."""
        return _profile(self, units, whole_nodes)


@cache
def _profile(machine: Machine, units: int, whole_nodes: bool) -> Profile:
    full, rest = divmod(units, machine.each)
    if full and rest and whole_nodes:
        full, rest = full + 1, 0
    groups = []
    if full:
        groups.append(_group("main", full, machine, machine.each))
    if rest:
        groups.append(_group("rest" if full else "main", 1, machine, rest))
    return Profile(groups=tuple(groups))


def _group(name: str, many: int, machine: Machine, units: int) -> TaskGroup:
    request = Request.of({machine.resource: units * _MILLI[machine.resource]})
    return TaskGroup(name=name, min=many, initial=many, max=many, request=request)
