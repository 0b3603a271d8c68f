"""What it costs to put one more task of a head on a node: who would have to leave it (design.md 5.5).

Tenants are tasks that must leave if a head needs their room. What goes together is a unit: one task above its job's
min, or the rest of a job with all that is above. On a node a unit is told by its first tenant there.
"""

from __future__ import annotations

from typing import NamedTuple

from muster.engine.kernels.changes import note
from muster.engine.kernels.fitting import fits, give, take
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    AMOUNTS,
    COLUMNS,
    DIMS,
    EMPTIES,
    FIRST,
    FREE,
    LENGTH,
    LOG,
    LOG_ROOM,
    MOMENTS,
    TASK,
    TASK_DEVICES,
    TASK_GROUP,
    WHOLE,
    Cells,
)
from muster.engine.kernels.sets import ask_of, copy


class Tenants(NamedTuple):
    """Attempts, one after the other, and their tasks; then the tasks node by node.

    `rank`: its class, or lower than any if it only borrows. `gone`: of a task, whether it is. A task in a budget has a
    `slot`, else -1; so many of a slot are `allowed` to go without a violation, or at all if it `is_wall`. On a node are
    those of `here` from `begin` of its number on.
    """

    rank: Cells
    started: Cells
    ends: Cells  # when it leaves by itself, as far as anyone stated
    mark: Cells
    first: Cells  # and, behind the last one, how many tasks there are
    moves: Cells
    owner: Cells
    above: Cells
    gone: Cells
    slot: Cells
    allowed: Cells
    is_wall: Cells
    begin: Cells
    here: Cells


class Units(NamedTuple):
    """The units on one node, in the order in which they go: the place in `here` of the first tenant of each."""

    many: Cells  # how many; how many pairs could not be told apart
    first: Cells
    violates: Cells
    goes: Cells


# What a node costs. POSSIBLE: whether one more task can be there if others leave, or may be and costs at least so much.
POSSIBLE, VIOLATIONS, TOP, CLASSES, TASKS, STARTED, COST = range(7)
NO, YES, MAYBE = range(3)
STAYS_WITHIN, VIOLATES, IS_WALLED = range(3)
FREE_OF_CHARGE = -(1 << 62) - 1  # the top class where nobody needs to leave


@kernel
def appraise(
    ground: Cells,
    books: Cells,
    trial: Cells,
    starts: Cells,
    tenants: Tenants,
    units: Units,
    costs: Cells,
    ask: int,
    limit: int,
    node: int,
) -> None:
    """Work out what one more task on the node costs if all ranks below the limit may leave; `units` say who goes.

    `starts`: when each moment of the trial is, from now on.
    """
    cost = node * COST
    units.many[0] = 0
    is_free(ground, books, trial, costs, ask, node)
    if costs[cost + POSSIBLE] == YES:
        return
    costs[cost + POSSIBLE] = YES
    line_up(tenants, units, limit, node)
    mark = trial[LENGTH]
    note(ground, books, trial, node)
    for unit in range(units.many[0]):
        units.goes[unit] = 1
        move(ground, books, trial, starts, tenants, units.first[unit], node, True)
    if fits(ground, books, trial, node, ask):
        spare(ground, books, trial, starts, tenants, units, ask, node)
        for unit in range(units.many[0]):
            if units.goes[unit]:
                charge(tenants, costs, units.first[unit], cost)
        for unit in range(units.many[0]):
            if units.goes[unit]:
                settle_budget(tenants, units.first[unit], 1)
    else:
        costs[cost + POSSIBLE] = NO
    # The room is as it was: nothing that follows from it has changed.
    while trial[LENGTH] > mark:
        trial[LENGTH] -= 1
        entry = trial[LOG] + trial[LENGTH] * (ground[COLUMNS] + LOG_ROOM)
        copy(books, trial[entry] + node * ground[COLUMNS], trial, entry + LOG_ROOM, ground[COLUMNS])


@kernel
def is_free(ground: Cells, books: Cells, trial: Cells, costs: Cells, ask: int, node: int) -> None:
    """Begin with what the node costs if nobody needs to leave, and whether that is so."""
    cost = node * COST
    for column in range(VIOLATIONS, COST):
        costs[cost + column] = 0
    costs[cost + TOP] = FREE_OF_CHARGE
    costs[cost + POSSIBLE] = YES if fits(ground, books, trial, node, ask) else NO


