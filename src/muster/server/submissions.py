"""Reads what people submit, by what this server knows: its queues, clusters, priority classes and levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.documents.jobs.known import Known
from muster.documents.jobs.requests import JobReader
from muster.documents.jobs.spec import JobSpec
from muster.documents.problems import DocumentError, Problem
from muster.server.access import Who
from muster.server.world import World


class Submissions:
    """Reads jobs as of now. `classes` may change: it is looked at with each submission."""

    def __init__(self, world: World, classes: Mapping[str, int], levels: Mapping[str, int], cores_per_gpu: int) -> None:
        self._world = world
        self._classes = classes
        self._levels = levels
        self._cores_per_gpu = cores_per_gpu
        self._reader = JobReader(self._known())

    def _known(self) -> Known:
        """What a job may name here."""
        return Known(
            queues=self._world.queues,
            clusters=dict(self._world.clusters),
            classes=dict(self._classes),
            levels=self._levels,
            cores_per_gpu=self._cores_per_gpu,
            where="this server",
            holds_jobs=True,
        )

    def read(self, decoded: Any) -> list[JobSpec]:
        """The jobs of a submission, each of an array by itself. Raises DocumentError."""
        known = self._known()
        if not self._reader.knows(known):  # else it remembers what it read before
            self._reader = JobReader(known)
        queues = self._world.queues
        return [one.of_queue(queues[one.queue]) for spec in self._reader.read(decoded) for one in spec.each()]


def check_rights(specs: Sequence[JobSpec], who: Who) -> None:
    """Refuse jobs that someone may not submit, with a DocumentError."""
    problems = [
        Problem(f"jobs[{place}].queue", 0, f"{who.name} may not submit to queue {spec.queue!r}")
        for place, spec in enumerate(specs)
        if not who.may("submit", spec.queue)
    ]
    if problems:
        raise DocumentError(tuple(problems))
