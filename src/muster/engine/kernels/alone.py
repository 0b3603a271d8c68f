"""Filling the only node there is: queues are weighed against each other as everywhere, but room is a few amounts.

Those who could start do, in the order of filling; the first who cannot is promised room, if nobody is yet.
"""

from __future__ import annotations

from muster.engine.kernels.filling import CAREFUL, DONE, NONE, TIED, Books, Ints, Limits, Lines, Roll, Rules, Shapes
from muster.engine.kernels.glancing import (
    AGED,
    FIRST,
    FREE,
    MANY,
    NOW,
    PLACE,
    PROMISED,
    RESERVED,
    SPARE,
    START,
    Running,
    fits,
    keep_room,
    note_ages,
    take_room,
)
from muster.engine.kernels.hunger import order_queues, reorder_first
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.offering import set_aside
from muster.engine.kernels.starting import write_start


@kernel
def fill_alone(
    roll: Roll,
    lines: Lines,
    limits: Limits,
    shapes: Shapes,
    books: Books,
    rules: Rules,
    running: Running,
    amounts: Ints,
    facts: Ints,
    started: Ints,
) -> int:
    """Fill until nobody is left to offer; or why not: two jobs of one moment must be told apart, or only a whole turn
    can tell what becomes of a head. The aged one comes first."""
    note_ages(roll, facts)
    if facts[FIRST] != NONE:
        lane, row = int(facts[AGED]), int(facts[FIRST])
        facts[FIRST] = NONE
        if not consider(roll, lines, shapes, books, running, amounts, facts, started, lane, row):
            return CAREFUL
    order_queues(roll, lines, limits, shapes, books, rules)
    while True:
        if lines.tie[0] != NONE:
            return TIED
        if lines.offering[0] == 0:
            return DONE
        queue = int(lines.queues[0])
        if lines.stale[queue]:
            reorder_first(roll, lines, limits, shapes, books, rules)
            continue
        row, lane = int(lines.head[queue]), int(lines.heap[lines.begin[queue]])
        if not consider(roll, lines, shapes, books, running, amounts, facts, started, lane, row):
            return CAREFUL


@kernel
def consider(
    roll: Roll,
    lines: Lines,
    shapes: Shapes,
    books: Books,
    running: Running,
    amounts: Ints,
    facts: Ints,
    started: Ints,
    lane: int,
    row: int,
) -> bool:
    """Start the job, promise it room or set it aside; False if it takes a whole turn to tell."""
    queue, profile, bound = int(roll.lane_queue[lane]), int(roll.lane_profile[lane]), 0
    if fits(shapes.least, profile, amounts, FREE):
        if is_in_the_way(roll, shapes.least, amounts, facts, profile, row):
            bound = facts[START] - facts[NOW] + 1
        else:
            if not take_room(row, profile, int(roll.known[row]), shapes.least, amounts, facts, started):
                return False
            write_start(roll, shapes, books, queue, profile, row)
            take_out(roll, lines, lane, row)
            return True
    if facts[PROMISED] == NONE:
        facts[RESERVED], facts[PLACE] = row, facts[MANY]
        books.usage[queue] += shapes.usage[profile]
        books.flow[queue] = max(books.flow[queue], books.usage[queue])
        take_out(roll, lines, lane, row)
        if not keep_room(shapes.least, running, amounts, facts, started, profile):
            return False
    set_aside(lines, queue, profile, bound)
    return True


@kernel
def is_in_the_way(roll: Roll, least: Ints, amounts: Ints, facts: Ints, profile: int, row: int) -> bool:
    """Whether the job would take what was promised to another."""
    if facts[PROMISED] == NONE or 0 <= roll.known[row] <= facts[START] - facts[NOW]:
        return False
    return not fits(least, profile, amounts, SPARE)


@kernel
def take_out(roll: Roll, lines: Lines, lane: int, row: int) -> None:
    """The job stands in line no more."""
    lines.out[row] = 1
    if lines.first[lane] == row:
        lines.first[lane] = roll.next[row]
    lines.stale[roll.lane_queue[lane]] = 1
