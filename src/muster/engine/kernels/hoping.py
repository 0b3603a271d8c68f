"""A quick no for heads that would take from others: by a plain count, is there room if all whom they may take are gone?

Nearly all blocked heads with a right to take have no use of it: those who would have to go have too little, or have it
elsewhere, or their room is promised for good. Only amounts are counted, each group of the head by itself, so that a no
is certain and a yes is not.
"""

from __future__ import annotations

from muster.engine.kernels.filling import (
    NONE,
    Books,
    Care,
    Ceilings,
    Field,
    Ints,
    Offers,
    Roll,
    Rules,
    Shapes,
)
from muster.engine.kernels.hunger import is_less
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.offering import bound_of
from muster.engine.kernels.placing import (
    AMOUNTS,
    COLUMNS,
    DIMS,
    FIRST,
    FREE,
    NEVER,
    NODES,
    OPEN,
    TASK,
    TASK_GROUP,
    TASK_NODE,
    WORD,
    WORDS,
    Cells,
)
from muster.engine.kernels.sets import ask_of, includes, lowest_bit, place_of, set_of

FEW = 1024  # attempts that may give way: what more of them leave is not counted
FIRM = 4  # promises: that later ones hold is not counted

NO, COUNT, YES = range(3)
"""Whether there is hope: there is nobody to take from; what they leave tells; who knows."""


@kernel
def may_take(
    roll: Roll,
    shapes: Shapes,
    books: Books,
    rules: Rules,
    care: Care,
    field: Field,
    starts: int,
    queue: int,
    lane: int,
    row: int,
    has_room: bool,
) -> bool:
    """Whether a head may take from other queues or from lower ranks of its own, and could have room by that.

    If it is not known what it lacks: whatever that is. `has_room`: it is only promised to others.
    """
    profile, is_above = roll.lane_profile[lane], is_above_own(roll, care, queue, lane)
    if not is_above and not care.is_below[queue]:
        return False
    first, last = 0, shapes.least.shape[1]
    if not care.is_below[queue]:
        last = 1  # only shares ask what is short
    elif shapes.scarce_at[profile] == starts and not has_room:
        first, last = shapes.scarce[profile], shapes.scarce[profile] + 1
    met = promises_met(care.ceilings.starts, rules.now, bound_of(roll, rules, row))
    for resource in range(first, last):
        hope = let_all_leave(roll, shapes, books, care, field.ground, queue, lane, resource, is_above, has_room)
        if hope == COUNT and not has_room_anywhere(field, care, profile, met, has_room):
            hope = NO
        forget(field.ground, care.offers.left, care.ceilings)
        if hope != NO:
            return True
    return False


@kernel
def promises_met(starts: Ints, now: int, bound: int) -> int:
    """How many firm promises, of the first few, are due before a head ends that starts now."""
    met = 0
    while met < len(starts) and (bound == NONE or starts[met] < now + bound):
        met += 1
    return met


@kernel
def is_above_own(roll: Roll, care: Care, queue: int, lane: int) -> bool:
    """Whether someone of lower rank in the head's own queue may give way."""
    if care.gives_class[queue] != roll.lane_class[lane]:
        return bool(care.gives_class[queue] < roll.lane_class[lane])
    return bool(care.gives_priority[queue] < roll.lane_priority[lane])


@kernel
def let_all_leave(
    roll: Roll,
    shapes: Shapes,
    books: Books,
    care: Care,
    ground: Cells,
    queue: int,
    lane: int,
    resource: int,
    is_above: bool,
    has_room: bool,
) -> int:
    """Note what all leave from whom a head may take that lacks this resource; whether there is hope.

    Of whom its queue cannot spare nothing is noted; but who has room may start even if nobody goes.
    """
    offers, profile, asked, hope = care.offers, roll.lane_profile[lane], 0, NO
    for other in range(len(care.gives)):
        is_own = other == queue
        if not care.gives[other] or (is_own and not is_above):
            continue
        if not is_own and not has_right_over(shapes, books, care, queue, profile, other, resource):
            continue
        begin, end = offers.first[other], offers.first[other + 1]
        asked += end - begin
        if offers.is_uncounted[other] or asked > FEW:
            return YES
        spare = books.started[other, resource] - care.entitled[other, resource]
        for place in range(begin, end):
            if is_in_reach(roll, offers, lane, place, is_own):
                freed = shapes.least[offers.profile[place], resource]
                if is_own or 0 < freed <= spare:
                    first = 0 if place == 0 else offers.last[place - 1]
                    moves = offers.moves[first * TASK : offers.last[place] * TASK]
                    let_leave(ground, moves, offers.until[place], offers.left, care.ceilings)
                    hope = COUNT
                elif has_room:
                    hope = COUNT
    return hope


@kernel
def has_right_over(
    shapes: Shapes, books: Books, care: Care, queue: int, profile: int, other: int, resource: int
) -> bool:
    """Whether the queue may take from another one for such a job, if it lacks this resource."""
    if not care.is_below[queue]:
        return False
    mine, entitled = books.started[queue, resource], care.entitled[queue, resource]
    if mine >= entitled or (mine > 0 and mine + shapes.least[profile, resource] > entitled):
        return False
    theirs = books.started[other, resource]
    if theirs <= care.entitled[other, resource]:
        return False
    with_head = mine + shapes.least[profile, resource]
    return bool(is_less(with_head, books.weight[queue], theirs, books.weight[other]) <= 0)


