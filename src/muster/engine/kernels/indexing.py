"""The index: the nodes of the first moment in buckets by tightness, kept up as rooms change.

What shelves, lines, buckets and levels are is told in placing.py.
"""

from __future__ import annotations

from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    BUCKETS,
    BY_DEVICES,
    BY_ROOM,
    CAME_BACK,
    COLUMNS,
    CPU_DIM,
    CPU_LEVEL,
    CPU_LEVELS,
    DEVICE_MILLI,
    DEVICES,
    DIMS,
    FIRST,
    FREE,
    GIVEN_OUT,
    HAS_GPUS,
    LEVELS,
    LINE,
    LINES,
    MEMORY_DIM,
    MEMORY_LEVEL,
    MEMORY_LEVELS,
    MEMORY_STEPS,
    NODE,
    NODES,
    OCCUPIED,
    PODS_DIM,
    ROW,
    ROWS,
    SCRATCH,
    SET,
    STEPS,
    TASKS,
    TRAIT,
    TRAITS,
    WHERE,
    WORD,
    WORDS,
    Cells,
)
from muster.engine.kernels.sets import exclude, include, includes, step


@kernel
def build(ground: Cells, books: Cells, index: Cells, trial: Cells) -> None:
    """Index the rooms of the first moment; there are no nodes in the index."""
    for column in range(ground[COLUMNS]):
        trial[trial[SCRATCH] + column] = 0
    if ground[LEVELS]:
        build_levels(ground, books, index, trial)
    for node in range(ground[NODES]):
        include(index, index[ROWS], ground[WORDS], node)
        settle(ground, books, index, trial, node, trial[SCRATCH])
    books[trial[FIRST] - 1] = 1


@kernel
def settle(ground: Cells, books: Cells, index: Cells, trial: Cells, node: int, before: int) -> None:
    """Put the node where it belongs now; `before` is where the trial has its room as the index knows it."""
    words, lines = ground[WORDS], ground[STEPS]
    room, where = trial[FIRST] + node * ground[COLUMNS], index[WHERE] + node * NODE
    takes_more = books[room + FREE + PODS_DIM] > 0
    line = min(step(books[room + FREE + CPU_DIM], 4), lines - 1)
    memory = min(step(books[room + FREE + MEMORY_DIM] >> 20, 1), MEMORY_STEPS - 1)
    dear = line + lines * ground[ground[TRAITS] + node * TRAIT + HAS_GPUS]
    move(index, words, node, where + BY_ROOM, (dear << 5) + memory + 1 if takes_more else 0)
    if ground[DEVICES]:
        whole = settle_devices(ground, books, index, trial, node, before)
        dear = line + lines * (1 + whole)
        move(index, words, node, where + BY_DEVICES, (dear << 5) + memory + 1 if takes_more and whole else 0)
    if ground[LEVELS]:
        level = level_of(books[room + FREE + MEMORY_DIM] >> 20, ground[LEVELS])
        climb(index, words, ground[SET], index[MEMORY_LEVELS], where + MEMORY_LEVEL, node, level)
        climb(index, words, ground[SET], index[CPU_LEVELS], where + CPU_LEVEL, node, line + 1)
    if includes(index, index[ROWS], node) != (books[room + TASKS] == 0):
        if books[room + TASKS] == 0:
            include(index, index[ROWS], words, node)
        else:
            exclude(index, index[ROWS], words, node)


@kernel
def move(index: Cells, words: int, node: int, where: int, place: int) -> None:
    """The node goes from the bucket where it was to another; a place is one more than a bucket, 0 is none."""
    before = index[where]
    if before != place:
        if before:
            leave(index, words, before - 1, node)
        if place:
            enter(index, words, place - 1, node)
        index[where] = place


