"""Reads what people submit, by what this server knows: its queues, clusters, priority classes, levels and policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.documents.jobs.known import Known
from muster.documents.jobs.requests import JobReader
from muster.documents.jobs.spec import JobSpec
from muster.documents.problems import DocumentError, Problem
from muster.model.names import name_key
from muster.server.access import Who
from muster.server.world import World


class Submissions:
    """Reads jobs as of now. `classes` may change, and so may the policy: both are looked at with each submission."""

    def __init__(self, world: World, classes: Mapping[str, int], levels: Mapping[str, int]) -> None:
        self._world = world
        self._classes = classes
        self._levels = levels
        self._reader = JobReader(self._known())

    def _known(self) -> Known:
        """What a job may name here."""
        return Known(
            queues=self._world.queues,
            clusters=dict(self._world.clusters),
            classes=dict(self._classes),
            levels=self._levels,
            cores_per_gpu=self._world.state.policy.cores_per_gpu,
            where="this server",
            holds_jobs=True,
        )

    def read(self, decoded: Any) -> list[JobSpec]:
        """The jobs of a submission, each of an array by itself. Raises DocumentError."""
        known = self._known()
        if not self._reader.knows(known):  # else it remembers what it read before
            self._reader = JobReader(known)
        queues = self._world.queues
        specs = self._reader.read(decoded)
        self._refuse_needs(specs)
        if known.cores_per_gpu:
            specs = [spec.with_cores() for spec in specs]
        return [one.of_queue(queues[one.queue]) for spec in specs for one in spec.each()]

    def _refuse_needs(self, specs: Sequence[JobSpec]) -> None:
        """Refuse what every cluster that a job may go to is known not to honour: it would be lost without a word.

        Where there is no such cluster yet the job waits for one that does, and `why` says so.
        """
        clusters = self._world.clusters
        problems = []
        for place, spec in enumerate(specs):
            if not spec.profile.needs:
                continue
            named = [name for name, _ in spec.profile.clusters]
            candidates = [clusters[name] for name in named or clusters if name in clusters]
            if not candidates or any(it.can(spec.profile.needs) for it in candidates):
                continue
            told = ", ".join(sorted((it.name for it in candidates), key=name_key))
            able = sorted((name for name, it in clusters.items() if it.can(spec.profile.needs)), key=name_key)
            allowed = f"only what a cluster that the job may go to can honour, and none does ({told}); "
            allowed += f"clusters that do: {', '.join(able) or 'none of this server'}"
            alone = [need for need in spec.profile.needs if not any(it.can([need]) for it in candidates)]
            for need in alone or spec.profile.needs:
                for path, value in spec.said(need):
                    problems.append(Problem(f"jobs[{place}].{path}", 0, f"{value} is not allowed: {allowed}"))
        if problems:
            raise DocumentError(tuple(problems))


def check_rights(specs: Sequence[JobSpec], who: Who) -> None:
    """Refuse jobs that someone may not submit, with a DocumentError."""
    problems = [
        Problem(f"jobs[{place}].queue", 0, f"{who.name} may not submit to queue {spec.queue!r}")
        for place, spec in enumerate(specs)
        if not who.may("submit", spec.queue)
    ]
    if problems:
        raise DocumentError(tuple(problems))