@kernel
def is_in_reach(roll: Roll, offers: Offers, lane: int, place: int, is_own: bool) -> bool:
    """Whether the class of the one in this place lets a head take from it; in its own queue, its rank."""
    if not offers.gives[offers.rows[place]] or offers.class_of[place] > roll.lane_class[lane]:
        return False
    if not is_own or offers.class_of[place] < roll.lane_class[lane]:
        return True
    return bool(offers.priority[place] < roll.lane_priority[lane])


# -- counting ----------------------------------------------------------------------------------------------
# left: how many nodes someone leaves, which they are, then for each node how many tasks and how much leave.


@kernel
def let_leave(ground: Cells, moves: Cells, until_ms: int, left: Cells, ceilings: Ceilings) -> None:
    """Note what these tasks leave on their nodes, now and whenever they would still be there."""
    dims, nodes = ground[DIMS], ground[NODES]
    for task in range(0, len(moves), TASK):
        node, ask = moves[task + TASK_NODE], ask_of(ground, moves[task + TASK_GROUP])
        at = 1 + nodes + node * (1 + dims)
        if left[at] == 0:
            left[0] += 1
            left[left[0]] = node
        left[at] += 1
        for dim in range(dims):
            left[at + 1 + dim] += ground[ask + AMOUNTS + dim]
        if len(ceilings.starts) > 0 and ceilings.at[node] != NONE:
            place = ceilings.at[node] * dims
            for moment in range(len(ceilings.starts)):
                if ceilings.starts[moment] < until_ms:
                    for dim in range(dims):
                        ceilings.left[moment, place + dim] += ground[ask + AMOUNTS + dim]


@kernel
def let_those_leave(
    ground: Cells, moves: Cells, lasts: Cells, until: Cells, may: Cells, left: Cells, ceilings: Ceilings
) -> None:
    """Note what those leave who may go; each has the moves up to its own of `lasts`."""
    for place in range(len(lasts)):
        if may[place]:
            first = 0 if place == 0 else lasts[place - 1]
            let_leave(ground, moves[first * TASK : lasts[place] * TASK], until[place], left, ceilings)


@kernel
def forget(ground: Cells, left: Cells, ceilings: Ceilings) -> None:
    """Nobody leaves anything any more."""
    dims, nodes = ground[DIMS], ground[NODES]
    for each in range(left[0]):
        node = left[1 + each]
        at = 1 + nodes + node * (1 + dims)
        for dim in range(1 + dims):
            left[at + dim] = 0
        if len(ceilings.starts) > 0 and ceilings.at[node] != NONE:
            for moment in range(len(ceilings.starts)):
                for dim in range(dims):
                    ceilings.left[moment, ceilings.at[node] * dims + dim] = 0
    left[0] = 0


@kernel
def has_room_anywhere(field: Field, care: Care, profile: int, met: int, has_room: bool) -> bool:
    """Whether there could be room for such a job in any of its clusters."""
    begin, end = field.first_group[profile], field.first_group[profile + 1]
    groups, widths, room = field.groups[begin:end], field.widths[begin:end], field.trial[FIRST]
    left, ceilings = care.offers.left, care.ceilings
    for place in range(field.first_cluster[profile], field.first_cluster[profile + 1]):
        cluster = field.clusters[place]
        if has_room_in(field.ground, field.books, left, ceilings, room, groups, widths, cluster, met, has_room):
            return True
    return False


@kernel
def has_room_in(
    ground: Cells,
    books: Cells,
    left: Cells,
    ceilings: Ceilings,
    room: int,
    groups: Cells,
    widths: Cells,
    cluster: int,
    met: int,
    has_room: bool,
) -> bool:
    """Whether every group, were it alone, could have its min in the cluster with all that others leave, by amounts,
    and beside so many firm promises.

    `has_room`: it is only promised to others; or else a lone task needs a node that someone leaves. The rooms of
    nodes begin at `room`.
    """
    is_choosy = len(groups) == 1 and widths[0] == 1 and not has_room
    for place in range(len(groups)):
        ask, wanted = ask_of(ground, groups[place]), widths[place]
        mask, nodes = set_of(ground, ground[ask + OPEN]), place_of(ground, cluster)
        if ground[ask + NEVER]:
            return False
        if is_choosy:
            for each in range(left[0]):
                node = left[1 + each]
                if wanted and includes(ground, mask, node) and includes(ground, nodes, node):
                    wanted -= takes(ground, books, left, ceilings, room, ask, node, met, wanted)
        else:
            for at in range(ground[WORDS]):
                word = ground[mask + at] & ground[nodes + at]
                while word and wanted:
                    node = at * WORD + lowest_bit(word)
                    wanted -= takes(ground, books, left, ceilings, room, ask, node, met, wanted)
                    word &= word - 1
        if wanted:
            return False
    return True


@kernel
def takes(
    ground: Cells, books: Cells, left: Cells, ceilings: Ceilings, room: int, ask: int, node: int, met: int, most: int
) -> int:
    """How many such tasks a node takes by amounts, with all that others leave on it, counted up to `most`."""
    dims, count = ground[DIMS], most
    free, more = room + node * ground[COLUMNS] + FREE, 2 + ground[NODES] + node * (1 + dims)
    for dim in range(dims):
        amount, there = ground[ask + AMOUNTS + dim], books[free + dim] + left[more + dim]
        if there < amount * count:
            count = there // amount
    if met == 0 or ceilings.at[node] == NONE:
        return count
    place = ceilings.at[node] * dims
    for moment in range(met):
        for dim in range(dims):
            amount = ground[ask + AMOUNTS + dim]
            there = max(ceilings.most[moment, place + dim] + ceilings.left[moment, place + dim], 0)
            if there < amount * count:
                count = there // amount
    return count
