"""What jobs were submitted as, for the agents that are told to run them.

Most jobs start soon after they were submitted, or long after: the newest are remembered until they are told, the
others are read again from the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from threading import Lock

from muster.documents.jobs.requests import JobReader
from muster.documents.jobs.spec import JobSpec
from muster.server.unfinished import spec_of
from muster.store.store import Store

MOST_REMEMBERED = 50_000


class Specs:
    """Files of jobs by id. Any thread may ask."""

    def __init__(self, store: Store, reader: JobReader) -> None:
        self._store = store
        self._reader = reader
        self._recent: dict[str, JobSpec] = {}
        self._lock = Lock()

    def remember(self, specs: Mapping[str, JobSpec]) -> None:
        """Jobs that will most likely be asked for soon."""
        with self._lock:
            self._recent.update(specs)
            too_many = len(self._recent) - MOST_REMEMBERED
            for job_id in list(islice(self._recent, max(too_many, 0))):
                del self._recent[job_id]

    def take(self, ids: Iterable[str]) -> dict[str, JobSpec]:
        """The files of these jobs. They are remembered no longer: whoever is told again is an exception."""
        with self._lock:
            recent = {job_id: self._recent.pop(job_id, None) for job_id in ids}
        found = {job_id: spec for job_id, spec in recent.items() if spec is not None}
        if missing := recent.keys() - found.keys():
            kept = self._store.specs(missing)
            found |= {job_id: spec_of(document, self._reader) for job_id, document in kept.items()}
        return found
