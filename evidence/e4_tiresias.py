"""Tiresias as Pollux simulated it: two queues by attained service, fixed widths, preemption at every round.

A simulation by itself, on the same measured speeds: it takes jobs off their nodes at will, and puts them on the
emptiest ones, which is no configuration of our engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from muster.model.resources import MICRO
from muster.sim.traces.measured import application
from muster.sim.traces.pollux import EACH, NODES, RESTART_MS, ROUND_MS, Wanted, pace, requests

_DEMOTED_AT = 16 * 3600  # GPU-seconds


@dataclass(slots=True)
class _Job:
    wanted: Wanted
    folder: str
    left: int = 0  # micro-seconds × pace
    pause_s: int = 0
    executed_s: int = 0
    places: list[int] = field(default_factory=list)  # the node of each replica
    done_s: float | None = None

    def work(self, now_s: int, seconds: int) -> None:
        """One round on its nodes."""
        self.executed_s += seconds
        pause_s = min(self.pause_s, seconds)
        self.pause_s -= pause_s
        counts = tuple(sorted(self.places.count(node) for node in set(self.places)))
        speed = pace(self.folder, self.wanted.batch, counts)
        done = speed * (seconds - pause_s)
        if done >= self.left:
            self.done_s = now_s + pause_s + self.left / speed
        self.left -= done


def completion_times(workload: Path, measured: Path) -> dict[str, float]:
    """Seconds from submission to the end, by job."""
    jobs = [_Job(wanted, str(measured / wanted.application)) for wanted in requests(workload)]
    for job in jobs:
        job.left = application(job.folder).seconds(job.wanted.batch, (1,)) * MICRO
    first: list[_Job] = []
    second: list[_Job] = []
    now_s, each_s = 0, ROUND_MS // 1000
    while any(job.done_s is None for job in jobs):
        for job in jobs:
            if job.done_s is None and job.places:
                job.work(now_s, each_s)
        now_s += each_s
        known = {id(job) for job in (*first, *second)}
        first += [job for job in jobs if job.wanted.submit_ms <= now_s * 1000 and id(job) not in known]
        demoted = [job for job in first if job.executed_s * job.wanted.replicas >= _DEMOTED_AT]
        second += [job for job in demoted if job.done_s is None]
        first = [job for job in first if job not in demoted]
        _place([job for job in (*first, *second) if job.done_s is None], jobs)
    return {job.wanted.name: (job.done_s or 0) - job.wanted.submit_ms / 1000 for job in jobs}


def _place(line: list[_Job], jobs: list[_Job]) -> None:
    """The first in line run; who does not any more gives its place up before others take it."""
    left, chosen = NODES * EACH, []
    for job in line:
        if job.wanted.replicas <= left:
            left -= job.wanted.replicas
            chosen.append(job)
    for job in jobs:
        if job.places and not any(job is other for other in chosen):
            job.places = []
    free = {node: EACH - sum(job.places.count(node) for job in jobs) for node in range(NODES)}
    for job in chosen:
        if job.places:
            continue
        job.pause_s = RESTART_MS // 1000
        while len(job.places) < job.wanted.replicas:
            node = max(free, key=lambda name: (free[name], -name))
            many = min(free[node], job.wanted.replicas - len(job.places))
            job.places += [node] * many
            free[node] -= many
