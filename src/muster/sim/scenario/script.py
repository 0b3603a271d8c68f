"""What happens in a scenario whatever the scheduler does: the key `events`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.documents.fields import Fields
from muster.documents.jobs.entry import read_class, read_level
from muster.documents.jobs.known import listed
from muster.documents.scalars import DURATION, INT32
from muster.documents.values import Scalar
from muster.model.events import (
    Event,
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
from muster.model.resources import PODS, Resources
from muster.sim.scenario.jobs import Jobs
from muster.sim.scenario.nodes import read_labels
from muster.sim.scenario.scenario import Scripted
from muster.sim.scenario.timeline import Foreign, foreign_events, place, silent_events
from muster.sim.scenario.world import QUEUE_KEYS, World, read_queue

MOST_EVENTS = 2_000_000  # of jobs, counts multiplied out

OPERATOR = "an operator"  # who holds jobs in a scenario

ACTIONS = (
    "addNodes",
    "removeNode",
    "cordonNode",
    "uncordonNode",
    "drainNode",
    "labelNode",
    "setPool",
    "deletePool",
    "foreign",
    "silentCluster",
    "setQueue",
    "cordonQueue",
    "uncordonQueue",
    "setJob",
    "cancel",
    "hold",
    "release",
    "failTask",
)

_TASK = re.compile(r"([^/]{1,253})/([^/]{1,253})-(0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfJobs:
    """What happens to every job that a name stands for: new values, or (None) their end."""

    at_ms: int
    name: str
    changes: Mapping[str, Any] | None

    def event(self, job: str) -> Event:
        """The event for one of the jobs."""
        return JobCancelled(job=job) if self.changes is None else JobChanged(job=job, changes=self.changes)


@dataclass(slots=True)
class Script:
    """Every event of the file."""

    world: World
    jobs: Jobs
    events: list[Scripted] = field(default_factory=list)
    _of_jobs: list[OfJobs] = field(default_factory=list)
    total: int = 0
    _foreign: list[Foreign] = field(default_factory=list)
    _silences: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def read(self, top: Fields) -> None:
        """Take in the key `events`."""
        entries = [(fields, _action(fields), _at_ms(fields)) for fields in top.entries("events", "event")]
        # Nodes first: an event may name a node that another event adds.
        for fields, action, at_ms in sorted(entries, key=lambda entry: entry[1] != "addNodes"):
            if action is not None:
                self._read_action(fields, action, at_ms)
            fields.close()
        self.world.nodes.check()

    def made(self) -> list[Scripted]:
        """The events in order. Only once no problem was found."""
        added = [
            Scripted(at_ms=entry.at_ms, event=NodeAdded(node=node))
            for entry in self.world.nodes.entries
            if entry.at_ms is not None
            for node in entry.nodes()
        ]
        of_jobs = [
            Scripted(at_ms=one.at_ms, event=one.event(job))
            for one in self._of_jobs
            for job in self.jobs.roster.meant(one.name)
        ]
        others = [*foreign_events(self._foreign), *silent_events(self._silences)]
        return sorted([*self.events, *added, *of_jobs, *others], key=place)

    def _read_action(self, fields: Fields, action: str, at_ms: int) -> None:
        match action:
            case "addNodes":
                self._add_nodes(fields.mapping(action, action), at_ms)
            case "foreign":
                self._read_foreign(fields.mapping(action, action), at_ms)
            case "silentCluster":
                self._read_silence(fields.mapping(action, action), at_ms)
            case "removeNode":
                node = self._node(fields, action)
                self.world.nodes.remove(node, at_ms)
                self._put(at_ms, NodeRemoved(node=node))
            case "cordonNode" | "uncordonNode":
                cordoned = action == "cordonNode"
                self._put(at_ms, NodeCordoned(node=self._node(fields, action), cordoned=cordoned))
            case "drainNode":
                self._put(at_ms, NodeDrained(node=self._node(fields, action)))
            case "labelNode":
                self._put(at_ms, self._labelled(fields.mapping(action, action)))
            case "setPool":
                self._change_pool(fields.mapping(action, action), at_ms)
            case "deletePool":
                self._delete_pool(fields, action, at_ms)
            case "setQueue":
                self._put(at_ms, self._changed_queue(fields.mapping(action, action)))
            case "cordonQueue" | "uncordonQueue":
                changes = {"cordoned": action == "cordonQueue"}
                self._put(at_ms, QueueChanged(queue=self._queue(fields, action), changes=changes))
            case "setJob":
                self._change_jobs(fields.mapping(action, action), at_ms)
            case "cancel":
                self._put_of_jobs(fields, action, at_ms, None)
            case "hold" | "release":
                self._put_of_jobs(fields, action, at_ms, {"held_by": OPERATOR if action == "hold" else ""})
            case "failTask":
                self._put(at_ms, *self._failed_tasks(fields, action))

    def _put(self, at_ms: int, *events: Event) -> None:
        self.events.extend(Scripted(at_ms=at_ms, event=event) for event in events)

    def _put_of_jobs(self, fields: Fields, key: str, at_ms: int, changes: Mapping[str, Any] | None) -> None:
        name = fields.required_name(key)
        if name is None:
            return
        size = self.jobs.roster.size(name)
        if not size:
            fields.refuse(key, listed("a job", self.jobs.names(), self.world.where))
        self.total += size
        if self.total > MOST_EVENTS:
            fields.add(key, f"more than {MOST_EVENTS} changes of jobs in the whole file are not allowed")
        self._of_jobs.append(OfJobs(at_ms=at_ms, name=name, changes=changes))

    # --- nodes and clusters ---

    def _add_nodes(self, fields: Fields, at_ms: int) -> None:
        cluster = self._cluster_with_nodes(fields)
        self.world.nodes.read(fields, cluster, at_ms)
        if not fields.has("nodes"):
            fields.missing("nodes", "a list of nodes, as in clusters")
        fields.close()

    def _labelled(self, fields: Fields) -> NodeLabelled:
        event = NodeLabelled(node=self._node(fields, "node"), labels=read_labels(fields))
        if not fields.has("labels"):
            fields.missing("labels", "the labels to set, such as {pool: b}")
        fields.close()
        return event

    def _read_foreign(self, fields: Fields, at_ms: int) -> None:
        node = self._node(fields, "node")
        amounts = {PODS: 1} | fields.node_amounts()
        for_ms = fields.optional_duration("for", least_ms=1)
        fields.close_with_amounts()
        self._foreign.append(Foreign(at_ms=at_ms, node=node, amounts=Resources.of(amounts), for_ms=for_ms))

    def _read_silence(self, fields: Fields, at_ms: int) -> None:
        cluster = self._cluster(fields, "name")
        for_ms = fields.duration("for", least_ms=1)
        if not fields.has("for"):
            fields.missing("for", DURATION)
        fields.close()
        self._silences.setdefault(cluster, []).append((at_ms, at_ms + for_ms))

    # --- pools, queues and jobs ---

    def _change_pool(self, fields: Fields, at_ms: int) -> None:
        name, changes = self.world.pools.changes(fields)
        if name is not None:
            self._put(at_ms, PoolChanged(pool=name, changes=changes))

    def _delete_pool(self, fields: Fields, key: str, at_ms: int) -> None:
        name = self.world.pools.named(fields, key)
        if name is not None:
            self._put(at_ms, PoolDeleted(pool=name))

    def _changed_queue(self, fields: Fields) -> QueueChanged:
        event = QueueChanged(queue=self._queue(fields, "name"), changes=read_queue(fields))
        if not any(fields.has(key) for key in QUEUE_KEYS):
            fields.problems.add(fields.path, fields.line, f"nothing to set: give some of {', '.join(QUEUE_KEYS)}")
        fields.close()
        return event

    def _change_jobs(self, fields: Fields, at_ms: int) -> None:
        known = self.world.known
        priority = fields.integer("priority", 0, -INT32, INT32)
        priority_class = read_class(fields, known)
        changes: dict[str, Any] = {}
        if fields.has("priority"):
            changes["priority"] = priority
        if fields.has("priorityClass"):
            changes["priority_class"] = priority_class
        level = read_level(fields, known)
        if fields.has("level"):
            changes["level"] = level
        freezing_ms = fields.duration("freezingWindow")
        if fields.has("freezingWindow"):
            changes["freezing_ms"] = freezing_ms
        if not changes:
            allowed = "priority, priorityClass, level or freezingWindow"
            fields.problems.add(fields.path, fields.line, f"nothing to set: give {allowed}")
        self._put_of_jobs(fields, "name", at_ms, changes)
        fields.close()

    def _failed_tasks(self, fields: Fields, key: str) -> list[Event]:
        value = fields.get(key)
        match = _TASK.fullmatch(value.text) if isinstance(value, Scalar) else None
        if match is None:
            fields.refuse(key, "a task as job/group-index, such as train/worker-0")
            return []
        name, group, index = match[1], match[2], int(match[3])
        entry = self.jobs.roster.entry_of(name)
        if entry is None or self.jobs.roster.size(name) != 1:
            fields.refuse(key, listed("a task of a single job", self.jobs.names(), self.world.where))
            return []
        most = {group.name: group.max for group in self.jobs.profile_of(entry.name).groups}
        if index >= most.get(group, 0):
            tasks = ", ".join(f"{group}-0 to {group}-{most[group] - 1}" for group in sorted(most))
            fields.refuse(key, f"a task of {name}: {tasks}")
            return []
        return [TaskFailed(job=job, group=group, index=index) for job in self.jobs.roster.meant(name)]

    # --- names of things that must exist; a wrong one is noted and gives "" or nothing ---

    def _node(self, fields: Fields, key: str) -> str:
        name = fields.required_name(key)
        node = None if name is None else self.world.nodes.named(name)
        if name is not None and node is None:
            fields.refuse(key, listed("a node", self.world.nodes.names(), self.world.where))
        return node or ""

    def _cluster(self, fields: Fields, key: str) -> str:
        return self._known(fields, key, "a cluster", self.world.clusters)

    def _cluster_with_nodes(self, fields: Fields) -> str:
        name = fields.required_name("cluster")
        known = self.world.known
        if name is not None and name not in known.transparent:
            fields.refuse("cluster", known.placeable())
        return name or ""

    def _queue(self, fields: Fields, key: str) -> str:
        queues = self.jobs.queues if self.world.queues is None else self.world.queues
        return self._known(fields, key, "a queue", queues)

    def _known(self, fields: Fields, key: str, what: str, names: Collection[str]) -> str:
        name = fields.required_name(key)
        if name is not None and name not in names:
            fields.refuse(key, listed(what, names, self.world.where))
        return name or ""


def _at_ms(fields: Fields) -> int:
    if not fields.has("at"):
        fields.missing("at", DURATION)
    return fields.duration("at")


def _action(fields: Fields) -> str | None:
    """The one key that says what happens. Unknown keys are noted by `close`."""
    given = [key for key in ACTIONS if fields.get(key) is not None]
    if len(given) > 1:
        actions = " and ".join(given)
        fields.problems.refuse(fields.path, fields.line, f"{actions} in one event", f"one of {', '.join(ACTIONS)}")
    elif set(fields.given()) <= {"at"}:
        fields.problems.add(fields.path, fields.line, f"an action is missing: one of {', '.join(ACTIONS)}")
    return given[0] if len(given) == 1 else None
