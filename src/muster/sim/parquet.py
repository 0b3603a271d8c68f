"""A simulation as Parquet files, for people who want to ask questions of their own.

There is a table of jobs, one of queues over time and one of the fleet over time (docs/report.md). Times are seconds
since the beginning; shares and use are parts of a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muster.sim.measures import Measured
from muster.sim.measures.jobs import PHASES, REASONS, JobTable


def tables(measured: Measured) -> tuple[Any, Any, Any]:
    """Jobs, queues over time, the fleet over time."""
    return _jobs(measured), _queues(measured), _fleet(measured)


def write(table: Any, target: str) -> None:
    """One table into one file."""
    pq.write_table(table, target, compression="zstd")


def _jobs(measured: Measured) -> Any:
    jobs = measured.jobs
    return pa.table(
        {
            "id": pa.array(jobs.ids, pa.string()),
            "queue": _named(jobs.queue, jobs.queues),
            "user": pa.array(jobs.users, pa.string()).dictionary_encode(),
            "submit": jobs.submit / 1000,
            "start": _seconds(jobs.start),
            "last_start": _seconds(jobs.last_start),
            "end": _seconds(jobs.end),
            "wait": pa.array(jobs.wait_s, from_pandas=True),
            "slowdown": pa.array(jobs.slowdown, from_pandas=True),
            "tasks": jobs.tasks,
            "width": jobs.width / measured.unit,
            "cluster": _named(jobs.cluster, jobs.clusters),
            "attempts": jobs.attempts,
            "phase": _named(jobs.phase.astype(np.int64), PHASES),
            "waited_for": _reasons(jobs),
        },
        metadata={"width": measured.main, "simulated seconds": str(measured.end_ms / 1000)},
    )


def _queues(measured: Measured) -> Any:
    course = measured.course
    steps, queues = course.held.shape
    return pa.table(
        {
            "time": np.repeat(np.array(course.times_ms, float) / 1000, queues),
            "queue": _named(np.tile(np.arange(queues), steps), course.queues),
            "held": course.held.ravel(),
            "entitled": course.entitled.ravel(),
            "short": course.short.ravel(),
        },
        metadata={"step seconds": str(course.step_ms / 1000)},
    )


def _fleet(measured: Measured) -> Any:
    course = measured.course
    return pa.table(
        {
            "time": np.array(course.times_ms, float) / 1000,
            "waiting": course.waiting,
            "running": course.running,
            "idle_asked": course.asked,
            **{f"used {name}": course.used[:, place] for place, name in enumerate(course.resources)},
            **{f"good {name}": course.good[:, place] for place, name in enumerate(course.resources)},
        },
        metadata={"step seconds": str(course.step_ms / 1000), "idle_asked": measured.main},
    )


def _seconds(times_ms: Any) -> Any:
    return pa.array(times_ms / 1000, mask=times_ms < 0)


def _named(places: Any, names: tuple[str, ...]) -> Any:
    """Names by their places; none where the place is below 0."""
    indices = pa.array(places, pa.int32(), mask=places < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


def _reasons(jobs: JobTable) -> Any:
    """What each job was told to wait for, as one text; many jobs share a few."""
    masks, which = np.unique(jobs.reasons, return_inverse=True)
    texts = [
        " ".join(reason.name for place, reason in enumerate(REASONS) if mask >> place & 1) for mask in masks.tolist()
    ]
    return _named(which, tuple(texts))
