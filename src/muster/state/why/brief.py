"""The answer to `why` where there are too many jobs to try anything out: what was decided, and cheap numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from muster.model.jobs import Job
from muster.model.plan import Waiting
from muster.model.reasons import Reason
from muster.state.why.standing import Share
from muster.state.why.table import Wait
from muster.state.why.words import again, asks, clock, duration, holds, sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """Why a job waits. `first`: why its queue's head does, if that is why; `alike`: what was said of its kind."""

    now_ms: int
    job: Job
    waiting: Waiting
    head: str
    first: Waiting | None
    alike: Wait | None
    share: Share
    in_queue: int

    def paragraph(self) -> str:
        """In words."""
        return " ".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        job, waiting = self.job, self.waiting
        waited = duration(self.now_ms - job.submit_ms)
        yield f"{job.id} ({asks(job.profile)}, queue {job.queue}) has waited for {waited} at {clock(self.now_ms)}."
        yield f"{waiting.reason.name}: {sentence(waiting.reason, waiting.facts)}."
        if self.first is not None:
            first = sentence(self.first.reason, self.first.facts)
            yield f"What holds {self.head} is {self.first.reason.name}: {first}."
        alike = self.alike
        if alike is not None and alike.job not in (job.id, self.head):
            many = f"{alike.jobs} of its queue that ask for the same"
            yield f"What holds {many} is {alike.reason.name}: {alike.explain()}."
        if waiting.reason not in (Reason.HELD, Reason.DEPENDENCY):
            yield f"Its queue has {self.in_queue} jobs that are not over."
            yield holds(self.share)
            if waiting.estimate_ms is not None:
                yield f"It is expected to start at {clock(waiting.estimate_ms)}."
            else:
                yield "There are too many jobs to foretell when it starts."
        yield again(waiting.reason)
