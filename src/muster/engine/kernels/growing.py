"""Growth: elastic jobs get one task more each, least served first, round after round until nobody finds room.

Jobs of queues below their entitled share come first: others are asked in rounds in which none of these found room.
Whoever found no room, or is at a quota, is not asked again: room, quotas and load only get less while jobs grow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.engine.kernels.filling import Books
from muster.engine.kernels.gangs import fill
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    AMOUNTS,
    ANSWER,
    DIMS,
    LENGTH,
    MOMENTS,
    NEVER,
    OPEN,
    PLACED,
    TASK_DEVICES,
    TASK_NODE,
    Cells,
)
from muster.engine.kernels.sets import ask_of, place_of, set_of

Ints = npt.NDArray[np.int64]


class Growing(NamedTuple):
    """Jobs that may grow, least served first, and their elastic groups one after the other: those of a job are the ones
    from `first` of it to `first` of the next. `moments`: how many moments, from now on, it must fit at."""

    first: Ints
    cluster: Ints
    queue: Ints
    user: Ints
    moments: Ints
    is_done: Ints
    group: Ints
    width: Ints
    least: Ints
    most: Ints
    usage: Ints
    asks: Ints  # by group and resource of the ledger
    is_tried: Ints


@kernel
def grow(
    ground: Cells,
    cells: Cells,
    index: Cells,
    trial: Cells,
    growing: Growing,
    books: Books,
    entitled: Ints,
    is_below: Ints,
    margin: Ints,
    came: Ints,
) -> int:
    """Let jobs grow; `came` gets the group, node and devices of each task. Returns how many there are."""
    many, goes_on = 0, True
    while goes_on:
        goes_on = False
        for queue in range(len(entitled)):
            is_below[queue] = books.started_usage[queue] < entitled[queue]
        for is_first in (1, 0):
            if goes_on:
                break  # others come when nobody below its share finds room
            for job in range(len(growing.cluster)):
                if growing.is_done[job] or is_below[growing.queue[job]] != is_first or many == len(came):
                    continue
                entry = widen(ground, cells, index, trial, growing, books, margin, job)
                if entry < 0:
                    growing.is_done[job] = 1
                    continue
                came[many, 0] = entry
                came[many, 1] = trial[trial[ANSWER] + TASK_NODE]
                came[many, 2] = trial[trial[ANSWER] + TASK_DEVICES]
                many += 1
                goes_on = True
    return many


@kernel
def widen(
    ground: Cells,
    cells: Cells,
    index: Cells,
    trial: Cells,
    growing: Growing,
    books: Books,
    margin: Ints,
    job: int,
) -> int:
    """One task more for the group that is furthest from its max; the next if there is no room. -1: for none."""
    for entry in range(growing.first[job], growing.first[job + 1]):
        growing.is_tried[entry] = growing.width[entry] >= growing.most[entry]
    while True:
        entry = neediest(growing, growing.first[job], growing.first[job + 1])
        if entry < 0:
            return -1
        if is_allowed(ground, growing, books, margin, job, entry) and place_one(
            ground, cells, index, trial, growing, job, entry
        ):
            count(ground, growing, books, margin, job, entry)
            return entry
        growing.is_tried[entry] = 1


@kernel
def neediest(growing: Growing, first: int, last: int) -> int:
    """The group that has the smallest part of the way from its min to its max behind it, not tried yet; -1: none."""
    best = -1
    for entry in range(first, last):
        if growing.is_tried[entry]:
            continue
        if best < 0:
            best = entry
            continue
        done = (growing.width[entry] - growing.least[entry]) * (growing.most[best] - growing.least[best])
        if done < (growing.width[best] - growing.least[best]) * (growing.most[entry] - growing.least[entry]):
            best = entry
    return best


@kernel
def is_allowed(ground: Cells, growing: Growing, books: Books, margin: Ints, job: int, entry: int) -> bool:
    """Whether quotas and load have room for one task more."""
    queue, user, cluster = growing.queue[job], growing.user[job], growing.cluster[job]
    for resource in range(growing.asks.shape[1]):
        amount = growing.asks[entry, resource]
        if amount and books.held[queue, resource] + amount > books.quota[queue, resource]:
            return False
        if amount and user >= 0 and books.user_held[user, resource] + amount > books.user_quota[user, resource]:
            return False
    ask = ask_of(ground, growing.group[entry])
    for dim in range(ground[DIMS]):
        amount = ground[ask + AMOUNTS + dim]
        if amount and margin[cluster, dim] < amount:
            return False
    return ground[ask + NEVER] == 0


@kernel
def place_one(ground: Cells, cells: Cells, index: Cells, trial: Cells, growing: Growing, job: int, entry: int) -> bool:
    """One task more of the group on the tightest node, if there is one."""
    ask = ask_of(ground, growing.group[entry])
    mask, place = set_of(ground, ground[ask + OPEN]), place_of(ground, growing.cluster[job])
    trial[MOMENTS] = growing.moments[job]
    trial[PLACED] = 0
    placed = fill(ground, cells, index, trial, ask, mask, place, 1)
    trial[LENGTH] = 0  # nobody undoes it
    return placed == 1


@kernel
def count(ground: Cells, growing: Growing, books: Books, margin: Ints, job: int, entry: int) -> None:
    """The task counts from now on."""
    queue, user, cluster = growing.queue[job], growing.user[job], growing.cluster[job]
    growing.width[entry] += 1
    books.started_usage[queue] += growing.usage[entry]
    for resource in range(growing.asks.shape[1]):
        books.held[queue, resource] += growing.asks[entry, resource]
        if user >= 0:
            books.user_held[user, resource] += growing.asks[entry, resource]
    ask = ask_of(ground, growing.group[entry])
    for dim in range(ground[DIMS]):
        margin[cluster, dim] -= ground[ask + AMOUNTS + dim]
