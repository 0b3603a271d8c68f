"""Numbers for Prometheus: turns and their stages, decisions, who waits and why, shares of queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.server.service import Service

_KINDS = {"muster_turns_total": "counter", "muster_turn_seconds_total": "counter", "muster_decisions_total": "counter"}
_HELP = {
    "muster_turns_total": "Turns taken.",
    "muster_turn_seconds_total": "Seconds spent in turns, by stage.",
    "muster_decisions_total": "What turns decided, by kind.",
    "muster_waiting_jobs": "Waiting jobs by reason, as the last turn said of their queue and profile.",
    "muster_jobs": "Jobs that are not over, by queue.",
    "muster_queue_usage": "What a queue's running jobs hold, by resource, in base units.",
    "muster_running_jobs": "Jobs that run.",
    "muster_store_up": "Whether the store can be reached.",
}

Labels = Mapping[str, str]


def exposition(service: Service) -> str:
    """Everything, as Prometheus reads it."""
    lines: list[str] = []
    told: set[str] = set()
    for name, labels, value in _samples(service):
        if name not in told:
            told.add(name)
            lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} {_KINDS.get(name, 'gauge')}"]
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
    for reason, many in sorted(waiting.items()):
        yield "muster_waiting_jobs", {"reason": reason}, many
    for name, many in queued.items():
        yield "muster_jobs", {"queue": name}, many
    for name, resources in held.items():
        for resource, amount in resources.items():
            yield "muster_queue_usage", {"queue": name, "resource": resource}, amount
    yield "muster_running_jobs", {}, running
    yield "muster_store_up", {}, 0 if service.turns.is_down else 1


def _in_braces(labels: Labels) -> str:
    if not labels:
        return ""
    quoted = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{','.join(quoted)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
