"""Changes of rooms: written down before they are made, so that they can be undone, and counted.

What follows from rooms follows their changes: the index at once, circles and headcounts when they are asked next.
"""

from __future__ import annotations

from muster.engine.kernels.fitting import devices_for, fits, give, holds, take
from muster.engine.kernels.indexing import settle
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    ANSWER,
    CHANGES,
    COLUMNS,
    EMPTIES,
    FIRST,
    GPUS,
    LENGTH,
    LOG,
    LOG_MOMENT,
    LOG_NODE,
    LOG_ROOM,
    MOMENTS,
    PLACED,
    RING,
    RING_SIZE,
    SCRATCH,
    TASK,
    TASK_DEVICES,
    TASK_GROUP,
    TASK_NODE,
    Cells,
)
from muster.engine.kernels.sets import ask_of, copy


@kernel
def note(ground: Cells, books: Cells, trial: Cells, node: int) -> None:
    """Write down the rooms of a node before they change."""
    columns = ground[COLUMNS]
    for at in range(trial[MOMENTS]):
        entry, room = trial[LOG] + trial[LENGTH] * (columns + LOG_ROOM), trial[FIRST + at] + node * columns
        trial[entry + LOG_MOMENT] = trial[FIRST + at]
        trial[entry + LOG_NODE] = node
        copy(trial, entry + LOG_ROOM, books, room, columns)
        trial[LENGTH] += 1


@kernel
def changed(ground: Cells, books: Cells, index: Cells, trial: Cells, node: int) -> None:
    """The rooms of a node, which were noted just before, have changed: bring up to date what follows from them."""
    if books[trial[FIRST] - 1]:
        entry = (trial[LENGTH] - trial[MOMENTS]) * (ground[COLUMNS] + LOG_ROOM)
        settle(ground, books, index, trial, node, trial[LOG] + entry + LOG_ROOM)
    for at in range(1, trial[MOMENTS]):
        books[trial[FIRST + at] - 1] = 0
    remember(books, node)


@kernel
def remember(books: Cells, node: int) -> None:
    """Count the change."""
    books[RING + (books[CHANGES] & (books[RING_SIZE] - 1))] = node
    books[CHANGES] += 1


@kernel
def undo(ground: Cells, books: Cells, index: Cells, trial: Cells, mark: int) -> None:
    """Restore everything as it was when the log had `mark` entries."""
    columns, before = ground[COLUMNS], trial[SCRATCH]
    while trial[LENGTH] > mark:
        trial[LENGTH] -= 1
        entry = trial[LOG] + trial[LENGTH] * (columns + LOG_ROOM)
        moment, node = trial[entry + LOG_MOMENT], trial[entry + LOG_NODE]
        room, entry = moment + node * columns, entry + LOG_ROOM
        if moment == trial[FIRST] and books[moment - 1]:
            copy(trial, before, books, room, columns)
            copy(books, room, trial, entry, columns)
            settle(ground, books, index, trial, node, before)
        else:
            copy(books, room, trial, entry, columns)
            books[moment - 1] = 0
        remember(books, node)


@kernel
def put(ground: Cells, books: Cells, index: Cells, trial: Cells, moves: Cells, is_trial: bool) -> None:
    """Tasks (group, node, devices, one after the other) are on their nodes at every moment, fitting or not."""
    for each in range(0, len(moves), TASK):
        group, node, devices = moves[each + TASK_GROUP], moves[each + TASK_NODE], moves[each + TASK_DEVICES]
        put_one(ground, books, index, trial, group, node, devices)
        if not is_trial:
            trial[LENGTH] = 0


@kernel
def put_one(ground: Cells, books: Cells, index: Cells, trial: Cells, group: int, node: int, devices: int) -> None:
    """A task is on its node at every moment, fitting or not."""
    note(ground, books, trial, node)
    for at in range(trial[MOMENTS]):
        take(ground, books, trial[FIRST + at] + node * ground[COLUMNS], ask_of(ground, group), devices)
    changed(ground, books, index, trial, node)


@kernel
def remove(ground: Cells, books: Cells, index: Cells, trial: Cells, moves: Cells, is_trial: bool) -> None:
    """Tasks (group, node, devices, one after the other) are gone from their nodes at every moment."""
    for each in range(0, len(moves), TASK):
        ask, node = ask_of(ground, moves[each + TASK_GROUP]), moves[each + TASK_NODE]
        note(ground, books, trial, node)
        for at in range(trial[MOMENTS]):
            room, empty = trial[FIRST + at] + node * ground[COLUMNS], books[EMPTIES] + node * ground[COLUMNS]
            give(ground, books, room, ask, moves[each + TASK_DEVICES], empty)
        changed(ground, books, index, trial, node)
        if not is_trial:
            trial[LENGTH] = 0


@kernel
def fill_node(ground: Cells, books: Cells, index: Cells, trial: Cells, ask: int, node: int, count: int) -> int:
    """Tasks on a node on which one fits, until it is full or `count` are there; returns how many."""
    note(ground, books, trial, node)
    placed = 0
    while placed < count and (placed == 0 or fits(ground, books, trial, node, ask)):
        chosen = devices_for(ground, books, trial, node, ask) if ground[ask + GPUS] else 0
        for at in range(trial[MOMENTS]):
            take(ground, books, trial[FIRST + at] + node * ground[COLUMNS], ask, chosen)
        task = trial[ANSWER] + trial[PLACED] * TASK
        trial[task + TASK_NODE] = node
        trial[task + TASK_DEVICES] = chosen
        trial[PLACED] += 1
        placed += 1
    changed(ground, books, index, trial, node)
    return placed


@kernel
def take_one(ground: Cells, books: Cells, index: Cells, trial: Cells, group: int, node: int) -> int:
    """One more task is on the node at every moment from now on; returns the devices it gets."""
    trial[PLACED] = 0
    fill_node(ground, books, index, trial, ask_of(ground, group), node, 1)
    return trial[trial[ANSWER] + TASK_DEVICES]


@kernel
def holds_all(ground: Cells, books: Cells, index: Cells, trial: Cells, moves: Cells) -> bool:
    """Whether tasks (group, node, devices, one after the other) fit on their nodes together; nothing is taken."""
    mark, all_fit = trial[LENGTH], True
    for each in range(0, len(moves), TASK):
        group, node, chosen = moves[each + TASK_GROUP], moves[each + TASK_NODE], moves[each + TASK_DEVICES]
        all_fit = holds(ground, books, trial, group, node, chosen)
        if not all_fit:
            break
        put(ground, books, index, trial, moves[each : each + TASK], True)
    undo(ground, books, index, trial, mark)
    return all_fit
