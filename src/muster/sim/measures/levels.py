"""What queues hold and want, and how much there is, from moment to moment, as columns.

Only events change it, so an event is all that is noted while the simulation runs: one number, which stands for "one
more (or one less) job of this queue and this profile waits" or "runs, this wide". A few hundred moments later they are
made into columns together. Nothing here knows which policy decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster.engine.never_fits import never_fits
from muster.model.fleet import Fleet
from muster.model.jobs import Profile, Task
from muster.model.resources import GPU, Resources
from muster.sim.measures.division import Floats
from muster.sim.measures.steps import Moments

Ints = npt.NDArray[np.int64]

_CELLS = 1 << 17  # of a block: more would not stay close to the processor
_FEWEST, _MOST = 64, 4096  # moments of a block


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which column tells what. `resources` are those that count; of `main` waiting and idle amounts are told."""

    queues: tuple[str, ...]
    resources: tuple[str, ...]
    main: str

    @property
    def size(self) -> int:
        """How many columns there are."""
        return (2 * len(self.resources) + 1) * len(self.queues) + 3

    def held(self, queue: int, resource: int = 0) -> int:
        """What the queue's jobs hold of a resource."""
        return resource * len(self.queues) + queue

    def wanted(self, queue: int, resource: int = 0) -> int:
        """What its waiting and running jobs ask for at their max."""
        return (len(self.resources) + resource) * len(self.queues) + queue

    def waits(self, queue: int) -> int:
        """How many of its jobs wait that could ever start."""
        return 2 * len(self.resources) * len(self.queues) + queue

    @property
    def waiting(self) -> int:
        """How many jobs wait in all."""
        return self.size - 3

    @property
    def running(self) -> int:
        """How many run."""
        return self.size - 2

    @property
    def asked(self) -> int:
        """What those who wait and could ever start need of the main resource."""
        return self.size - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Levels in a row: `levels[i]` (a row as the layout says) and `capacity[i]` hold from `moments[i]` to the next."""

    moments: Moments
    levels: Ints
    capacity: Ints


class Kinds:
    """What one more job of a kind changes. A kind is a number: a job of a queue and profile that waits, or runs."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._numbers: dict[tuple[int, Profile, tuple[int, ...] | None], int] = {}
        self._changes: list[tuple[Ints, Ints]] = []  # columns, and by how much they change
        self._profiles: list[Profile | None] = []  # of kinds that wait
        self._fits: dict[int, bool] = {}

    def waits(self, queue: int, profile: Profile) -> int:
        """A job waits."""
        return self._numbers.get((queue, profile, None)) or self._new(queue, profile, None)

    def runs(self, queue: int, profile: Profile, tasks: Sequence[Task]) -> int:
        """A job runs with these tasks."""
        if len(profile.groups) == 1:
            widths: tuple[int, ...] = (len(tasks),)
        else:
            widths = tuple(sum(task.group == group.name for task in tasks) for group in profile.groups)
        return self._numbers.get((queue, profile, widths)) or self._new(queue, profile, widths)

    def elsewhere(self, *, runs: bool) -> int:
        """A job is raced over clusters that show us nothing: it waits or runs, and that is all."""
        key = (-1, _NOWHERE, (1,) if runs else None)
        if key not in self._numbers:
            self._add(key, {self.layout.running if runs else self.layout.waiting: 1}, None)
        return self._numbers[key]

    def forget_fits(self) -> None:
        """The fleet is another: what never fitted may fit."""
        self._fits.clear()

    def waiting_profiles(self, counts: Ints) -> list[Profile]:
        """The profiles of those who wait and could ever start, from how many there are of each kind."""
        kinds = (np.flatnonzero(counts) + 1).tolist()
        found = (self._profiles[kind - 1] for kind in kinds if self._fits.get(kind, True))
        return [profile for profile in dict.fromkeys(found) if profile is not None]

    def vectors(self, kinds: list[int], fleet: Fleet) -> tuple[Ints, Ints, Ints]:
        """The columns each of these kinds changes and by how much, one after the other, and how many each has."""
        found = [self._change(kind, fleet) for kind in kinds]
        columns, amounts = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return columns, amounts, np.array([len(part) for part, _ in found], np.int64)

    def __len__(self) -> int:
        return len(self._changes)

    def _change(self, kind: int, fleet: Fleet) -> tuple[Ints, Ints]:
        profile = self._profiles[kind - 1]
        if profile is not None:
            if kind not in self._fits:
                self._fits[kind] = never_fits(fleet, profile) is None
            if not self._fits[kind]:  # nobody is entitled to what can never start
                return np.array([self.layout.waiting]), np.ones(1, np.int64)
        return self._changes[kind - 1]

    def _new(self, queue: int, profile: Profile, widths: tuple[int, ...] | None) -> int:
        layout = self.layout
        change = {layout.running if widths else layout.waiting: 1}
        for place, name in enumerate(layout.resources):
            change[layout.wanted(queue, place)] = profile.most.get(name)
        if widths is None:
            change[layout.waits(queue)] = 1
            change[layout.asked] = profile.least.get(layout.main)
        else:
            for place, name in enumerate(layout.resources):
                each = zip(profile.groups, widths, strict=True)
                change[layout.held(queue, place)] = sum(group.request.resources.get(name) * n for group, n in each)
        return self._add((queue, profile, widths), change, profile if widths is None else None)

    def _add(
        self, key: tuple[int, Profile, tuple[int, ...] | None], change: dict[int, int], profile: Profile | None
    ) -> int:
        kept = [(column, amount) for column, amount in change.items() if amount]
        columns, amounts = np.array(kept, np.int64).T
        self._changes.append((columns, amounts))
        self._profiles.append(profile)
        self._numbers[key] = number = len(self._changes)  # from 1 on: the sign says whether there is one more or less
        return number


