"""The node where a task costs least, found by looking at all that fit (measuring.py)."""

from __future__ import annotations

from muster.engine.kernels.changes import changed, note
from muster.engine.kernels.closeness import tightness
from muster.engine.kernels.fitting import fits, take
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.measuring import FRAGMENTATION, RANDOM, RULE, count_tasks, measure
from muster.engine.kernels.placing import (
    ANSWER,
    COLUMNS,
    FIRST,
    MEASURE,
    MOMENTS,
    NODES,
    PLACED,
    SCANNED,
    SCRATCH,
    TASK,
    TASK_DEVICES,
    TASK_NODE,
    WORD,
    WORDS,
    Cells,
)
from muster.engine.kernels.sets import lowest_bit


@kernel
def fill_cheapest(
    ground: Cells, books: Cells, index: Cells, trial: Cells, ask: int, mask: int, place: int, count: int
) -> int:
    """Up to `count` tasks on nodes in both sets, each where it costs least as things are then."""
    placed = 0
    while placed < count:
        begin(ground, books, trial)
        node, least, tight, chosen = -1, 0, 0, 0
        for at in range(ground[WORDS]):
            word = ground[mask + at] & ground[place + at]
            while word:
                other = at * WORD + lowest_bit(word)
                word &= word - 1
                node, least, tight, chosen = cheaper(
                    ground, books, index, trial, ask, other, node, least, tight, chosen
                )
        if node < 0:
            break
        put_there(ground, books, index, trial, ask, node, chosen)
        placed += 1
    return placed


@kernel
def fill_cheapest_few(ground: Cells, books: Cells, index: Cells, trial: Cells, ask: int, few: int, count: int) -> int:
    """The same on the few nodes in scratch."""
    placed, keys = 0, trial[SCRATCH] + ground[COLUMNS]
    while placed < count:
        begin(ground, books, trial)
        node, least, tight, chosen = -1, 0, 0, 0
        for key in range(keys, keys + few):
            other = trial[key] % ground[NODES]
            node, least, tight, chosen = cheaper(ground, books, index, trial, ask, other, node, least, tight, chosen)
        if node < 0:
            break
        put_there(ground, books, index, trial, ask, node, chosen)
        placed += 1
    return placed


@kernel
def begin(ground: Cells, books: Cells, trial: Cells) -> None:
    """Another task looks for its node."""
    if books[books[MEASURE] + RULE] == RANDOM:
        count_tasks(ground, books, trial)


@kernel
def cheaper(
    ground: Cells,
    books: Cells,
    index: Cells,
    trial: Cells,
    ask: int,
    other: int,
    node: int,
    least: int,
    tight: int,
    chosen: int,
) -> tuple[int, int, int, int]:
    """The other node if it fits and costs less; where nothing else tells them apart, the tighter, then node order."""
    books[SCANNED] += 1
    if not fits(ground, books, trial, other, ask):
        return node, least, tight, chosen
    costs, devices = measure(ground, books, trial, other, ask)
    if node >= 0 and costs > least:
        return node, least, tight, chosen
    is_tight = 0
    if books[books[MEASURE] + RULE] == FRAGMENTATION:
        is_tight = tightness(ground, books, index, trial, other, ask)
    if node < 0 or (costs, is_tight, other) < (least, tight, node):
        return other, costs, is_tight, devices
    return node, least, tight, chosen


@kernel
def put_there(ground: Cells, books: Cells, index: Cells, trial: Cells, ask: int, node: int, chosen: int) -> None:
    """A task is on the node, on these devices, at every moment."""
    note(ground, books, trial, node)
    for at in range(trial[MOMENTS]):
        take(ground, books, trial[FIRST + at] + node * ground[COLUMNS], ask, chosen)
    task = trial[ANSWER] + trial[PLACED] * TASK
    trial[task + TASK_NODE] = node
    trial[task + TASK_DEVICES] = chosen
    trial[PLACED] += 1
    changed(ground, books, index, trial, node)
