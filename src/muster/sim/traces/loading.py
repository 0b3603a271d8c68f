"""A trace as a scenario: its jobs on the machine one says it ran on, with the policy and queues of a scenario file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from muster.documents.problems import Problem
from muster.model.errors import InvalidValue
from muster.model.names import name_key
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.resources import CPU, GPU
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.traces import philly, swf
from muster.sim.traces.choices import Expected, Format, QueueBy
from muster.sim.traces.lines import TraceError
from muster.sim.traces.shaping import Machine

NODES = "NODESxEACH such as 64x8, or EACH for one big node"
_NODES = re.compile(r"(?:([1-9][0-9]{0,6})x)?([1-9][0-9]{0,8})")
_ALL_TIME = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Which trace, and how to read it. `repeat_to`: go on from the beginning until there are so many jobs."""

    path: str
    format: Format
    nodes: str | None = None
    queue_by: QueueBy = QueueBy.ONE
    expected: Expected = Expected.REQUESTED
    most_jobs: int | None = None
    repeat_to: int | None = None


def trace_policy() -> Policy:
    """What holds where a file says nothing: traces carry no lifetimes, so the limit on what those without may hold is
    off."""
    return Policy(over_share=None)


def load_trace(trace: Trace, around: Scenario | None = None) -> Scenario:
    """The jobs of the trace; policy, queues and users of the scenario `around` them, if there is one."""
    machine, entries = _read(trace)
    if trace.repeat_to is not None:
        entries = tuple(repeated(entries, trace.repeat_to))
    if not entries:
        raise TraceError((Problem("", 0, "has no jobs that ran"),), trace.path)
    return on_machine(machine, entries, around or Scenario(policy=trace_policy()))


def on_machine(machine: Machine, entries: Sequence[ScriptJob], around: Scenario) -> Scenario:
    """A scenario of these jobs on a machine; queues that nobody described have weight 1."""
    named = {queue.name: queue for queue in around.queues}
    for name in {entry.job.queue for entry in entries}:
        named.setdefault(name, Queue(name=name))
    return replace(
        around,
        clusters=machine.clusters(),
        nodes=machine.made(),
        queues=tuple(sorted(named.values(), key=lambda queue: name_key(queue.name))),
        jobs=tuple(entries),
    )


def repeated(entries: Sequence[ScriptJob], jobs: int) -> Iterator[ScriptJob]:
    """The same jobs over and over, each time later by as long as all of them took to come, until there are so many."""
    if not entries:
        return
    begin_ms, end_ms = entries[0].job.submit_ms, entries[-1].job.submit_ms
    period_ms = end_ms - begin_ms + max((end_ms - begin_ms) // len(entries), 1)
    for number in range(jobs):
        time, place = divmod(number, len(entries))
        entry = entries[place]
        if not time:
            yield entry
            continue
        job = entry.job
        later = replace(job, id=f"{job.id}-{time + 1}", submit_ms=job.submit_ms + time * period_ms)
        yield replace(entry, job=later)


def machine_of(text: str, resource: str) -> Machine:
    """The machine that `--nodes` describes."""
    found = _NODES.fullmatch(text)
    if found is None:
        raise InvalidValue(text, NODES, "--nodes")
    return Machine(nodes=int(found[1] or 1), each=int(found[2]), resource=resource)


def _read(trace: Trace) -> tuple[Machine, tuple[ScriptJob, ...]]:
    if trace.format is Format.PHILLY:
        machine = machine_of(trace.nodes or "64x8", GPU)
        since, until = _ALL_TIME
        found = philly.jobs(trace.path, machine, philly.Reading(since=since, until=until))
        return machine, tuple(from_zero(found[: trace.most_jobs]))
    size = trace.nodes or swf.processors(trace.path)
    if size is None:
        raise InvalidValue(trace.path, f"the log does not say how many processors there were: {NODES}", "--nodes")
    machine = machine_of(str(size), CPU)
    reading = swf.Reading(queue_by=trace.queue_by, expected=trace.expected, many=trace.most_jobs)
    return machine, tuple(from_zero(in_order(swf.jobs(trace.path, machine, reading), trace.path)))


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
