"""Three equal queues whose demand comes in waves: what preemption for fairness gives to queues, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from evidence.e0_gangs import HOUR_MS
from muster.model import events as ev
from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import DEVICE_MILLI, Node, Request
from muster.model.policy import Policy, Preemption
from muster.model.queues import Queue
from muster.model.resources import CPU, GPU, MICRO, PODS, Resources
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.simulate import Simulation

NODES, GPUS, HOURS = 16, 8, 72
_QUEUES = ("a", "b", "c")
_WAVE_HOURS = 24  # each queue has three times as much work in one third of them
_LIFETIME_MS = 2 * HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """One world: offered load of the fleet, whether it comes in waves, and the seed."""

    load: float
    seed: int
    comes_in_waves: bool = False

    def scenario(self, preemption: Preemption) -> Scenario:
        """Jobs of one to 32 GPUs and one to twelve hours."""
        amounts = Resources.of({CPU: 64_000, GPU: GPUS * DEVICE_MILLI, PODS: 110})
        return Scenario(
            policy=Policy(over_share=None, preemption=preemption),
            clusters=(Cluster(name="main"),),
            nodes=tuple(Node(name=f"n-{number}", cluster="main", allocatable=amounts) for number in range(NODES)),
            queues=tuple(Queue(name=name, weight=MICRO) for name in _QUEUES),
            jobs=tuple(sorted(self._jobs(), key=lambda it: it.job.submit_ms)),
            until_ms=HOURS * HOUR_MS,
        )

    def _jobs(self) -> Iterator[ScriptJob]:
        chance = Random(self.seed)
        for place, queue in enumerate(_QUEUES):
            left, number = self.load * NODES * GPUS * HOURS / len(_QUEUES), 0
            while left > 0:
                gpus, runtime_ms = chance.choice([1, 1, 1, 2, 2, 4, 8, 8]), chance.randint(HOUR_MS, 12 * HOUR_MS)
                tasks, each = max(gpus // GPUS, 1), min(gpus, GPUS)
                request = Request.of({CPU: 1000, GPU: each * DEVICE_MILLI})
                group = TaskGroup(name="main", min=tasks, initial=tasks, max=tasks, request=request)
                job = Job(
                    id=f"{queue}-{number}",
                    queue=queue,
                    profile=Profile(groups=(group,)),
                    submit_ms=self._when(chance, place),
                    lifetime_ms=_LIFETIME_MS,
                )
                yield ScriptJob(job=job, runtime_ms=runtime_ms)
                left, number = left - gpus * runtime_ms / HOUR_MS, number + 1

    def _when(self, chance: Random, place: int) -> int:
        """At any time; in waves, three of five jobs come in the queue's own third of each."""
        if not self.comes_in_waves or chance.random() < 0.4:
            return chance.randrange(HOURS * HOUR_MS)
        third = _WAVE_HOURS // len(_QUEUES) * HOUR_MS
        wave = chance.randrange(HOURS // _WAVE_HOURS)
        return wave * _WAVE_HOURS * HOUR_MS + place * third + chance.randrange(third)

    def lived(self, preemption: Preemption) -> dict[str, float]:
        """Useful and all GPU-hours, evictions, the most of one job, and how far queues were short of their part."""
        scenario = self.scenario(preemption)
        gpus = {it.job.id: it.job.profile.least.get(GPU) // DEVICE_MILLI for it in scenario.jobs}
        runs: dict[str, int] = {}
        useful, lost, evicted = 0.0, 0.0, Counter[str]()
        short = _Shortfall(gpus)
        for tick in Simulation(scenario, estimates=False):
            now_ms = tick.moment.now_ms
            short.until(now_ms)
            for event in tick.moment.events:
                short.note(event)
                if isinstance(event, ev.JobStarted):
                    runs[event.job] = now_ms
                elif isinstance(event, ev.JobSucceeded):
                    useful += gpus[event.job] * (now_ms - runs.pop(event.job)) / HOUR_MS
                elif isinstance(event, ev.JobRequeued) and event.job in runs:
                    lost += gpus[event.job] * (now_ms - runs.pop(event.job)) / HOUR_MS
                    evicted[event.job] += 1
        end_ms = HOURS * HOUR_MS
        useful += sum(gpus[job] * (end_ms - since_ms) / HOUR_MS for job, since_ms in runs.items())
        return {
            "useful": useful,
            "lost": lost,
            "evictions": evicted.total(),
            "most": max(evicted.values(), default=0),
            "shortfall": short.hours(end_ms) / (NODES * GPUS * HOURS),
        }


class _Shortfall:
    """How many GPU-hours queues lacked of a third of the fleet while they had that much waiting."""

    def __init__(self, gpus: dict[str, int]) -> None:
        self._gpus = gpus
        self._holds, self._waits = Counter[str](), Counter[str]()
        self._now_ms, self._lacked = 0, 0.0

    def until(self, now_ms: int) -> None:
        """Time passes as things stand."""
        part = NODES * GPUS / len(_QUEUES)
        for queue in _QUEUES:
            due = min(part, self._holds[queue] + self._waits[queue])
            self._lacked += max(due - self._holds[queue], 0) * (now_ms - self._now_ms) / HOUR_MS
        self._now_ms = now_ms

    def note(self, event: ev.Event) -> None:
        """A job comes, starts, ends or goes back to its queue."""
        name = event.job.id if isinstance(event, ev.JobSubmitted) else getattr(event, "job", "")
        if name not in self._gpus:
            return
        queue, gpus = name.partition("-")[0], self._gpus[name]
        match event:
            case ev.JobSubmitted():
                self._waits[queue] += gpus
            case ev.JobStarted():
                self._waits[queue] -= gpus
                self._holds[queue] += gpus
            case ev.JobRequeued():
                self._waits[queue] += gpus
                self._holds[queue] -= gpus
            case ev.JobSucceeded():
                self._holds[queue] -= gpus
            case _:
                pass

    def hours(self, end_ms: int) -> float:
        """What they lacked in all until then."""
        self.until(end_ms)
        return self._lacked
