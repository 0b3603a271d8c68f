"""What races added up to: where each job was sent, who won, what it cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from muster.engine.race.words import explain, wasted_gpu_ms
from muster.model import events as ev
from muster.model.race import Race
from muster.sim.integral import NO_USE
from muster.state.state import State


@dataclass(slots=True)
class RaceStory:
    """What became of a raced job, all its attempts together."""

    submitted_to: list[str] = field(default_factory=list)
    cancelled_at: list[str] = field(default_factory=list)
    winner: str | None = None
    wasted_gpu_ms: int = 0
    cause: str = ""


class RaceStories:
    """Watches the races of a simulation. Feed it every event."""

    def __init__(self) -> None:
        self.by_job: dict[str, RaceStory] = {}
        self._by_cluster: dict[str, Counter[str]] = {}

    def note(self, event: ev.Event) -> None:
        """One more event."""
        match event:
            case ev.SubmittedTo(job=job, cluster=cluster):
                self._story(job).submitted_to.append(cluster)
                self._count(cluster, "submitted")
            case ev.CancelledAt(job=job, cluster=cluster):
                self._story(job).cancelled_at.append(cluster)
                self._count(cluster, "cancelled")
            case ev.RaceWon(job=job, cluster=cluster):
                self._story(job).winner = cluster
                self._count(cluster, "won")
            case ev.RaceOver(job=job, wasted_gpu_ms=wasted):
                self._story(job).wasted_gpu_ms += wasted
            case ev.JobRequeued(job=job) if job in self.by_job:
                self.by_job[job].winner = None
            case ev.JobFailed(job=job, cause=cause) if job in self.by_job:
                self.by_job[job].cause = cause
            case _:
                pass

    def _story(self, job: str) -> RaceStory:
        return self.by_job.setdefault(job, RaceStory())

    def _count(self, cluster: str, what: str) -> None:
        self._by_cluster.setdefault(cluster, Counter())[what] += 1

    def wasted_gpu_ms(self, state: State, now_ms: int) -> dict[str, int]:
        """By job, the GPU × ms that came to nothing so far; races that are still on counted as they stand."""
        wasted = {job: story.wasted_gpu_ms for job, story in self.by_job.items()}
        for (job, _), race in state.races.live.items():
            wasted[job] = wasted.get(job, 0) + wasted_gpu_ms(race, now_ms)
        return wasted

    def of_job(self, job: str, wasted: dict[str, int]) -> dict[str, Any]:
        """What the summary says of a raced job, beside what it says of every job."""
        if job not in self.by_job:
            return {}
        story = self.by_job[job]
        return {
            "race": {
                "submittedTo": list(story.submitted_to),
                "cancelledAt": list(story.cancelled_at),
                "winner": story.winner,
                "cause": story.cause or None,
                "wastedGpuSeconds": wasted.get(job, 0) / 1000,
            }
        }

    def of_cluster(self, name: str) -> dict[str, Any]:
        """What the summary says of an opaque cluster."""
        counts = self._by_cluster.get(name, Counter())
        return {**NO_USE.told(), "races": {what: counts[what] for what in ("submitted", "won", "cancelled")}}


def racing(race: Race) -> dict[str, Any]:
    """The verdict on a job that is being raced."""
    return {"verdict": "racing", "leader": race.leader, "why": explain(race)}
