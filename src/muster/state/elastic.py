"""The elastic jobs that run, and where a job enters their order (paddle-trainingjob.md; design.md 5.6).

A job that starts takes the larger of its own virtual time and the smallest among elastic jobs that run in its pool.
Its own it keeps over evictions. Virtual times of two pools have nothing to do with each other: a job that comes from
another pool brings along by how much it was ahead of the least served there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from muster.model.jobs import Running
from muster.model.width import Kept, Serving

PoolOf = Callable[[Running], str]


class Elastic:
    """Elastic jobs that run, and what those that wait again were given before."""

    def __init__(self) -> None:
        self._runs: dict[str, Running] = {}
        self._kept: dict[str, Kept] = {}
        self._floors: dict[str, int] = {}  # by pool, the smallest virtual time when the last job left
        self._least: tuple[int, dict[str, int]] | None = None  # as of a moment; whoever enters then changes nothing

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

    def enter(self, job: str, pool: str, usage: int, now_ms: int, pool_of: PoolOf) -> Serving:
        """What an elastic job, which starts now in that pool and uses so much, was given so far."""
        least, own = self._least_virtual(pool, now_ms, pool_of), self._kept.pop(job, None)
        if own is None:
            virtual = least
        elif own.pool == pool:
            virtual = max(own.virtual, least)
        else:
            virtual = least + max(own.virtual - self._least_virtual(own.pool, now_ms, pool_of), 0)
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

    def _least_virtual(self, pool: str, now_ms: int, pool_of: PoolOf) -> int:
        if self._least is None or self._least[0] != now_ms:
            found: dict[str, int] = {}
            for run in self._runs.values():
                if run.serving is not None:
                    where, virtual = pool_of(run), run.serving.virtual_at(now_ms, run.job.level)
                    found[where] = min(found.get(where, virtual), virtual)
            self._least = (now_ms, found)
        return self._least[1].get(pool, self._floors.get(pool, 0))
