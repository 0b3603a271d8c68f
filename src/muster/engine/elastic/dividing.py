"""Dividing room by benefit: those for whom a task is worth most grow, into free room or in the place of others.

benefit.py says how wide everyone should be. Whoever should be narrower gives up as few tasks as the others need, those
first that lie alone on their nodes; whoever should be wider grows where it is already, then on few nodes. What nobody
could use in the end is kept. If anybody waits, only tasks that ask for the same change hands: nothing may be left over
that would be theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from muster.engine.elastic.benefit import Stake, amounts, halvings, speeds_from_nothing, widths_by_benefit
from muster.engine.elastic.clock import Clock
from muster.engine.elastic.growing import Grower
from muster.engine.elastic.load import Load
from muster.engine.elastic.unit import Unit
from muster.engine.ledger import Ledger
from muster.engine.rooms import Rooms
from muster.model.jobs import Task, TaskGroup
from muster.model.policy import Policy


class Wish(NamedTuple):
    """A unit, the group of it that changes, and how many tasks that group should have."""

    unit: Unit
    group: TaskGroup
    stake: Stake
    width: int

    @property
    def more(self) -> int:
        """How many tasks it should gain, or, below zero, give up."""
        return self.width - self.stake.held


class Divider:
    """Divides room among units on the books as a turn leaves them."""

    def __init__(
        self, grower: Grower, load: Load, ledger: Ledger, rooms: Rooms, clock: Clock, policy: Policy, *, is_strict: bool
    ) -> None:
        self._grower = grower
        self._load = load
        self._ledger = ledger
        self._rooms = rooms
        self._clock = clock
        self._policy = policy
        self._is_strict = is_strict

    def divide(self, units: Iterable[Unit]) -> bool:
        """One division among units that did not change yet; whether any did."""
        wishes = self._wishes([unit for unit in units if unit.may_change and unit.is_untouched])
        growing = [wish for wish in wishes if wish.more > 0]
        if not growing:
            return False
        given = self._make_room([wish for wish in wishes if wish.more < 0], growing)
        for wish in growing:
            self._grower.widen_by(wish.unit, wish.group, wish.more)
        for wish, task in reversed(given):
            self._keep(wish, task)
        return any(not wish.unit.is_untouched for wish in wishes)

    # -- who should be how wide ------------------------------------------------------------------------

    def _wishes(self, units: list[Unit]) -> list[Wish]:
        groups = [elastic_group(unit) for unit in units]
        stakes = [self._stake(unit, group) for unit, group in zip(units, groups, strict=True)]
        if self._is_strict and len({group.request for group in groups}) > 1:
            return []
        policy = self._policy
        widths = widths_by_benefit(stakes, self._load.margin, policy.uneven_percent, policy.resize_cost_ms)
        return [
            Wish(unit, group, stake, width)
            for unit, group, stake, width in zip(units, groups, stakes, widths, strict=True)
        ]

    def _stake(self, unit: Unit, group: TaskGroup) -> Stake:
        grounds, asks = self._rooms.books.grounds, group.request.resources
        by_dim = {grounds.dim_number[name]: amount for name, amount in asks.items() if name in grounds.dim_number}
        return Stake(
            order=unit.order,
            cluster=grounds.cluster_number[unit.run.cluster],
            speeds=speeds_from_nothing(group),
            least=group.min,
            held=unit.width(group),
            asks=amounts(len(grounds.dims), by_dim),
            usage=max(self._ledger.weights.usage(asks), 1),
            halvings=halvings(unit.run, self._clock.mark_ms),
            window_ms=unit.run.job.freezing_ms,
        )

    # -- giving ----------------------------------------------------------------------------------------

    def _make_room(self, givers: list[Wish], growing: list[Wish]) -> list[tuple[Wish, Task]]:
        """Those who should be narrower give up what is lacking, those who should most first; who gave what."""
        lacking = -self._load.margin
        for wish in growing:
            lacking[wish.stake.cluster] += wish.stake.asks * wish.more
        given: list[tuple[Wish, Task]] = []
        for wish in sorted(givers, key=lambda wish: (wish.more, wish.unit.order)):
            asks, short = wish.stake.asks, lacking[wish.stake.cluster]
            for task in _loneliest(wish)[: -wish.more]:
                if not ((short > 0) & (asks > 0)).any():
                    break
                self._give(wish, task)
                short -= asks
                given.append((wish, task))
        return given

    def _give(self, wish: Wish, task: Task) -> None:
        run = wish.unit.run
        self._rooms.give_all(run.job.profile, (task,))
        self._load.change(run.cluster, wish.group.request.resources, +1)
        self._ledger.evict(run, (task,), whole=False)
        wish.unit.lose((task,))

    def _keep(self, wish: Wish, task: Task) -> None:
        """The task stays if neither its place nor its part of a quota was taken."""
        run, asks = wish.unit.run, wish.group.request.resources
        is_allowed = self._load.takes(run.cluster, asks) and self._ledger.has_quota_for(run.job, asks)
        if is_allowed and self._rooms.holds(task, wish.group):
            self._rooms.take_all(run.job.profile, (task,))
            self._load.change(run.cluster, asks, -1)
            self._ledger.widen(run.job, (task,))
            wish.unit.keep(task)


def elastic_group(unit: Unit) -> TaskGroup:
    """The group that changes."""
    return next(group for group in unit.run.job.profile.groups if group.min < group.max)


def is_divisible(unit: Unit) -> bool:
    """Whether its width can be set by benefit: it has one elastic group, which need not stay close."""
    elastic = [group for group in unit.run.job.profile.groups if group.min < group.max]
    return len(elastic) == 1 and elastic[0].max_hops is None


def _loneliest(wish: Wish) -> list[Task]:
    """Its tasks, those first that share their node with the fewest of them; of these the last to come."""
    tasks = [task for task in wish.unit.tasks if task.group == wish.group.name]
    beside = Counter(task.node for task in tasks)
    return sorted(tasks, key=lambda task: (beside[task.node], task.node, -task.index))
