"""Job files: YAML with one job, a list of jobs, or {jobs: [...]}, and several documents with `---` between them.

Every problem is reported, each with its line, its key, the value and what is allowed (docs/job-file.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from muster.documents import document
from muster.documents.fields import Fields
from muster.documents.jobs.arrays import read_indices
from muster.documents.jobs.circles import refuse_circles
from muster.documents.jobs.entry import KEYS, Key, Need, read_after, read_clusters, read_common, read_pool
from muster.documents.jobs.groups import read_groups, refuse_empty_shapes
from muster.documents.jobs.known import Known
from muster.documents.jobs.launch import LAUNCH_KEYS, Launch, read_launch
from muster.documents.jobs.objects import read_objects
from muster.documents.jobs.races import read_race
from muster.documents.jobs.simulation import read_scripted_race, read_simulated
from muster.documents.jobs.spec import GRACE_MS, JobSpec, OnLost
from muster.documents.jobs.written import as_json
from muster.documents.problems import DocumentError, Problems
from muster.documents.shapes import DURATION, choice, said
from muster.documents.values import List, Map, Value
from muster.model.jobs import Profile
from muster.model.race import RaceSpec

WHAT = "a job file is a job such as {queue: a, cpu: 1, command: [date]}, a list of jobs, or {jobs: [...]}"

ON_LOST = {choice.value: choice for choice in OnLost}

FILE_KEYS = (
    *KEYS,
    Key(
        "onLost",
        "on_lost",
        lambda fields, _: fields.choice("onLost", ON_LOST, OnLost.WAIT),
        said(choice(ON_LOST), "When its cluster falls silent: wait for it, or run again elsewhere.", default="wait"),
    ),
    Key(
        "grace",
        "grace_ms",
        lambda fields, _: fields.duration("grace", GRACE_MS),
        said(DURATION, "Between the notice that it must end and the moment it is killed.", default="30s"),
    ),
)
"""The keys about a job as a whole, as job files have them."""


_OF_SIMULATIONS = {
    "at": "a job file says nothing of when it is submitted: leave it out (scenarios have it)",
    "runtime": "nobody knows how long a job will really run: say expectedRuntime (scenarios have it)",
}


class JobFileError(DocumentError):
    """A job file, or jobs in a request, that cannot be used: all problems together."""


class JobProblems(Problems):
    """Collects the problems of one job file."""

    raises = JobFileError


def read_job_file(text: str | bytes, path: str, known: Known, *, simulation: bool = False) -> list[JobSpec]:
    """The jobs of a file called `path`; raises JobFileError.

    `simulation`: the keys that only a simulation knows (`at`, `runtime`, sightings) are allowed too.
    """
    problems = JobProblems(path)
    data = text if isinstance(text, bytes) else document.encoded(text, problems)
    specs, read = [], []
    for value in document.read_stream(data, problems, WHAT):
        for entry, where in entries(value):
            fields = Fields.of("job", entry, where, problems)
            if fields is not None:
                specs.append(read_spec(fields, known, simulation=simulation))
                read.append(fields)
    refuse_circles(specs, lambda place, message: read[place].add("after", message))
    if problems:
        raise problems.error()
    return specs


def entries(value: Value) -> Iterable[tuple[Value, str]]:
    """The job entries of a document, each with its path: one, those of a list, or those under the only key `jobs`."""
    where = ""
    if isinstance(value, Map) and list(value.values) == ["jobs"]:
        value, where = value.values["jobs"], "jobs"
    if not isinstance(value, List):
        return [(value, where)]
    return [(item, f"{where}[{index}]") for index, item in enumerate(value.items)]


def read_spec(fields: Fields, known: Known, *, simulation: bool = False) -> JobSpec:
    """One job; where something was wrong with it, problems were noted, and the answer is of no use."""
    launches: dict[str, dict[str, Any]] = {}

    def read_more(group: str, of_group: Fields) -> None:
        launches[group] = read_launch(of_group)
        refuse_empty_shapes(of_group)

    name = fields.name("name")
    indices = read_indices(fields, name)
    groups = read_groups(fields, known.cores_per_gpu, read_more, LAUNCH_KEYS)
    common = read_common(fields, known, FILE_KEYS)
    profile = Profile(groups=groups, clusters=read_clusters(fields, known), pool=read_pool(fields))
    simulated = read_simulated(fields, groups, known) if simulation else None
    race = _read_race(fields, known, profile, None if simulated is None else simulated.runtime_ms, simulation)
    if race is not None and known.holds_jobs:
        profile, race = replace(profile, clusters=tuple((it.cluster, it.priority) for it in race.rivals)), None
    launch = Launch(groups=launches, objects=read_objects(fields, launches))
    if needs := launch.needs():
        profile = replace(profile, needs=needs)
    after = read_after(fields)
    _refuse_itself(fields, name, after)
    spec = JobSpec(
        name=name,
        profile=profile,
        launch=launch,
        after=tuple(need.after for need in after),
        indices=indices,
        race=race,
        simulated=simulated,
        document=as_json(fields.value),
        **common,
    )
    fields.close_with_amounts(told={} if simulation else _OF_SIMULATIONS)
    return spec


def _refuse_itself(fields: Fields, name: str | None, after: Iterable[Need]) -> None:
    for need in after:
        if need.name == name:
            fields.problems.add(need.path, need.line, "a job cannot wait for itself")


def _read_race(
    fields: Fields, known: Known, profile: Profile, runtime_ms: int | None, simulation: bool
) -> RaceSpec | None:
    if not simulation:
        return read_race(fields, known, profile.least)
    script = read_scripted_race(fields, known, profile.least, runtime_ms)
    return None if script is None else script.spec
