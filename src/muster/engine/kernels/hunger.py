"""Whose head is next: of the highest class, the queue that was served least, by what it uses now and by its lead in
service, both per weight; or the one whose flow per weight with its head is smallest, if the policy says so.

The weight is smaller where a queue's jobs usually run long, if the policy says so.

Queues stand in a heap: what happens to the first changes the place of no other.
"""

from __future__ import annotations

from muster.engine.kernels.filling import NONE, Books, Limits, Lines, Roll, Rules, Shapes
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.offering import offer


@kernel
def is_less(one: int, per_one: int, other: int, per_other: int) -> int:
    """Compare one / per_one with other / per_other exactly: -1, 0 or 1. All are positive, and no product is formed."""
    sign = 1
    while True:
        if per_one == per_other:
            return 0 if one == other else sign if one > other else -sign
        whole, whole_other = one // per_one, other // per_other
        if whole != whole_other:
            return sign if whole > whole_other else -sign
        rest, rest_other = one - whole * per_one, other - whole_other * per_other
        if rest == 0 or rest_other == 0:
            if rest == rest_other:
                return 0
            return sign if rest > 0 else -sign
        # a/b < c/d exactly when d/c < b/a: go on with the inverses, turned round
        one, per_one, other, per_other = per_one, rest, per_other, rest_other
        sign = -sign


@kernel
def is_served_before(lines: Lines, books: Books, one: int, other: int) -> bool:
    """Whether a queue's head comes before another's: by class, then who does not give way to GPU jobs, then what is due
    per weight, then usage per weight with the head, then, by service, whose last start is oldest; then name."""
    mine, theirs = (
        lines.order[lines.heap[lines.begin[one]], 0],
        lines.order[lines.heap[lines.begin[other]], 0],
    )
    if mine != theirs:
        return bool(mine > theirs)
    weight, weight_other = books.turn_weight[one], books.turn_weight[other]
    order = is_less(lines.due[one], weight, lines.due[other], weight_other)
    if order == 0:
        order = is_less(lines.usage_with[one], weight, lines.usage_with[other], weight_other)
    if order == 0 and books.memory[0] and books.last_start[one] != books.last_start[other]:
        return bool(books.last_start[one] < books.last_start[other])
    if order == 0:
        return bool(books.name_order[one] < books.name_order[other])
    return order < 0


@kernel
def look_up_head(
    roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, books: Books, rules: Rules, queue: int
) -> bool:
    """Whom the queue offers next, and how it would stand with that; whether there is anyone.

    Its turn comes when the turn of all who were passed over before that one has come.
    """
    if lines.stale[queue]:
        lines.head[queue] = offer(roll, lines, limits, shapes, rules, queue)
        lines.stale[queue] = 0
    if lines.head[queue] == NONE:
        return False
    lane = lines.heap[lines.begin[queue]]
    asks = shapes.usage[roll.lane_profile[lane]]
    if lines.passed_class[queue] == roll.lane_class[lane]:
        asks = max(asks, lines.passed_usage[queue])
    usage = books.usage[queue] + asks
    lines.usage_with[queue] = usage
    if books.memory[0]:
        lines.due[queue] = books.started_usage[queue] * books.memory[0] + books.lead[queue]
    else:
        lines.due[queue] = max(books.flow[queue], usage)
    return True


@kernel
def sift_queue_down(lines: Lines, books: Books, place: int) -> None:
    """Put a queue where it belongs, below its present place."""
    queues, count = lines.queues, lines.offering[0]
    while True:
        child = 2 * place + 1
        if child >= count:
            return
        if child + 1 < count and is_served_before(lines, books, queues[child + 1], queues[child]):
            child += 1
        if not is_served_before(lines, books, queues[child], queues[place]):
            return
        swap = queues[place]
        queues[place] = queues[child]
        queues[child] = swap
        place = child


@kernel
def order_queues(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, books: Books, rules: Rules) -> None:
    """Put all queues that offer something in order."""
    count = 0
    for queue in range(len(lines.begin)):
        if look_up_head(roll, lines, limits, shapes, books, rules, queue):
            lines.queues[count] = queue
            count += 1
    lines.offering[0] = count
    for place in range(count // 2 - 1, -1, -1):
        sift_queue_down(lines, books, place)


@kernel
def reorder_first(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, books: Books, rules: Rules) -> None:
    """Put the first queue, the only one that changed, where it belongs now."""
    if not look_up_head(roll, lines, limits, shapes, books, rules, lines.queues[0]):
        lines.offering[0] -= 1
        lines.queues[0] = lines.queues[lines.offering[0]]
    sift_queue_down(lines, books, 0)
