"""How fair a simulation was: what queues held against what they were entitled to (design.md 4.2), whoever decided.

The definitions are in docs/report.md. All amounts are usage by the weights given, so that a policy that counts
otherwise, or not at all, can be held to the same yardstick.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster.sim.measures.division import Floats
from muster.sim.measures.steps import Moments, Places, by_step

WINDOW_MS = 3_600_000
WINDOW_STEPS = 12  # windows begin every five minutes
_ALL = 1e-9  # of a window: rounding of sums must not end a wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A window throughout which a queue had work waiting, and the part of its entitlement that it did not get."""

    queue: str
    from_ms: int
    shortfall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFairness:
    """One queue over the whole time. Shares are parts of the fleet; None where it was never entitled to anything."""

    name: str
    weight: float
    entitled: float
    held: float
    received: float | None  # ∫ held ÷ ∫ entitled
    shortfall: float | None  # ∫ max(0, entitled − held) ÷ ∫ entitled
    waited_ms: int  # for how long it had work waiting
    below_half_ms: int  # the longest time on end that it had work waiting and held less than half of its due
    worst: Spell | None  # None: it never had work waiting for a whole window


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """All queues. `jain` is 1 when all always received the same part of what they were entitled to."""

    shortfall: float  # ∫ Σ max(0, entitled − held) ÷ ∫ Σ entitled
    worst: Spell | None
    jain: float
    window_ms: int
    queues: tuple[QueueFairness, ...]

    @property
    def worst_off(self) -> QueueFairness | None:
        """The queue with the largest shortfall over the whole time."""
        counted = [queue for queue in self.queues if queue.shortfall is not None]
        return max(counted, key=lambda queue: queue.shortfall or 0.0, default=None)

    def queue(self, name: str) -> QueueFairness:
        """One of them."""
        return next(queue for queue in self.queues if queue.name == name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shared:
    """What queues (columns) held and were entitled to, and whether they had work waiting, from moment to moment.

    `queues` are their places among all: those that hold and want nothing all the time are left out.
    """

    moments: Moments
    queues: Places
    held: Floats
    entitled: Floats
    waits: Floats  # 0 or 1
    whole: Floats  # what there was to share

    @property
    def short(self) -> Floats:
        """What was missing."""
        missing: Floats = np.maximum(self.entitled - self.held, 0.0)
        return missing


class FairnessSums:
    """Adds up block by block."""

    def __init__(self, queues: tuple[str, ...], window_ms: int = WINDOW_MS) -> None:
        self.queues = queues
        self.window_ms = window_ms
        self._held, self._entitled, self._short, self._waited = np.zeros((4, len(queues)))
        self._whole = self._jain = self._jain_ms = 0.0
        self._half = _LongestRun(len(queues))
        self._windows = _Windows(len(queues), window_ms // WINDOW_STEPS)

    def add(self, shared: Shared) -> None:
        """Another stretch of time."""
        lasted, short, queues = np.diff(shared.moments).astype(float), shared.short, shared.queues
        self._held[queues] += lasted @ shared.held
        self._entitled[queues] += lasted @ shared.entitled
        self._short[queues] += lasted @ short
        self._waited[queues] += lasted @ shared.waits
        self._whole += float(lasted @ shared.whole)
        self._add_jain(shared, lasted)
        self._half.add((shared.waits > 0) & (2 * shared.held < shared.entitled), shared.moments, queues)
        waited = shared.waits.any(axis=0)
        self._windows.add(short[:, waited], shared.entitled[:, waited], shared.waits[:, waited], shared, queues[waited])

    def result(self, weights: Floats) -> Fairness:
        """How fair it was until now."""
        spells = self._windows.spells(self.queues)
        queues = tuple(self._queue(number, weights[number], spells[number]) for number in range(len(self.queues)))
        kept = [spell for spell in spells if spell is not None]
        entitled = float(self._entitled.sum())
        return Fairness(
            shortfall=float(self._short.sum()) / entitled if entitled else 0.0,
            worst=max(kept, key=lambda spell: spell.shortfall, default=None),
            jain=self._jain / self._jain_ms if self._jain_ms else 1.0,
            window_ms=self.window_ms,
            queues=queues,
        )

    def _queue(self, number: int, weight: float, worst: Spell | None) -> QueueFairness:
        whole, entitled = max(self._whole, 1.0), float(self._entitled[number])
        return QueueFairness(
            name=self.queues[number],
            weight=float(weight),
            entitled=entitled / whole,
            held=float(self._held[number]) / whole,
            received=float(self._held[number]) / entitled if entitled else None,
            shortfall=float(self._short[number]) / entitled if entitled else None,
            waited_ms=round(self._waited[number]),
            below_half_ms=int(self._half.longest[number]),
            worst=worst,
        )

    def _add_jain(self, shared: Shared, lasted: Floats) -> None:
        """Jain's index over the queues that were entitled to something, where that is at least two."""
        due = shared.entitled > 0
        many = due.sum(axis=1)
        received = np.divide(shared.held, shared.entitled, out=np.zeros_like(shared.held), where=due)
        squares = (received**2).sum(axis=1)
        index = np.divide(received.sum(axis=1) ** 2, many * squares, out=np.ones(len(many)), where=squares > 0)
        counts = lasted * (many > 1)
        self._jain += float(counts @ index)
        self._jain_ms += float(counts.sum())


class _LongestRun:
    """For how long on end something held, at most, of each column."""

    def __init__(self, columns: int) -> None:
        self.longest = np.zeros(columns, np.int64)
        self._since = np.zeros(columns, np.int64)

    def add(self, holds: npt.NDArray[np.bool_], moments: Moments, columns: Places) -> None:
        """Whether it holds from moment to moment, in these columns; in the others it does not."""
        ever = holds.any(axis=0)
        holds, columns = holds[:, ever], columns[ever]
        ends = moments[1:, None]
        broken = np.where(holds, np.int64(-1), ends)  # until when it did not hold, as of each row
        since = np.maximum(np.maximum.accumulate(broken, axis=0), self._since[columns])
        longest = np.where(holds, ends - since, 0).max(axis=0, initial=0)
        self.longest[columns] = np.maximum(self.longest[columns], longest)
        self._since[:] = moments[-1]
        self._since[columns] = since[-1]


class _Windows:
    """The worst window of each queue, of those that begin at a whole step and in which it always had work waiting."""

    def __init__(self, queues: int, step_ms: int) -> None:
        self._step_ms = step_ms
        self._queues = queues
        self._steps = np.zeros((0, 3 * queues))  # the last ones, the very last still growing
        self._first = 0  # the number of the first of them
        self._worst = np.full(queues, -1.0)
        self._from = np.zeros(queues, np.int64)

    def add(self, short: Floats, entitled: Floats, waits: Floats, shared: Shared, columns: Places) -> None:
        """What was missing and due in these columns; the other queues had no work waiting."""
        if shared.moments[-1] <= shared.moments[0]:
            return
        places = np.concatenate([columns, columns + self._queues, columns + 2 * self._queues])
        for first, sums in by_step(np.hstack([short, entitled, waits]), shared.moments, self._step_ms):
            steps = np.zeros((len(sums), 3 * self._queues))
            steps[:, places] = sums
            if len(self._steps) and first == self._first + len(self._steps) - 1:
                self._steps[-1] += steps[0]
                steps = steps[1:]
            self._steps = np.concatenate([self._steps, steps])
            self._look()

    def spells(self, queues: tuple[str, ...]) -> list[Spell | None]:
        """The worst window of each queue."""
        return [None if self._worst[number] < 0 else self._spell(queue, number) for number, queue in enumerate(queues)]

    def _spell(self, queue: str, number: int) -> Spell:
        return Spell(queue=queue, from_ms=int(self._from[number]), shortfall=float(self._worst[number]))

    def _look(self) -> None:
        """Look at every window that is whole, and keep the steps of those that are not yet.

        The last step is whole only if time has come to its end, which `waits` tells: it is a part of the time.
        """
        windows = len(self._steps) - WINDOW_STEPS + 1
        if windows <= 0:
            return
        so_far = np.zeros((len(self._steps) + 1, self._steps.shape[1]))
        np.cumsum(self._steps, axis=0, out=so_far[1:])
        sums = so_far[WINDOW_STEPS:] - so_far[:windows]
        short, entitled, waited = (sums[:, place * self._queues : (place + 1) * self._queues] for place in range(3))
        whole_ms = WINDOW_STEPS * self._step_ms
        counts = (waited >= whole_ms * (1 - _ALL)) & (entitled > 0)
        missed = np.divide(short, entitled, out=np.full_like(short, -1.0), where=counts)
        missed = np.minimum(missed, 1.0)  # sums of parts may be a hair above the whole
        best = missed.argmax(axis=0)
        found = missed[best, np.arange(self._queues)]
        better = found > self._worst
        self._worst = np.where(better, found, self._worst)
        self._from = np.where(better, (self._first + best) * self._step_ms, self._from)
        kept = WINDOW_STEPS  # the last window may still grow
        self._first += len(self._steps) - kept
        self._steps = self._steps[-kept:]
