"""What a simulation has to say of pools: how busy they were, and where they stand at the end (scenario.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from muster.model.fleet import Fleet
from muster.model.pools import called
from muster.model.resources import NOTHING, Resources, total
from muster.sim.integral import Integral, utilisation
from muster.state.pools import PoolTable, held_by_pool, told
from muster.state.state import State

Pools = dict[str, Any]


@dataclass(slots=True)
class _Life:
    """What was on the nodes of a pool, and what there was, as long as it lived."""

    held: Integral = field(default_factory=Integral)
    there: Integral = field(default_factory=Integral)
    lived_ms: int = 0


class PoolUse:
    """How busy each pool is, kept up to date job by job. Worlds without pools have nothing to tell."""

    def __init__(self) -> None:
        self._fleet: Fleet | None = None
        self._there: dict[str, Resources] = {}
        self._held: dict[str, Resources] = {}
        self._of_job: dict[str, dict[str, Resources]] = {}
        self._lives: dict[str, _Life] = {}

    def look(self, state: State, jobs: Iterable[str]) -> None:
        """Something happened to these jobs, and perhaps to nodes."""
        if state.fleet is not self._fleet:  # whose nodes they are may have changed under every job
            self._fleet = state.fleet
            parts = state.fleet.parts if state.fleet.pools else {}
            self._there = {name: total(node.empty().free for node in it.nodes.values()) for name, it in parts.items()}
            self._held = dict.fromkeys(parts, NOTHING)
            self._of_job = {}
            jobs = state.running
        if not self._there:
            return
        for job in jobs:
            for pool, held in self._of_job.pop(job, {}).items():
                self._held[pool] = self._held[pool] - held
            if (run := state.running.get(job)) is not None:
                self._of_job[job] = held_by_pool(state.fleet, run)
            for pool, held in self._of_job.get(job, {}).items():
                self._held[pool] = self._held[pool] + held

    def pass_time(self, dt_ms: int) -> None:
        """All stayed as it is for so long."""
        for name, there in self._there.items() if dt_ms else ():
            life = self._lives.setdefault(name, _Life())
            life.there.add(there.items(), dt_ms)
            life.held.add(self._held[name].items(), dt_ms)
            life.lived_ms += dt_ms

    def told(self, table: PoolTable) -> Pools:
        """Of every pool there ever was, how busy it was; of those there are, where they stand."""
        now = told(table) if self._there else {}
        lives = {called(name): life for name, life in sorted(self._lives.items())}
        mean = {name: utilisation(life.held.sums, life.there.sums, life.lived_ms) for name, life in lives.items()}
        return {name: {"utilisation": mean.get(name, {}), **now.get(name, {})} for name in {**now, **mean}}
