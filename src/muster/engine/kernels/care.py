"""Which heads need a careful look: those that a limit may hold back, that may pass a promise, reserve, or take.

The kernel only says that they may; the planner knows for sure.
"""

from __future__ import annotations

from muster.engine.kernels.filling import NONE, Books, Care, Field, Roll, Rules, Shapes
from muster.engine.kernels.hoping import may_take
from muster.engine.kernels.jit import kernel


@kernel
def may_be_limited(
    roll: Roll, shapes: Shapes, books: Books, rules: Rules, starts: int, queue: int, profile: int, row: int, lane: int
) -> bool:
    """Whether a limit may forbid admitting the job, its share apart; the planner knows for sure."""
    if rules.asks_planner or books.asks_planner[queue] or roll.lane_asks[lane]:
        return True
    if books.cordoned[queue] or starts >= rules.starts_per_turn or books.starts[queue] >= rules.starts_per_queue:
        return True
    usage = shapes.usage[profile]
    if (  # rows of a million jobs lie far apart: they are looked up last
        books.has_budget[queue]
        and max(books.flow[queue], books.usage[queue] + usage) > books.nominal[queue]
        and roll.lifetime[row] > 0
    ):
        return True
    for resource in range(shapes.least.shape[1]):
        asks = shapes.least[profile, resource]
        if asks > 0 and books.held[queue, resource] + asks > books.quota[queue, resource]:
            return True
    if books.quotas[0] == 0:
        return False
    user = int(roll.user[row])
    return bool(books.user_asks_planner[user] or is_beyond_quota(shapes, books, profile, user))


@kernel
def has_quota(roll: Roll, books: Books, row: int) -> bool:
    """Whether the job's user has a quota."""
    return bool(books.quotas[0] > 0 and books.user_has_quota[roll.user[row]])


@kernel
def is_beyond_quota(shapes: Shapes, books: Books, profile: int, user: int) -> bool:
    """Whether the user would hold more than a quota of theirs with such a job."""
    if not books.user_has_quota[user]:
        return False
    for resource in range(shapes.least.shape[1]):
        asks = shapes.least[profile, resource]
        if asks > 0 and books.user_held[user, resource] + asks > books.user_quota[user, resource]:
            return True
    return False


@kernel
def fixed_flow_with(shapes: Shapes, books: Books, queue: int, profile: int) -> int:
    """The flow of the queue's jobs without a lifetime if one more of them were admitted."""
    return int(max(books.fixed_flow[queue], books.fixed_usage[queue] + shapes.usage[profile]))


@kernel
def may_overtake(roll: Roll, field: Field, row: int) -> bool:
    """Whether the job, if it starts, may pass a promise on the strength of its lifetime alone."""
    return bool(len(field.starts) > 0 and roll.known[row] == NONE and roll.lifetime[row] != NONE)


@kernel
def needs_care(
    roll: Roll,
    shapes: Shapes,
    books: Books,
    rules: Rules,
    care: Care,
    field: Field,
    starts: int,
    queue: int,
    profile: int,
    row: int,
    lane: int,
    has_room: bool,
) -> bool:
    """Whether a job that cannot start may reserve room, or take some from others. `has_room`: it is only promised."""
    if care.asks_planner or care.may_reserve[shapes.asks_gpu[profile]] or care.lowest_class < roll.lane_class[lane]:
        return True
    if row < len(care.was_overtaken) and care.was_overtaken[row]:
        return True
    return may_take(roll, shapes, books, rules, care, field, starts, queue, lane, row, has_room)
