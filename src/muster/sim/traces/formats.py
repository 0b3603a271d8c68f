"""What each format of traces needs beside its file, and the scenario that is in it.

A trace that says nothing of its machine is told by `--nodes`; one whose run times follow from measurements by
`--measured`. Both have a place where they are looked for when nobody says: the one they have in the published
originals. An option that means nothing for a format is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from muster.documents.problems import Problem
from muster.model.errors import InvalidValue
from muster.model.fleet import Cluster
from muster.model.policy import Policy
from muster.model.resources import CPU, GPU
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.traces import gavel, openb, philly, pollux, swf
from muster.sim.traces.choices import OPTIONS, Expected, Format, QueueBy
from muster.sim.traces.lines import TraceError
from muster.sim.traces.shaping import Machine

NODES = "NODESxEACH such as 64x8, or EACH for one big node"
KINDS = "KIND=GPUS for each kind of GPU, such as v100=8,p100=16,k80=24"
_NODES = re.compile(r"(?:([1-9][0-9]{0,6})x)?([1-9][0-9]{0,8})")
_KIND = re.compile(r"([a-z0-9][a-z0-9_]{0,62})=([1-9][0-9]{0,8})")
_ALL_TIME = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
_MEANT_FOR = {
    "queue_by": (Format.SWF,),
    "expected": (Format.SWF,),
    "measured": (Format.POLLUX, Format.GAVEL),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Which trace, and how to read it. `repeat_to`: go on from the beginning until there are so many jobs."""

    path: str
    format: Format = Format.SWF
    nodes: str | None = None
    measured: str | None = None
    queue_by: QueueBy | None = None
    expected: Expected | None = None
    most_jobs: int | None = None
    repeat_to: int | None = None

    def __post_init__(self) -> None:
        for field, formats in _MEANT_FOR.items():
            value = getattr(self, field)
            if value is not None and self.format not in formats:
                allowed = f"only with --format {' or '.join(formats)}, and this is {self.format}"
                raise InvalidValue(str(value), allowed, OPTIONS[field])


def trace_policy(format_: Format = Format.SWF) -> Policy:
    """What holds where a file says nothing.

    Traces carry no lifetimes, so the limit on what those without may hold is off. What was measured in rounds is
    decided in rounds.
    """
    if format_ is Format.POLLUX:
        return Policy(
            over_share=None,
            turn_ms=pollux.ROUND_MS,
            elastic_every_ms=pollux.ROUND_MS,
            resize_cost_ms=pollux.RESTART_MS,
        )
    if format_ is Format.GAVEL:
        return Policy(over_share=None, turn_ms=gavel.ROUND_MS)
    return Policy(over_share=None)


def read(trace: Trace, policy: Policy) -> Scenario:
    """The jobs of the trace in the order they come, on the machine it is for; raises TraceError and InvalidValue."""
    match trace.format:
        case Format.SWF:
            return _swf(trace, policy)
        case Format.PHILLY:
            return _philly(trace, policy)
        case Format.OPENB:
            return _openb(trace, policy)
        case Format.POLLUX:
            return _pollux(trace, policy)
        case Format.GAVEL:
            return _gavel(trace, policy)


def machine_of(text: str, resource: str, cluster: str = "trace") -> Machine:
    """The machine that `--nodes` describes."""
    found = _NODES.fullmatch(text)
    if found is None:
        raise InvalidValue(text, NODES, "--nodes")
    return Machine(nodes=int(found[1] or 1), each=int(found[2]), resource=resource, cluster=cluster)


def kinds_of(text: str) -> dict[str, int]:
    """How many GPUs of each kind `--nodes` describes."""
    found = [_KIND.fullmatch(part) for part in text.split(",")]
    kinds = {kind[1]: int(kind[2]) for kind in found if kind is not None}
    if len(kinds) < len(found):
        raise InvalidValue(text, KINDS, "--nodes")
    return kinds


