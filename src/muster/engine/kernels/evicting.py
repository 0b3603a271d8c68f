"""For every task of a group the node where it costs least, task by task (design.md 5.5)."""

from __future__ import annotations

from muster.engine.kernels.changes import changed, fill_node, note
from muster.engine.kernels.costing import (
    COST,
    MAYBE,
    NO,
    POSSIBLE,
    TASKS,
    Tenants,
    Units,
    appraise,
    estimate,
    is_cheaper,
    is_there,
    settle_budget,
)
from muster.engine.kernels.fitting import give
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    CHANGES,
    COLUMNS,
    EMPTIES,
    FIRST,
    MOMENTS,
    NEVER,
    NODES,
    OPEN,
    PLACED,
    RING,
    RING_SIZE,
    TASK,
    TASK_DEVICES,
    TASK_GROUP,
    TASK_NODE,
    Cells,
)
from muster.engine.kernels.sets import ask_of, includes, place_of, set_of

BLOCK = 64  # nodes, the cheapest of which is kept until one of them changes
UNKNOWN = -2

TOO_DEAR, NO_ROOM_TO_LOG, TIED = -1, -2, -3
"""Why nothing was chosen: some task fits nowhere, whoever leaves; the log is too short; two could not be told apart."""


@kernel
def choose_for_group(
    ground: Cells,
    books: Cells,
    index: Cells,
    trial: Cells,
    starts: Cells,
    tenants: Tenants,
    units: Units,
    costs: Cells,
    best: Cells,
    seen: Cells,
    chosen: Cells,
    group: int,
    width: int,
    cluster: int,
    limit: int,
    log: int,
) -> int:
    """Put so many tasks of a group where they cost least, and let those go who must; returns how many tasks go.

    `chosen` gets those tasks behind the ones it has, which chosen[0] counts. `seen[0]`: as of which change the costs
    are known, -1 if not at all; `best`: the cheapest node of each block. The log has room for `log` more tasks. What
    was done is left to be undone.
    """
    ask = ask_of(ground, group)
    if ground[ask + NEVER]:
        return TOO_DEAR
    units.many[1] = 0
    bring_up_to_date(ground, books, trial, tenants, costs, best, seen, ask, cluster, limit)
    before = chosen[0]
    for placed in range(width):
        if units.many[1]:
            return TIED
        node = cheapest(ground, books, trial, starts, tenants, units, costs, best, ask, limit)
        if node < 0:
            return TOO_DEAR
        # The log must also take the node itself, twice: what is put on it, and what is tried there.
        if chosen[0] - before + costs[node * COST + TASKS] + placed + 3 > log:
            return NO_ROOM_TO_LOG
        first = chosen[0]
        let_go(ground, books, index, trial, starts, tenants, units, costs, chosen, ask, limit, node)
        trial[PLACED] = 0
        fill_node(ground, books, index, trial, ask, node, 1)
        estimate_if_open(ground, books, trial, tenants, costs, best, ask, cluster, limit, node)
        for each in range(first, chosen[0]):
            owner = tenants.owner[chosen[1 + each]]
            if each > first and tenants.owner[chosen[each]] == owner:
                continue
            for task in range(tenants.first[owner], tenants.first[owner + 1]):
                other = tenants.moves[task * TASK + TASK_NODE]
                estimate_if_open(ground, books, trial, tenants, costs, best, ask, cluster, limit, other)
        if is_walled(tenants, chosen, first):
            for other in range(ground[NODES]):
                estimate_if_open(ground, books, trial, tenants, costs, best, ask, cluster, limit, other)
    return TIED if units.many[1] else chosen[0] - before


@kernel
def is_walled(tenants: Tenants, chosen: Cells, first: int) -> bool:
    """Whether one of those chosen from a place on was behind a wall: others behind it may go no more, wherever."""
    for each in range(first, chosen[0]):
        slot = tenants.slot[chosen[1 + each]]
        if slot >= 0 and tenants.is_wall[slot]:
            return True
    return False


