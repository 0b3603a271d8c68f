"""Tasks that change hands: what some give up, another takes in the same plan, or nothing happens (design.md 5.6).

Mostly one task gives its place to one. For a task that needs more room than another leaves, as few as are enough go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from muster.engine.elastic.growing import Grower
from muster.engine.elastic.load import Load
from muster.engine.elastic.unit import Unit
from muster.engine.ledger import Ledger
from muster.engine.rooms import Rooms
from muster.model.jobs import Task, TaskGroup
from muster.model.resources import NOTHING, Resources

_MOST_FOR_ONE = 64  # tasks that are given up at most so that another gets one


class Gift(NamedTuple):
    """A task that a unit could give up."""

    giver: Unit
    task: Task

    @property
    def group(self) -> TaskGroup:
        """The group of the task."""
        return self.giver.run.job.profile.group(self.task.group)

    @property
    def asks(self) -> Resources:
        """What it asks for."""
        return self.group.request.resources


class Swaps:
    """Lets tasks change hands on the books as a turn leaves them.

    `is_strict`: somebody waits, so that nothing may be left over, of room or of a quota: it would be theirs.
    """

    def __init__(self, grower: Grower, load: Load, ledger: Ledger, rooms: Rooms, *, is_strict: bool) -> None:
        self._grower = grower
        self._load = load
        self._ledger = ledger
        self._rooms = rooms
        self._is_strict = is_strict

    def take(self, taker: Unit, gifts: Iterable[Gift]) -> bool:
        """One task more for the taker, in the place of as few of these as are enough; whether that is so now."""
        for group in taker.run.job.profile.groups:
            if group.min < group.max and taker.width(group) < group.max and self._take(taker, group, gifts):
                return True
        return False

    def _take(self, taker: Unit, group: TaskGroup, gifts: Iterable[Gift]) -> bool:
        given: list[Gift] = []
        left: defaultdict[str, Resources] = defaultdict(lambda: NOTHING)  # by node
        for gift in islice(self._usable(taker, group, gifts), _MOST_FOR_ONE):
            node = gift.task.node
            if self._is_strict and not group.request.resources.covers(left[node] + gift.asks):
                continue
            left[node] += gift.asks
            self._give(gift)
            given.append(gift)
            if self._grower.widen(taker, group, node):
                for it in given:
                    it.giver.lose((it.task,))
                self._keep_what_is_not_needed(given)
                return True
        for gift in given:
            self._take_back(gift)
        return False

    def _usable(self, taker: Unit, group: TaskGroup, gifts: Iterable[Gift]) -> Iterator[Gift]:
        """Those that could help the taker."""
        for gift in gifts:
            is_near = gift.giver.run.cluster == taker.run.cluster and self._grower.may_use(gift.task.node, group)
            if is_near and (not self._is_strict or self._share_quotas(gift.giver, taker)):
                yield gift

    def _give(self, gift: Gift) -> None:
        run = gift.giver.run
        self._rooms.give_all(run.job.profile, (gift.task,))
        self._load.change(run.cluster, gift.asks, +1)
        self._ledger.evict(run, (gift.task,), whole=False)

    def _take_back(self, gift: Gift) -> None:
        run = gift.giver.run
        self._rooms.take_all(run.job.profile, (gift.task,))
        self._load.change(run.cluster, gift.asks, -1)
        self._ledger.widen(run.job, (gift.task,))

    def _keep_what_is_not_needed(self, given: list[Gift]) -> None:
        """Who gave something up in vain keeps it, the last to give first."""
        for gift in reversed(given):
            run = gift.giver.run
            is_allowed = self._load.takes(run.cluster, gift.asks) and self._ledger.has_quota_for(run.job, gift.asks)
            if is_allowed and self._rooms.holds(gift.task, gift.group):
                self._take_back(gift)
                gift.giver.keep(gift.task)

    def _share_quotas(self, giver: Unit, taker: Unit) -> bool:
        """Whether what the giver gives up of a quota is what the taker needs, or there is none."""
        one, other = giver.run.job, taker.run.job
        is_same = (one.queue, one.user) == (other.queue, other.user)
        return is_same or not (self._ledger.queues[one.queue].state.queue.quota or one.user in self._ledger.quotas)
