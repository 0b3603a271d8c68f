"""When widths may change: time enters this package only by marks, `elasticEvery` apart (docs/adr/0021-width.md).

Between two marks time alone changes nothing, so that turns in between can be skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.model.jobs import Running


@dataclass(frozen=True, slots=True)
class Clock:
    """The marks as seen from now."""

    now_ms: int
    every_ms: int

    @property
    def mark_ms(self) -> int:
        """The last mark."""
        return self.now_ms - self.now_ms % self.every_ms

    def first_mark(self, moment_ms: int) -> int:
        """The first mark not before that moment."""
        return -(-moment_ms // self.every_ms) * self.every_ms

    def thaws_ms(self, run: Running) -> int:
        """The mark from which the width of the job may change.

        A start is no resize, but nobody is moved twice at one moment.
        """
        resized_ms = None if run.serving is None else run.serving.resized_ms
        if resized_ms is None:
            return self.first_mark(run.started_ms + 1)
        return self.first_mark(resized_ms + max(run.job.freezing_ms, 1))

    def thaws_again_ms(self, run: Running) -> int:
        """The mark from which it may change again if it changes now."""
        return self.first_mark(self.now_ms + max(run.job.freezing_ms, 1))
