"""The key `race` of a job: its terms, and what each opaque cluster will show, and when."""

from __future__ import annotations

from dataclasses import dataclass

from muster.documents.values import List, Scalar, Value, shown
from muster.model.fleet import Cluster
from muster.model.race import Grace, RaceSpec, Rival, Shown, Terms
from muster.model.resources import Resources
from muster.sim.scenario.fields import Fields
from muster.sim.scenario.scalars import LONGEST_MS, NAME, is_name, milliseconds
from muster.sim.scenario.world import World

MOST_RIVALS = 100
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


def read_race(job: Fields, world: World, asks: Resources, runtime_ms: int | None) -> RaceScript | None:
    """The race of a job whose tasks ask for so much; None: it has none, or a wrong one."""
    if not job.has("race"):
        job.get("race")
        return None
    for key in ("cluster", "clusters"):
        if job.has(key):
            job.add(key, "not allowed beside race: the candidates are race.clusters")
    fields = job.mapping("race", "race")
    default = Terms()
    terms = Terms(
        guard_ms=fields.duration("guard", default.guard_ms),
        time_scale_ms=fields.duration("timeScale", default.time_scale_ms),
        grace=fields.choice("grace", {grace.value: grace for grace in Grace}, default.grace),
    )
    rivals: list[Rival] = []
    scripts: dict[str, RivalScript] = {}
    clusters = fields.mapping("clusters", "race.clusters")
    for name in clusters.given():
        entry = clusters.mapping(name, "race.cluster")
        cluster = _cluster(clusters, name, world)
        priority = entry.integer("priority", cluster.preference, 0, 100)
        scripts[name] = RivalScript(steps=_steps(entry, runtime_ms), refusal=_refusal(entry))
        amounts = Resources.of({**dict(asks.items()), **entry.task_amounts()})
        entry.close_with_amounts()
        rivals.append(Rival(cluster=name, priority=priority, asks=amounts))
    fields.close()
    if not 1 <= len(rivals) <= MOST_RIVALS:
        job.add("race", f"clusters is missing: from 1 to {MOST_RIVALS} clusters, each with its sightings")
    spec = RaceSpec(terms=terms, rivals=tuple(sorted(rivals, key=lambda rival: rival.cluster)))
    return RaceScript(spec=spec, rivals=scripts)


def _cluster(clusters: Fields, name: str, world: World) -> Cluster:
    """The opaque cluster of that name; one that the file does not declare comes with the race."""
    if not is_name(name):
        clusters.refuse_key(name, NAME)
        return Cluster(name=name, opaque=True)
    known = world.clusters.setdefault(name, Cluster(name=name, opaque=True))
    if not known.opaque:
        clusters.refuse_key(name, "an opaque cluster: jobs are raced only over clusters that show no nodes")
    return known


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
