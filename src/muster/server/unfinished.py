"""Jobs that are not over, as the store keeps them: what a world is made of after a restart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from muster.documents.jobs.known import Known
from muster.documents.jobs.requests import MOST_REMEMBERED, JobReader
from muster.documents.jobs.spec import JobSpec, OnLost
from muster.engine.columns.bulk import Crowd
from muster.model.jobs import Job
from muster.model.retries import COUNTED
from muster.server.naming import number_of
from muster.server.notes import HOLD, TUNED, tuned_of
from muster.server.world import ONLY_WAITED, Past, Recalled, ids_of, with_past
from muster.store.rows import Body, JobRow
from muster.store.store import Store


def reader_of_kept(classes: Mapping[str, int], levels: Mapping[str, int]) -> JobReader:
    """Reads what the store keeps of jobs, whose queues and clusters may be gone by now.

    What a policy gave them when they came stands in what is kept: another one since changes nothing of them.
    """
    known = Known(
        classes=dict(classes),
        levels=levels,
        where="this server",
        holds_jobs=True,
    )
    return JobReader(known)


def spec_of(document: Mapping[str, Any], reader: JobReader) -> JobSpec:
    """A job that was read before, from what the store keeps of it."""
    spec = reader.read_one(document)
    return spec if spec.indices is None else next(spec.each())


class Unfinished:
    """Reads jobs that are not over, each with its past; those that only ever waited in crowds: of a million, many are
    alike. `reruns`: which of them run again when their cluster is silent."""

    def __init__(self, store: Store, reader: JobReader) -> None:
        self._store, self._reader = store, reader
        self._held_by = {thing.name: str(thing.body["by"]) for thing in store.things(HOLD)}
        self._tuned = {thing.name: tuned_of(thing) for thing in store.things(TUNED)}
        self._specs: dict[int, tuple[Body, JobSpec]] = {}  # by document: the store gives the same one for the same text
        self._crowd = Crowd()
        self._likes: dict[tuple[int, str, int, int], int] = {}
        self.reruns: set[str] = set()

    def found(self) -> tuple[list[Recalled | Crowd], dict[str, str]]:
        """The jobs in order of submission, without those before them that they need not wait for any more; and what
        became of the others that they wait for and that are over."""
        jobs = list(self._read())
        before = {need.job for job, _ in with_past(jobs) for need in job.after}
        if before:
            before -= ids_of(jobs)
        over = {name: row.state for name in before if (row := self._store.job(name)) is not None}
        # Who is not kept any more has ended as it had to: else those that come after it would have ended with it.
        if gone := before - over.keys():
            jobs = [one if isinstance(one, Crowd) else (_without(one[0], gone), one[1]) for one in jobs]
        return jobs, over

    def _read(self) -> Iterator[Recalled | Crowd]:
        for row in self._store.unfinished():
            spec = self._spec(row)
            if spec.on_lost is OnLost.RERUN:
                self.reruns.add(row.id)
            is_noted = row.id in self._held_by or row.id in self._tuned
            if row.attempt or spec.after or row.state != ONLY_WAITED.state or is_noted:
                yield from self._crowd_so_far()
                yield self._job(row, spec), _past(row)
            else:
                self._crowd.add(self._like(row, spec), row.id, row.submit_ms, number_of(row.id))
        yield from self._crowd_so_far()

    def _crowd_so_far(self) -> Iterable[Crowd]:
        crowd = self._crowd
        if not crowd:
            return ()
        self._crowd, self._likes = Crowd(), {}
        return (crowd,)

    def _spec(self, row: JobRow) -> JobSpec:
        same = self._specs.get(id(row.spec))
        if same is None:
            if len(self._specs) >= MOST_REMEMBERED:
                self._specs.clear()
                self._likes.clear()
            same = self._specs[id(row.spec)] = (row.spec, spec_of(row.spec, self._reader))
        return same[1]

    def _like(self, row: JobRow, spec: JobSpec) -> int:
        """Whom a job is like."""
        key = (id(row.spec), row.user, row.priority, row.priority_class)
        like = self._likes.get(key)
        if like is None:
            like = self._likes[key] = self._crowd.new_like(self._job(row, spec))
        return like

    def _job(self, row: JobRow, spec: JobSpec) -> Job:
        job = spec.job(row.id, row.submit_ms, spec.after, user=row.user, number=number_of(row.id))
        if (job.priority, job.priority_class, job.user) != (row.priority, row.priority_class, row.user):
            job = replace(job, priority=row.priority, priority_class=row.priority_class, user=row.user)
        if row.id in self._tuned:
            job = replace(job, level=self._tuned[row.id].level, freezing_ms=self._tuned[row.id].freezing_ms)
        return replace(job, held_by=self._held_by[row.id]) if row.id in self._held_by else job


def _past(row: JobRow) -> Past:
    if row.state == ONLY_WAITED.state and not row.attempt:
        return ONLY_WAITED
    return Past(row.state, row.attempt, {count: getattr(row, count) for count in COUNTED.values()})


def _without(job: Job, gone: Collection[str]) -> Job:
    if not job.after:
        return job
    return replace(job, after=tuple(need for need in job.after if need.job not in gone))
