"""What people are shown of the queues: as the last turn left them, so that nobody waits for the one under way.

It is worked out anew after a turn only if somebody looked at it since the turn before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.engine.shares import shares
from muster.model.queues import Queue
from muster.model.resources import Resources
from muster.server.world import World


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
        self._is_wanted = False

    def queues(self) -> Mapping[str, Shown]:
        """Every queue."""
        self._is_wanted = True
        shown = self._shown
        if shown is None:
            with self._world.lock:
                shown = self._shown = _seen(self._world)
        return shown

    def turn_is_over(self) -> None:
        """The world has changed. Called with its lock held."""
        self._shown = _seen(self._world) if self._is_wanted else None
        self._is_wanted = False


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
