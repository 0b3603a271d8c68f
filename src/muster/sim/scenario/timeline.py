"""When scripted events happen: one total order, and what follows from `for`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.model.events import (
    ClusterSilent,
    Event,
    ForeignGone,
    ForeignPlaced,
    JobCancelled,
    JobChanged,
    NodeAdded,
    NodeCordoned,
    NodeDrained,
    NodeLabelled,
    NodeRemoved,
    PoolChanged,
    PoolDeleted,
    QueueChanged,
    TaskFailed,
)
from muster.model.names import NameKey, name_key
from muster.model.resources import Resources
from muster.sim.scenario.scenario import Scripted

Place = tuple[int, int, NameKey, str]


def place(scripted: Scripted) -> Place:
    """Sort key of a scripted event: its time, its kind, whom it concerns, and what it says."""
    rank, name, detail = _subject(scripted.event)
    return (scripted.at_ms, rank, name_key(name), detail)


def _subject(event: Event) -> tuple[int, str, str]:
    """Kinds at one moment: room is given up before it is taken, so that a node may be replaced at once."""
    match event:
        case ClusterSilent():
            return 0, event.cluster, str(event.silent)
        case NodeRemoved():
            return 1, event.node, ""
        case NodeAdded():
            return 2, event.node.name, ""
        case NodeLabelled():
            return 3, event.node, repr(event.labels)
        case PoolDeleted():
            return 4, event.pool, ""
        case PoolChanged():
            return 5, event.pool, repr(event.changes)
        case NodeCordoned():
            return 6, event.node, str(event.cordoned)
        case NodeDrained():
            return 6, event.node, "drained"
        case ForeignGone():
            return 7, event.id, ""
        case ForeignPlaced():
            return 8, event.id, ""
        case QueueChanged():
            return 9, event.queue, repr(event.changes)
        case JobChanged():
            return 10, event.job, repr(event.changes)
        case JobCancelled():
            return 11, event.job, ""
        case TaskFailed():
            return 12, f"{event.job}/{event.group}-{event.index}", ""
    raise AssertionError(f"no scenario scripts {event!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """Pods that are not ours, before they have an id. `for_ms` None: they stay."""

    at_ms: int
    node: str
    amounts: Resources
    for_ms: int | None

    @property
    def order(self) -> tuple[int, NameKey, tuple[tuple[str, int], ...], int]:
        """By what they are: ids must not depend on the order of the file."""
        amounts = tuple(self.amounts.items())
        return (self.at_ms, name_key(self.node), amounts, -1 if self.for_ms is None else self.for_ms)


def foreign_events(pods: list[Foreign]) -> Iterator[Scripted]:
    """The coming and going of foreign pods: foreign-0, foreign-1 …"""
    for number, pod in enumerate(sorted(pods, key=lambda pod: pod.order)):
        name = f"foreign-{number}"
        yield Scripted(at_ms=pod.at_ms, event=ForeignPlaced(id=name, node=pod.node, amounts=pod.amounts))
        if pod.for_ms is not None:
            yield Scripted(at_ms=pod.at_ms + pod.for_ms, event=ForeignGone(id=name, node=pod.node))


def silent_events(silences: Mapping[str, list[tuple[int, int]]]) -> Iterator[Scripted]:
    """When clusters fall silent and answer again; silences that overlap or touch are one."""
    for cluster, spans in silences.items():
        merged: list[tuple[int, int]] = []
        for start_ms, end_ms in sorted(spans):
            if merged and start_ms <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end_ms))
            else:
                merged.append((start_ms, end_ms))
        for start_ms, end_ms in merged:
            yield Scripted(at_ms=start_ms, event=ClusterSilent(cluster=cluster, silent=True))
            yield Scripted(at_ms=end_ms, event=ClusterSilent(cluster=cluster, silent=False))
