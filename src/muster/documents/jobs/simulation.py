"""What only a simulation can know of a job: when it comes, how long it really runs, what opaque clusters will show."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from muster.documents.fields import Fields
from muster.documents.jobs.groups import MOST_SPEED, SPEED
from muster.documents.jobs.known import Known
from muster.documents.jobs.races import read_race
from muster.documents.scalars import LONGEST_MS, milliseconds
from muster.documents.values import List, Map, Scalar, Value, shown
from muster.model.jobs import TaskGroup
from muster.model.race import RaceSpec, Shown
from muster.model.resources import Resources
from muster.state.work import ByCluster, Work

MOST_SIGHTINGS = 10_000  # of one cluster

STATES = {
    "WAITING": Shown.WAITING,
    "RUNNING": Shown.RUNNING,
    "SUCCEEDED": Shown.SUCCEEDED,
    "SUCCESS": Shown.SUCCEEDED,  # as the document spells it
    "FAILED": Shown.FAILED,
    "STOPPED": Shown.STOPPED,
}
SIGHTING = f"[duration, state], such as [50m, RUNNING]; the states are {', '.join(STATES)}"

Step = tuple[int, Shown]


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalScript:
    """What a cluster shows: from so many ms after the race began, this. `refusal`: how it answers the submission."""

    steps: tuple[Step, ...] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceScript:
    """A race, and what its clusters will show."""

    spec: RaceSpec
    rivals: dict[str, RivalScript]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """When a job is submitted, and how long it really runs: a time (None: until the end), or until its work is done."""

    at_ms: int = 0
    runtime_ms: int | None = None
    work: Work | None = None


def read_simulated(fields: Fields, groups: Collection[TaskGroup], known: Known) -> Simulated:
    """The keys `at` and `runtime` of a job with these groups."""
    work = _read_work(fields, groups, known)
    runtime_ms = None if fields.has_map("runtime") else fields.optional_duration("runtime")
    return Simulated(at_ms=fields.duration("at"), runtime_ms=runtime_ms, work=work)


def _read_work(fields: Fields, groups: Collection[TaskGroup], known: Known) -> Work | None:
    """The work that `runtime` says there is; None where it says a duration, or nothing."""
    if not isinstance(fields.get("runtime"), Map):
        return None
    work = fields.mapping("runtime", "runtime")
    task_ms = work.optional_duration("work", least_ms=1)
    speeds = _speeds_by_cluster(work.mapping("speed", "speed"), known)
    is_kept = work.boolean("kept", False)
    if not work.has("work"):
        work.missing("work", "task-hours of work such as 8h")
    elif not speeds and not any(group.min < group.max for group in groups):
        fields.add("runtime", "only tasks of elastic groups work: some group must have a min below its max")
    work.close()
    if task_ms is None:
        return None
    return Work(task_ms, ByCluster(speeds) if speeds else None, known.resize_cost_ms, is_kept)


def _speeds_by_cluster(fields: Fields, known: Known) -> dict[str, int]:
    """How fast the job is in each cluster, in micro-units."""
    speeds: dict[str, int] = {}
    for name in fields.given():
        if known.clusters is not None and name not in known.clusters:
            allowed = f"a cluster of {known.where}: {', '.join(sorted(known.clusters)) or 'it has none'}"
            fields.refuse_key(name, allowed)
        speed = fields.micro(name, SPEED, least=1, most=MOST_SPEED)
        if speed is not None:
            speeds[name] = speed
    return speeds


# --- races --------------------------------------------------------------------------------------


def read_scripted_race(job: Fields, known: Known, asks: Resources, runtime_ms: int | None) -> RaceScript | None:
    """The race of a job whose tasks ask for so much, with what its clusters will show; None: it has none."""
    scripts: dict[str, RivalScript] = {}

    def read_script(name: str, entry: Fields) -> None:
        scripts[name] = RivalScript(steps=_steps(entry, runtime_ms), refusal=_refusal(entry))

    spec = read_race(job, known, asks, read_script)
    return None if spec is None else RaceScript(spec=spec, rivals=scripts)


def _refusal(entry: Fields) -> str:
    value = entry.get("submit")
    if value is None or (isinstance(value, Scalar) and value.text == "ok"):
        return ""
    code = value.value if isinstance(value, Scalar) else None
    if isinstance(code, int) and not isinstance(code, bool) and 400 <= code <= 499:
        return str(code)
    entry.refuse("submit", "ok, or the code of a refusal from 400 to 499")
    return ""


def _steps(entry: Fields, runtime_ms: int | None) -> tuple[Step, ...]:
    """The sightings in order of time; a copy that runs long enough succeeds, where the job has a runtime."""
    items = entry.items("sightings")
    if len(items) > MOST_SIGHTINGS:
        entry.add("sightings", f"at most {MOST_SIGHTINGS} are allowed")
        return ()
    at: dict[int, Shown] = {}
    for item, path in items:
        step = _step(item)
        if step is None:
            entry.problems.refuse(path, item.line, shown(item), SIGHTING)
        elif step[0] in at:
            entry.problems.add(path, item.line, "two sightings of one cluster at the same time: one is allowed")
        else:
            at[step[0]] = step[1]
    steps = tuple(sorted(at.items()))
    if any(state.is_end for _, state in steps[:-1]):
        entry.add("sightings", "something follows SUCCEEDED, FAILED or STOPPED: a copy that is over stays so")
    return steps if runtime_ms is None else _with_end(steps, runtime_ms)


def _step(item: Value) -> Step | None:
    if not isinstance(item, List) or len(item.items) != 2:
        return None
    when, what = item.items
    at_ms = milliseconds(when)
    if at_ms is None or not 0 <= at_ms <= LONGEST_MS or not isinstance(what, Scalar) or what.text not in STATES:
        return None
    return at_ms, STATES[what.text]


def _with_end(steps: tuple[Step, ...], runtime_ms: int) -> tuple[Step, ...]:
    for place, (at_ms, state) in enumerate(steps):
        if state is Shown.RUNNING and all(
            later_ms > at_ms + runtime_ms for later_ms, _ in steps[place + 1 : place + 2]
        ):
            return (*steps[: place + 1], (at_ms + runtime_ms, Shown.SUCCEEDED))
    return steps
