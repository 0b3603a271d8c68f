"""Who runs, and who of them ends next: rows of those who run, and a heap of when each really ends."""

from __future__ import annotations

from typing import NamedTuple

from muster.engine.kernels.filling import Ints
from muster.engine.kernels.glancing import Running
from muster.engine.kernels.jit import kernel


class Ends(NamedTuple):
    """Beside the rows of those who run (glancing.Running): who it is, and when that really ends."""

    row: Ints  # of the roll
    moment: Ints
    heap: Ints  # rows of those who run, the next to end first; behind `many` of them, those that are free
    many: Ints  # one number


@kernel
def begin(running: Running, ends: Ends, row: int, profile: int, known_end: int, real_end: int) -> None:
    """A job starts: it is said to end then, and really will."""
    place = ends.many[0]
    at = ends.heap[place]
    running.many[at], running.ends[at], running.profiles[at] = 1, known_end, profile
    ends.row[at], ends.moment[at] = row, real_end
    ends.many[0] += 1
    while place > 0 and ends.moment[at] < ends.moment[ends.heap[(place - 1) // 2]]:
        ends.heap[place] = ends.heap[(place - 1) // 2]
        place = (place - 1) // 2
    ends.heap[place] = at


@kernel
def end_next(running: Running, ends: Ends) -> int:
    """Whoever ends next is gone; where it ran, which is free from now on."""
    at = int(ends.heap[0])
    ends.many[0] -= 1
    many = ends.many[0]
    last, place, child = ends.heap[many], 0, 1
    while child < many:
        if child + 1 < many and ends.moment[ends.heap[child + 1]] < ends.moment[ends.heap[child]]:
            child += 1
        if ends.moment[ends.heap[child]] >= ends.moment[last]:
            break
        ends.heap[place] = ends.heap[child]
        place = child
        child = 2 * place + 1
    ends.heap[place] = last
    ends.heap[many] = at
    running.many[at] = 0
    return at
