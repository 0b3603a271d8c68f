"""Which jobs a command is about: named, a job set, or a whole queue. Options that commands on several jobs share."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from muster.cli.remote.completing import complete_jobs, complete_queues

if TYPE_CHECKING:
    from muster.sdk.operating import Selected


class Doing(StrEnum):
    """What a job is doing that is not over."""

    QUEUED = "queued"
    PENDING = "pending"
    RUNNING = "running"


JobIds = Annotated[
    list[str] | None, typer.Argument(metavar="[JOB]...", help="Ids of jobs.", autocompletion=complete_jobs)
]
JobSet = Annotated[str, typer.Option("--job-set", help="All of this job set instead.")]
Queue = Annotated[
    str,
    typer.Option(
        "--queue", help="With --job-set: only in this queue. With --all: all of it.", autocompletion=complete_queues
    ),
]
All = Annotated[bool, typer.Option("--all", help="With --queue: all jobs of the queue.")]
States = Annotated[list[Doing] | None, typer.Option("--state", help="Only those in this state; repeatable.")]


class Chosen(NamedTuple):
    """What the command line says of which jobs are meant."""

    job_ids: JobIds = None
    job_set: JobSet = ""
    queue: Queue = ""
    everything: All = False
    state: States = None

    @property
    def jobs(self) -> list[str]:
        """The ids that are named."""
        return self.job_ids or []

    @property
    def only(self) -> str | None:
        """The one job that is named, if nothing else is said."""
        is_one = len(self.jobs) == 1 and not (self.job_set or self.queue or self.everything or self.state)
        return self.jobs[0] if is_one else None

    def selected(self) -> Selected:
        """Which, where they are not named."""
        from muster.sdk.shapes import ALIVE

        return {
            "job_set": self.job_set,
            "queue": self.queue,
            "everything": self.everything,
            "states": [state for state in ALIVE if state in (self.state or [])],
        }