def in_order(entries: Iterable[ScriptJob], path: str) -> list[ScriptJob]:
    """The jobs as they came. Ids are unique: who has one that was there already gets a number behind it."""
    found: list[ScriptJob] = []
    seen: dict[str, int] = {}
    for entry in entries:
        if found and entry.job.submit_ms < found[-1].job.submit_ms:
            message = f"job {entry.job.id} was submitted before the one above it: a log is in the order of submission"
            raise TraceError((Problem("", 0, message),), path)
        times = seen[entry.job.id] = seen.get(entry.job.id, 0) + 1
        found.append(entry if times == 1 else replace(entry, job=replace(entry.job, id=f"{entry.job.id}-again{times}")))
    return found


def from_zero(entries: Sequence[ScriptJob]) -> Iterator[ScriptJob]:
    """The same jobs, the first one at time 0: logs count seconds from some year."""
    first_ms = entries[0].job.submit_ms if entries else 0
    for entry in entries:
        yield replace(entry, job=replace(entry.job, submit_ms=entry.job.submit_ms - first_ms))


# --- one by one ---------------------------------------------------------------------------------


def _swf(trace: Trace, policy: Policy) -> Scenario:
    size = trace.nodes or swf.processors(trace.path)
    if size is None:
        raise InvalidValue(trace.path, f"the log does not say how many processors there were: {NODES}", "--nodes")
    machine = machine_of(str(size), CPU)
    reading = swf.Reading(
        queue_by=trace.queue_by or QueueBy.ONE, expected=trace.expected or Expected.REQUESTED, many=trace.most_jobs
    )
    return _on(machine, from_zero(in_order(swf.jobs(trace.path, machine, reading), trace.path)), policy)


def _philly(trace: Trace, policy: Policy) -> Scenario:
    machine = machine_of(trace.nodes or "64x8", GPU)
    since, until = _ALL_TIME
    found = philly.jobs(trace.path, machine, philly.Reading(since=since, until=until))
    return _on(machine, from_zero(found[: trace.most_jobs]), policy)


def _on(machine: Machine, entries: Iterable[ScriptJob], policy: Policy) -> Scenario:
    return Scenario(policy=policy, clusters=machine.clusters(), nodes=machine.made(), jobs=tuple(entries))


def _openb(trace: Trace, policy: Policy) -> Scenario:
    beside = Path(trace.path).parent / "openb_node_list_gpu_node.csv"
    nodes = _given("--nodes", trace.nodes, "the file of nodes", beside)
    came = sorted(openb.jobs(trace.path), key=lambda entry: (entry.job.submit_ms, entry.job.key))
    return Scenario(
        policy=policy,
        clusters=(Cluster(name=openb.CLUSTER),),
        nodes=tuple(sorted(openb.nodes(str(nodes), openb.CLUSTER), key=lambda node: node.key)),
        jobs=tuple(from_zero(in_order(islice(came, trace.most_jobs), trace.path))),
    )


def _pollux(trace: Trace, policy: Policy) -> Scenario:
    workload = Path(trace.path)
    machine = pollux.MACHINE if trace.nodes is None else machine_of(trace.nodes, GPU, pollux.CLUSTER)
    folder = "the folder with one folder of step times for each application"
    measured = _given("--measured", trace.measured, folder, workload.absolute().parent.parent / "traces")
    return _first(pollux.scenario(workload, measured, policy, machine=machine), trace)


def _gavel(trace: Trace, policy: Policy) -> Scenario:
    path = Path(trace.path)
    fleet = gavel.FLEET if trace.nodes is None else kinds_of(trace.nodes)
    beside = (path.parent / f"physical_cluster_throughputs.json{end}" for end in ("", ".gz"))
    measured = _given("--measured", trace.measured, "the file of throughputs", *beside)
    return _first(gavel.scenario(path, measured, policy, fleet=fleet), trace)


def _first(scenario: Scenario, trace: Trace) -> Scenario:
    return replace(scenario, jobs=scenario.jobs[: trace.most_jobs])


def _given(option: str, said: str | None, what: str, *usual: Path) -> Path:
    """What an option names, else the first of its usual places where there is something."""
    if said is not None:
        if not Path(said).exists():
            raise InvalidValue(said, f"{what}, and there is none of that name", option)
        return Path(said)
    for place in usual:
        if place.exists():
            return place
    raise InvalidValue(None, f"{what} is needed; without this option it is {usual[-1]}, which is not there", option)
