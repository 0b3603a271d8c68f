"""Moves between clusters, carried out on the books of a turn; who moves: moving.py.

What a queue holds stays the same, so only rooms and stays change. Once in a turn, before anyone is started.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice

from muster.engine.finder import Finder
from muster.engine.horizon import Horizon
from muster.engine.minutes import Minutes
from muster.engine.moving import MOST_MOVES, exchanges, is_movable, move_to_room
from muster.engine.placement import Placer, Tasks
from muster.model.jobs import Running
from muster.model.plan import Move, Started
from muster.model.policy import Preemption
from muster.model.snapshot import Snapshot


class Mover:
    """Moves the jobs of a turn."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._policy = snapshot.policy
        self._fleet = snapshot.fleet
        self._now_ms = snapshot.now_ms
        self._is_over = snapshot.policy.preemption is not Preemption.ON or bool(snapshot.whole.pools)

    def move(self, finder: Finder, minutes: Minutes) -> None:
        """Whoever is better off elsewhere goes there, or changes places with another."""
        points = self._policy.move_points
        if points is None or self._is_over:
            return
        self._is_over = True
        horizon = finder.horizon
        runs = [run for run in _present(horizon) if is_movable(run, self._fleet, self._now_ms)]
        stay = move_to_room(runs, self._fleet, points, partial(self._finds_room, finder, minutes))
        for one, other in islice(exchanges(stay, self._fleet, points), MOST_MOVES):
            for run in (one, other):
                horizon.evict(run, run.tasks)
            for run, place in ((one, other), (other, one)):
                horizon.now.take_all(run.job.profile, place.tasks)
                self._move(finder, minutes, run, place.cluster, place.tasks)

    def _finds_room(self, finder: Finder, minutes: Minutes, run: Running, cluster: str) -> bool:
        profile = run.job.profile
        tasks = Placer(finder.horizon.span_from_now(run.job)).place(profile, cluster, profile.least_widths)
        if tasks is None:
            return False
        finder.horizon.evict(run, run.tasks)
        self._move(finder, minutes, run, cluster, tasks)
        return True

    def _move(self, finder: Finder, minutes: Minutes, run: Running, cluster: str, tasks: Tasks) -> None:
        """The rooms are written already."""
        new = replace(
            run,
            attempt=run.attempt + 1,
            cluster=cluster,
            tasks=tasks,
            started_ms=self._now_ms,
            protected_until_ms=self._now_ms + self._policy.protected_ms,
            overtook=(),
        )
        finder.horizon.stays.start(new)
        finder.evicted(2 * len(tasks))  # each leaves one node for another
        minutes.act(Move(run.job.id, new.attempt, cluster, tasks, run.charge))
        minutes.moved(run.job.id, Started(cluster=cluster, tasks=tasks))

    def wake_ms(self, horizon: Horizon) -> int | None:
        """The first later moment from which someone may be moved that may not be now."""
        if self._policy.move_points is None:
            return None
        free_ms = [
            max(run.started_ms + run.job.lifetime_ms, run.started_ms + 1, run.safe_until_ms)
            for run in _present(horizon)
            if run.job.lifetime_ms is not None
        ]
        return min((moment_ms for moment_ms in free_ms if moment_ms > self._now_ms), default=None)


def _present(horizon: Horizon) -> list[Running]:
    stays = horizon.stays
    return [stays.run(row) for row in stays.residents.tolist() if row not in stays.gone]