@kernel
def enter(index: Cells, words: int, bucket: int, node: int) -> None:
    """The node is in the bucket from now on; it may have been there."""
    line = index[BUCKETS] + (bucket >> 5) * LINE
    row = index[line + (bucket & 31)]
    if row == 0:
        row = new_row(index)
        index[line + (bucket & 31)] = row
        if index[line + OCCUPIED] == 0:
            index[LINES + (bucket >> 5) // WORD] |= 1 << ((bucket >> 5) % WORD)
        index[line + OCCUPIED] |= 1 << (bucket & 31)
    elif includes(index, row, node):
        return
    include(index, row, words, node)
    index[row + index[ROW] - 1] += 1


@kernel
def leave(index: Cells, words: int, bucket: int, node: int) -> None:
    """The node is no longer in the bucket; it may not have been there."""
    line = index[BUCKETS] + (bucket >> 5) * LINE
    row = index[line + (bucket & 31)]
    if row == 0 or not includes(index, row, node):
        return
    exclude(index, row, words, node)
    size = row + index[ROW] - 1
    index[size] -= 1
    if index[size] == 0:
        index[size], index[CAME_BACK] = index[CAME_BACK], row
        index[line + (bucket & 31)] = 0
        index[line + OCCUPIED] ^= 1 << (bucket & 31)
        if index[line + OCCUPIED] == 0:
            index[LINES + (bucket >> 5) // WORD] ^= 1 << ((bucket >> 5) % WORD)


@kernel
def new_row(index: Cells) -> int:
    """An empty row: one that came back (each of them knows the one before it), else one that was never used."""
    row = index[CAME_BACK]
    if row:
        size = row + index[ROW] - 1
        index[CAME_BACK] = index[size]
        index[size] = 0
        return row
    index[GIVEN_OUT] += 1
    return index[ROWS] + index[GIVEN_OUT] * index[ROW]


@kernel
def settle_devices(ground: Cells, books: Cells, index: Cells, trial: Cells, node: int, before: int) -> int:
    """Put the node where its devices belong now; returns how many are whole."""
    words, devices = ground[WORDS], ground[DEVICES]
    bucket, whole, entered = ((devices + 2) * ground[STEPS]) << 5, 0, 0
    first = trial[FIRST] + node * ground[COLUMNS] + FREE + ground[DIMS]
    for device in range(devices):
        free, was = books[first + device], trial[before + FREE + ground[DIMS] + device]
        if free == DEVICE_MILLI:
            whole += 1
        if free != was:
            if free > 0 and free != entered:
                enter(index, words, bucket + free, node)
                entered = free
            if was > 0 and not has_device_with(books, first, devices, was):
                leave(index, words, bucket + was, node)
    return whole


@kernel
def has_device_with(books: Cells, first: int, devices: int, free: int) -> bool:
    """Whether exactly so much is free of some device."""
    for device in range(first, first + devices):  # noqa: SIM110 -- kernels know no generators
        if books[device] == free:
            return True
    return False


@kernel
def level_of(amount: int, levels: int) -> int:
    """The level on which so much memory is, from 1 up."""
    return min(step(amount, 4) + 1, levels)


@kernel
def climb(index: Cells, words: int, size: int, levels: int, where: int, node: int, level: int) -> None:
    """The node goes up or down to a level: it is in the sets of all levels up to its own."""
    while index[where] > level:
        index[where] -= 1
        exclude(index, levels + index[where] * size, words, node)
    while index[where] < level:
        include(index, levels + index[where] * size, words, node)
        index[where] += 1


@kernel
def build_levels(ground: Cells, books: Cells, index: Cells, trial: Cells) -> None:
    """Put all nodes on their levels at once."""
    words, size = ground[WORDS], ground[SET]
    for node in range(ground[NODES]):
        room, where = trial[FIRST] + node * ground[COLUMNS] + FREE, index[WHERE] + node * NODE
        index[where + CPU_LEVEL] = min(step(books[room + CPU_DIM], 4), ground[STEPS] - 1) + 1
        index[where + MEMORY_LEVEL] = level_of(books[room + MEMORY_DIM] >> 20, ground[LEVELS])
        include(index, index[CPU_LEVELS] + (index[where + CPU_LEVEL] - 1) * size, words, node)
        include(index, index[MEMORY_LEVELS] + (index[where + MEMORY_LEVEL] - 1) * size, words, node)
    for cell in range(index[CPU_LEVELS] + (ground[STEPS] - 1) * size - 1, index[CPU_LEVELS] - 1, -1):
        index[cell] |= index[cell + size]
    for cell in range(index[MEMORY_LEVELS] + (ground[LEVELS] - 1) * size - 1, index[MEMORY_LEVELS] - 1, -1):
        index[cell] |= index[cell + size]
