"""What becomes free as tasks leave, moment by moment."""

from __future__ import annotations

from muster.engine.kernels.changes import put, put_one, remove, undo
from muster.engine.kernels.counting import count_heads
from muster.engine.kernels.fitting import holds
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import LENGTH, TASK, TASK_DEVICES, TASK_GROUP, TASK_NODE, Cells


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
        if are_enough(totals, least):
            return position, seen, True
    return position, seen, False


@kernel
def are_enough(totals: Cells, least: Cells) -> bool:
    """Whether there is room for enough tasks of every group."""
    missing = 0
    for place in range(len(least)):
        missing += totals[place] < least[place]
    return missing == 0


@kernel
def who_must_go(
    ground: Cells,
    books: Cells,
    index: Cells,
    trial: Cells,
    moves: Cells,
    lasts: Cells,
    groups: Cells,
    least: Cells,
    cluster: int,
    column: int,
    totals: Cells,
    counts: Cells,
    must: Cells,
) -> None:
    """With all of them gone: `must` is 1 for whoever leaves too little room for some group by coming back alone.

    Totals and counts are zeros at first. Whoever leaves has the moves up to its own of `lasts`; rooms are as before.
    """
    before = trial[LENGTH]
    remove(ground, books, index, trial, moves, True)
    seen, gone = -1, trial[LENGTH]
    for each in range(len(lasts)):
        begin = 0 if each == 0 else lasts[each - 1]
        put(ground, books, index, trial, moves[begin * TASK : lasts[each] * TASK], True)
        seen = count_heads(ground, books, trial, groups, least, cluster, column, totals, counts, seen)
        must[each] = 0 if are_enough(totals, least) else 1
        undo(ground, books, index, trial, gone)
    undo(ground, books, index, trial, before)


@kernel
def take_while(
    ground: Cells,
    books: Cells,
    index: Cells,
    trial: Cells,
    tasks: Cells,
    begin: int,
    end: int,
    moves: Cells,
    lasts: Cells,
    may: Cells,
    gone: Cells,
) -> int:
    """Tasks from one place to another take their room; while there is none, the first on their node who `may` leaves.

    Whoever leaves is `gone`, and has the moves up to its own of `lasts`. Returns the first task for which nobody is
    left to go, which takes nothing; the end if there is none.
    """
    for each in range(begin, end):
        task = each * TASK
        group, node, devices = tasks[task + TASK_GROUP], tasks[task + TASK_NODE], tasks[task + TASK_DEVICES]
        while not holds(ground, books, trial, group, node, devices):
            leaver = first_on(node, moves, lasts, may, gone)
            if leaver == len(may):
                return each
            gone[leaver] = 1
            first = 0 if leaver == 0 else lasts[leaver - 1]
            remove(ground, books, index, trial, moves[first * TASK : lasts[leaver] * TASK], False)
        put_one(ground, books, index, trial, group, node, devices)
        trial[LENGTH] = 0
    return end


@kernel
def first_on(node: int, moves: Cells, lasts: Cells, may: Cells, gone: Cells) -> int:
    """The first on a node who may leave and has not; as many as there are if nobody is."""
    move = 0
    for each in range(len(may)):
        while move < lasts[each]:
            if moves[move * TASK + TASK_NODE] == node and may[each] and not gone[each]:
                return each
            move += 1
    return len(may)
