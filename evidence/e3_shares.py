"""What virtual clusters were due and got, up to a horizon, whatever queues the scheduler knew.

Due is the weighted max-min share of what each has running and waiting. Kept apart from the measures of the simulator,
which go by its queues: a scheduler with one queue for all is held to the same yardstick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from muster.model import events as ev
from muster.sim.measures.division import entitled
from muster.sim.scenario.scenario import ScriptJob
from muster.state.run import Moment


class Watch:
    """Feed it every moment. Times in ms, amounts in GPUs."""

    def __init__(
        self,
        entries: Sequence[ScriptJob],
        gpus: Mapping[str, int],
        weights: Mapping[str, int],
        fleet: int,
        until_ms: int,
    ) -> None:
        self.owner = {entry.job.id: entry.job.user for entry in entries}
        self.gpus = gpus
        self.first_ms: dict[str, int] = {}
        self.end_ms: dict[str, int] = {}
        self.preempted = 0
        self._lost = 0
        self._since_ms: dict[str, int] = {}  # when its last attempt started
        self._weights, self._fleet, self._until_ms = weights, fleet, until_ms
        self._running = dict.fromkeys(weights, 0)
        self._asked = dict.fromkeys(weights, 0)
        self._due = dict.fromkeys(weights, 0.0)
        self._sums = {name: [0.0, 0.0, 0.0] for name in weights}  # due, missing, held
        self._now_ms = 0

    def add(self, moment: Moment) -> None:
        """One more moment."""
        self._pass(min(moment.now_ms, self._until_ms) - min(self._now_ms, self._until_ms))
        self._now_ms = moment.now_ms
        is_news = [self._note(event) for event in moment.events]
        if any(is_news):
            self._due = self._divided()

    def _divided(self) -> dict[str, float]:
        """What each is due: the weighted max-min share of what it has running and waiting."""
        asked = np.array([list(self._asked.values())], float)
        shares = entitled(asked, np.array(list(self._weights.values()), float), np.array([float(self._fleet)]))
        return dict(zip(self._weights, shares[0].tolist(), strict=True))

    def _pass(self, lasted_ms: int) -> None:
        if lasted_ms:
            for name, sums in self._sums.items():
                sums[0] += self._due[name] * lasted_ms
                sums[1] += max(self._due[name] - self._running[name], 0.0) * lasted_ms
                sums[2] += self._running[name] * lasted_ms

    def _note(self, event: ev.Event) -> bool:
        match event:
            case ev.JobSubmitted(job=job):
                self._asked[job.user] += self.gpus[job.id]
            case ev.JobStarted(job=job_id):
                self.first_ms.setdefault(job_id, self._now_ms)
                self._since_ms[job_id] = self._now_ms
                self._running[self.owner[job_id]] += self.gpus[job_id]
            case ev.JobRequeued(job=job_id):
                self.preempted += 1
                lasted_ms = min(self._now_ms, self._until_ms) - min(self._since_ms[job_id], self._until_ms)
                self._lost += self.gpus[job_id] * lasted_ms
                self._running[self.owner[job_id]] -= self.gpus[job_id]
            case ev.JobSucceeded(job=job_id):
                self.end_ms[job_id] = self._now_ms
                self._running[self.owner[job_id]] -= self.gpus[job_id]
                self._asked[self.owner[job_id]] -= self.gpus[job_id]
            case _:
                return False
        return True

    def facts(self) -> dict[str, float]:
        """How much was used, and of that for work that was lost; how much was missing of what was due: of all, and of
        the one that missed most."""
        due, missing, held = (sum(sums[place] for sums in self._sums.values()) for place in range(3))
        parts = [sums[1] / sums[0] for sums in self._sums.values() if sums[0]]
        received = [min(sums[2] / sums[0], 1.0) for sums in self._sums.values() if sums[0]]
        return {
            "used": held / (self._fleet * self._until_ms),
            "lost": self._lost / (self._fleet * self._until_ms),
            "shortfall": missing / due,
            "worst": max(parts),
            "jain": sum(received) ** 2 / (len(received) * sum(part * part for part in received)),
        }
