"""The tasks of all who are not safe, listed one attempt after the other, and then node by node."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import TASK, TASK_DEVICES, TASK_GROUP, TASK_NODE, Cells

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

ABOVE = 3  # a task has a place among those above min behind what a move has


@kernel
def list_tenants(
    movable: Flags,
    first_task: Ints,
    many: Ints,
    profile: Ints,
    tasks: Ints,
    first_group: Cells,
    groups: Cells,
    on: Ints,
    size: Cells,
    base: int,
    rows: Ints,
    first: Ints,
    moves: Ints,
    owner: Ints,
    above: Ints,
) -> None:
    """List attempts and their tasks behind those that `size` counts; those on nodes of another fleet are left out.

    Rows of a table count from `base` on; `on` are the nodes' numbers, -1 if they are of another fleet.
    """
    attempts, listed = size[0], size[1]
    for row in range(len(movable)):
        begin = first_task[row]
        if not movable[row] or on[tasks[begin, TASK_NODE]] < 0:
            continue
        rows[attempts], first[attempts] = base + row, listed
        for task in range(begin, begin + many[row]):
            move = listed * TASK
            moves[move + TASK_GROUP] = groups[first_group[profile[row]] + tasks[task, TASK_GROUP]]
            moves[move + TASK_NODE] = on[tasks[task, TASK_NODE]]
            moves[move + TASK_DEVICES] = tasks[task, TASK_DEVICES]
            owner[listed], above[listed] = attempts, tasks[task, ABOVE]
            listed += 1
        attempts += 1
    first[attempts] = listed
    size[0], size[1] = attempts, listed


@kernel
def sort_tenants(moves: Ints, begin: Ints, here: Ints) -> None:
    """Tasks by node: on a node they stay in order. `begin` has one more number than there are nodes, all 0."""
    for each in range(0, len(moves), TASK):
        begin[moves[each + TASK_NODE] + 1] += 1
    for node in range(1, len(begin)):
        begin[node] += begin[node - 1]
    for task in range(len(here) - 1, -1, -1):  # fills every node from its end, and leaves its beginning behind
        node = moves[task * TASK + TASK_NODE]
        begin[node + 1] -= 1
        here[begin[node + 1]] = task
    for node in range(len(begin) - 1):
        begin[node] = begin[node + 1]
    begin[len(begin) - 1] = len(here)
