"""Who alone would make enough room by giving way."""

from __future__ import annotations

from muster.engine.kernels.changes import remove, undo
from muster.engine.kernels.fitting import fits
from muster.engine.kernels.gangs import place_gang
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    AMOUNTS,
    CLOSE,
    COLUMNS,
    DIMS,
    FIRST,
    FREE,
    LENGTH,
    NEVER,
    OPEN,
    TASK,
    TASK_GROUP,
    TASK_NODE,
    WHOLE,
    Cells,
)
from muster.engine.kernels.sets import ask_of, includes, place_of, set_of

ENOUGH = 2  # of who may go: they are enough by themselves


@kernel
def who_is_enough(
    ground: Cells,
    books: Cells,
    index: Cells,
    circles: Cells,
    trial: Cells,
    groups: Cells,
    widths: Cells,
    cluster: int,
    moves: Cells,
    lasts: Cells,
    same: Cells,
    may: Cells,
    begin: int,
    end: int,
) -> tuple[int, int]:
    """The first of these jobs without which the head would fit now, and where those just like it end: among them,
    `may` is then ENOUGH for all who are. Only those are asked who `may` (1). (end, end) if nobody is enough.

    A job has the moves up to its own of `lasts`; those with the same number in `same` are alike.
    """
    found = end
    for each in range(begin, end):
        if found < end and same[each] != same[found]:
            return found, each
        if may[each] != 1:
            continue
        first = 0 if each == 0 else lasts[each - 1]
        leaving = moves[first * TASK : lasts[each] * TASK]
        if is_enough(ground, books, index, circles, trial, groups, widths, cluster, leaving):
            may[each] = ENOUGH
            if found == end:
                found = each
    return found, end


@kernel
def who_matters(
    ground: Cells,
    books: Cells,
    index: Cells,
    trial: Cells,
    groups: Cells,
    cluster: int,
    moves: Cells,
    lasts: Cells,
    matters: Cells,
) -> None:
    """Whether any task of the head fits on a node of each of these jobs now, if that one were gone.

    A job has the moves up to its own of `lasts`.
    """
    mark = trial[LENGTH]
    for each in range(len(lasts)):
        first = 0 if each == 0 else lasts[each - 1]
        leaving = moves[first * TASK : lasts[each] * TASK]
        remove(ground, books, index, trial, leaving, True)
        matters[each] = 0
        for place in range(len(groups)):
            if fits_on_any(ground, books, trial, ask_of(ground, groups[place]), cluster, leaving):
                matters[each] = 1
        undo(ground, books, index, trial, mark)


@kernel
def is_enough(
    ground: Cells,
    books: Cells,
    index: Cells,
    circles: Cells,
    trial: Cells,
    groups: Cells,
    widths: Cells,
    cluster: int,
    leaving: Cells,
) -> bool:
    """Whether the head would fit now if these tasks were gone. It does not fit as things are."""
    is_single = len(groups) == 1 and widths[0] == 1
    ask = ask_of(ground, groups[0])
    if is_single and not ground[ask + CLOSE] and not may_be_enough(ground, books, trial, ask, leaving):
        return False
    mark = trial[LENGTH]
    remove(ground, books, index, trial, leaving, True)
    if is_single:
        enough = fits_on_any(ground, books, trial, ask, cluster, leaving)
    else:
        enough = place_gang(ground, books, index, circles, trial, groups, widths, cluster, OPEN) >= 0
    undo(ground, books, index, trial, mark)
    return enough


@kernel
def may_be_enough(ground: Cells, books: Cells, trial: Cells, ask: int, leaving: Cells) -> bool:
    """A quick no: whether some node could have enough of all, even if everything that leaves were on it."""
    dims = ground[DIMS]
    for task in range(0, len(leaving), TASK):
        room = trial[FIRST] + leaving[task + TASK_NODE] * ground[COLUMNS] + FREE
        is_enough_of_all = True
        for dim in range(dims):
            wants = ground[ask + AMOUNTS + dim] - books[room + dim]
            for other in range(0, len(leaving), TASK):
                if wants <= 0:
                    break
                wants -= ground[ask_of(ground, leaving[other + TASK_GROUP]) + AMOUNTS + dim]
            if wants > 0 and not leaves_a_whole_node(ground, leaving):
                is_enough_of_all = False
                break
        if is_enough_of_all:
            return True
    return False


@kernel
def leaves_a_whole_node(ground: Cells, leaving: Cells) -> bool:
    """Whether someone leaves who had a node for itself, and with it more than it asked for."""
    count = 0
    for task in range(0, len(leaving), TASK):
        count += ground[ask_of(ground, leaving[task + TASK_GROUP]) + WHOLE]
    return count > 0


@kernel
def fits_on_any(ground: Cells, books: Cells, trial: Cells, ask: int, cluster: int, leaving: Cells) -> bool:
    """Whether one task fits on some node that others leave."""
    if ground[ask + NEVER]:
        return False
    mask, place = set_of(ground, ground[ask + OPEN]), place_of(ground, cluster)
    for task in range(0, len(leaving), TASK):
        node = leaving[task + TASK_NODE]
        if includes(ground, mask, node) and includes(ground, place, node) and fits(ground, books, trial, node, ask):
            return True
    return False
