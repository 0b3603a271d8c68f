"""Many jobs at once: as if each had been submitted, for a third less."""

from __future__ import annotations

from collections.abc import Sequence

from muster.model.jobs import Job
from muster.state.state import State


def is_plain(job: Job) -> bool:
    """Whether a job stands in line as soon as it is submitted, whatever else there is."""
    return not job.held_by and not job.after


def line_up(state: State, jobs: Sequence[Job]) -> None:
    """New jobs that are plain, and no races, stand in line, in order of submission."""
    by_queue: dict[str, list[Job]] = {}
    add = state.roll.add
    for job in jobs:
        add(job)
        by_queue.setdefault(job.queue, []).append(job)
    for queue, its in by_queue.items():
        state.now_ms = its[-1].submit_ms
        state.books[queue].lined_up(its)
        state.touch(queue, len(its))
    if jobs:
        state.now_ms = jobs[-1].submit_ms
