"""Jobs that are raced over opaque clusters: who waits to begin, how every race stands, what is to be done.

A race is one attempt of a job, and may outlive it: until every cluster has shown the end of its copy, cancels are
repeated. Observations are kept here before anyone acts on them (design.md 4.7).
"""

from __future__ import annotations

from dataclasses import replace

from muster.engine.race import observe
from muster.model import events as ev
from muster.model.fleet import Cluster
from muster.model.jobs import Job
from muster.model.plan import Waiting
from muster.model.race import Race, RaceAction, RaceSpec, Sighting
from muster.model.resources import NOTHING, Resources

Key = tuple[str, int]
"""A job and the number of its attempt."""


class Races:
    """Races as events left them. `line`: jobs that may begin; `blocked`: why those in line do not."""

    def __init__(self) -> None:
        self.clusters: dict[str, Cluster] = {}
        self.line: dict[str, Job] = {}
        self.blocked: dict[str, Waiting] = {}
        self.live: dict[Key, Race] = {}
        self._specs: dict[str, RaceSpec] = {}
        self._begun: dict[str, tuple[Job, int]] = {}
        self._actions: list[RaceAction] = []

    def fork(self) -> Races:
        """A copy that can go its own way."""
        other = Races()
        other.clusters, other.line, other.blocked = dict(self.clusters), dict(self.line), dict(self.blocked)
        other.live, other._specs, other._begun = dict(self.live), dict(self._specs), dict(self._begun)
        other._actions = list(self._actions)
        return other

    def __contains__(self, job_id: object) -> bool:
        """Whether the job is raced, and not over."""
        return job_id in self._specs

    # -- clusters --------------------------------------------------------------------------------------

    def takes(self, event: ev.Event) -> bool:
        """Whether the event is about an opaque cluster; if so it is taken note of."""
        match event:
            case ev.ClusterSet(cluster=cluster) if cluster.opaque:
                self.clusters[cluster.name] = cluster
            case ev.ClusterSilent(cluster=name, silent=silent) if name in self.clusters:
                self.clusters[name] = replace(self.clusters[name], silent=silent)
            case _:
                return False
        return True

    # -- jobs ------------------------------------------------------------------------------------------

    def enter(self, job: Job, spec: RaceSpec) -> None:
        """A job is to be raced."""
        self._specs[job.id] = spec

    def stand_in_line(self, job: Job) -> None:
        """Nothing but a quota keeps the job from beginning."""
        self.line[job.id] = job

    def change(self, job: Job) -> None:
        """The job has other values now."""
        if job.id in self.line:
            self.line[job.id] = job
        else:
            self._begun[job.id] = (job, self._begun[job.id][1])

    def job(self, job_id: str) -> Job:
        """A raced job that is not over and not held back by others."""
        return self.line[job_id] if job_id in self.line else self._begun[job_id][0]

    def asks(self, job_id: str) -> Resources:
        """What its quota pays."""
        return self._specs[job_id].largest if job_id in self._specs else NOTHING

    def begin(self, job_id: str, attempt: int, now_ms: int) -> Job:
        """Its copies are to be sent."""
        job = self.leave_line(job_id)
        self._begun[job_id] = (job, attempt)
        self.live[job_id, attempt] = self._specs[job_id].race(job_id, attempt, now_ms)
        self.observe(job_id, attempt, (), now_ms)
        return job

    def leave_line(self, job_id: str) -> Job:
        """The job waits no more."""
        self.blocked.pop(job_id, None)
        return self.line.pop(job_id)

    def stop(self, job_id: str, now_ms: int) -> Job:
        """The attempt is over for its job; copies that still run are cancelled."""
        job, attempt = self._begun.pop(job_id)
        race = self.live.get((job_id, attempt))
        if race is not None and race.result is None:
            self.live[job_id, attempt] = race.withdrawn()
            self.observe(job_id, attempt, (), now_ms)
        return job

    def leave(self, job_id: str) -> None:
        """The job is over."""
        self._specs.pop(job_id, None)

    # -- what clusters show, and what follows -----------------------------------------------------------

    def observe(self, job_id: str, attempt: int, sightings: tuple[Sighting, ...], now_ms: int) -> None:
        """Clusters answered, or time has passed."""
        race = self.live.get((job_id, attempt))
        if race is None:  # an answer that came after the end
            return
        self.live[job_id, attempt], actions = observe(race, sightings, now_ms)
        self._actions += actions

    def take_actions(self) -> list[RaceAction]:
        """What is to be done; asked once, since the races remember that they asked."""
        actions, self._actions = self._actions, []
        return actions
