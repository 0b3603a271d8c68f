"""What people are shown of the queues: as the last turn left them, so that nobody waits for the one under way.

It is worked out anew after a turn only if somebody looked at it a moment ago, and if turns do not spend much of their
time on that; else whoever looks next does it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

from muster.engine.shares import shares
from muster.model.queues import Queue
from muster.model.resources import Resources
from muster.server.world import World

FRESH_S = 2.0  # for so long after someone looked, others are expected to
RARELY = 20  # of the time between turns, one part in so many may go to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A queue, its jobs that are not over by state, and what part of the fleet they hold and it is entitled to."""

    queue: Queue
    jobs: Mapping[str, int] = field(default_factory=dict)
    holds: Resources
    share: float
    entitled: float


class Board:
    """All queues by name, as of the last turn."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._shown: Mapping[str, Shown] | None = None
        self._wanted_s = self._made_s = self._took_s = 0.0  # when it was looked at, and made; how long that took

    def queues(self) -> Mapping[str, Shown]:
        """Every queue."""
        self._wanted_s = monotonic()
        shown = self._shown
        if shown is None:
            with self._world.lock:
                shown = self._make()
        return shown

    def turn_is_over(self) -> None:
        """The world has changed. Called with its lock held."""
        self._shown = None
        now_s = monotonic()
        if now_s < self._wanted_s + FRESH_S and now_s > self._made_s + RARELY * self._took_s:
            self._make()

    def _make(self) -> Mapping[str, Shown]:
        began_s = monotonic()
        self._shown = shown = _seen(self._world)
        self._made_s = monotonic()
        self._took_s = self._made_s - began_s
        return shown


def _seen(world: World) -> dict[str, Shown]:
    state = world.state
    snapshot = state.freeze(state.now_ms)
    divided = shares(snapshot)
    whole = max(divided.usage, 1)
    running = Counter(run.job.queue for run in state.running.values())
    pending = Counter(it.job.queue for it in state.pending.values())
    found: dict[str, Shown] = {}
    for it in snapshot.queues:
        name = it.queue.name
        jobs = {
            "queued": state.jobs_in(name) - running[name] - pending[name],
            "pending": pending[name],
            "running": running[name],
        }
        found[name] = Shown(
            queue=it.queue,
            jobs={phase: many for phase, many in jobs.items() if many},
            holds=state.started_by(name),
            share=it.account.usage / whole,
            entitled=divided.entitled[name] / whole,
        )
    return found