_NOWHERE = Profile(groups=())


class Journal:
    """What changed at which moment since the last block."""

    def __init__(self, kinds: Kinds, fleet: Fleet, capacity: Resources) -> None:
        self.kinds = kinds
        self.fleet = fleet
        self.counts = np.zeros(0, np.int64)  # of each kind, as of the last block
        self._base = np.zeros(kinds.layout.size, np.int64)
        self._changes: list[int] = []
        self._moments = [0]
        self._upto = [0]  # how many changes there were at the end of each moment
        self._capacities = [capacity]
        self._most = min(max(_CELLS // kinds.layout.size, _FEWEST), _MOST)

    @property
    def is_full(self) -> bool:
        """Whether it is time to make a block."""
        return len(self._moments) >= self._most

    def begin(self, now_ms: int) -> None:
        """What is noted from now on belongs to this moment."""
        if now_ms > self._moments[-1]:
            self._moments.append(now_ms)
            self._upto.append(self._upto[-1])
            self._capacities.append(self._capacities[-1])

    def more(self, kind: int) -> None:
        """There is one more of a kind."""
        self._changes.append(kind)

    def less(self, kind: int) -> None:
        """There is one less."""
        self._changes.append(-kind)

    def end(self, capacity: Resources) -> None:
        """All of the moment has been noted."""
        self._upto[-1] = len(self._changes)
        self._capacities[-1] = capacity

    def block(self, until_ms: int) -> Block:
        """All that was noted, as columns; the journal goes on from there."""
        layout, rows = self.kinds.layout, len(self._moments)
        codes = np.array(self._changes, np.int64)
        levels = np.zeros((rows, layout.size), np.int64)
        self._count(codes)
        if len(codes):
            self._fill(levels, codes)
        levels[0] += self._base
        np.cumsum(levels, axis=0, out=levels)
        made = Block(
            moments=np.array([*self._moments, until_ms], np.int64), levels=levels, capacity=self._capacity_columns()
        )
        self._base = levels[-1].copy()
        self._changes, self._moments, self._upto, self._capacities = [], [until_ms], [0], self._capacities[-1:]
        return made

    def move_to(self, fleet: Fleet) -> None:
        """The fleet is another from now on; there must be nothing noted that is in no block yet."""
        self.fleet = fleet
        self.kinds.forget_fits()
        there = np.flatnonzero(self.counts)
        self._base[:] = 0
        if len(there):
            columns, amounts, sizes = self.kinds.vectors((there + 1).tolist(), fleet)
            np.add.at(self._base, columns, amounts * np.repeat(self.counts[there], sizes))

    def _count(self, codes: Ints) -> None:
        missing = len(self.kinds) - len(self.counts)
        if missing:
            self.counts = np.concatenate([self.counts, np.zeros(missing, np.int64)])
        np.add.at(self.counts, np.abs(codes) - 1, np.sign(codes))

    def _fill(self, levels: Ints, codes: Ints) -> None:
        """Each change in the row of its moment and in all columns of its kind."""
        kinds, which = np.unique(np.abs(codes), return_inverse=True)
        columns, amounts, sizes = self.kinds.vectors(kinds.tolist(), self.fleet)
        begins, long = (np.cumsum(sizes) - sizes)[which], sizes[which]
        cells = np.repeat(begins - (np.cumsum(long) - long), long) + np.arange(long.sum())
        row_of = np.repeat(np.arange(len(self._upto)), np.diff(self._upto, prepend=0))
        places = np.repeat(row_of, long) * levels.shape[1] + columns[cells]
        np.add.at(levels.reshape(-1), places, amounts[cells] * np.repeat(np.sign(codes), long))

    def _capacity_columns(self) -> Ints:
        names, last = self.kinds.layout.resources, None
        rows: list[list[int]] = []
        for capacity in self._capacities:
            rows.append(rows[-1] if capacity is last else [capacity.get(name) for name in names])
            last = capacity
        return np.array(rows, np.int64).reshape(len(rows), len(names))


def main_of(resources: Sequence[str]) -> str:
    """The resource people look at first: GPUs where there are any."""
    return GPU if GPU in resources else "cpu" if "cpu" in resources or not resources else resources[0]


def weighed(levels: Ints | Floats, weights: Floats) -> Floats:
    """Usage of each queue: amounts (moments × resources × queues) by the weight of each resource."""
    usage: Floats = np.einsum("mrq,r->mq", levels, weights)
    return usage
