"""Counts over the nodes of a cluster: what one more task lacks on them, and how many tasks they take."""

from __future__ import annotations

from muster.engine.kernels.fitting import has_devices, how_many, leaves_cores, lowest
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    AMOUNTS,
    CHANGES,
    COLUMNS,
    CORES,
    CPU_DIM,
    DIMS,
    FIRST,
    FREE,
    GPU_DIM,
    GPUS,
    MEMORY_DIM,
    MOMENTS,
    NODES,
    PODS_DIM,
    RING,
    RING_SIZE,
    TASKS,
    WHOLE,
    WORD,
    WORDS,
    Cells,
)
from muster.engine.kernels.sets import ask_of, includes, lowest_bit, place_of, set_of


@kernel
def count_lacking(
    ground: Cells, books: Cells, trial: Cells, group: int, cluster: int, column: int, lacking: Cells
) -> int:
    """On how many nodes one more task lacks each dimension, then a node for itself, then nothing.

    Returns how many nodes there are that it may use.
    """
    ask, matching = ask_of(ground, group), 0
    mask, place = set_of(ground, ground[ask + column]), place_of(ground, cluster)
    if trial[MOMENTS] == 1 and not ground[ask + WHOLE] and not ground[ask + GPUS] and not books[CORES]:
        return count_short(ground, books, trial[FIRST] + FREE, ask + AMOUNTS, mask, place, lacking)
    for at in range(ground[WORDS]):
        word = ground[mask + at] & ground[place + at]
        while word:
            matching += 1
            add_lacking(ground, books, trial, at * WORD + lowest_bit(word), ask, lacking)
            word &= word - 1
    return matching


@kernel
def count_short(ground: Cells, books: Cells, first: int, amounts: int, mask: int, place: int, lacking: Cells) -> int:
    """The same for plain amounts at one moment, each node looked at once; the first one has them from `first` on."""
    columns, dims, matching, enough = ground[COLUMNS], ground[DIMS], 0, 0
    cpu, memory = ground[amounts + CPU_DIM], ground[amounts + MEMORY_DIM]
    gpus, pods = ground[amounts + GPU_DIM], ground[amounts + PODS_DIM]
    no_cpu, no_memory, no_gpus, no_pods = 0, 0, 0, 0  # counted apart: cells are written to much more slowly
    for at in range(ground[WORDS]):
        word = ground[mask + at] & ground[place + at]
        while word:
            room = first + (at * WORD + lowest_bit(word)) * columns
            lacks_cpu, lacks_memory = int(books[room + CPU_DIM] < cpu), int(books[room + MEMORY_DIM] < memory)
            lacks_gpus, lacks_pods = int(books[room + GPU_DIM] < gpus), int(books[room + PODS_DIM] < pods)
            no_cpu += lacks_cpu
            no_memory += lacks_memory
            no_gpus += lacks_gpus
            no_pods += lacks_pods
            lacks = lacks_cpu | lacks_memory | lacks_gpus | lacks_pods
            for dim in range(PODS_DIM + 1, dims):
                is_short = int(books[room + dim] < ground[amounts + dim])
                lacking[dim] += is_short
                lacks |= is_short
            enough += 1 - lacks
            matching += 1
            word &= word - 1
    lacking[CPU_DIM] += no_cpu
    lacking[MEMORY_DIM] += no_memory
    lacking[GPU_DIM] += no_gpus
    lacking[PODS_DIM] += no_pods
    lacking[dims + 1] += enough
    return matching


@kernel
def add_lacking(ground: Cells, books: Cells, trial: Cells, node: int, ask: int, lacking: Cells) -> None:
    """Count what one more task lacks on the node."""
    dims, room = ground[DIMS], node * ground[COLUMNS]
    if ground[ask + WHOLE]:
        for at in range(trial[MOMENTS]):
            if books[trial[FIRST + at] + room + TASKS]:
                lacking[dims] += 1
                return
    lacks_nothing, lacks_gpus = True, False
    for dim in range(dims):
        if lowest(books, trial, room + FREE + dim) < ground[ask + AMOUNTS + dim]:
            lacking[dim] += 1
            lacks_nothing, lacks_gpus = False, lacks_gpus or dim == GPU_DIM
    if ground[ask + GPUS] and not lacks_gpus and not has_devices(ground, books, trial, node, ask):
        lacking[GPU_DIM] += 1
        lacks_nothing = False
    if lacks_nothing and books[CORES]:
        for at in range(trial[MOMENTS]):
            if lacks_nothing and not leaves_cores(ground, books, trial[FIRST + at] + room, ask):
                lacking[CPU_DIM] += 1
                lacks_nothing = False
    if lacks_nothing:
        lacking[dims + 1] += 1


@kernel
def count_heads(
    ground: Cells,
    books: Cells,
    trial: Cells,
    groups: Cells,
    least: Cells,
    cluster: int,
    column: int,
    totals: Cells,
    counts: Cells,
    seen: int,
) -> int:
    """How many tasks of each group the nodes take, in all and by group and node; returns as of which change.

    Counts were right as of the change `seen`; -1 if they are still zeros.
    """
    nodes, changes, size = ground[NODES], books[CHANGES], books[RING_SIZE]
    from_scratch = seen < 0 or changes - seen > size
    for position in range(len(groups)):
        ask = ask_of(ground, groups[position])
        mask, place = set_of(ground, ground[ask + column]), place_of(ground, cluster)
        for each in range(nodes if from_scratch else changes - seen):
            node = each if from_scratch else books[RING + ((seen + each) & (size - 1))]
            if includes(ground, mask, node) and includes(ground, place, node):
                count = how_many(ground, books, trial, node, ask, least[position])
                totals[position] += count - counts[position * nodes + node]
                counts[position * nodes + node] = count
    return changes
