"""Least attained service as Gavel simulates it, blind to the kinds of GPU: everyone gets an equal share of all GPUs.

A simulation by itself: GPUs are shared by time, in rounds, and nobody has a place of its own. Gavel finds the shares
by a linear programme, which has many solutions; here each job's time is spread over kinds of GPU as there are GPUs of
each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.sim.traces.gavel import FLEET, ROUND_MS, Training, measured, trainings

Pair = tuple[str, str]
"""A job and a kind of GPU."""


@dataclass(slots=True)
class _Job:
    training: Training
    ms_on: dict[str, int]
    left: float = 1.0  # of its work
    done_ms: float | None = None


def least_attained(trace: Path, throughputs: Path) -> tuple[float, float]:
    """The mean completion time and the makespan, in hours."""
    rates = measured(str(throughputs))
    jobs = [_Job(training, training.ms_on(rates[training.kind])) for training in trainings(trace)]
    before: tuple[str, ...] = ()
    now_ms, rounds = 0, dict[Pair, int]()
    while any(job.done_ms is None for job in jobs):
        active = [job for job in jobs if job.done_ms is None and job.training.submit_ms <= now_ms]
        if (present := tuple(job.training.name for job in active)) != before:
            before, rounds = present, {}  # shares are other ones, and counted anew
        for job, kind in _chosen(active, rounds):
            rounds[job.training.name, kind] = rounds.get((job.training.name, kind), 0) + 1
            part = ROUND_MS / job.ms_on[kind]
            if part >= job.left:
                job.done_ms = now_ms + job.left * job.ms_on[kind]
            job.left -= part
        now_ms += ROUND_MS
    times = [(job.done_ms or 0) - job.training.submit_ms for job in jobs]
    return sum(times) / len(times) / 3_600_000, max(job.done_ms or 0 for job in jobs) / 3_600_000


def _chosen(active: Sequence[_Job], rounds: dict[Pair, int]) -> list[tuple[_Job, str]]:
    """Who runs where in this round: those first who had least of what they are due."""
    due = _due(active)
    pairs = []
    for job in active:
        for kind in job.ms_on:
            share, had = due[job.training.name] * FLEET[kind], rounds.get((job.training.name, kind), 0)
            pairs.append((had / share, -share, job.training.name, kind, job))
    free, chosen = dict(FLEET), dict[str, tuple[_Job, str]]()
    for *_, name, kind, job in sorted(pairs, key=lambda it: it[:4]):
        if name not in chosen and job.training.gpus <= free[kind]:
            chosen[name] = (job, kind)
            free[kind] -= job.training.gpus
    return list(chosen.values())


def _due(active: Sequence[_Job]) -> dict[str, float]:
    """The part of time that each job is due, if all get as many GPUs on average as far as they can use them."""
    left, due = float(sum(FLEET.values())), dict[str, float]()
    for place, job in enumerate(sorted(active, key=lambda job: job.training.gpus)):
        due[job.training.name] = min(1.0, left / (len(active) - place) / job.training.gpus)
        left -= due[job.training.name] * job.training.gpus
    return due
