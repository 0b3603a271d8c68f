"""Opaque clusters for tests of the rule of races: scripts of what each shows, silences, refusals, slow cancels."""

from __future__ import annotations

from dataclasses import dataclass, field

from muster.engine.race import observe
from muster.model.race import CancelAt, Race, RaceAction, RaceSpec, Shown, Sighting, SubmitTo

Steps = tuple[tuple[int, Shown], ...]


@dataclass(slots=True)
class Clusters:
    """What clusters show. `steps`: by cluster, from which ms on what; `silent`: by cluster, from when to when."""

    steps: dict[str, Steps]
    silent: dict[str, tuple[int, int]] = field(default_factory=dict)
    refuse: frozenset[str] = frozenset()
    cancel_takes_ms: int = 0
    submissions: dict[str, int] = field(default_factory=dict)
    stopped: dict[str, int] = field(default_factory=dict)

    def is_silent(self, cluster: str, now_ms: int) -> bool:
        start_ms, end_ms = self.silent.get(cluster, (0, 0))
        return start_ms <= now_ms < end_ms

    def submit(self, cluster: str, now_ms: int) -> Sighting:
        if self.is_silent(cluster, now_ms):
            return Sighting(cluster, Shown.UNREACHABLE)
        if cluster in self.refuse:
            return Sighting(cluster, Shown.REJECTED, reason="no")
        self.submissions[cluster] = self.submissions.get(cluster, 0) + 1
        return Sighting(cluster, Shown.EXISTS if self.submissions[cluster] > 1 else Shown.ACCEPTED)

    def cancel(self, cluster: str, now_ms: int) -> None:
        if not self.is_silent(cluster, now_ms):
            self.stopped.setdefault(cluster, now_ms + self.cancel_takes_ms)

    def shown(self, cluster: str, now_ms: int) -> Sighting:
        """What the cluster shows of its copy, whether or not anyone can see it."""
        if cluster not in self.submissions:
            return Sighting(cluster, Shown.GONE)
        stopped_ms = self.stopped.get(cluster)
        is_stopped = stopped_ms is not None and stopped_ms <= now_ms
        found, entered_ms = Sighting(cluster, Shown.WAITING, 0), None
        for at_ms, state in self.steps[cluster]:
            if at_ms > (stopped_ms if is_stopped and stopped_ms is not None else now_ms):
                break
            found = Sighting(cluster, state, at_ms, entered_ms if state.is_end else None)
            entered_ms = at_ms if state is Shown.RUNNING else None
        if is_stopped and not found.shown.is_end:
            return Sighting(cluster, Shown.STOPPED, stopped_ms, entered_ms)
        return found

    def look(self, now_ms: int) -> tuple[Sighting, ...]:
        return tuple(
            Sighting(cluster, Shown.UNREACHABLE) if self.is_silent(cluster, now_ms) else self.shown(cluster, now_ms)
            for cluster in sorted(self.steps)
        )


@dataclass(slots=True)
class Raced:
    """A race that was run: how it stands, and everything that was to be done, with its time."""

    race: Race
    actions: list[tuple[int, RaceAction]]

    def of(self, kind: type) -> list[RaceAction]:
        return [action for _, action in self.actions if isinstance(action, kind)]


def run(spec: RaceSpec, clusters: Clusters, polls: list[int]) -> Raced:
    """Race from 0 on, looking at these times."""
    raced = Raced(spec.race("j", 1, 0), [])
    _observe(raced, clusters, (), 0)
    for now_ms in polls:
        _observe(raced, clusters, clusters.look(now_ms), now_ms)
    return raced


def _observe(raced: Raced, clusters: Clusters, sightings: tuple[Sighting, ...], now_ms: int) -> None:
    while True:
        raced.race, actions = observe(raced.race, sightings, now_ms)
        raced.actions += [(now_ms, action) for action in actions]
        answers = []
        for action in actions:
            if isinstance(action, SubmitTo):
                answers.append(clusters.submit(action.cluster, now_ms))
            elif isinstance(action, CancelAt):
                clusters.cancel(action.cluster, now_ms)
        if not answers:
            return
        sightings = tuple(answers)
