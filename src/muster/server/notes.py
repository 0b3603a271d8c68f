"""What people said of jobs after they were submitted, where no row of a job has a place for it.

That a job is held back, its level, its freezing window, its disruption budgets. Each is one small thing, written in the
transaction of the turn that took it in, and gone with its job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from muster.model import events as ev
from muster.model.budgets import Budget
from muster.model.jobs import Job
from muster.store.rows import Thing

HOLD, TUNED, BUDGET = "hold", "tuned", "budget"
KINDS = (HOLD, TUNED, BUDGET)

_TUNABLE = ("level", "freezing_ms")


class Tuned(NamedTuple):
    """The level and the freezing window that a job has instead of those it was submitted with."""

    level: int
    freezing_ms: int


class Notes:
    """All of them. Hold the world's lock while noting any."""

    def __init__(self, things: Iterable[Thing] = ()) -> None:
        self._of_job: dict[str, set[tuple[str, str]]] = {}
        for thing in things:
            self._of_job.setdefault(_job_of(thing), set()).add((thing.kind, thing.name))

    def jobs(self) -> set[str]:
        """The jobs of which anything is noted."""
        return set(self._of_job)

    def held(self, job: str) -> bool:
        """Whether someone holds the job back."""
        return (HOLD, job) in self._of_job.get(job, ())

    def end(self, jobs: Iterable[str]) -> list[tuple[str, str]]:
        """These jobs are over: what was noted of them, by kind and name."""
        return [key for job in jobs for key in sorted(self._of_job.pop(job, ()))]

    def changed(
        self, events: Iterable[ev.Event], alive: Mapping[str, Job]
    ) -> tuple[list[Thing], list[tuple[str, str]]]:
        """What a turn changed: things to write, and those that are no more. `alive`: changed jobs that are not over."""
        things: dict[tuple[str, str], Thing | None] = {}
        for event in events:
            things.update(self._said(event, alive))
        return [it for it in things.values() if it is not None], [key for key, it in things.items() if it is None]

    def _said(self, event: ev.Event, alive: Mapping[str, Job]) -> Iterator[tuple[tuple[str, str], Thing | None]]:
        match event:
            case ev.JobChanged(job=job, changes=changes):
                if "held_by" in changes:
                    held_by = changes["held_by"]
                    yield self._put(job, HOLD, job, {"by": held_by} if held_by else None)
                if job in alive and any(name in changes for name in _TUNABLE):
                    tuned = {"level": alive[job].level, "freezing": alive[job].freezing_ms}
                    yield self._put(job, TUNED, job, tuned)
            case ev.BudgetSet(budget=budget):
                body = {"job": budget.job, "group": budget.group, "minAvailable": budget.min_available}
                yield self._put(budget.job, BUDGET, f"{budget.job}/{budget.group}", body)
            case ev.BudgetGone(job=job, group=group):
                yield self._put(job, BUDGET, f"{job}/{group}", None)
            case ev.JobSucceeded(job=job) | ev.JobFailed(job=job) | ev.JobCancelled(job=job):
                yield from ((key, None) for key in self.end([job]))
            case _:
                pass

    def _put(
        self, job: str, kind: str, name: str, body: Mapping[str, Any] | None
    ) -> tuple[tuple[str, str], Thing | None]:
        known = self._of_job.setdefault(job, set())
        if body is None:
            known.discard((kind, name))
        else:
            known.add((kind, name))
        if not known:
            del self._of_job[job]
        return (kind, name), None if body is None else Thing(kind=kind, name=name, body=body)


def tuned_of(thing: Thing) -> Tuned:
    """What the store keeps of a job's level and freezing window."""
    return Tuned(level=int(thing.body["level"]), freezing_ms=int(thing.body["freezing"]))


def budget_of(thing: Thing) -> Budget:
    """The disruption budget that the store keeps."""
    body = thing.body
    return Budget(job=body["job"], group=body["group"], min_available=int(body["minAvailable"]))


def _job_of(thing: Thing) -> str:
    return str(thing.body["job"]) if thing.kind == BUDGET else thing.name
