"""Whose head is next: of the highest class, the queue whose flow per weight with its head is smallest."""

from __future__ import annotations

from muster.engine.kernels.filling import NONE, Books, Limits, Lines, Roll, Rules, Shapes
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.offering import offer


@kernel
def hungriest(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, books: Books, rules: Rules) -> int:
    """The queue whose head is next: of the highest class, the hungriest; -1 if nobody offers anything."""
    best, best_lane = NONE, NONE
    for queue in range(len(lines.begin)):
        if lines.stale[queue]:
            lines.head[queue] = offer(roll, lines, limits, shapes, rules, queue)
            lines.stale[queue] = 0
        if lines.head[queue] == NONE:
            continue
        lane = lines.heap[lines.begin[queue]]
        if best == NONE:
            best, best_lane = queue, lane
            continue
        mine, theirs = roll.lane_class[lane], roll.lane_class[best_lane]
        profile, profile_best = roll.lane_profile[lane], roll.lane_profile[best_lane]
        if mine > theirs or (mine == theirs and is_hungrier(books, shapes, queue, profile, best, profile_best)):
            best, best_lane = queue, lane
    return best


@kernel
def is_hungrier(books: Books, shapes: Shapes, one: int, profile: int, other: int, profile_other: int) -> bool:
    """Whether a queue's flow per weight with its head is smaller than another's; then usage per weight, then name."""
    with_one, with_other = books.usage[one] + shapes.usage[profile], books.usage[other] + shapes.usage[profile_other]
    weight, weight_other = books.weight[one], books.weight[other]
    order = is_less(max(books.flow[one], with_one), weight, max(books.flow[other], with_other), weight_other)
    if order == 0:
        order = is_less(with_one, weight, with_other, weight_other)
    if order == 0:
        return bool(books.name_order[one] < books.name_order[other])
    return order < 0


@kernel
def is_less(one: int, per_one: int, other: int, per_other: int) -> int:
    """Compare one / per_one with other / per_other exactly: -1, 0 or 1. All are positive, and no product is formed."""
    sign = 1
    while True:
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
