"""Evening out: when nothing else changes, who was served more than another gives tasks up to it (design.md 5.6).

How much more is a difference of virtual times, never a ratio of them: how long others ran before does not matter. A
task moves only if the other takes its room in the same plan, and only if by the time either could change again the one
that gave is still the one that was served more: otherwise they would give it back and forth. Nor does it move to
another queue if that would leave its own below the share it is entitled to.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

from muster.engine.elastic.sharing import Rights
from muster.engine.elastic.swapping import Gift, Swaps
from muster.engine.elastic.tree import Tree
from muster.engine.elastic.unit import Unit
from muster.model.width import MOST_VIRTUAL

Floats = npt.NDArray[np.float64]

_LOOKS = 4  # at takers for each giver
_MOST_SWAPS = 256  # tasks in a turn; a window has sixty marks, so even thousands of jobs get theirs
_FAR = 1 << 20  # marks: a month and more


class Evener:
    """Moves tasks from the most served to the least."""

    def __init__(self, tree: Tree, swaps: Swaps, rights: Rights, uneven_percent: int) -> None:
        self._tree = tree
        self._swaps = swaps
        self._rights = rights
        self._percent = uneven_percent
        self._left = _MOST_SWAPS

    def even_out(self) -> bool:
        """As many pairs as there are; whether it is worth going on. Who finds no taker among the first few has none."""
        givers = deque(unit for unit in self._tree.from_the_right() if is_giver(unit))
        takers = deque(unit for unit in self._tree.traverse() if is_taker(unit))
        before = self._left
        while givers and takers and self._left and self._is_uneven(giver := givers.popleft(), takers[0]):
            if giver.is_untouched and (taker := self._taker_for(giver, takers)) is not None:
                takers.remove(taker)
        return 0 < self._left < before

    def _taker_for(self, giver: Unit, takers: Iterable[Unit]) -> Unit | None:
        for taker in islice(takers, _LOOKS):
            if not self._is_uneven(giver, taker):
                break
            if taker.is_untouched and self._move(giver, taker):
                return taker
        return None

    def _is_uneven(self, giver: Unit, taker: Unit) -> bool:
        return giver is not taker and giver.virtual - taker.virtual > tolerance(taker, self._percent)

    def _move(self, giver: Unit, taker: Unit) -> bool:
        """One task after the other, as long as their order does not flip; whether any moved."""
        before = self._left
        while self._left and taker.has_use_for_more and self._swaps.take(taker, self._gifts(giver, taker)):
            self._left -= 1
        return self._left < before

    def _gifts(self, giver: Unit, taker: Unit) -> Iterator[Gift]:
        """What the giver can give up for one task more of the taker."""
        for many, task in enumerate(giver.surplus(), 1):
            gift = Gift(giver, task)
            if _flips(giver, taker, many) or not self._rights.may_pass(gift, taker):
                return
            yield gift


def is_giver(unit: Unit) -> bool:
    """Whether it has a task to give."""
    return unit.may_change and unit.is_untouched and unit.has_spare


def is_taker(unit: Unit) -> bool:
    """Whether it has a use for one more."""
    return unit.may_change and unit.is_untouched and unit.has_use_for_more


def tolerance(taker: Unit, uneven_percent: int) -> int:
    """By how much virtual time others may be ahead of it: so much more than it gets itself in a freezing window."""
    return _gain(taker, 0, taker.run.job.freezing_ms) * (uneven_percent - 100) // 100


def _flips(giver: Unit, taker: Unit, given: int) -> bool:
    """Whether the giver would be the one served less by the time either may change again."""
    window_ms = max(giver.run.job.freezing_ms, taker.run.job.freezing_ms)
    left = giver.virtual + _gain(giver, -given, window_ms)
    return left < taker.virtual + _gain(taker, +1, window_ms)


def _gain(unit: Unit, tasks: int, window_ms: int) -> int:
    """How much virtual time it gets in a while with so many tasks more."""
    count = max(unit.expected_count + tasks, 0)
    return unit.resource_score * count * window_ms // (1000 * unit.level)


def uneven_from(tree: Tree, rights: Rights, uneven_percent: int, every_ms: int) -> int | None:
    """After how many marks some giver is first ahead of some taker by too much; 0: it is now, None: never soon."""
    pairs = _pairs(list(tree.traverse()), rights)
    marks = [_apart(givers, takers, uneven_percent, every_ms) for givers, takers in pairs]
    return min((found for found in marks if found is not None), default=None)


def _pairs(units: list[Unit], rights: Rights) -> Iterator[tuple[list[Unit], list[Unit]]]:
    """Givers and takers among whom tasks may move: of a cluster those of each queue, then those of all queues."""
    givers, takers = defaultdict[tuple[str, str], list[Unit]](list), defaultdict[tuple[str, str], list[Unit]](list)
    for unit in units:
        cluster, queue = unit.run.cluster, unit.run.job.queue
        if is_giver(unit):
            givers[cluster, queue].append(unit)
            if rights.may_leave_queue(Gift(unit, unit.surplus()[0])):
                givers[cluster, ""].append(unit)
        if is_taker(unit):
            takers[cluster, queue].append(unit)
            takers[cluster, ""].append(unit)
    return ((givers[key], takers[key]) for key in givers if key in takers)


def _apart(givers: list[Unit], takers: list[Unit], uneven_percent: int, every_ms: int) -> int | None:
    """The same for these.

    By how much the most served is ahead of the least is convex in time: once it is too much it stays so.
    """
    high, low = _lines(givers, every_ms), _lines(takers, every_ms)
    low[0][:] += [tolerance(taker, uneven_percent) for taker in takers]

    def is_apart(marks: int) -> bool:
        most = min(float((high[0] + high[1] * marks).max()), MOST_VIRTUAL)
        least = min(float((low[0] + low[1] * marks).min()), MOST_VIRTUAL)
        return most + 1 > least - 1  # what is rounded down elsewhere is not missed

    if is_apart(0):
        return 0
    if not is_apart(_FAR):
        return None
    near, far = 0, _FAR
    while far - near > 1:
        middle = (near + far) // 2
        near, far = (near, middle) if is_apart(middle) else (middle, far)
    return far


def _lines(units: list[Unit], every_ms: int) -> tuple[Floats, Floats]:
    """Virtual times now, and what each gains from mark to mark."""
    start = np.array([unit.virtual for unit in units], np.float64)
    rates = [0 if it.run.serving is None else it.run.serving.usage * every_ms / (1000 * it.level) for it in units]
    return start, np.array(rates, np.float64)
