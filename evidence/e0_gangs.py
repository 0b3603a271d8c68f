"""Gangs of whole nodes among single jobs of unknown run time: how long they wait, and what that costs the fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from muster.model import events as ev
from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import DEVICE_MILLI, Node, Request
from muster.model.policy import Policy
from muster.model.queues import MINUTE_MS, Queue
from muster.model.resources import CPU, GPU, MICRO, PODS, Resources
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.simulate import Simulation

HOUR_MS = 60 * MINUTE_MS
NODES, GPUS = 8, 8
HOURS = 72
_EVERY_HOURS = 12  # from one gang to the next
_LAST_HOURS = {True: 24, False: 60}  # gangs that come later are not counted: above capacity, and below


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """One world: offered load of the fleet, nodes of a gang, queues that jobs are spread over, and the seed."""

    load: float
    width: int
    queues: int
    seed: int

    @property
    def key(self) -> str:
        """Its name among cases."""
        return f"{self.load}-{self.width}-{self.queues}-{self.seed}"

    def scenario(self, *, backfill: bool) -> Scenario:
        """Single jobs of one GPU and of one to eight hours all the time; a gang of whole nodes every twelve hours."""
        amounts = Resources.of({CPU: 64_000, GPU: GPUS * DEVICE_MILLI, PODS: 110})
        nodes = tuple(Node(name=f"n-{number}", cluster="main", allocatable=amounts) for number in range(NODES))
        return Scenario(
            policy=Policy(over_share=None, backfill=backfill),
            clusters=(Cluster(name="main"),),
            nodes=nodes,
            queues=tuple(Queue(name=f"q{number}", weight=MICRO) for number in range(self.queues)),
            jobs=tuple(sorted(self._jobs(), key=lambda it: it.job.submit_ms)),
            until_ms=HOURS * HOUR_MS,
        )

    def _jobs(self) -> Iterator[ScriptJob]:
        chance = Random(self.seed)
        gangs = [number * _EVERY_HOURS * HOUR_MS for number in range(1, HOURS // _EVERY_HOURS)]
        for number, at_ms in enumerate(gangs):
            yield self._job(chance, f"gang-{number}", at_ms, tasks=self.width, gpus=GPUS)
        each = 4.5  # hours of a job on average
        left = self.load * NODES * GPUS * HOURS - len(gangs) * self.width * GPUS * each
        for number in range(max(round(left / each), 0)):
            yield self._job(chance, f"one-{number}", chance.randrange(HOURS * HOUR_MS), tasks=1, gpus=1)

    def _job(self, chance: Random, name: str, at_ms: int, *, tasks: int, gpus: int) -> ScriptJob:
        request = Request.of({CPU: 1000, GPU: gpus * DEVICE_MILLI})
        group = TaskGroup(name="main", min=tasks, initial=tasks, max=tasks, request=request)
        queue = f"q{chance.randrange(self.queues)}"
        job = Job(id=name, queue=queue, profile=Profile(groups=(group,)), submit_ms=at_ms)
        return ScriptJob(job=job, runtime_ms=chance.randint(HOUR_MS, 8 * HOUR_MS))

    def lived(self, *, backfill: bool) -> tuple[list[float], float]:
        """Hours that each gang waited, and the part of the fleet that was in use."""
        came: dict[str, int] = {}
        runs: dict[str, tuple[int, int]] = {}
        waited = dict[str, float]()
        used, scenario = 0, self.scenario(backfill=backfill)
        tasks = {entry.job.id: entry.job.profile.groups[0] for entry in scenario.jobs}
        for entry in scenario.jobs:
            if entry.job.id.startswith("gang") and entry.job.submit_ms <= _LAST_HOURS[self.load > 1] * HOUR_MS:
                came[entry.job.id] = entry.job.submit_ms
        for tick in Simulation(scenario, estimates=False):
            now_ms = tick.moment.now_ms
            for event in tick.moment.events:
                if isinstance(event, ev.JobStarted):
                    group = tasks[event.job]
                    runs[event.job] = (now_ms, group.min * group.request.gpus)
                    if event.job in came:
                        waited[event.job] = (now_ms - came[event.job]) / HOUR_MS
                elif isinstance(event, ev.JobSucceeded) and event.job in runs:
                    since_ms, gpus = runs.pop(event.job)
                    used += gpus * (now_ms - since_ms)
        end_ms = HOURS * HOUR_MS
        used += sum(gpus * (end_ms - since_ms) for since_ms, gpus in runs.values())
        return [waited.get(name, float(HOURS)) for name in came], used / (NODES * GPUS * end_ms)


def medians(waits: Sequence[Sequence[float]], used: Sequence[float]) -> tuple[float, float]:
    """Over several seeds: the hours that gangs waited, and the part of the fleet that was in use."""
    return median(hours for each in waits for hours in each), median(used)
