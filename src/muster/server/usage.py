"""What queues or users had over time: core-, GiB- and GPU-hours of attempts, what of them was good, and what was not.

A lease says how wide its attempt was from when on (`widths`), so a report is one pass over leases. An attempt counts
from the moment it was given its nodes until its agent says that it is over, for the part between two moments. It is
good if it succeeded, and as long as it runs; else what it was given was thrown away, and is told by why (goodput, as in
muster.sim.goodput).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from muster.model.resources import CPU, GIB, GPU, MEMORY, MILLI, Resources
from muster.store.rows import ENDED, LeaseRow

By = Literal["queue", "user"]
Wasted = Literal["preempted", "lost", "failed", "moved", "cancelled"]

WASTED: tuple[Wasted, ...] = get_args(Wasted)
MOST_WIDTHS = 64  # of one attempt

COUNTED = (CPU, MEMORY, GPU)
_HOUR_MS = 3_600_000
_DIGITS = 6  # of an hour: four milliseconds

Width = Sequence[Any]
"""From when on, and then cores (milli), memory (bytes) and GPUs (milli)."""


@dataclass(slots=True)
class Sum:
    """What attempts held: base units x milliseconds of cores, memory and GPUs."""

    attempts: int = 0
    held: tuple[float, float, float] = (0, 0, 0)  # whole numbers, of any size, unless widths were taken together

    def add(self, held: Sequence[float]) -> None:
        """One more attempt."""
        self.attempts += 1
        self.held = (self.held[0] + held[0], self.held[1] + held[1], self.held[2] + held[2])

    def hours(self) -> dict[str, float]:
        """Core-, GiB- and GPU-hours."""
        cpu, memory, gpu = self.held
        return {
            "core_hours": round(cpu / (MILLI * _HOUR_MS), _DIGITS),
            "gib_hours": round(memory / (GIB * _HOUR_MS), _DIGITS),
            "gpu_hours": round(gpu / (MILLI * _HOUR_MS), _DIGITS),
        }


@dataclass(slots=True)
class Used:
    """What a queue or a user had: what of it was good, and what was thrown away, by why."""

    all: Sum = field(default_factory=Sum)
    good: Sum = field(default_factory=Sum)
    wasted: dict[Wasted, Sum] = field(default_factory=lambda: {why: Sum() for why in WASTED})


# --- what leases say ----------------------------------------------------------------------------


def widths_at_start(resources: Resources, now_ms: int) -> list[Width]:
    """What a lease says of an attempt that starts."""
    return [[now_ms, *map(resources.get, COUNTED)]]


def widened(widths: Sequence[Width], resources: Resources, now_ms: int) -> list[Width]:
    """What a lease says after its attempt got wider or narrower. Of very many widths the oldest are taken together."""
    kept = [*(width for width in widths if width[0] < now_ms), *widths_at_start(resources, now_ms)]
    while len(kept) > MOST_WIDTHS:
        first, second, third = kept[:3]
        kept[:2] = [[first[0], *_mean(first, second, third[0])]]
    return kept


def _mean(first: Width, second: Width, until_ms: int) -> Iterable[float]:
    """The width that would have held as much as two, one after the other."""
    before_ms, after_ms = second[0] - first[0], until_ms - second[0]
    for one, other in zip(first[1:], second[1:], strict=True):
        yield (one * before_ms + other * after_ms) / (before_ms + after_ms)


# --- reports ------------------------------------------------------------------------------------


def used(
    rows: Iterable[LeaseRow], by: By, from_ms: int, until_ms: int, counts: Callable[[str], bool]
) -> dict[str, Used]:
    """What each queue or user had between two moments, by name; of queues that count."""
    found: dict[str, Used] = {}
    for row in rows:
        end_ms = min(row.changed_ms, until_ms) if row.state == ENDED else until_ms
        if end_ms < max(row.spec["started"], from_ms) or not counts(row.spec["queue"]):
            continue
        mine = found.setdefault(row.spec[by], Used())
        held = held_between(row.spec.get("widths", ()), from_ms, end_ms)
        mine.all.add(held)
        why = wasted(row)
        (mine.good if why is None else mine.wasted[why]).add(held)
    return dict(sorted(found.items()))


def held_between(widths: Sequence[Width], from_ms: int, until_ms: int) -> tuple[float, float, float]:
    """What an attempt held between two moments: cores (milli), memory (bytes) and GPUs (milli) x milliseconds."""
    total: list[float] = [0, 0, 0]
    ends = [*(width[0] for width in widths[1:]), until_ms]
    for (begin_ms, *amounts), end_ms in zip(widths, ends, strict=True):
        span_ms = max(min(end_ms, until_ms) - max(begin_ms, from_ms), 0)
        total = [so_far + amount * span_ms for so_far, amount in zip(total, amounts, strict=True)]
    return total[0], total[1], total[2]


def wasted(row: LeaseRow) -> Wasted | None:
    """Why what an attempt held was thrown away; None if it was not, as far as anyone knows yet.

    Of an attempt that was told to stop it is the reason that counts, whatever it managed to do before it did. A job
    that failed for good may say so in any words.
    """
    why = row.reason or (row.result.get("result", "") if row.state == ENDED else _SUCCEEDED)
    if why == _SUCCEEDED:
        return None
    return next((kind for kind in WASTED if why.startswith(kind)), "failed")


_SUCCEEDED = "succeeded"
