"""Alibaba's cluster of shared GPUs (2023): one CSV file of nodes, and one of pods.

    sn,cpu_milli,memory_mib,gpu,model
    name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec,...]

A pod asks for `num_gpu` devices with `gpu_milli` of each, of one of the models that `gpu_spec` lists between bars, if
it lists any. Lists that were made for experiments have no columns after `gpu_milli`.

`pods` does not read when pods came and went: whoever replays them says when they come. `jobs` does, from the columns
`creation_time`, `scheduled_time` and `deletion_time`, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.labels import ANYWHERE, Constraint
from muster.model.nodes import DEVICE_MILLI, Node, Request
from muster.model.resources import CPU, GPU, MEMORY, Resources
from muster.sim.scenario.scenario import ScriptJob
from muster.sim.traces.lines import Line, table

CLUSTER = "openb"
MODEL = "gpu-model"  # the label of a node that says what its devices are

_NODE = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_SPEC = "gpu_spec"
_CREATED, _SCHEDULED, _DELETED = "creation_time", "scheduled_time", "deletion_time"
_MIB = 1 << 20
_SECOND_MS = 1000
_QUEUE = "openb"


class Pod(NamedTuple):
    """A pod of the trace, and what it asks for; equal pods have the same profile."""

    name: str
    profile: Profile

    @property
    def request(self) -> Request:
        """What its one task asks of a node."""
        return self.profile.groups[0].request

    @property
    def milli(self) -> int:
        """All it takes of devices."""
        return self.request.gpus * self.request.gpu_milli


def nodes(path: str, cluster: str, names: Mapping[str, str] | None = None) -> tuple[Node, ...]:
    """The nodes, in the order of the file; `names` gives them others than they have there."""
    return tuple(_node(line, cluster, names or {}) for line, _ in table(path, _NODE))


def pods(path: str) -> Iterator[Pod]:
    """The pods, in the order of the file."""
    for line, places in table(path, _POD):
        yield _pod(line, places)


def jobs(path: str) -> Iterator[ScriptJob]:
    """The pods as jobs that run for as long as they did, in the order of the file; those that never ran are left out.

    Of a list that does not say when pods came, one comes every second, and none goes.
    """
    for place, (line, places) in enumerate(table(path, _POD)):
        pod, came_s, ran_s = _pod(line, places), place, None
        if _CREATED in places:
            line.must_have(len(places), "a line of this list")
            if not line.parts[_place(line, places, _SCHEDULED)]:
                continue
            came_s, ran_s = _came_and_ran(line, places)
        job = Job(id=pod.name, queue=_QUEUE, profile=pod.profile, submit_ms=came_s * _SECOND_MS)
        yield ScriptJob(job=job, runtime_ms=None if ran_s is None else ran_s * _SECOND_MS)


def _came_and_ran(line: Line, places: Mapping[str, int]) -> tuple[int, int]:
    """When it was created, and for how long it ran; in seconds."""
    created_s = line.whole(_place(line, places, _CREATED), _CREATED)
    scheduled_s = line.whole(_place(line, places, _SCHEDULED), _SCHEDULED, least=created_s)
    deleted_s = line.whole(_place(line, places, _DELETED), _DELETED, least=scheduled_s)
    return created_s, deleted_s - scheduled_s


def _place(line: Line, places: Mapping[str, int], column: str) -> int:
    if column not in places:
        Line(line.file, 1, ()).refuse("header", ",".join(places), f"{column} beside {_CREATED}")
    return places[column]


def _pod(line: Line, places: Mapping[str, int]) -> Pod:
    gpus = line.whole(3, "num_gpu")
    milli = line.whole(4, "gpu_milli", least=1 if gpus else 0)
    if gpus and milli > DEVICE_MILLI:
        line.refuse("gpu_milli", line.parts[4], f"at most {DEVICE_MILLI}: it is of each device")
    spec = line.parts[places[_SPEC]] if gpus and places.get(_SPEC, len(line.parts)) < len(line.parts) else ""
    amounts = (line.whole(1, "cpu_milli"), line.whole(2, "memory_mib") * _MIB)
    return Pod(_name(line, "name"), _profile(*amounts, gpus, milli if gpus else DEVICE_MILLI, spec))


def _name(line: Line, field: str) -> str:
    if not line.parts[0]:
        line.refuse(field, "", "a name")
    return line.parts[0]


def _node(line: Line, cluster: str, names: Mapping[str, str]) -> Node:
    cpu, memory, gpus = line.whole(1, "cpu_milli"), line.whole(2, "memory_mib") * _MIB, line.whole(3, "gpu")
    name = _name(line, "sn")
    return Node(
        name=names.get(name, name),
        cluster=cluster,
        allocatable=Resources.of({CPU: cpu, MEMORY: memory, GPU: gpus * DEVICE_MILLI}),
        labels={MODEL: line.parts[4]} if line.parts[4] else {},
    )


@cache
def _profile(cpu: int, memory: int, gpus: int, milli: int, spec: str) -> Profile:
    amounts = {CPU: cpu, MEMORY: memory, GPU: gpus * DEVICE_MILLI}
    request = Request.of({name: amount for name, amount in amounts.items() if amount}, gpu_milli=milli)
    group = TaskGroup(name="main", min=1, initial=1, max=1, request=request, constraint=_one_of(spec))
    return Profile(groups=(group,))


def _one_of(spec: str) -> Constraint:
    """On a node with one of the models that stand between bars."""
    if not spec:
        return ANYWHERE
    is_one = {"key": MODEL, "operator": "In", "values": sorted(spec.split("|"))}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [is_one]}]}
    return Constraint.parse(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
