"""Jobs of a scenario: entries with a count, their groups, and what they wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from muster.model.jobs import Job, Profile
from muster.model.names import name_key
from muster.model.queues import Queue
from muster.sim.scenario.fields import Fields
from muster.sim.scenario.groups import read_groups
from muster.sim.scenario.pools import read_pool_of
from muster.sim.scenario.problems import quoted
from muster.sim.scenario.races import RaceScript, read_race
from muster.sim.scenario.roster import Entry, Roster, read_name
from muster.sim.scenario.scalars import INT32, as_name
from muster.sim.scenario.scenario import ScriptJob
from muster.sim.scenario.width import read_freezing, read_level, read_work
from muster.sim.scenario.world import DEFAULT_CLASS, DEFAULT_QUEUE, World, listed
from muster.state.work import Work

MOST_JOBS = 2_000_000
MOST_DEPENDENCIES = 10_000_000  # pairs of jobs, one after the other
MOST_CYCLES = 20  # that are reported; each search walks every entry


class Need(NamedTuple):
    """What an entry waits for, and where it says so."""

    name: str
    line: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEntry:
    """One entry of the list of jobs. `common` holds the fields of model.jobs.Job that all its jobs share."""

    fields: Fields
    entry: Entry
    common: dict[str, Any]
    profile: Profile
    runtime_ms: int | None
    work: Work | None
    after: tuple[Need, ...]
    race: RaceScript | None = None


@dataclass(slots=True)
class Jobs:
    """Every job of the file."""

    world: World
    roster: Roster = field(default_factory=lambda: Roster("job"))
    entries: dict[str, JobEntry] = field(default_factory=dict)
    queues: set[str] = field(default_factory=set)
    total: int = 0
    _profiles: dict[Profile, Profile] = field(default_factory=dict)

    def read(self, top: Fields) -> None:
        """Take in the key `jobs`."""
        for fields in top.entries("jobs", "job"):
            self._read_job(fields)
        for entry, other in self.roster.clashes():
            fields = self.entries[entry.name].fields
            fields.refuse("name", f"the job {other.name} of line {other.line} has that name among its {other.count}")
        self._check_after()

    def made(self) -> list[ScriptJob]:
        """The jobs themselves, by submit time and id. Only once no problem was found."""
        made: list[ScriptJob] = []
        ids: dict[tuple[str, ...], tuple[str, ...]] = {}  # entries that wait for the same share one tuple
        for one in self.entries.values():
            names = tuple(need.name for need in one.after)
            if names not in ids:
                ids[names] = self._ids(names)
            for name in one.entry.names():
                job = Job(id=name, profile=one.profile, after=ids[names], **one.common)
                made.append(ScriptJob(job=job, runtime_ms=one.runtime_ms, work=one.work, race=one.race))
        made.sort(key=lambda one: (one.job.submit_ms, one.job.key))
        return made

    def made_queues(self) -> list[Queue]:
        """The declared queues; where none are declared, those that jobs mention."""
        if self.world.queues is not None:
            return list(self.world.queues.values())
        return [Queue(name=name) for name in self.queues]

    def _ids(self, names: tuple[str, ...]) -> tuple[str, ...]:
        ids = {job for name in names for job in self.roster.meant(name)}
        return tuple(sorted(ids, key=name_key))

    # --- one entry ---

    def _read_job(self, fields: Fields) -> None:
        name, count = read_name(fields)
        groups = read_groups(fields, self.world.policy.cores_per_gpu)
        common = self._common(fields)
        work = read_work(fields, groups, self.world.clusters, self.world.policy.resize_cost_ms)
        runtime_ms = None if fields.has_map("runtime") else fields.optional_duration("runtime")
        clusters = self._clusters(fields)
        after = _read_after(fields)
        profile = Profile(groups=groups, clusters=clusters, pool=read_pool_of(fields))
        race = read_race(fields, self.world, profile.least, runtime_ms)
        fields.close_with_amounts()
        if name is None:
            return
        entry = Entry(name=name, count=count, line=fields.line)
        self.total += len(entry)
        if self.total > MOST_JOBS:
            fields.add("count", f"more than {MOST_JOBS} jobs in the whole file are not allowed")
        if self.roster.add(fields, entry):
            self.entries[name] = JobEntry(
                fields=fields,
                entry=entry,
                common=common,
                profile=self._profiles.setdefault(profile, profile),
                runtime_ms=runtime_ms,
                work=work,
                after=after,
                race=race,
            )

    def _common(self, fields: Fields) -> dict[str, Any]:
        return {
            "submit_ms": fields.duration("at"),
            "queue": self._queue(fields),
            "priority": fields.integer("priority", 0, -INT32, INT32),
            "priority_class": read_class(fields, self.world),
            "lifetime_ms": fields.optional_duration("lifetime"),
            "expected_ms": fields.optional_duration("expectedRuntime"),
            "time_limit_ms": fields.optional_duration("timeLimit", least_ms=1),
            "retries": fields.integer("retries", 0, 0, INT32),
            "user": fields.name("user") or "",
            "job_set": fields.name("jobSet") or "",
            "level": read_level(fields, self.world.levels),
            "freezing_ms": read_freezing(fields),
        }

    def _queue(self, fields: Fields) -> str:
        declared = self.world.queues
        name = fields.name("queue")
        if declared is not None and not fields.has("queue") and not fields.has("race"):
            fields.missing("queue", listed("a queue", declared))
        elif declared is not None and name is not None and name not in declared:
            fields.refuse("queue", listed("a queue", declared))
        name = name or DEFAULT_QUEUE
        self.queues.add(name)
        return name

    def _clusters(self, fields: Fields) -> tuple[tuple[str, int], ...]:
        known = self.world.transparent
        only = fields.name("cluster")
        several = fields.mapping("clusters", "clusters")
        if only is not None and only not in known:
            fields.refuse("cluster", self.world.placeable())
        if fields.has("cluster") and fields.has("clusters"):
            fields.add("cluster", "cluster and clusters exclude each other: give one of them")
        chosen = []
        for name in several.given():
            chosen.append((name, several.integer(name, 50, 0, 100)))
            if name not in known:
                several.refuse_key(name, self.world.placeable())
        if only in known:
            chosen.append((only, known[only].preference))
        return tuple(chosen)

    # --- what waits for what ---

    def _check_after(self) -> None:
        before = {name: self._entries_before(one) for name, one in self.entries.items()}
        pairs = 0
        for one in self.entries.values():
            pairs += len(one.entry) * sum(self.roster.size(need.name) for need in one.after)
            if pairs > MOST_DEPENDENCIES:
                message = f"more than {MOST_DEPENDENCIES} pairs of jobs in the whole file are not allowed"
                one.fields.add("after", message)
                return
        for _ in range(MOST_CYCLES):
            try:
                TopologicalSorter(before).prepare()
            except CycleError as err:
                self._refuse_cycle(err.args[1], before)
            else:
                return

    def _entries_before(self, one: JobEntry) -> set[str]:
        """The entries whose jobs must succeed before those of this one start."""
        before = set()
        for need in one.after:
            other = self.roster.entry_of(need.name)
            if other is None:
                one.fields.problems.refuse(need.path, need.line, quoted(need.name), listed("a job", self.entries))
            elif other is one.entry:
                allowed = "a job cannot wait for itself, nor for others of its own entry"
                one.fields.problems.refuse(need.path, need.line, quoted(need.name), allowed)
            else:
                before.add(other.name)
        return before

    def _refuse_cycle(self, cycle: list[str], before: dict[str, set[str]]) -> None:
        # graphlib lists each entry before the one that waits for it.
        names = cycle[:-1]
        start = names.index(min(names, key=name_key))
        around = [*names[start:], *names[:start], names[start]]
        message = f"these jobs wait for each other in a circle: {' before '.join(around[:20])}"
        self.entries[names[start]].fields.add("after", message)
        for name in names:
            before[name] = set()


def _read_after(fields: Fields) -> tuple[Need, ...]:
    needs: dict[str, Need] = {}
    for item, path in fields.items("after"):
        name = as_name(item, path, fields.problems)
        if name is not None:
            needs.setdefault(name, Need(name, item.line, path))
    return tuple(needs.values())


def read_class(fields: Fields, world: World) -> int:
    """The key `priorityClass` as a number."""
    name = fields.name("priorityClass")
    if name is None:
        return world.classes[DEFAULT_CLASS]
    if name not in world.classes:
        fields.refuse("priorityClass", listed("a priority class", world.classes))
    return world.classes.get(name, 0)