@kernel
def estimate(
    ground: Cells,
    books: Cells,
    trial: Cells,
    tenants: Tenants,
    costs: Cells,
    ask: int,
    limit: int,
    node: int,
) -> None:
    """What the node costs at least; most nodes are then never looked at more closely."""
    cost, room = node * COST, trial[FIRST] + node * ground[COLUMNS] + FREE
    is_free(ground, books, trial, costs, ask, node)
    if costs[cost + POSSIBLE] == YES:
        return
    lowest, newest, least, many = 1 << 62, 0, 1, 0
    for place in range(tenants.begin[node], tenants.begin[node + 1]):
        task = tenants.here[place]
        owner = tenants.owner[task]
        if tenants.gone[task] == 0 and tenants.rank[owner] < limit:
            many += 1
            lowest, newest = min(lowest, tenants.rank[owner]), max(newest, tenants.started[owner])
    if many == 0:
        return
    for dim in range(ground[DIMS]):
        missing = ground[ask + AMOUNTS + dim] - books[room + dim]
        if missing > 0:
            least = max(least, how_few(ground, tenants, limit, node, dim, missing))
    costs[cost + POSSIBLE] = MAYBE
    costs[cost + TOP], costs[cost + CLASSES] = lowest, least * max(lowest, 0)
    costs[cost + TASKS], costs[cost + STARTED] = least, newest


@kernel
def how_few(ground: Cells, tenants: Tenants, limit: int, node: int, dim: int, missing: int) -> int:
    """How many tenants must leave at least to free so much; one that has the node for itself may free it all."""
    most = 1
    for place in range(tenants.begin[node], tenants.begin[node + 1]):
        task = tenants.here[place]
        if tenants.gone[task] == 0 and tenants.rank[tenants.owner[task]] < limit:
            theirs = ask_of(ground, tenants.moves[task * TASK + TASK_GROUP])
            if ground[theirs + WHOLE]:
                return 1
            most = max(most, ground[theirs + AMOUNTS + dim])
    return (missing + most - 1) // most


@kernel
def line_up(tenants: Tenants, units: Units, limit: int, node: int) -> None:
    """The units on the node in the order in which they go; there are few, so each is put in its place."""
    many, rest = 0, -1
    for place in range(tenants.begin[node], tenants.begin[node + 1]):
        task = tenants.here[place]
        owner = tenants.owner[task]
        if tenants.gone[task] or tenants.rank[owner] >= limit:
            continue
        if tenants.above[task] == 0:
            if owner == rest:
                continue  # tenants of one attempt are side by side
            rest = owner
        violates = would_violate(tenants, task)
        if violates == IS_WALLED:
            continue
        at = many
        while at > 0 and goes_before(tenants, units, task, violates, at - 1):
            units.first[at], units.violates[at] = units.first[at - 1], units.violates[at - 1]
            at -= 1
        units.first[at], units.violates[at] = place, violates
        many += 1
    units.many[0] = many
    if len(tenants.allowed):
        keep_within_walls(tenants, units)


@kernel
def keep_within_walls(tenants: Tenants, units: Units) -> None:
    """Of units behind one wall only the first to go are left, as many as may go together."""
    left = 0
    for unit in range(units.many[0]):
        first = units.first[unit]
        if would_violate(tenants, tenants.here[first]) == IS_WALLED:
            continue
        settle_budget(tenants, first, -1)
        units.first[left], units.violates[left] = first, units.violates[unit]
        left += 1
    units.many[0] = left
    for unit in range(left):
        settle_budget(tenants, units.first[unit], 1)


@kernel
def goes_before(tenants: Tenants, units: Units, task: int, violates: int, other: int) -> bool:
    """Whether the unit of a task goes before another one: without a violation, borrowers, the lowest class, single
    tasks, the newest."""
    if violates != units.violates[other]:
        return violates < units.violates[other]
    theirs = tenants.here[units.first[other]]
    me, them = tenants.owner[task], tenants.owner[theirs]
    if tenants.rank[me] != tenants.rank[them]:
        return tenants.rank[me] < tenants.rank[them]
    is_whole, are_whole = tenants.above[task] == 0, tenants.above[theirs] == 0
    if is_whole != are_whole:
        return are_whole
    if tenants.started[me] != tenants.started[them]:
        return tenants.started[me] > tenants.started[them]
    if tenants.mark[me] != tenants.mark[them]:
        return tenants.mark[me] < tenants.mark[them]
    if me != them:
        units.many[1] += 1
    return tenants.above[task] < tenants.above[theirs]


@kernel
def would_violate(tenants: Tenants, task: int) -> int:
    """Whether the unit of a task cannot go without violating a disruption budget, or because of a wall."""
    if len(tenants.allowed) == 0:
        return STAYS_WITHIN
    owner = tenants.owner[task]
    first, last = (task, task + 1) if tenants.above[task] else (tenants.first[owner], tenants.first[owner + 1])
    violates = STAYS_WITHIN
    for each in range(first, last):
        if tenants.gone[each] == 0 and tenants.slot[each] >= 0:
            if tenants.allowed[tenants.slot[each]] <= 0:
                violates = max(violates, IS_WALLED if tenants.is_wall[tenants.slot[each]] else VIOLATES)
            tenants.allowed[tenants.slot[each]] -= 1
    for each in range(first, last):
        if tenants.gone[each] == 0 and tenants.slot[each] >= 0:
            tenants.allowed[tenants.slot[each]] += 1
    return violates


