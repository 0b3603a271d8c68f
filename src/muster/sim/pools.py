"""What a simulation has to say of pools: how busy they were, and where they stand at the end (scenario.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.model import events as ev
from muster.model.fleet import Fleet
from muster.model.pools import called
from muster.model.resources import NOTHING, Resources, total
from muster.sim.goodput import Attempts
from muster.sim.integral import NO_USE, Integral, Use
from muster.state.pools import PoolTable, held_by_pool, told
from muster.state.state import State

Pools = dict[str, Any]


@dataclass(slots=True)
class _Life:
    """What was on the nodes of a pool, what of that was thrown away, and what there was, as long as it lived."""

    held: Integral = field(default_factory=Integral)
    there: Integral = field(default_factory=Integral)
    thrown: Integral = field(default_factory=Integral)
    lived_ms: int = 0

    def use(self) -> Use:
        """All of it."""
        return Use(self.there.sums, self.held.sums, self.thrown.sums, self.lived_ms)


class PoolUse:
    """How busy each pool is, kept up to date job by job. Worlds without pools have nothing to tell.

    `keeping`: jobs that keep their work when an attempt ends.
    """

    def __init__(self, keeping: Collection[str] = ()) -> None:
        self._fleet: Fleet | None = None
        self._there: dict[str, Resources] = {}
        self._held: dict[str, Resources] = {}
        self._of_job: dict[str, dict[str, Resources]] = {}
        self._attempts = Attempts(keeping)
        self._lives: dict[str, _Life] = {}

    def look(self, state: State, events: Sequence[ev.Event], jobs: Iterable[str], now_ms: int) -> None:
        """All this happened, to these jobs and perhaps to nodes."""
        for event in events if self._lives else ():
            for stretch in self._attempts.note(event, now_ms):
                for pool, name, amount in stretch.sums():
                    self._lives[pool].thrown.add([(name, amount)])
        if state.fleet is not self._fleet:  # whose nodes they are may have changed under every job
            self._fleet = state.fleet
            parts = state.fleet.parts if state.fleet.pools else {}
            self._there = {name: total(node.empty().free for node in it.nodes.values()) for name, it in parts.items()}
            self._held = dict.fromkeys(parts, NOTHING)
            self._of_job = {}
            jobs = state.running
        if not self._there and not self._lives:
            return
        for job in jobs:
            for pool, held in self._of_job.pop(job, {}).items():
                self._held[pool] = self._held[pool] - held
            if (run := state.running.get(job)) is None:
                continue
            self._of_job[job] = mine = held_by_pool(state.fleet, run) if self._there else {}
            self._attempts.hold(job, mine, now_ms)
            for pool, held in mine.items():
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
        lives = {called(name): life.use() for name, life in sorted(self._lives.items())}
        return {name: {**lives.get(name, NO_USE).told(), **now.get(name, {})} for name in {**now, **lives}}
