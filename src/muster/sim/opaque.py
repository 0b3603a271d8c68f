"""Opaque clusters, simulated: each shows what the scenario says, until it is told to stop a copy."""

from __future__ import annotations

from collections.abc import Mapping

from muster.documents.jobs.simulation import RaceScript, Step
from muster.model.race import CancelAt, Race, Rival, Shown, Sighting, SubmitTo
from muster.state.state import State

_CONFLICT = "409"  # the name is taken

Copy = tuple[str, int, str]
"""A job, the number of its attempt, and a cluster."""


class SimulatedClusters:
    """What the clusters of every race in a scenario show. A silent one does not answer, and does not hear."""

    def __init__(self, state: State, scripts: Mapping[str, RaceScript]) -> None:
        self._state = state
        self._scripts = scripts
        self._arrived: dict[Copy, int] = {}
        self._stopped: dict[Copy, int] = {}

    def submit(self, action: SubmitTo, now_ms: int) -> Sighting:
        """Take a copy, or refuse it as the script says."""
        cluster, copy = action.cluster, (action.job, action.attempt, action.cluster)
        if self._is_silent(cluster):
            return Sighting(cluster, Shown.UNREACHABLE)
        refusal = self._scripts[action.job].rivals[cluster].refusal
        if refusal:
            return Sighting(cluster, Shown.EXISTS if refusal == _CONFLICT else Shown.REJECTED, reason=refusal)
        is_there = copy in self._arrived
        self._arrived.setdefault(copy, now_ms)
        return Sighting(cluster, Shown.EXISTS if is_there else Shown.ACCEPTED)

    def cancel(self, action: CancelAt, now_ms: int) -> None:
        """Stop a copy."""
        if not self._is_silent(action.cluster):
            self._stopped.setdefault((action.job, action.attempt, action.cluster), now_ms)

    def look(self, race: Race, now_ms: int) -> tuple[Sighting, ...]:
        """What each cluster shows of the race now."""
        return tuple(self._sighting(race, rival, now_ms) for rival in race.rivals)

    def changes_ms(self, race: Race, now_ms: int) -> int | None:
        """When a cluster will show something else than was heard last, by itself."""
        if self.look(race, now_ms) != race.heard:  # it answered a submission, or heard a cancel
            return now_ms
        moments = [
            race.began_ms + at_ms
            for rival in race.rivals
            if rival.ended_ms is None and (race.job, race.attempt, rival.cluster) not in self._stopped
            for at_ms, _ in self._steps(race, rival)
        ]
        return min((moment for moment in moments if moment > now_ms), default=None)

    def _sighting(self, race: Race, rival: Rival, now_ms: int) -> Sighting:
        cluster, copy = rival.cluster, (race.job, race.attempt, rival.cluster)
        if self._is_silent(cluster):
            return Sighting(cluster, Shown.UNREACHABLE)
        if copy not in self._arrived:
            return Sighting(cluster, Shown.GONE)
        stopped_ms = self._stopped.get(copy)
        shown, since_ms, entered_ms = self._state_at(race, rival, now_ms if stopped_ms is None else stopped_ms)
        if stopped_ms is not None and not shown.is_end:
            shown, since_ms = Shown.STOPPED, stopped_ms
        return Sighting(cluster, shown, since_ms, entered_ms if shown.is_end else None)

    def _state_at(self, race: Race, rival: Rival, at_ms: int) -> tuple[Shown, int, int | None]:
        """What the script says of a moment, since when, and when the copy had entered RUNNING before."""
        arrived_ms = self._arrived[race.job, race.attempt, rival.cluster]
        shown, since_ms, entered_ms = Shown.WAITING, arrived_ms, None
        for offset_ms, state in self._steps(race, rival):
            if race.began_ms + offset_ms > at_ms:
                break
            shown, since_ms = state, max(race.began_ms + offset_ms, arrived_ms)  # nothing runs before it is there
            if not state.is_end:
                entered_ms = since_ms if state is Shown.RUNNING else None
        return shown, since_ms, entered_ms

    def _steps(self, race: Race, rival: Rival) -> tuple[Step, ...]:
        return self._scripts[race.job].rivals[rival.cluster].steps

    def _is_silent(self, cluster: str) -> bool:
        return self._state.races.clusters[cluster].silent
