"""Worlds in which everyone has jobs in line for days: some by hand, others from seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from muster.model import events as ev
from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import Node, Request
from muster.model.policy import Policy
from muster.model.queues import MINUTE_MS, Queue
from muster.model.resources import CPU, MICRO, PODS, Resources
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.simulate import Simulation

DAY_MIN = 24 * 60
_CORE = 1000


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A queue that has jobs in line all the time: how wide, how many minutes they run, and whether they say so."""

    name: str
    weight: int = 1
    sizes: tuple[int, ...] = (1,)
    minutes: int
    is_known: bool = False
    lifetime_ms: int | None = 0

    @property
    def largest(self) -> int:
        """Machine-minutes of its largest job."""
        return max(self.sizes) * self.minutes


def random_streams(chance: Random, machines: int, most_starts: int) -> list[Stream]:
    """2 to 12 queues, weights of 1 to 20, jobs of a minute to six hours, of one machine to all of them; in all
    about so many start in a day at most."""
    least = max(1, machines * DAY_MIN // most_starts)
    return [
        Stream(
            name=f"q{number}",
            weight=chance.choice([1, 1, 2, 3, 5, 20]),
            sizes=tuple(sorted({chance.choice([1, 1, min(2, machines), machines]) for _ in range(2)})),
            minutes=max(least, chance.choice([1, 5, 10, 30, 60, 120, 360])),
            is_known=chance.random() < 0.3,
            lifetime_ms=chance.choice([None, 0]),
        )
        for number in range(chance.randint(2, 12))
    ]


def saturated(machines: int, streams: Sequence[Stream], policy: Policy, minutes: int, seed: int = 0) -> Scenario:
    """Machines of one core, and more jobs of each queue than there is time for, all there from the beginning."""
    chance, entries = Random(seed), list[ScriptJob]()
    amounts = Resources.of({CPU: _CORE, PODS: 110})
    for stream in streams:
        left, number = machines * (minutes + stream.minutes), 0
        while left > 0:
            tasks = chance.choice(stream.sizes)
            request = Request.of({CPU: _CORE})
            group = TaskGroup(name="main", min=tasks, initial=tasks, max=tasks, request=request)
            runtime_ms = stream.minutes * MINUTE_MS
            job = Job(
                id=f"{stream.name}-{number}",
                queue=stream.name,
                profile=Profile(groups=(group,)),
                lifetime_ms=stream.lifetime_ms,
                expected_ms=runtime_ms if stream.is_known else None,
            )
            entries.append(ScriptJob(job=job, runtime_ms=runtime_ms))
            left, number = left - tasks * stream.minutes, number + 1
    return Scenario(
        policy=policy,
        clusters=(Cluster(name="main"),),
        nodes=tuple(Node(name=f"n-{number}", cluster="main", allocatable=amounts) for number in range(machines)),
        queues=tuple(Queue(name=stream.name, weight=stream.weight * MICRO) for stream in streams),
        jobs=tuple(entries),
        until_ms=minutes * MINUTE_MS,
    )


def followed(scenario: Scenario, step_min: int = 0) -> tuple[dict[str, float], list[dict[str, float]], int]:
    """Machine-minutes that each queue was given until the end, and until each so many minutes; how many starts."""
    assert scenario.until_ms is not None
    given = {queue.name: 0.0 for queue in scenario.queues}
    runs: dict[str, tuple[int, int]] = {}
    steps, starts = list[dict[str, float]](), 0

    def until(moment_ms: int) -> dict[str, float]:
        now = dict(given)
        for job, (since_ms, tasks) in runs.items():
            now[job.partition("-")[0]] += tasks * (moment_ms - since_ms) / MINUTE_MS
        return now

    for tick in Simulation(scenario, estimates=False):
        now_ms = tick.moment.now_ms
        while step_min and len(steps) * step_min * MINUTE_MS <= now_ms:
            steps.append(until(len(steps) * step_min * MINUTE_MS))
        for event in tick.moment.events:
            if isinstance(event, ev.JobStarted):
                runs[event.job], starts = (now_ms, len(event.tasks)), starts + 1
            elif isinstance(event, ev.JobSucceeded | ev.JobRequeued) and event.job in runs:
                since_ms, tasks = runs.pop(event.job)
                given[event.job.partition("-")[0]] += tasks * (now_ms - since_ms) / MINUTE_MS
    return until(scenario.until_ms), steps, starts


def off_by(given: dict[str, float], streams: Sequence[Stream]) -> dict[str, float]:
    """Of each queue, how far what it got is from its weight's part, in machine-minutes."""
    total, weights = sum(given.values()), sum(stream.weight for stream in streams)
    return {it.name: given[it.name] - total * it.weight / weights for it in streams}


def allowed(stream: Stream, streams: Sequence[Stream]) -> int:
    """How far it may be: its own largest job and one of a rival."""
    return stream.largest + max(other.largest for other in streams if other is not stream)
