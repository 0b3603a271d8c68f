"""Submissions that are too long for one request, in parts: as many jobs as the server takes at once, in their order.

Names that jobs come after mean jobs of one request, or ids of jobs before; so where a part names jobs of earlier parts
it gets their ids instead. Who comes after jobs of a later part cannot be submitted before them, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from muster.documents.jobs.arrays import parse_array
from muster.model.errors import InvalidValue

Document = Mapping[str, Any]
Need = str | Mapping[str, Any]


def size(job: Document) -> int:
    """How many jobs an entry stands for."""
    indices = _indices(job)
    return 1 if indices is None else len(indices)


def parts(jobs: Sequence[Document], most: int) -> list[list[Document]]:
    """The jobs in their order, at most so many in each part; arrays are cut where they do not fit."""
    found: list[list[Document]] = [[]]
    room = most
    for job in jobs:
        for piece in _pieces(job, room, most):
            if size(piece) > room:
                found.append([])
                room = most
            found[-1].append(piece)
            room -= size(piece)
    _check_order(found)
    return found


def with_ids(part: Sequence[Document], before: Mapping[str, Sequence[str]]) -> list[Document]:
    """The part, with the ids of jobs of earlier parts where it names them. `before`: ids by name."""
    here = {name for job in part for name in called(job)}
    return [{**job, "after": [*_meant(job["after"], here, before)]} if job.get("after") else job for job in part]


def called(job: Document) -> Iterator[str]:
    """The names that an entry's jobs can be called by: one of an array by its own, or by that of the whole."""
    name = job.get("name")
    if name is None:
        return
    yield name
    yield from (f"{name}-{index}" for index in _indices(job) or ())


def _meant(after: Iterable[Need], here: set[str], before: Mapping[str, Sequence[str]]) -> Iterator[Need]:
    for need in after:
        name = _name(need)
        yield from (job_id if isinstance(need, str) else {**need, "job": job_id} for job_id in before.get(name, ()))
        if name in here or name not in before:
            yield need


def _name(need: Need) -> str:
    """The name that `after` says, or that stands in the mapping it has instead."""
    return need if isinstance(need, str) else str(need["job"])


def _indices(job: Document) -> Sequence[int] | None:
    if "array" in job:
        return parse_array(str(job["array"]))
    return range(int(job["count"])) if "count" in job else None


def _pieces(job: Document, room: int, most: int) -> Iterator[Document]:
    """The entry, or several that stand for the same jobs: the first as long as there is room, the others as may be."""
    indices = _indices(job)
    if indices is None or len(indices) <= room:
        yield job
        return
    rest = {key: value for key, value in job.items() if key != "count"}
    cuts = [0, *range(room or most, len(indices), most), len(indices)]
    for begin, end in pairwise(cuts):
        yield {**rest, "array": _written(indices[begin:end])}


def _written(indices: Sequence[int]) -> str:
    """Indices as a job file has them: those that are equally far apart in one piece."""
    runs: list[list[int]] = []
    for index in indices:
        run = runs[-1] if runs else []
        if len(run) == 1 or (len(run) > 1 and index - run[-1] == run[1] - run[0]):
            run.append(index)
        else:
            runs.append([index])
    return ",".join(map(_run, runs))


def _run(run: Sequence[int]) -> str:
    if len(run) == 1:
        return str(run[0])
    step = run[1] - run[0]
    return f"{run[0]}-{run[-1]}" + (f":{step}" if step > 1 else "")


def _check_order(found: Sequence[Sequence[Document]]) -> None:
    if len(found) == 1:
        return
    last = {name: number for number, part in enumerate(found) for job in part for name in called(job)}
    for number, part in enumerate(found):
        for name in (_name(need) for job in part for need in job.get("after") or ()):
            if last.get(name, 0) > number:
                allowed = "jobs before it: these are too many for one request, and go one part after the other"
                raise InvalidValue(name, allowed, "after")
