"""Why everyone waits, as one turn said it: a line for each queue and profile, never one for each job.

A turn looks at few jobs: of each queue the first of every profile, until a limit closes the queue or enough profiles
were set aside. What it says of those is kept with their ids. Whoever it did not look at is behind its queue's head, and
is counted with the last of its own profile that was looked at: what set that one aside set aside the whole profile.

Pure. `state` is the world once the plan was carried out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from muster.model.jobs import Profile
from muster.model.labels import ANYWHERE
from muster.model.plan import Plan, Verdicts, Waiting
from muster.model.reasons import Facts, Reason, Scope
from muster.state.state import State
from muster.state.why.words import asks


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Jobs of a queue that wait for one reason. `asks`: what each of them asks for; "": not all for the same.

    `job` is the one that was looked at: the reason and the facts are its own. `jobs` counts it and those behind it.
    """

    queue: str
    reason: Reason
    facts: Facts
    jobs: int
    asks: str = ""
    job: str = ""

    @property
    def waiting(self) -> Waiting:
        """As a verdict."""
        start = self.facts.get("start") if self.reason is Reason.RESERVED else None
        estimate_ms = round(start * 1000) if isinstance(start, int | float) else None
        return Waiting(reason=self.reason, facts=self.facts, estimate_ms=estimate_ms)

    def explain(self) -> str:
        """The reason as a sentence; nothing where each of many has facts of its own."""
        return self.reason.explain(self.facts) if self.facts or self.reason is Reason.JUST_EVICTED else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All who wait after a turn at a moment, and the first of each queue whom the turn looked at."""

    at_ms: int
    waits: tuple[Wait, ...] = ()
    heads: Mapping[str, str] = field(default_factory=dict)

    def counts(self) -> Counter[str]:
        """How many wait for which reason."""
        counts: Counter[str] = Counter()
        for wait in self.waits:
            counts[wait.reason.name] += wait.jobs
        return counts

    def verdict(self, job_id: str, queue: str) -> Waiting:
        """Why a job waits that stands in line or has a reservation."""
        looked_at = next((wait for wait in self.waits if wait.job == job_id), None)
        return looked_at.waiting if looked_at is not None else behind(queue, self.heads)

    def of_kind(self, queue: str, shape: str) -> Wait | None:
        """What keeps those of a queue who ask for the same."""
        found = [wait for wait in self.waits if wait.queue == queue and wait.asks == shape]
        return found[-1] if found else None

    def says_the_same(self, other: Table) -> bool:
        """Whether nothing else is said of anyone."""
        return (self.waits, self.heads) == (other.waits, other.heads)


def behind(queue: str, heads: Mapping[str, str]) -> Waiting:
    """The verdict of one whom the turn did not need to look at."""
    return Plan(now_ms=0, heads=heads).behind(queue)


def table_of(state: State, plan: Plan) -> Table:
    """What the plan says of those who wait now."""
    said = plan.verdicts
    if not isinstance(said, Verdicts):
        return Table(at_ms=plan.now_ms)
    groups: dict[tuple[str, Profile], list[Wait]] = {}
    for job_id in said.in_line():
        verdict = said.waiting(job_id)
        if verdict is not None:
            _note(groups, state, job_id, verdict)
    for job_id, verdict in said.aside:
        if verdict.reason is Reason.JUST_EVICTED:
            _note(groups, state, job_id, verdict)
    waits = [*_in_line(state, plan, groups), *_aside(state, said.aside)]
    return Table(at_ms=plan.now_ms, waits=tuple(sorted(waits, key=lambda wait: wait.queue)), heads=dict(plan.heads))


def _note(groups: dict[tuple[str, Profile], list[Wait]], state: State, job_id: str, verdict: Waiting) -> None:
    job = state.find(job_id)
    if job is None:
        return
    wait = Wait(
        queue=job.queue, asks=shape(job.profile), reason=verdict.reason, facts=verdict.facts, jobs=1, job=job_id
    )
    groups.setdefault((job.queue, job.profile), []).append(wait)


def _in_line(state: State, plan: Plan, groups: Mapping[tuple[str, Profile], list[Wait]]) -> Iterable[Wait]:
    """Those who were looked at, and with them the rest of their profile; others are behind."""
    unseen: Counter[str] = Counter()
    for queue, profile, many in state.roll.in_line():
        looked_at = groups.get((queue, profile), [])
        rest = many - sum(wait.job in state.roll.row_of for wait in looked_at)
        if not rest:
            continue
        place = next((at for at, wait in reversed([*enumerate(looked_at)]) if _holds_for_all(wait.reason)), None)
        if place is None:
            unseen[queue] += rest
        else:
            looked_at[place] = replace(looked_at[place], jobs=1 + rest)
    for looked_at in groups.values():
        yield from looked_at
    for queue, many in unseen.items():
        verdict = behind(queue, plan.heads)
        yield Wait(queue=queue, reason=verdict.reason, facts=verdict.facts, jobs=many)


def _holds_for_all(reason: Reason) -> bool:
    """Whether others of the profile wait for the same."""
    return reason.scope is not Scope.JOB


def _aside(state: State, aside: Iterable[tuple[str, Waiting]]) -> Iterable[Wait]:
    """Those who are held back, or come after others: each has facts of its own, so they are only counted."""
    counts: Counter[tuple[str, Reason]] = Counter()
    for job_id, verdict in aside:
        held = state.held.get(job_id)
        if held is not None:
            counts[held.queue, verdict.reason] += 1
    for (queue, reason), many in counts.items():
        yield Wait(queue=queue, reason=reason, facts={}, jobs=many)


@lru_cache(maxsize=4096)
def shape(profile: Profile) -> str:
    """What a profile asks for and where, in words."""
    told = asks(profile)
    if any(group.constraint != ANYWHERE for group in profile.groups):
        told += ", on certain nodes"
    if profile.pool:
        told += f", pool {profile.pool}"
    if profile.clusters:
        told += f", clusters {' '.join(name for name, _ in profile.clusters)}"
    return told