@kernel
def move(
    ground: Cells,
    books: Cells,
    trial: Cells,
    starts: Cells,
    tenants: Tenants,
    place: int,
    node: int,
    gives: bool,
) -> None:
    """What the unit of the tenant in a place has on the node leaves, or comes back."""
    task = tenants.here[place]
    owner, is_whole = tenants.owner[task], tenants.above[task] == 0
    while place < tenants.begin[node + 1]:
        task = tenants.here[place]
        if tenants.owner[task] != owner:
            break
        if tenants.gone[task] == 0 and (not is_whole or tenants.above[task] == 0):
            ask = ask_of(ground, tenants.moves[task * TASK + TASK_GROUP])
            devices = tenants.moves[task * TASK + TASK_DEVICES]
            for at in range(trial[MOMENTS]):
                room = trial[FIRST + at] + node * ground[COLUMNS]
                if not is_there(tenants, starts, owner, at):
                    continue
                if gives:
                    give(ground, books, room, ask, devices, books[EMPTIES] + node * ground[COLUMNS])
                else:
                    take(ground, books, room, ask, devices)
        if not is_whole:
            break
        place += 1


@kernel
def is_there(tenants: Tenants, starts: Cells, owner: int, at: int) -> bool:
    """Whether an attempt is still there at a moment: not if it is stated to have left by then."""
    return at == 0 or tenants.ends[owner] <= starts[0] or tenants.ends[owner] > starts[at]


@kernel
def spare(
    ground: Cells,
    books: Cells,
    trial: Cells,
    starts: Cells,
    tenants: Tenants,
    units: Units,
    ask: int,
    node: int,
) -> None:
    """Put back whoever need not go, the last to go first."""
    for unit in range(units.many[0] - 1, -1, -1):
        if goes_with_another(tenants, units, unit):
            units.goes[unit] = 0
            continue
        move(ground, books, trial, starts, tenants, units.first[unit], node, False)
        if fits(ground, books, trial, node, ask):
            units.goes[unit] = 0
        else:
            move(ground, books, trial, starts, tenants, units.first[unit], node, True)


@kernel
def goes_with_another(tenants: Tenants, units: Units, unit: int) -> bool:
    """Whether a task above min goes with the rest of its job, which comes later in the order."""
    task = tenants.here[units.first[unit]]
    if tenants.above[task] == 0:
        return False
    for later in range(unit + 1, units.many[0]):
        other = tenants.here[units.first[later]]
        if units.goes[later] and tenants.above[other] == 0 and tenants.owner[other] == tenants.owner[task]:
            return True
    return False


@kernel
def charge(tenants: Tenants, costs: Cells, place: int, cost: int) -> None:
    """Add what it costs that the unit of the tenant in a place goes."""
    task = tenants.here[place]
    owner = tenants.owner[task]
    rank, started = tenants.rank[owner], tenants.started[owner]
    first, last = (task, task + 1) if tenants.above[task] else (tenants.first[owner], tenants.first[owner + 1])
    if costs[cost + TASKS] == 0 or started < costs[cost + STARTED]:
        costs[cost + STARTED] = started
    costs[cost + TOP] = max(costs[cost + TOP], rank)
    for each in range(first, last):
        if tenants.gone[each] == 0:
            costs[cost + TASKS] += 1
            costs[cost + CLASSES] += max(rank, 0)
            if tenants.slot[each] >= 0:
                costs[cost + VIOLATIONS] += tenants.allowed[tenants.slot[each]] <= 0
                tenants.allowed[tenants.slot[each]] -= 1


@kernel
def settle_budget(tenants: Tenants, place: int, sign: int) -> None:
    """The tasks of a unit count as there (1) or as gone (-1) in their budgets."""
    if len(tenants.allowed) == 0:
        return
    task = tenants.here[place]
    owner = tenants.owner[task]
    first, last = (task, task + 1) if tenants.above[task] else (tenants.first[owner], tenants.first[owner + 1])
    for each in range(first, last):
        if tenants.gone[each] == 0 and tenants.slot[each] >= 0:
            tenants.allowed[tenants.slot[each]] += sign


@kernel
def is_cheaper(costs: Cells, node: int, other: int) -> bool:
    """Whether a node costs less than another: violations, top class, class sum, tasks, newest start."""
    mine, theirs = node * COST, other * COST
    for column in range(VIOLATIONS, STARTED):
        if costs[mine + column] != costs[theirs + column]:
            return costs[mine + column] < costs[theirs + column]
    return costs[mine + STARTED] > costs[theirs + STARTED]
