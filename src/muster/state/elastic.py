"""The elastic jobs that run, and where a job enters their order (paddle-trainingjob.md; design.md 5.6).

A job that starts takes the larger of its own virtual time and the smallest among elastic jobs that run in its pool: of
those that it shares with, if there are any, which are jobs of its queue that could be wider. Whoever is at its max, or
lives on what another queue is entitled to, may be served less for ever: a newcomer beside it would have all that others
were given before to make up for.

Its own virtual time a job keeps over evictions. Those of two pools have nothing to do with each other: a job that comes
from another pool brings along by how much it was ahead of the least served there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from muster.model.jobs import Job, Running
from muster.model.width import Kept, Serving

PoolOf = Callable[[Running], str]
Leasts = dict[tuple[str, str | None], int]
"""The smallest virtual time by pool and queue, of jobs that could be wider; without a queue: of all in the pool."""


class Elastic:
    """Elastic jobs that run, and what those that wait again were given before."""

    def __init__(self) -> None:
        self._runs: dict[str, Running] = {}
        self._kept: dict[str, Kept] = {}
        self._floors: dict[str, int] = {}  # by pool, the smallest virtual time when the last job left
        self._least: tuple[int, Leasts] | None = None  # as of a moment; whoever enters then changes nothing

    def fork(self) -> Elastic:
        """A copy that can go its own way."""
        other = Elastic()
        other._runs, other._least = dict(self._runs), self._least
        other._kept, other._floors = dict(self._kept), dict(self._floors)
        return other

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def kept(self) -> Mapping[str, Kept]:
        """By job that waits again, the virtual time it came to."""
        return self._kept

    @property
    def floors(self) -> Mapping[str, int]:
        """By pool in which an elastic job has run, where one enters if none runs."""
        return self._floors

    def recall(self, kept: Iterable[tuple[str, Kept]], floors: Iterable[tuple[str, int]]) -> None:
        """Found written down."""
        self._kept.update(kept)
        self._floors.update(floors)
        self._least = None

    def enter(self, job: Job, pool: str, usage: int, now_ms: int, pool_of: PoolOf) -> Serving:
        """What an elastic job, which starts now in that pool and uses so much, was given so far."""
        leasts, own = self._least_virtuals(now_ms, pool_of), self._kept.pop(job.id, None)
        there = leasts.get((pool, None), self._floors.get(pool, 0))
        virtual = leasts.get((pool, job.queue), there)
        if own is not None:
            left = there if own.pool == pool else leasts.get((own.pool, None), self._floors.get(own.pool, 0))
            virtual = max(virtual, own.virtual - left + there)
        return Serving(entered=virtual, since_ms=now_ms, usage=usage)

    def note(self, run: Running) -> None:
        """An attempt started, or goes on with another width or level."""
        if run.serving is not None:
            is_new = run.job.id not in self._runs
            self._runs[run.job.id] = run
            self._least = self._least if is_new else None

    def forget(self, run: Running, now_ms: int, pool_of: PoolOf, *, waits_again: bool) -> None:
        """An attempt is over."""
        if run.serving is None or self._runs.pop(run.job.id, None) is None:
            return
        pool, virtual, self._least = pool_of(run), run.serving.virtual_at(now_ms, run.job.level), None
        if waits_again:
            self._kept[run.job.id] = Kept(pool=pool, virtual=virtual)
        if not any(pool_of(other) == pool for other in self._runs.values()):
            self._floors[pool] = max(virtual, self._floors.get(pool, 0))

    def over(self, job: str) -> None:
        """The job will not start again."""
        self._kept.pop(job, None)

    def _least_virtuals(self, now_ms: int, pool_of: PoolOf) -> Leasts:
        if self._least is None or self._least[0] != now_ms:
            found: Leasts = {}
            for run in self._runs.values():
                if run.serving is None:
                    continue
                pool, virtual = pool_of(run), run.serving.virtual_at(now_ms, run.job.level)
                keys = [(pool, None), (pool, run.job.queue)] if len(run.tasks) < _most(run) else [(pool, None)]
                for key in keys:
                    found[key] = min(found.get(key, virtual), virtual)
            self._least = (now_ms, found)
        return self._least[1]


def _most(run: Running) -> int:
    """The most tasks it has a use for."""
    return sum(group.max for group in run.job.profile.groups)
