"""Many jobs at once, in columns: each is like one of a few, but for its id, when it came, and its number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.model.jobs import Job
from muster.model.names import name_key


class Crowd:
    """New jobs that nothing holds back. `likes` are those that others are like; whose is which stands in `like`."""

    def __init__(self) -> None:
        self.likes: list[Job] = []
        self.ids: list[str] = []
        self.like: list[int] = []
        self.submit_ms: list[int] = []
        self.numbers: list[int] = []

    def __len__(self) -> int:
        return len(self.ids)

    def new_like(self, job: Job) -> int:
        """One more that others are like; its number."""
        self.likes.append(job)
        return len(self.likes) - 1

    def add(self, like: int, job_id: str, submit_ms: int, number: int) -> None:
        """One more, like that one."""
        self.like.append(like)
        self.ids.append(job_id)
        self.submit_ms.append(submit_ms)
        self.numbers.append(number)

    def jobs(self) -> Iterator[Job]:
        """One by one, as they were added."""
        for like, job_id, submit_ms, number in zip(self.like, self.ids, self.submit_ms, self.numbers, strict=True):
            yield replace(self.likes[like], id=job_id, submit_ms=submit_ms, number=number)

    def oldest_first(self) -> Ints:
        """Their places here, by age; of one age their numbers decide, then their names."""
        submit_ms, numbers = np.array(self.submit_ms), np.array(self.numbers)
        order = np.lexsort((numbers, submit_ms))
        are_same = (np.diff(submit_ms[order]) == 0) & (np.diff(numbers[order]) == 0)
        if not are_same.any():
            return order
        ages = [
            (came_ms, number, name_key(job_id))
            for came_ms, number, job_id in zip(self.submit_ms, self.numbers, self.ids, strict=True)
        ]
        return np.array(sorted(range(len(ages)), key=ages.__getitem__))
