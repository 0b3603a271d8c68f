"""Why everyone waits, as one turn said it: a line for each queue and profile, never one for each job.

A turn looks at few jobs: of each queue the first of every profile, until a limit closes the queue or enough profiles
were set aside. What it says of those is kept with their ids. Whoever it did not look at is behind its queue's head, and
is counted with the last of its own profile that was looked at: what set that one aside set aside the whole profile.

Pure. `state` is the world once the plan was carried out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from muster.model.jobs import Profile
from muster.model.labels import ANYWHERE
from muster.model.plan import Plan, Verdicts, Waiting
from muster.model.reasons import Facts, Reason, Scope
from muster.state.state import State
from muster.state.why.words import asks, sentence


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
        return sentence(self.reason, self.facts) if self.facts or self.reason is Reason.JUST_EVICTED else ""


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


class _Said(NamedTuple):
    """What was said of a job that was looked at; `is_in_line`: it stands in its queue, and was promised nothing."""

    job: str
    verdict: Waiting
    is_in_line: bool


_Groups = dict[tuple[int, int], list[_Said]]
"""Those who were looked at, by the numbers of their queue and profile: there may be thousands."""


def table_of(state: State, plan: Plan) -> Table:
    """What the plan says of those who wait now."""
    said = plan.verdicts
    if not isinstance(said, Verdicts):
        return Table(at_ms=plan.now_ms)
    groups = _groups(state, said)
    waits = [*_in_line(state, plan, groups), *_aside(state, said.aside)]
    waits.sort(key=lambda wait: wait.queue)
    return Table(at_ms=plan.now_ms, waits=tuple(waits), heads=dict(plan.heads))


def _groups(state: State, said: Verdicts) -> _Groups:
    groups: _Groups = {}
    kind_of, roll = state.roll.kind_of, state.roll
    evicted = [(job, verdict) for job, verdict in said.aside if verdict.reason is Reason.JUST_EVICTED]
    for job_id, verdict in chain(((job_id, said.waiting(job_id)) for job_id in said.in_line()), evicted):
        kind = kind_of(job_id)
        is_in_line = kind is not None
        if kind is None and job_id in state.pending:
            job = state.pending[job_id].job
            kind = (roll.queues[job.queue], roll.profiles[job.profile])
        if kind is not None and verdict is not None:
            groups.setdefault(kind, []).append(_Said(job_id, verdict, is_in_line))
    return groups


def _in_line(state: State, plan: Plan, groups: _Groups) -> Iterable[Wait]:
    """Those who were looked at, and with them the rest of their profile; others are behind."""
    queues, profiles = state.roll.queues.names, state.roll.profiles.names
    rest = {(queue, profile): many for queue, profile, many in state.roll.in_line()}
    for kind, group in groups.items():
        left = rest.pop(kind, 0) - sum(said.is_in_line for said in group)
        last = next((said.job for said in reversed(group) if _holds_for_all(said.verdict.reason)), "")
        asked = shape(profiles[kind[1]])
        for job, verdict, _ in group:
            jobs = 1 + left if job == last else 1
            yield Wait(
                queue=queues[kind[0]], asks=asked, reason=verdict.reason, facts=verdict.facts, jobs=jobs, job=job
            )
        if not last and left:
            rest[kind] = left
    unseen: Counter[int] = Counter()
    for (queue, _), many in rest.items():
        unseen[queue] += many
    for queue, many in unseen.items():
        verdict = behind(queues[queue], plan.heads)
        yield Wait(queue=queues[queue], reason=verdict.reason, facts=verdict.facts, jobs=many)


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
