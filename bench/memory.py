"""What a queued job costs in memory, all told: the state of a scheduler with a million of them."""

from __future__ import annotations

import sys
import tracemalloc

from bench.measuring import at_most
from bench.worlds import SCALE
from muster.model import events as ev
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import Request
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.state.state import State

JOBS, QUEUES, PROFILES = int(1_000_000 * SCALE), 100, 300
MOST_BYTES = 300
GIB = 1 << 30


def memory() -> str:
    """1,000,000 queued jobs of 100 queues and 300 profiles, held to 300 bytes each."""
    profiles = [_profile(number) for number in range(PROFILES)]
    state = State(Policy())
    for number in range(QUEUES):
        state.apply(ev.QueueSet(queue=Queue(name=f"queue-{number}")), 0)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(JOBS):
        state.apply(ev.JobSubmitted(job=_job(number, profiles)), number)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    each = (after - before) / JOBS
    if len(state.jobs) != JOBS:
        sys.exit(f"bench: {len(state.jobs):,} of {JOBS:,} jobs are queued")
    return "\n".join(
        [
            "State after jobs of 100 queues and 300 profiles were submitted one by one.",
            "",
            "| queued jobs | bytes for each |",
            "|---|---|",
            f"| {JOBS:,} | {each:.0f} |",
            "",
            at_most("Memory for each queued job", MOST_BYTES, each, " bytes"),
        ]
    )


def _job(number: int, profiles: list[Profile]) -> Job:
    return Job(
        id=f"job-{number}",
        queue=f"queue-{number % QUEUES}",
        profile=profiles[number * 7 % PROFILES],
        submit_ms=1_700_000_000_000 + number,
        user=f"user-{number % 50}",
        priority=number % 3,
        lifetime_ms=3_600_000 if number % 2 else None,
        expected_ms=1000 * (60 + number % 3600),
    )


def _profile(number: int) -> Profile:
    request = Request.of({"cpu": 1000 * (1 + number % 20), "memory": (1 + number // 20) * GIB})
    return Profile(groups=(TaskGroup(name="main", min=1, initial=1, max=1, request=request),))
