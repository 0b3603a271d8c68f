"""Goodput: of the capacity there was, the part that went to work which was not thrown away.

It is utilisation without the time of attempts that came to nothing. What an attempt held is good if the attempt
succeeded, and as long as it runs. It is thrown away if the attempt was preempted, lost or moved, or failed, because the
job begins again at nothing; and if the job failed for good or was cancelled, because nobody has a result. Tasks that
an elastic job gave up are not thrown away: what they did counts as long as the attempt goes on. Of a job that keeps its
work (`kept`) nothing is thrown away unless the job fails for good or is cancelled; then all its attempts are.

How an attempt ends is known only then, so what it holds is noted until its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from muster.model import events as ev
from muster.model.resources import Resources
from muster.sim.scenario.scenario import Scenario

Places = Mapping[str, Resources]
"""What an attempt holds, by the name of the place where it does: a cluster, or a pool."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What an attempt held from one moment to another."""

    from_ms: int
    until_ms: int
    held: Places

    def sums(self) -> Iterator[tuple[str, str, int]]:
        """Place, resource, and amount × milliseconds."""
        for place, amounts in self.held.items():
            for name, amount in amounts.items():
                yield place, name, amount * (self.until_ms - self.from_ms)


class Attempts:
    """What attempts held so far that may still come to nothing. `keeping`: jobs that keep their work."""

    def __init__(self, keeping: Collection[str] = ()) -> None:
        self._keeping = keeping
        self._steps: dict[str, list[tuple[int, Places]]] = {}  # by job: since when it has held what

    def hold(self, job: str, held: Places, now_ms: int) -> None:
        """A running job holds this from now on."""
        self._steps.setdefault(job, []).append((now_ms, held))

    def note(self, event: ev.Event, now_ms: int) -> Sequence[Stretch]:
        """What was thrown away by what happened."""
        match event:
            case ev.JobSucceeded(job=job):
                self._steps.pop(job, None)
            case ev.JobRequeued(job=job) if job in self._keeping:
                if job in self._steps:
                    self.hold(job, {}, now_ms)
            case ev.JobRequeued(job=job) | ev.JobFailed(job=job) | ev.JobCancelled(job=job):
                return self._throw_away(job, now_ms)
            case _:
                pass
        return ()

    def _throw_away(self, job: str, now_ms: int) -> list[Stretch]:
        steps = self._steps.pop(job, None)
        if steps is None:  # it did not run
            return []
        ends_ms = [*(since_ms for since_ms, _ in steps[1:]), now_ms]
        return [
            Stretch(since_ms, end_ms, held)
            for (since_ms, held), end_ms in zip(steps, ends_ms, strict=True)
            if end_ms > since_ms and held
        ]


def keeping(scenario: Scenario) -> frozenset[str]:
    """The jobs of a scenario that keep their work when an attempt ends."""
    return frozenset(entry.job.id for entry in scenario.jobs if entry.work is not None and entry.work.is_kept)
