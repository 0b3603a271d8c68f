"""What became of every job, in columns: when it came, started and ended, and what it waited for."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster.model.reasons import Reason
from muster.sim.measures.division import Floats
from muster.sim.summary import SLOWDOWN_THRESHOLD_S
from muster.state.records import Phase

Ints = npt.NDArray[np.int64]

PERCENTS = (50, 90, 95, 99, 100)
_NEVER = -1
REASONS = tuple(Reason)
_PLACE = {reason: place for place, reason in enumerate(REASONS)}
_BEHIND = _PLACE[Reason.BEHIND]

PHASES = ("not submitted", *(phase.value for phase in Phase))
NOT_SUBMITTED, QUEUED, PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLED = range(len(PHASES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Some numbers in short. `percentiles[p]`: the smallest that p percent of them do not exceed."""

    count: int
    mean: float
    percentiles: dict[int, float]

    @classmethod
    def of(cls, values: Floats) -> Distribution | None:
        """Of these values; None if there are none."""
        if not len(values):
            return None
        ordered = np.sort(values)
        ranks = {percent: max(-(-len(ordered) * percent // 100) - 1, 0) for percent in PERCENTS}
        return cls(
            count=len(ordered),
            mean=float(ordered.mean()),
            percentiles={percent: float(ordered[rank]) for percent, rank in ranks.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobTable:
    """One row for each job of the scenario, in its order. Times in ms; -1 where there is none.

    `queue` and `cluster` are places among the names. `width` is what it needs of the main resource, in base units,
    `tasks` how many tasks must start together. `start` is that of the first attempt, `last_start` of the last.
    """

    ids: Sequence[str]
    users: Sequence[str]
    queues: tuple[str, ...]
    clusters: tuple[str, ...]
    queue: Ints
    cluster: Ints
    submit: Ints
    start: Ints
    last_start: Ints
    end: Ints
    attempts: Ints
    tasks: Ints
    width: Ints
    phase: npt.NDArray[np.int8]  # by place among PHASES
    reasons: Ints  # bits, by place among REASONS: all that it was told to wait for

    @property
    def wait_s(self) -> Floats:
        """Seconds from submission to the first start; NaN for who never started."""
        waited: Floats = np.where(self.start >= 0, (self.start - self.submit) / 1000, np.nan)
        return waited

    @property
    def slowdown(self) -> Floats:
        """Bounded slowdown of those who succeeded, NaN for others: time there ÷ time run (at least 10 s)."""
        ran_s = np.maximum((self.end - self.last_start) / 1000, SLOWDOWN_THRESHOLD_S)
        slow = np.maximum((self.end - self.submit) / 1000 / ran_s, 1.0)
        bounded: Floats = np.where(self.phase == SUCCEEDED, slow, np.nan)
        return bounded

    def phases(self) -> dict[str, int]:
        """How many jobs ended up where."""
        counts = np.bincount(self.phase, minlength=len(PHASES)).tolist()
        return {name: count for name, count in zip(PHASES, counts, strict=True) if count}

    def phase_of(self, row: int) -> str:
        """Where a job ended up."""
        return PHASES[int(self.phase[row])]

    def reasons_of(self, row: int) -> list[Reason]:
        """What a job was told to wait for."""
        bits = int(self.reasons[row])
        return [reason for place, reason in enumerate(REASONS) if bits >> place & 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedFor:
    """How many jobs were told a reason, and for how long in all it was the last they were told."""

    reason: Reason
    jobs: int
    waited_ms: int


class JobColumns:
    """The columns while they grow."""

    def __init__(self, submits: Sequence[int]) -> None:
        count = len(submits)
        self.submit = array("q", submits)
        self.start, self.last_start, self.end = (array("q", [_NEVER]) * count for _ in range(3))
        self.attempts, self.cluster = array("i", [0]) * count, array("h", [_NEVER]) * count
        self.phase = array("b", [NOT_SUBMITTED]) * count
        self._told = array("q", [0]) * count
        self._reason, self._since = array("b", [_NEVER]) * count, array("q", [0]) * count
        self._waited_ms = [0] * len(REASONS)

    def wait(self, row: int, now_ms: int, *, is_behind: bool) -> None:
        """A job stands in line, for the first time or again, behind others until it is told more."""
        self.phase[row] = QUEUED
        self._reason[row], self._since[row] = _BEHIND if is_behind else _NEVER, now_ms

    def tell(self, row: int, reason: Reason, now_ms: int) -> None:
        """A waiting job is told why."""
        place = _PLACE[reason]
        self._told[row] |= 1 << place
        self._pass(row, now_ms)
        self._reason[row], self._since[row] = place, now_ms

    def begin(self, row: int, start_ms: int, cluster: int, attempt: int, now_ms: int) -> None:
        """An attempt starts."""
        self._stop_waiting(row, now_ms)
        self.phase[row] = RUNNING
        self.last_start[row], self.cluster[row], self.attempts[row] = start_ms, cluster, attempt
        if self.start[row] < 0:
            self.start[row] = start_ms

    def finish(self, row: int, phase: int, now_ms: int) -> None:
        """The job is over."""
        self._stop_waiting(row, now_ms)
        self.phase[row], self.end[row] = phase, now_ms

    def reasons(self, now_ms: int) -> tuple[WaitedFor, ...]:
        """What jobs waited for until now, longest first."""
        waited_ms = np.array(self._waited_ms, np.int64)
        reason, since = np.frombuffer(self._reason, np.int8), np.frombuffer(self._since, np.int64)
        still = np.flatnonzero(reason >= 0)
        np.add.at(waited_ms, reason[still], now_ms - since[still])
        told = self.told()
        jobs = [int((told >> place & 1).sum()) for place in range(len(REASONS))]
        found = (
            WaitedFor(reason=reason, jobs=jobs[place], waited_ms=int(waited_ms[place]))
            for place, reason in enumerate(REASONS)
        )
        kept = [it for it in found if it.jobs or it.waited_ms]
        return tuple(sorted(kept, key=lambda it: (-it.waited_ms, -it.jobs, it.reason.name)))

    def told(self) -> Ints:
        """What each job was told, as bits."""
        return np.frombuffer(self._told, np.int64).copy()

    def _stop_waiting(self, row: int, now_ms: int) -> None:
        self._pass(row, now_ms)
        self._reason[row] = _NEVER

    def _pass(self, row: int, now_ms: int) -> None:
        reason = self._reason[row]
        if reason >= 0 and now_ms > self._since[row]:
            self._waited_ms[reason] += now_ms - self._since[row]
            self._told[row] |= 1 << reason


def width_classes(widths: Ints, unit: int) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Jobs by how wide they are, in classes that double: `1`, `2`, `3–4`, `5–8` … and who asks for none of it."""
    none = widths <= 0
    if none.any():
        yield "none", none
    low, high = 0, 1
    most = -(-int(widths.max(initial=0)) // unit)
    while low < most:
        inside = (widths > low * unit) & (widths <= high * unit)
        if inside.any():
            yield _class_name(low, high, is_whole=not bool((widths[inside] % unit).any())), inside
        low, high = high, 2 * high


def _class_name(low: int, high: int, *, is_whole: bool) -> str:
    if not is_whole:
        return f"over {low} to {high}" if low else f"up to {high}"
    return str(high) if high - low == 1 else f"{low + 1}–{high}"
