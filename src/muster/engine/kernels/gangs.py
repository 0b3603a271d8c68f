"""Groups and gangs: all tasks of a job find their nodes, or none is taken; the widest that fits."""

from __future__ import annotations

from muster.engine.kernels.changes import fill_node, undo
from muster.engine.kernels.choosing import fill_cheapest, fill_cheapest_few
from muster.engine.kernels.closeness import closest, fill_few
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    ANSWER,
    CLOSE,
    LENGTH,
    MEASURE,
    NEVER,
    PLACED,
    PLACEMENTS,
    START,
    TASK,
    TASK_GROUP,
    Cells,
)
from muster.engine.kernels.searching import next_fit
from muster.engine.kernels.sets import ask_of, copy, place_of, set_of


@kernel
def place(
    ground: Cells,
    books: Cells,
    index: Cells,
    circles: Cells,
    trial: Cells,
    groups: Cells,
    least: Cells,
    widths: Cells,
    best: Cells,
    cluster: int,
    column: int,
) -> int:
    """The widest placement from `least` up to `widths`; `best` gets the widths that were reached.

    Returns how many tasks that are; -1, with nothing taken, if not even the least fits. `column` of what groups ask
    says which nodes count: those that take tasks (OPEN), or all (ANY). The log must have room for `widths` once, at
    each moment; who will not undo may set its length to 0.
    """
    copy(best, 0, widths, 0, len(groups))
    total = place_gang(ground, books, index, circles, trial, groups, best, cluster, column)
    if total >= 0 or not is_wider(widths, least):
        return total
    mark = trial[LENGTH]
    copy(best, 0, least, 0, len(groups))
    if place_gang(ground, books, index, circles, trial, groups, best, cluster, column) < 0:
        return -1
    for position in range(len(groups)):
        low, high = least[position], widths[position]
        while low < high:
            undo(ground, books, index, trial, mark)
            best[position] = (low + high + 1) // 2
            if place_gang(ground, books, index, circles, trial, groups, best, cluster, column) < 0:
                high = best[position] - 1
            else:
                low = best[position]
        best[position] = low
    undo(ground, books, index, trial, mark)
    return place_gang(ground, books, index, circles, trial, groups, best, cluster, column)


@kernel
def is_wider(widths: Cells, least: Cells) -> bool:
    """Whether any width is not the least."""
    for position in range(len(widths)):  # noqa: SIM110 -- kernels know no generators
        if widths[position] != least[position]:
            return True
    return False


@kernel
def place_gang(
    ground: Cells,
    books: Cells,
    index: Cells,
    circles: Cells,
    trial: Cells,
    groups: Cells,
    widths: Cells,
    cluster: int,
    column: int,
) -> int:
    """Every group at its width; returns how many tasks that are. -1, with nothing taken, if one does not fit."""
    mark = trial[LENGTH]
    trial[PLACED] = 0
    for position in range(len(groups)):
        width = widths[position]
        placed = place_group(ground, books, index, circles, trial, groups[position], cluster, column, width)
        if placed < width:
            undo(ground, books, index, trial, mark)
            return -1
        for task in range(trial[PLACED] - placed, trial[PLACED]):
            trial[trial[ANSWER] + task * TASK + TASK_GROUP] = position
    books[PLACEMENTS] += trial[PLACED]
    return trial[PLACED]


@kernel
def place_group(
    ground: Cells,
    books: Cells,
    index: Cells,
    circles: Cells,
    trial: Cells,
    group: int,
    cluster: int,
    column: int,
    count: int,
) -> int:
    """As many tasks of the group as fit, up to `count`."""
    ask, place = ask_of(ground, group), place_of(ground, cluster)
    mask = set_of(ground, ground[ask + column])
    if count <= 0 or ground[ask + NEVER]:
        return 0
    if ground[ask + CLOSE]:
        few, place = closest(ground, books, index, circles, trial, group, cluster, column, count)
        if few >= 0 and books[MEASURE]:
            return fill_cheapest_few(ground, books, index, trial, ask, few, count)
        if few >= 0:
            return fill_few(ground, books, index, trial, ask, few, count)
    return fill(ground, books, index, trial, ask, mask, place, count)


@kernel
def fill(ground: Cells, books: Cells, index: Cells, trial: Cells, ask: int, mask: int, place: int, count: int) -> int:
    """Up to `count` tasks on nodes in both sets, tightest first. A node stays the tightest until it is full.

    Where something else than tightness decides, it does so task by task.
    """
    if books[MEASURE]:
        return fill_cheapest(ground, books, index, trial, ask, mask, place, count)
    left, bucket, node = count, ground[ask + START], -1
    while left > 0:
        bucket, node = next_fit(ground, books, index, trial, ask, mask, place, bucket, node + 1)
        if node < 0:
            break
        left -= fill_node(ground, books, index, trial, ask, node, left)
    return count - left
