"""What becomes free as tasks leave, moment by moment."""

from __future__ import annotations

from muster.engine.kernels.changes import remove
from muster.engine.kernels.counting import count_heads
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import TASK, Cells


@kernel
def free_until_enough(
    ground: Cells,
    books: Cells,
    index: Cells,
    trial: Cells,
    moves: Cells,
    lasts: Cells,
    moments: Cells,
    position: int,
    groups: Cells,
    least: Cells,
    cluster: int,
    column: int,
    totals: Cells,
    counts: Cells,
    seen: int,
) -> tuple[int, int, bool]:
    """Let those leave whose moments come, in order, until the nodes take enough tasks of every group by itself.

    Whoever leaves has the moves up to its own of `lasts`. Returns how many have left, as of which change the counts
    are, and whether it is enough.
    """
    while position < len(moments):
        moment = moments[position]
        while position < len(moments) and moments[position] == moment:
            begin = 0 if position == 0 else lasts[position - 1]
            remove(ground, books, index, trial, moves[begin * TASK : lasts[position] * TASK], False)
            position += 1
        seen = count_heads(ground, books, trial, groups, least, cluster, column, totals, counts, seen)
        is_enough = True
        for place in range(len(least)):
            if totals[place] < least[place]:
                is_enough = False
        if is_enough:
            return position, seen, True
    return position, seen, False
