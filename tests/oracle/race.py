"""Who wins a race, stated once more: minute by minute, by looking at the clusters' scripts directly.

No sightings, no polls, no memory of what was heard. Everything happens at whole minutes and is seen at once.
"""

from __future__ import annotations

from muster.model.race import Grace, RaceSpec, Shown

Script = tuple[tuple[int, Shown], ...]


class RaceOracle:
    """A race told from its scripts; times are minutes. `winner` and `result` are the answer."""

    def __init__(self, spec: RaceSpec, scripts: dict[str, Script], minute_ms: int) -> None:
        self.priority = {rival.cluster: rival.priority for rival in spec.rivals}
        self.guard, self.scale = spec.terms.guard_ms // minute_ms, spec.terms.time_scale_ms // minute_ms
        self.has_grace = spec.terms.grace is Grace.RUNNING
        self.scripts = {name: [(at // minute_ms, state) for at, state in script] for name, script in scripts.items()}
        self.out: set[str] = set()
        self.leader: str | None = None
        self.deadline: dict[str, int] = {}
        self.winner: str | None = None
        self.result: str | None = None

    def run(self, minutes: int) -> None:
        for now in range(minutes + 1):
            self._minute(now)

    def _state(self, name: str, now: int) -> tuple[Shown, int]:
        """What the cluster shows, and since when."""
        shown = (Shown.WAITING, 0)
        for at, state in self.scripts[name]:
            if at <= now:
                shown = (state, at)
        return shown

    def _has_failed(self, name: str, now: int) -> bool:
        return self._state(name, now)[0] in (Shown.FAILED, Shown.STOPPED)

    def _alive(self, now: int) -> list[str]:
        return [name for name in sorted(self.priority) if name not in self.out and not self._has_failed(name, now)]

    def _is_scheduled(self, name: str, now: int) -> bool:
        state, since = self._state(name, now)
        return state is Shown.SUCCEEDED or (state is Shown.RUNNING and now - since >= self.guard)

    def _entry(self, name: str, now: int) -> int:
        """When what runs, or has just succeeded, had entered RUNNING."""
        state, since = self._state(name, now)
        if state is Shown.SUCCEEDED:
            before = [(at, shown) for at, shown in self.scripts[name] if at < since]
            return before[-1][0] if before and before[-1][1] is Shown.RUNNING else since
        return since

    def _minute(self, now: int) -> None:
        if self.winner is None and self.result is None:
            self._decide(now)
        if self.winner is not None and self.result is None:
            state, _ = self._state(self.winner, now)
            if state in (Shown.SUCCEEDED, Shown.FAILED, Shown.STOPPED):
                self.result = "succeeded" if state is Shown.SUCCEEDED else "failed"

    def _decide(self, now: int) -> None:
        if self.leader is not None and self._has_failed(self.leader, now):
            self.leader, self.deadline = None, {}
        # At one moment: who is scheduled, the earliest entry first, then priority, then name; then deadlines.
        ready = [name for name in self._alive(now) if name != self.leader and self._is_scheduled(name, now)]
        for name in sorted(ready, key=lambda name: (self._entry(name, now), -self.priority[name], name)):
            if name not in self.out:
                self._lead(name, now)
        if self.leader is not None and self._state(self.leader, now)[0] is Shown.SUCCEEDED:
            self.out |= set(self.priority) - {self.leader}
        for name in self._alive(now):
            if name != self.leader and self._is_too_late(name, now):
                self.out.add(name)
        others = [name for name in self._alive(now) if name != self.leader]
        if not others:
            self.winner = self.leader
            self.result = None if self.leader is not None else "failed"

    def _lead(self, name: str, now: int) -> None:
        self.leader = name
        for other in self._alive(now):
            ahead = self.priority[other] - self.priority[name]
            if other != name and ahead <= 0:
                self.out.add(other)
            elif other != name:
                self.deadline[other] = min(self.deadline.get(other, 10**9), now + ahead * self.scale)

    def _is_too_late(self, name: str, now: int) -> bool:
        deadline = self.deadline.get(name)
        if deadline is None or now < deadline:
            return False
        state, since = self._state(name, now)
        return not (self.has_grace and state is Shown.RUNNING and since < deadline)
