"""A trace as a scenario: its jobs on the machine one says it ran on, with the policy and queues of a scenario file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from muster.documents.problems import Problem
from muster.engine.garbage import in_one_go
from muster.model.names import name_key
from muster.model.queues import Queue
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.traces.formats import Trace, read, trace_policy
from muster.sim.traces.lines import TraceError
from muster.sim.traces.shaping import Machine


def load_trace(trace: Trace, around: Scenario | None = None) -> Scenario:
    """The jobs of the trace; policy, queues, users and rounds of the scenario `around` them, if there is one."""
    around = around or Scenario(policy=trace_policy(trace.format))
    with in_one_go():
        found = read(trace, around.policy)
        if not found.jobs:
            raise TraceError((Problem("", 0, "has no jobs that ran"),), trace.path)
        if trace.repeat_to is not None:
            found = replace(found, jobs=tuple(repeated(found.jobs, trace.repeat_to)))
    made = within(around, found)
    return made if made.until_ms is not None else replace(made, until_ms=_last_ms(made))


def _last_ms(made: Scenario) -> int | None:
    """Where some stay for ever, one turn after the last one came: nothing that happens later belongs to the trace."""
    if all(entry.runtime_ms is not None or entry.work is not None for entry in made.jobs):
        return None
    return max(entry.job.submit_ms for entry in made.jobs) + made.policy.turn_ms


def on_machine(machine: Machine, entries: Sequence[ScriptJob], around: Scenario) -> Scenario:
    """A scenario of these jobs on a machine."""
    alone = Scenario(policy=around.policy, clusters=machine.clusters(), nodes=machine.made(), jobs=tuple(entries))
    return within(around, alone)


def within(around: Scenario, found: Scenario) -> Scenario:
    """The machine and jobs of one scenario in another; queues that nobody described have weight 1."""
    named = {queue.name: queue for queue in around.queues}
    for name in {entry.job.queue for entry in found.jobs}:
        named.setdefault(name, Queue(name=name))
    return replace(
        around,
        clusters=found.clusters,
        nodes=found.nodes,
        queues=tuple(sorted(named.values(), key=lambda queue: name_key(queue.name))),
        jobs=found.jobs,
        rounds_ms=around.rounds_ms if around.rounds_ms > 1 else found.rounds_ms,
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
