"""The weighted max-min of muster.engine.shares over columns: everyone is filled at the same rate per weight."""

from __future__ import annotations

from muster.engine.kernels.filling import Ints
from muster.engine.kernels.hunger import is_less
from muster.engine.kernels.jit import kernel


@kernel
def entitle(demands: Ints, weights: Ints, name_order: Ints, whole: int, order: Ints, entitled: Ints) -> None:
    """Write down what each queue is entitled to. `order` are the queues, best as the last call left them: as little
    as that changes, sorting them takes little."""
    wanted, weight_left = 0, 0
    for queue in range(len(demands)):
        entitled[queue] = demands[queue]
        if demands[queue] > 0:
            wanted += demands[queue]
            weight_left += weights[queue]
    if wanted <= whole:
        return  # nobody has to stop before
    sort_by_need(demands, weights, name_order, order)
    left = whole
    for place in range(len(order)):
        queue = order[place]
        if demands[queue] > 0:
            entitled[queue] = min(demands[queue], left * weights[queue] // weight_left)
            left -= entitled[queue]
            weight_left -= weights[queue]


@kernel
def sort_by_need(demands: Ints, weights: Ints, name_order: Ints, order: Ints) -> None:
    """Those who want least for their weight first; then by name."""
    for begin in range(1, len(order)):
        queue, place = order[begin], begin
        while place > 0 and wants_less(demands, weights, name_order, queue, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = queue


@kernel
def wants_less(demands: Ints, weights: Ints, name_order: Ints, one: int, other: int) -> bool:
    """Whether a queue comes before another."""
    sign = is_less(demands[one], weights[one], demands[other], weights[other])
    if sign == 0:
        return bool(name_order[one] < name_order[other])
    return sign < 0
