"""What each queue offers next: its lanes stand in a heap by their next job (class, whether it gives way to GPU jobs,
priority, score, submit time, rank).

Whom a limit holds back, and who was set aside with others of its profile, is passed over.
"""

from __future__ import annotations

from muster.engine.kernels.filling import CHARGED, NOBODY, NONE, Flags, Limits, Lines, Roll, Rules, Shapes
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.scoring import score


@kernel
def open_lines(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, rules: Rules) -> None:
    """Line up every queue's lanes from their beginning."""
    at = 0
    for queue in range(len(lines.begin)):
        lines.begin[queue] = at
        lane = roll.queue_lane[queue] if lines.is_asked[queue] else NONE
        while lane != NONE:
            if shapes.is_ours[roll.lane_profile[lane]]:
                lines.cursor[lane] = lines.first[lane]
                lines.cursor[lane] = advance(roll, lines, limits, shapes, rules, lane)
                if lines.cursor[lane] != NONE:
                    lines.heap[at] = lane
                    at += 1
            lane = roll.lane_next[lane]
        lines.many[queue] = at - lines.begin[queue]
        heapify(roll, lines, shapes, rules, queue)


@kernel
def catch_up(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, rules: Rules, has_moved: Flags) -> None:
    """The lanes stand as they stood before: look again at those that moved, or whose next job is out."""
    for queue in range(len(lines.begin)):
        begin, kept, is_as_before = lines.begin[queue], 0, True
        for place in range(begin, begin + lines.many[queue]):
            lane = lines.heap[place]
            if has_moved[lane] or lines.out[lines.cursor[lane]]:
                is_as_before = False
                if has_moved[lane]:
                    lines.cursor[lane] = lines.first[lane]
                lines.cursor[lane] = advance(roll, lines, limits, shapes, rules, lane)
                if lines.cursor[lane] == NONE:
                    continue
                look_up_next(roll, lines, shapes, rules, lane)
            lines.heap[begin + kept] = lane
            kept += 1
        if not is_as_before:
            lines.many[queue] = kept
            make_heap(lines, queue)


@kernel
def offer(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, rules: Rules, queue: int) -> int:
    """The queue's next job in order, -1 when it has no more to offer. A lane only ever moves back in its heap."""
    begin = lines.begin[queue]
    if lines.aside_count[queue] >= rules.profiles_deep and lines.is_deep[queue] == 0:
        keep_the_known(roll, lines, limits, shapes, rules, queue)
    while lines.many[queue] > 0:
        lane = lines.heap[begin]
        row = advance(roll, lines, limits, shapes, rules, lane)
        if row == lines.cursor[lane] and row != NONE:
            return row
        lines.cursor[lane] = row
        if row == NONE:
            drop_first(lines, queue)
        else:
            look_up_next(roll, lines, shapes, rules, lane)
            sift_down(lines, queue, 0)
    return NONE


@kernel
def keep_the_known(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, rules: Rules, queue: int) -> None:
    """The queue offers no more profiles than it has: all other lanes leave at once, not one by one as each comes up."""
    lines.is_deep[queue] = 1
    begin, kept = lines.begin[queue], 0
    for place in range(begin, begin + lines.many[queue]):
        lane = lines.heap[place]
        lines.cursor[lane] = advance(roll, lines, limits, shapes, rules, lane)
        if lines.cursor[lane] != NONE:
            lines.heap[begin + kept] = lane
            kept += 1
    lines.many[queue] = kept
    heapify(roll, lines, shapes, rules, queue)


@kernel
def advance(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, rules: Rules, lane: int) -> int:
    """The first job of the lane that may still be offered; -1 if there is none."""
    queue, profile = roll.lane_queue[lane], roll.lane_profile[lane]
    bound = lines.aside[queue, profile]
    if bound == 0 or (bound == NOBODY and lines.aside_count[queue] >= rules.profiles_deep):
        return NONE
    if bound != NOBODY and roll.lane_shortest[lane] >= bound:
        return NONE  # a lane may be long, and each of its rows lies somewhere else
    row = int(lines.cursor[lane])
    while row != NONE:
        if lines.out[row] == 0:
            is_aside = False
            if bound != NOBODY:
                own = bound_of(roll, rules, row)
                is_aside = own == NONE or own >= bound
            if not is_aside and not is_held_back(roll, limits, shapes, queue, profile, row):
                return row
        row = int(roll.next[row])
    return NONE


@kernel
def bound_of(roll: Roll, rules: Rules, row: int) -> int:
    """How long the job can be in the way; -1: nobody knows."""
    known, lifetime = int(roll.known[row]), int(roll.lifetime[row])
    if known >= 0 or not rules.lifetime_bounds or lifetime == NONE:
        return known
    return max(lifetime, 1)


