"""Documents of job files that are made, not written: from a command line, or from the jobs of a scenario."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.documents.jobs.arrays import MOST_ARRAY_NAME

OF_JOBS = ("at", "runtime")
"""The keys of a job that only a simulation knows."""

OF_RIVALS = ("sightings", "submit")
"""The keys of a raced job's candidate that only a simulation knows."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def from_command(
    command: Sequence[str],
    *,
    name: str | None = None,
    queue: str | None = None,
    cpu: str | int | float | None = None,
    memory: str | int | None = None,
    gpu: str | int | None = None,
    tasks: int | None = None,
    env: Mapping[str, str] | None = None,
    workdir: str | None = None,
    array: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The document of `muster submit --queue q --cpu 2 -- python train.py`; `more` are further keys of a job.

    With `tasks`, so many start together. A job of an array needs a name: without one it is called as its program is.
    """
    of_task = {"cpu": cpu, "memory": memory, "gpu": gpu, "command": list(command), "workdir": workdir}
    asks: dict[str, Any] = {key: value for key, value in of_task.items() if value}
    if env:
        asks["env"] = dict(env)
    if tasks is not None:
        asks = {"groups": [{"name": "main", "count": tasks, **asks}]}
    if array is not None and name is None:
        name = _called(command)
    whole = {"name": name, "queue": queue, "array": array, **more}
    return {**{key: value for key, value in whole.items() if value is not None}, **asks}


def _called(command: Sequence[str]) -> str:
    """A name that tells what program it is."""
    program = command[0].rstrip("/").rpartition("/")[2] if command else ""
    return _NOT_IN_NAMES.sub("-", program)[:MOST_ARRAY_NAME].strip("._-") or "job"


def without_simulation_fields(document: object) -> dict[str, Any]:
    """The job file with the jobs of a scenario, a list of entries or one entry, without what only simulations know."""
    return {"jobs": [_without(entry, OF_JOBS) for entry in _entries(document)]}


def _entries(document: object) -> Iterator[Any]:
    if isinstance(document, Mapping) and "jobs" in document:
        document = document["jobs"]
    yield from document if isinstance(document, list) else [document]


def _without(entry: Any, keys: Sequence[str]) -> Any:
    """The entry without these keys, and its race without what is about the future."""
    if not isinstance(entry, Mapping):
        return entry  # wrong: whoever reads it says so
    kept = {key: value for key, value in entry.items() if key not in keys}
    race = kept.get("race")
    if isinstance(race, Mapping) and isinstance(race.get("clusters"), Mapping):
        kept["race"] = {**race, "clusters": {name: _without(one, OF_RIVALS) for name, one in race["clusters"].items()}}
    return kept
