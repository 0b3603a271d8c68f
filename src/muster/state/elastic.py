"""The elastic jobs that run: where a newcomer enters their order (paddle-trainingjob.md; design.md 5.6)."""

from __future__ import annotations

from muster.model.jobs import Running
from muster.model.width import Serving


class Elastic:
    """Running elastic jobs. Who enters starts where the least served is now."""

    def __init__(self) -> None:
        self._runs: dict[str, Running] = {}
        self._least: tuple[int, int] | None = None  # as of a moment; whoever enters then changes nothing

    def fork(self) -> Elastic:
        """A copy that can go its own way."""
        other = Elastic()
        other._runs, other._least = dict(self._runs), self._least
        return other

    def __len__(self) -> int:
        return len(self._runs)

    def enter(self, usage: int, now_ms: int) -> Serving:
        """What an elastic job, which starts now and uses so much, was given so far."""
        return Serving(entered=self._least_virtual(now_ms), since_ms=now_ms, usage=usage)

    def note(self, run: Running) -> None:
        """An attempt started, or goes on with another width or level."""
        if run.serving is not None:
            is_new = run.job.id not in self._runs
            self._runs[run.job.id] = run
            self._least = self._least if is_new else None

    def forget(self, run: Running) -> None:
        """An attempt is over."""
        if self._runs.pop(run.job.id, None) is not None:
            self._least = None

    def _least_virtual(self, now_ms: int) -> int:
        if self._least is None or self._least[0] != now_ms:
            virtual = (it.serving.virtual_at(now_ms, it.job.level) for it in self._runs.values() if it.serving)
            self._least = (now_ms, min(virtual, default=0))
        return self._least[1]