@kernel
def is_held_back(roll: Roll, limits: Limits, shapes: Shapes, queue: int, profile: int, row: int) -> bool:
    """Whether a limit that closed the queue holds for this job too."""
    for place in range(limits.many[queue]):
        user = limits.user[queue, place]
        if limits.profile[queue, place] != NONE:
            alike = limits.profile[queue, place] == profile and limits.lifetime[queue, place] == roll.lifetime[row]
            if alike and user == roll.user[row]:
                return True
        elif user == NONE or user == roll.user[row]:
            if limits.lifetime[queue, place] == CHARGED and roll.lifetime[row] <= 0:
                continue
            resource = limits.resource[queue, place]
            if resource == NONE or shapes.least[profile, resource] > 0:
                return True
    return False


@kernel
def set_aside(lines: Lines, queue: int, profile: int, bound: int) -> None:
    """Jobs of this profile that may be in the way for as long or longer need not be offered again."""
    known = lines.aside[queue, profile]
    if known == NOBODY:
        lines.aside_count[queue] += 1
    if known == NOBODY or bound < known:
        lines.aside[queue, profile] = bound
    lines.stale[queue] = 1


@kernel
def come_late(roll: Roll, lines: Lines, shapes: Shapes, rules: Rules, queue: int, lane: int) -> None:
    """The queue's first lane is offered after all others of its class: its job was not looked at yet."""
    if lines.first_head[queue] == lines.head[queue]:
        lines.first_head[queue] = NONE
    lines.late[lane] = 1
    look_up_next(roll, lines, shapes, rules, lane)
    sift_down(lines, queue, 0)
    lines.stale[queue] = 1


@kernel
def heapify(roll: Roll, lines: Lines, shapes: Shapes, rules: Rules, queue: int) -> None:
    """Make a heap of a queue's lanes."""
    for place in range(lines.begin[queue], lines.begin[queue] + lines.many[queue]):
        look_up_next(roll, lines, shapes, rules, lines.heap[place])
    make_heap(lines, queue)


@kernel
def make_heap(lines: Lines, queue: int) -> None:
    """Put a queue's lanes in the order of a heap, by what is known of their next jobs."""
    for place in range(lines.many[queue] // 2 - 1, -1, -1):
        sift_down(lines, queue, place)


@kernel
def look_up_next(roll: Roll, lines: Lines, shapes: Shapes, rules: Rules, lane: int) -> None:
    """Where the lane's next job stands, kept beside that of other lanes: rows lie far apart."""
    lines.order[lane, 0] = 2 * roll.lane_class[lane] - lines.late[lane]
    lines.order[lane, 1] = roll.lane_priority[lane]
    lines.order[lane, 2] = score(roll, shapes, rules, int(lane), int(lines.cursor[lane]))
    lines.order[lane, 3] = roll.submit[lines.cursor[lane]]
    lines.order[lane, 4] = roll.rank[lines.cursor[lane]]


@kernel
def sift_down(lines: Lines, queue: int, place: int) -> None:
    """Put a lane of a queue's heap where it belongs, below its present place."""
    begin, count = lines.begin[queue], lines.many[queue]
    while True:
        child = 2 * place + 1
        if child >= count:
            return
        if child + 1 < count and comes_before(lines, lines.heap[begin + child + 1], lines.heap[begin + child]):
            child += 1
        if not comes_before(lines, lines.heap[begin + child], lines.heap[begin + place]):
            return
        swap = lines.heap[begin + place]
        lines.heap[begin + place] = lines.heap[begin + child]
        lines.heap[begin + child] = swap
        place = child


@kernel
def drop_first(lines: Lines, queue: int) -> None:
    """The first lane leaves a queue's heap. The last one takes its place, and hardly ever belongs far from the bottom:
    so it is brought up from there, which takes half the comparisons."""
    begin, heap = lines.begin[queue], lines.heap
    lines.many[queue] -= 1
    count = lines.many[queue]
    last, place, child = heap[begin + count], 0, 1
    while child < count:
        if child + 1 < count and comes_before(lines, heap[begin + child + 1], heap[begin + child]):
            child += 1
        heap[begin + place] = heap[begin + child]
        place = child
        child = 2 * place + 1
    while place > 0 and comes_before(lines, last, heap[begin + (place - 1) // 2]):
        heap[begin + place] = heap[begin + (place - 1) // 2]
        place = (place - 1) // 2
    heap[begin + place] = last


@kernel
def comes_before(lines: Lines, one: int, other: int) -> bool:
    """Whether the next job of one lane stands before that of another lane of the same queue."""
    order = lines.order
    if order[one, 0] != order[other, 0]:
        return bool(order[one, 0] > order[other, 0])
    if order[one, 1] != order[other, 1]:
        return bool(order[one, 1] > order[other, 1])
    if order[one, 2] != order[other, 2]:
        return bool(order[one, 2] < order[other, 2])
    if order[one, 3] != order[other, 3]:
        return bool(order[one, 3] < order[other, 3])
    if order[one, 4] == 0 or order[other, 4] == 0:
        lines.tie[0] = order[one, 3]
    return bool(order[one, 4] < order[other, 4])
