"""Jobs of a scenario: entries with a count, their groups, and what they wait for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.documents.fields import Fields
from muster.documents.jobs.circles import circles, in_words
from muster.documents.jobs.entry import KEYS, Need, read_after, read_clusters, read_common, read_pool
from muster.documents.jobs.groups import read_groups
from muster.documents.jobs.known import Known, listed
from muster.documents.jobs.simulation import RaceScript, Simulated, read_scripted_race, read_simulated
from muster.model.after import After
from muster.model.jobs import Job, Profile
from muster.model.names import name_key
from muster.model.queues import Queue
from muster.sim.scenario.problems import quoted
from muster.sim.scenario.roster import Entry, Roster, read_name
from muster.sim.scenario.scenario import ScriptJob
from muster.sim.scenario.world import World

MOST_JOBS = 2_000_000
MOST_DEPENDENCIES = 10_000_000  # pairs of jobs, one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEntry:
    """One entry of the list of jobs. `common` holds the fields of model.jobs.Job that all its jobs share."""

    fields: Fields
    entry: Entry
    common: dict[str, Any]
    profile: Profile
    simulated: Simulated
    after: tuple[Need, ...]
    race: RaceScript | None = None


@dataclass(slots=True)
class Jobs:
    """Every job of the file. `there`: jobs of a world that runs already, and what they ask for."""

    world: World
    roster: Roster = field(default_factory=lambda: Roster("job"))
    entries: dict[str, JobEntry] = field(default_factory=dict)
    queues: set[str] = field(default_factory=set)
    total: int = 0
    there: dict[str, Profile] = field(default_factory=dict)
    _profiles: dict[Profile, Profile] = field(default_factory=dict)

    def know(self, jobs: Mapping[str, Profile]) -> None:
        """These jobs are there, although no file describes them."""
        self.there |= jobs
        self.roster.entries |= {name: Entry(name=name, count=None, line=0) for name in jobs}

    def names(self) -> Collection[str]:
        """The names of all entries."""
        return self.entries.keys() | self.there.keys()

    def profile_of(self, entry: str) -> Profile:
        """What the jobs of an entry ask for."""
        return self.there[entry] if entry in self.there else self.entries[entry].profile

    def read(self, top: Fields) -> None:
        """Take in the key `jobs`."""
        known = self.world.known
        for fields in top.entries("jobs", "job"):
            self._read_job(fields, known)
        for entry, other in self.roster.clashes():
            fields = self.entries[entry.name].fields
            fields.refuse("name", f"the job {other.name} of line {other.line} has that name among its {other.count}")
        self._check_after()

    def made(self) -> list[ScriptJob]:
        """The jobs themselves, by submit time and id. Only once no problem was found."""
        made: list[ScriptJob] = []
        meant: dict[tuple[After, ...], tuple[After, ...]] = {}  # entries that wait for the same share one tuple
        for one in self.entries.values():
            after = tuple(need.after for need in one.after)
            if after not in meant:
                meant[after] = self._meant(after)
            timed = one.simulated
            for name in one.entry.names():
                job = Job(id=name, profile=one.profile, submit_ms=timed.at_ms, after=meant[after], **one.common)
                made.append(ScriptJob(job=job, runtime_ms=timed.runtime_ms, work=timed.work, race=one.race))
        made.sort(key=lambda one: (one.job.submit_ms, one.job.key))
        return made

    def made_queues(self) -> list[Queue]:
        """The declared queues; where none are declared, those that jobs mention."""
        if self.world.queues is not None:
            return list(self.world.queues.values())
        return [Queue(name=name) for name in self.queues]

    def _meant(self, after: tuple[After, ...]) -> tuple[After, ...]:
        each = {After(job, need.when) for need in after for job in self.roster.meant(need.job)}
        return tuple(sorted(each, key=lambda need: (name_key(need.job), need.when.value)))

    # --- one entry ---

    def _read_job(self, fields: Fields, known: Known) -> None:
        name, count = read_name(fields)
        groups = read_groups(fields, known.cores_per_gpu)
        common = read_common(fields, known, KEYS)
        self.queues.add(common["queue"])
        if (queue := (self.world.queues or {}).get(common["queue"])) is not None:
            times = queue.times_of(common.get("expected_ms"), common.get("time_limit_ms"))
            common["expected_ms"], common["time_limit_ms"] = times
        simulated = read_simulated(fields, groups, known)
        profile = Profile(groups=groups, clusters=read_clusters(fields, known), pool=read_pool(fields))
        after = read_after(fields)
        race = read_scripted_race(fields, known, profile.least, simulated.runtime_ms)
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
                simulated=simulated,
                profile=self._profiles.setdefault(profile, profile),
                after=after,
                race=race,
            )

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
        for circle in circles(before):
            self.entries[circle[0]].fields.add("after", in_words(circle))

    def _entries_before(self, one: JobEntry) -> set[str]:
        """The entries whose jobs must end before those of this one start."""
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
