"""Numbers for Prometheus: turns and their stages, decisions, who waits and why, shares of queues, and the sums of which
utilisation and goodput are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.server.metering import Reading
from muster.server.service import Service
from muster.server.usage import WASTED

_COUNTER = "_total"  # how the names of counters end; the others are gauges
_HELP = {
    "muster_turns_total": "Turns taken.",
    "muster_turn_seconds_total": "Seconds spent in turns, by stage.",
    "muster_decisions_total": "What turns decided, by kind.",
    "muster_waiting_jobs": "Waiting jobs by reason, as the last turn said of their queue and profile.",
    "muster_jobs": "Jobs that are not over, by queue.",
    "muster_queue_usage": "What a queue's running jobs hold, by resource, in base units.",
    "muster_running_jobs": "Jobs that run.",
    "muster_capacity_seconds_total": "What nodes had, in base units x seconds, by cluster and resource.",
    "muster_held_seconds_total": "What attempts held, in base units x seconds; utilisation is held / capacity.",
    "muster_thrown_away_seconds_total": "What attempts held that came to nothing, in base units x seconds, by why, "
    "counted at their end; goodput is (held - thrown away) / capacity.",
    "muster_store_up": "Whether the store can be reached.",
}

Labels = Mapping[str, str]

_SECOND_MS = 1000


def exposition(service: Service) -> str:
    """Everything, as Prometheus reads it."""
    lines: list[str] = []
    told: set[str] = set()
    for name, labels, value in _samples(service):
        if name not in told:
            told.add(name)
            lines += [
                f"# HELP {name} {_HELP[name]}",
                f"# TYPE {name} {'counter' if name.endswith(_COUNTER) else 'gauge'}",
            ]
        lines.append(f"{name}{_in_braces(labels)} {value!r}")
    return "\n".join(lines) + "\n"


def _samples(service: Service) -> Iterator[tuple[str, Labels, float]]:
    counts = service.turns.counts
    yield "muster_turns_total", {}, counts.turns
    for stage, seconds in sorted(counts.seconds.items()):
        yield "muster_turn_seconds_total", {"stage": stage}, seconds
    for kind, many in sorted(counts.actions.items()):
        yield "muster_decisions_total", {"kind": kind}, many
    with service.world.lock:
        table = service.reasons.table()
        waiting = {} if table is None else table.counts()
        state = service.world.state
        queued = {name: state.jobs_in(name) for name in sorted(state.books)}
        held = {name: state.started_by(name) for name in queued}
        running = len(state.running)
        metered = service.turns.metered()
    for reason, many in sorted(waiting.items()):
        yield "muster_waiting_jobs", {"reason": reason}, many
    for name, many in queued.items():
        yield "muster_jobs", {"queue": name}, many
    for name, resources in held.items():
        for resource, amount in resources.items():
            yield "muster_queue_usage", {"queue": name, "resource": resource}, amount
    yield "muster_running_jobs", {}, running
    yield from _metered(metered)
    yield "muster_store_up", {}, 0 if service.turns.is_down else 1


def _metered(metered: Reading) -> Iterator[tuple[str, Labels, float]]:
    """The sums of utilisation and goodput, also where they are 0: what is missing cannot be subtracted."""
    held = metered.held()
    keys = [(key, {"cluster": key[0], "resource": key[1]}) for key in sorted({*metered.there, *held})]
    for key, labels in keys:
        yield "muster_capacity_seconds_total", labels, metered.there.get(key, 0) / _SECOND_MS
    for key, labels in keys:
        yield "muster_held_seconds_total", labels, held.get(key, 0) / _SECOND_MS
    for key, labels in keys:
        for why in WASTED:
            yield (
                "muster_thrown_away_seconds_total",
                {**labels, "why": why},
                metered.thrown.get((*key, why), 0) / _SECOND_MS,
            )


def _in_braces(labels: Labels) -> str:
    if not labels:
        return ""
    quoted = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{','.join(quoted)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
