"""Evening out: when nothing else changes, who was served much more than another gives one task up to it.

Only if the other takes that room in the same plan, and only if by the time either could change again the one that gave
is still the one that was served more: otherwise they would give it back and forth (design.md 5.6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

import numpy as np
import numpy.typing as npt

from muster.engine.elastic.growing import Grower
from muster.engine.elastic.load import Load
from muster.engine.elastic.tree import Tree
from muster.engine.elastic.unit import Unit
from muster.engine.ledger import Ledger
from muster.engine.rooms import Rooms
from muster.model.jobs import Task, TaskGroup
from muster.model.resources import Resources
from muster.model.width import MOST_VIRTUAL

Floats = npt.NDArray[np.float64]

_LOOKS = 4  # at takers for each giver
_MOST_SWAPS = 64  # a turn; a window has sixty marks, so even thousands of jobs get theirs
_FAR = 1 << 20  # marks: a month and more


class Evener:
    """Moves single tasks from the most served to the least."""

    def __init__(
        self,
        tree: Tree,
        grower: Grower,
        load: Load,
        ledger: Ledger,
        rooms: Rooms,
        uneven_percent: int,
        *,
        is_strict: bool,
    ) -> None:
        self._tree = tree
        self._grower = grower
        self._load = load
        self._ledger = ledger
        self._rooms = rooms
        self._percent = uneven_percent
        self._is_strict = is_strict
        self._left = _MOST_SWAPS

    def even_out(self) -> bool:
        """As many pairs as there are; whether it is worth going on. Who finds no taker among the first few has none."""
        givers = deque(unit for unit in self._tree.from_the_right() if is_giver(unit))
        takers = deque(unit for unit in self._tree.traverse() if is_taker(unit))
        before = self._left
        while givers and takers and self._left and self._is_uneven(giver := givers.popleft(), takers[0]):
            if giver.is_untouched and (taker := self._taker_for(giver, takers)) is not None:
                takers.remove(taker)
                self._left -= 1
        return 0 < self._left < before

    def _taker_for(self, giver: Unit, takers: Iterable[Unit]) -> Unit | None:
        for taker in islice(takers, _LOOKS):
            if not self._is_uneven(giver, taker):
                break
            if not _flips(giver, taker) and taker.is_untouched and self._moves(giver, taker):
                return taker
        return None

    def _is_uneven(self, giver: Unit, taker: Unit) -> bool:
        return giver is not taker and giver.virtual * 100 > taker.virtual * self._percent

    def _moves(self, giver: Unit, taker: Unit) -> bool:
        """Whether the taker finds room for one task more once the giver has one less; then it is so.

        If anybody waits nothing may be left over, of room or of a quota: it would be theirs.
        """
        if self._is_strict and not self._share_quotas(giver, taker):
            return False
        task, profile = giver.surplus()[0], giver.run.job.profile
        asks = profile.group(task.group).request.resources
        self._rooms.give_all(profile, (task,))
        self._load.change(giver.run.cluster, asks, +1)
        self._ledger.evict(giver.run, (task,), whole=False)
        for group in taker.run.job.profile.groups:
            is_wanted = group.min < group.max and taker.width(group) < group.max
            if is_wanted and self._grower.widen(taker, group, self._only_on(task, asks, group)):
                giver.lose((task,))
                return True
        self._ledger.widen(giver.run.job, (task,))
        self._load.change(giver.run.cluster, asks, -1)
        self._rooms.take_all(profile, (task,))
        return False

    def _only_on(self, task: Task, gives: Resources, group: TaskGroup) -> str | None:
        """The node the taker must use, if any: the very one, and nothing less of it."""
        if not self._is_strict:
            return None
        return task.node if group.request.resources.covers(gives) else ""

    def _share_quotas(self, giver: Unit, taker: Unit) -> bool:
        """Whether what the giver gives up of a quota is what the taker needs, or there is none."""
        one, other = giver.run.job, taker.run.job
        is_same = (one.queue, one.user) == (other.queue, other.user)
        return is_same or not (self._ledger.queues[one.queue].state.queue.quota or one.user in self._ledger.quotas)


def is_giver(unit: Unit) -> bool:
    """Whether it has a task to give."""
    return unit.may_change and unit.is_untouched and unit.has_spare


def is_taker(unit: Unit) -> bool:
    """Whether it has a use for one more."""
    return unit.may_change and unit.is_untouched and unit.has_use_for_more


def _flips(giver: Unit, taker: Unit) -> bool:
    """Whether the giver would be the one served less by the time either may change again."""
    window_ms = max(giver.run.job.freezing_ms, taker.run.job.freezing_ms)
    left = giver.virtual + _gain(giver, -1, window_ms)
    return left < taker.virtual + _gain(taker, +1, window_ms)


def _gain(unit: Unit, tasks: int, window_ms: int) -> int:
    """How much virtual time it gets in a while with so many tasks more."""
    count = max(unit.expected_count + tasks, 0)
    return unit.resource_score * count * window_ms // (1000 * unit.level)


def uneven_from(tree: Tree, uneven_percent: int, every_ms: int) -> int | None:
    """After how many marks some giver is first served so much more than some taker; 0: it is now, None: never soon.

    The most served rises ever faster, the least served ever slower: once they are apart they stay so.
    """
    units = list(tree.traverse())
    givers, takers = [it for it in units if is_giver(it)], [it for it in units if is_taker(it)]
    if not givers or not takers:
        return None
    high, low = _lines(givers, every_ms), _lines(takers, every_ms)

    def is_apart(marks: int) -> bool:
        most = min(float((high[0] + high[1] * marks).max()), MOST_VIRTUAL)
        least = min(float((low[0] + low[1] * marks).min()), MOST_VIRTUAL)
        return (most + 1) * 100 > (least - 1) * uneven_percent  # what is rounded down elsewhere is not missed

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