@kernel
def bring_up_to_date(
    ground: Cells,
    books: Cells,
    trial: Cells,
    tenants: Tenants,
    costs: Cells,
    best: Cells,
    seen: Cells,
    ask: int,
    cluster: int,
    limit: int,
) -> None:
    """Estimate the nodes that changed since their costs were known, or all."""
    changes, size = books[CHANGES], books[RING_SIZE]
    if seen[0] < 0 or changes - seen[0] > size:
        for node in range(ground[NODES]):
            estimate_if_open(ground, books, trial, tenants, costs, best, ask, cluster, limit, node)
    else:
        for change in range(seen[0], changes):
            node = books[RING + (change & (size - 1))]
            estimate_if_open(ground, books, trial, tenants, costs, best, ask, cluster, limit, node)
    seen[0] = changes


@kernel
def estimate_if_open(
    ground: Cells,
    books: Cells,
    trial: Cells,
    tenants: Tenants,
    costs: Cells,
    best: Cells,
    ask: int,
    cluster: int,
    limit: int,
    node: int,
) -> None:
    """Estimate the node if tasks may go there."""
    mask, place = set_of(ground, ground[ask + OPEN]), place_of(ground, cluster)
    if includes(ground, mask, node) and includes(ground, place, node):
        estimate(ground, books, trial, tenants, costs, ask, limit, node)
        best[node // BLOCK] = UNKNOWN


@kernel
def cheapest(
    ground: Cells,
    books: Cells,
    trial: Cells,
    starts: Cells,
    tenants: Tenants,
    units: Units,
    costs: Cells,
    best: Cells,
    ask: int,
    limit: int,
) -> int:
    """The node that costs least, the first of equals; -1 if there is none."""
    found = -1
    for block in range(len(best)):
        if best[block] == UNKNOWN:
            last = min((block + 1) * BLOCK, ground[NODES])
            best[block] = cheapest_of(
                ground, books, trial, starts, tenants, units, costs, ask, limit, block * BLOCK, last
            )
        if best[block] >= 0 and (found < 0 or is_cheaper(costs, best[block], found)):
            found = best[block]
    return found


@kernel
def cheapest_of(
    ground: Cells,
    books: Cells,
    trial: Cells,
    starts: Cells,
    tenants: Tenants,
    units: Units,
    costs: Cells,
    ask: int,
    limit: int,
    first: int,
    last: int,
) -> int:
    """The cheapest of some nodes; those that are estimated are appraised only if they may be."""
    found = -1
    for node in range(first, last):
        if costs[node * COST + POSSIBLE] == NO or (found >= 0 and not is_cheaper(costs, node, found)):
            continue
        if costs[node * COST + POSSIBLE] == MAYBE:
            appraise(ground, books, trial, starts, tenants, units, costs, ask, limit, node)
            if costs[node * COST + POSSIBLE] == NO or (found >= 0 and not is_cheaper(costs, node, found)):
                continue
        found = node
    return found


@kernel
def let_go(
    ground: Cells,
    books: Cells,
    index: Cells,
    trial: Cells,
    starts: Cells,
    tenants: Tenants,
    units: Units,
    costs: Cells,
    chosen: Cells,
    ask: int,
    limit: int,
    node: int,
) -> None:
    """Whoever must leave the node goes, with all that goes with it."""
    appraise(ground, books, trial, starts, tenants, units, costs, ask, limit, node)
    for unit in range(units.many[0]):
        if units.goes[unit] == 0:
            continue
        task = tenants.here[units.first[unit]]
        owner = tenants.owner[task]
        first, last = (task, task + 1) if tenants.above[task] else (tenants.first[owner], tenants.first[owner + 1])
        settle_budget(tenants, units.first[unit], -1)
        for each in range(first, last):
            if tenants.gone[each] == 0:
                remove_tenant(ground, books, index, trial, starts, tenants, each)
                tenants.gone[each] = 1
                chosen[0] += 1
                chosen[chosen[0]] = each


@kernel
def remove_tenant(
    ground: Cells, books: Cells, index: Cells, trial: Cells, starts: Cells, tenants: Tenants, task: int
) -> None:
    """A task is gone from its node at every moment at which it is there."""
    ask, node = ask_of(ground, tenants.moves[task * TASK + TASK_GROUP]), tenants.moves[task * TASK + TASK_NODE]
    note(ground, books, trial, node)
    for at in range(trial[MOMENTS]):
        if is_there(tenants, starts, tenants.owner[task], at):
            room, empty = trial[FIRST + at] + node * ground[COLUMNS], books[EMPTIES] + node * ground[COLUMNS]
            give(ground, books, room, ask, tenants.moves[task * TASK + TASK_DEVICES], empty)
    changed(ground, books, index, trial, node)
