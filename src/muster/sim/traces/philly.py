"""Microsoft's Philly trace as Pollux filtered it: timestamp, duration, num_gpus, gpu_time, cluster in CSV.

Virtual clusters are the queues. Durations are known to the simulated world only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from muster.model.jobs import Job
from muster.sim.scenario.scenario import ScriptJob
from muster.sim.traces.lines import Line, table
from muster.sim.traces.shaping import Machine

HEADER = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
TIMESTAMP, DURATION, GPUS, _, VIRTUAL_CLUSTER = range(5)
_SECOND_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Which jobs are read: of these virtual clusters (empty: all), with a timestamp from one moment up to another.

    Time begins with `since`. `lifetime_ms` is given to every job, `whole_nodes` to those wider than a node.
    """

    since: datetime
    until: datetime
    clusters: frozenset[str] = frozenset()
    lifetime_ms: int | None = None
    whole_nodes: bool = True


def jobs(path: str, machine: Machine, reading: Reading) -> list[ScriptJob]:
    """The jobs of the trace in the order they came; the file is in no order."""
    found = [entry for line, _ in table(path, HEADER) if (entry := _entry(line, machine, reading)) is not None]
    return sorted(found, key=lambda entry: (entry.job.submit_ms, entry.job.key))


def _entry(line: Line, machine: Machine, reading: Reading) -> ScriptJob | None:
    virtual = line.parts[VIRTUAL_CLUSTER]
    if reading.clusters and virtual not in reading.clusters:
        return None
    at = _moment(line)
    if not reading.since <= at < reading.until:
        return None
    gpus = line.whole(GPUS, "num_gpus", least=1)
    if gpus > machine.units:
        line.refuse("num_gpus", str(gpus), f"at most the {machine.units} there are; see --nodes")
    return ScriptJob(
        job=Job(
            id=f"job-{line.number}",
            queue=virtual,
            profile=machine.profile(gpus, whole_nodes=reading.whole_nodes),
            submit_ms=int((at - reading.since).total_seconds()) * _SECOND_MS,
            lifetime_ms=reading.lifetime_ms,
        ),
        runtime_ms=line.whole(DURATION, "duration") * _SECOND_MS,
    )


def _moment(line: Line) -> datetime:
    text = line.parts[TIMESTAMP]
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        line.refuse("timestamp", text, "a moment such as 2017-10-09 07:01:55")
