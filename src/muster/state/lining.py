"""Many jobs at once: as if each had been submitted, for a fraction of the time."""

from __future__ import annotations

from collections import Counter

import numpy as np

from muster.engine.columns.bulk import Crowd
from muster.model import events as ev
from muster.model.jobs import Profile
from muster.state.state import State

WORTH_COLUMNS = 64  # fewer are submitted one by one as fast


def line_up(state: State, crowd: Crowd) -> None:
    """New jobs that nothing holds back stand in line, in queues that are there."""
    if len(crowd) < WORTH_COLUMNS:
        for job in crowd.jobs():
            state.apply(ev.JobSubmitted(job=job), max(job.submit_ms, state.now_ms))
        return
    state.roll.add_all(crowd)
    like, submit_ms = np.array(crowd.like), np.array(crowd.submit_ms)
    many = np.bincount(like, minlength=len(crowd.likes))
    last_ms = np.zeros(len(crowd.likes), np.int64)
    np.maximum.at(last_ms, like, submit_ms)
    asked: dict[str, Counter[Profile]] = {}
    came_ms: dict[str, int] = {}
    for job, count, at_ms in zip(crowd.likes, many.tolist(), last_ms.tolist(), strict=True):
        asked.setdefault(job.queue, Counter())[job.profile] += count
        came_ms[job.queue] = max(came_ms.get(job.queue, 0), at_ms)
    for queue in sorted(asked, key=came_ms.__getitem__):
        state.now_ms = max(state.now_ms, came_ms[queue])
        state.books[queue].lined_up(asked[queue])
        state.touch(queue, asked[queue].total())
