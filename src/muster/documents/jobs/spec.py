"""One job as people submit it: everything but its id, its submit time and what only a server knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from muster.documents.jobs.launch import Launch
from muster.documents.jobs.simulation import Simulated
from muster.model.after import After
from muster.model.jobs import Job, Profile
from muster.model.queues import Queue
from muster.model.race import RaceSpec
from muster.model.resources import CPU
from muster.model.retries import NO_RETRIES, Retries
from muster.model.width import FREEZING_MS, NORMAL

GRACE_MS = 30_000
"""How long a job may take to end, unless it says otherwise."""


class OnLost(Enum):
    """What becomes of a job whose cluster falls silent (design.md 7)."""

    WAIT = "wait"
    RERUN = "rerun"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job, or with `indices` one job per index. Fields are named as those of model.jobs.Job.

    `after` are names as they were written. `simulated`: only where the reader was asked for what simulations know.
    `document` is the entry that it was read from, in JSON's values; nobody changes it.
    """

    name: str | None
    queue: str
    profile: Profile
    launch: Launch
    user: str = ""
    job_set: str = ""
    priority_class: int = 0
    priority: int = 0
    lifetime_ms: int | None = None
    expected_ms: int | None = None
    time_limit_ms: int | None = None
    retries: Retries = NO_RETRIES
    after: tuple[After, ...] = ()
    level: int = NORMAL
    freezing_ms: int = FREEZING_MS
    on_lost: OnLost = OnLost.WAIT
    grace_ms: int = GRACE_MS
    indices: tuple[int, ...] | None = None
    race: RaceSpec | None = None
    simulated: Simulated | None = None
    document: Mapping[str, Any] = field(repr=False, compare=False)

    def __len__(self) -> int:
        return 1 if self.indices is None else len(self.indices)

    def names(self) -> list[str | None]:
        """The names of its jobs, in order of index."""
        return [self.name] if self.indices is None else [f"{self.name}-{index}" for index in self.indices]

    def each(self) -> Iterator[JobSpec]:
        """Its jobs, each by itself: those of an array are called name-INDEX and find their index in the environment."""
        if self.indices is None:
            yield self
            return
        whole = {key: value for key, value in self.document.items() if key != "count"}
        for index in self.indices:
            yield replace(
                self,
                name=f"{self.name}-{index}",
                launch=self.launch.with_index(index),
                indices=None,
                document={**whole, "array": str(index)},
            )

    def of_queue(self, queue: Queue) -> JobSpec:
        """The job with what its queue says of jobs that say nothing: written down as if the job had said it."""
        expected_ms, limit_ms = queue.times_of(self.expected_ms, self.time_limit_ms)
        said = {"expectedRuntime": (self.expected_ms, expected_ms), "timeLimit": (self.time_limit_ms, limit_ms)}
        told = {key: f"{now_ms}ms" for key, (before_ms, now_ms) in said.items() if now_ms != before_ms}
        if not told:
            return self
        return replace(self, expected_ms=expected_ms, time_limit_ms=limit_ms, document={**self.document, **told})

    def with_cores(self) -> JobSpec:
        """The job with the CPU of its tasks written down, where they say less than the policy gives them beside GPUs:
        what it gives others later is nothing to this one."""
        cpu = {group.name: group.request.resources.get(CPU) for group in self.profile.groups if group.request.gpus}
        document = dict(self.document)
        if "groups" in document:
            document["groups"] = [
                {**group, "cpu": f"{cpu[group['name']]}m"} if cpu.get(group["name"]) and "cpu" not in group else group
                for group in document["groups"]
            ]
        elif "cpu" not in document and (given := next(iter(cpu.values()), 0)):
            document["cpu"] = f"{given}m"
        return replace(self, document=document)

    def said(self, need: str) -> list[tuple[str, str]]:
        """Where its document says what it needs of a cluster, and what it says there."""
        if need == "objects":
            return [("objects", ", ".join(f"{it['kind']} {it['name']}" for it in self.launch.objects))]
        if "groups" not in self.document:
            return [(need, "a template")]
        groups = enumerate(self.document["groups"])
        return [(f"groups[{place}].{need}", "a template") for place, group in groups if need in group]

    def job(self, id: str, submit_ms: int, after: tuple[After, ...] = (), *, user: str = "", number: int = 0) -> Job:
        """The job that the engine sees; `after`: the ids of those it waits for, `user`: whose it is if it says none."""
        return Job(
            id=id,
            queue=self.queue,
            profile=self.profile,
            submit_ms=submit_ms,
            number=number,
            user=self.user or user,
            job_set=self.job_set,
            priority_class=self.priority_class,
            priority=self.priority,
            lifetime_ms=self.lifetime_ms,
            expected_ms=self.expected_ms,
            time_limit_ms=self.time_limit_ms,
            retries=self.retries,
            after=after,
            level=self.level,
            freezing_ms=self.freezing_ms,
        )


def as_document(spec: JobSpec) -> dict[str, Any]:
    """The job as a plain document: reading it gives the same job. One job of an array is an array of one index.

    What is inside of it belongs to the job: write it down, and leave it as it is.
    """
    return dict(spec.document)
