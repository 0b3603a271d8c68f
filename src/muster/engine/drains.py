"""A reservation that rests on guesses is a drain: it keeps its nodes while they empty (design.md 4.5, ADR 0055).

A drain keeps its first guessed start as well, so nobody passes it for ever. It exchanges a node for one on which fewer
tasks run than have still to end on its own before its tasks fit there: each exchange makes progress, and ties keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from muster.engine.columns import running_jobs as runs
from muster.engine.columns.arrays import Ints
from muster.engine.horizon import Horizon
from muster.engine.kernels.placing import TASK_NODE
from muster.engine.rooms import Rooms, Span
from muster.model.jobs import Job, Reservation, Task
from muster.model.nodes import hops


def exchanged(horizon: Horizon, job: Job, drain: Reservation) -> Reservation:
    """The drain with every node exchanged that is worth it, those with most tasks to end first."""
    by_node = dict[str, list[Task]]()
    for task in drain.tasks:
        by_node.setdefault(task.node, []).append(task)
    number = horizon.now.books.grounds.number
    running = _tasks_on_nodes(horizon)
    others = _others(horizon, drain, running, most=max(int(running[number[node]]) for node in by_node))
    if not others:
        return drain
    to_end = _to_end(horizon, job, by_node)
    for node in sorted(to_end, key=lambda node: (-to_end[node], number[node])):
        for other in _emptier(others, running, number, to_end[node]):
            if (moved := _moved(horizon, job, by_node[node], other)) is None:
                continue
            if _is_close(horizon, job, {**by_node, node: moved}):
                by_node[node] = moved
                others.remove(other)
                break
    places = {(task.group, task.index): task for tasks in by_node.values() for task in tasks}
    tasks = tuple(places[task.group, task.index] for task in drain.tasks)
    return drain if tasks == drain.tasks else replace(drain, tasks=tasks)


def _tasks_on_nodes(horizon: Horizon) -> Ints:
    """By number of the node, how many tasks of ours run there."""
    stays, grounds = horizon.stays, horizon.now.books.grounds
    nodes = stays.resident.on(grounds)[stays.tasks_in(stays.ends.rows)[:, runs.NODE]]
    return np.bincount(nodes[nodes >= 0], minlength=len(grounds.names))


def _others(horizon: Horizon, drain: Reservation, running: Ints, most: int) -> list[str]:
    """The nodes of the cluster with fewer tasks than that, fewest first, on which no promise counts."""
    grounds = horizon.now.books.grounds
    is_one = (running < most) & (grounds.cluster_of == grounds.cluster_number[drain.cluster])
    promised = {task.node for it in horizon.promised.values() for task in it.reservation.tasks}
    promised |= {task.node for task in drain.tasks}
    found = is_one.nonzero()[0]
    found = found[np.argsort(running[found], kind="stable")]
    return [name for name in (grounds.names[place] for place in found.tolist()) if name not in promised]


def _emptier(others: Sequence[str], running: Ints, number: Mapping[str, int], most: int) -> Iterator[str]:
    """Those nodes on which fewer tasks run than that, fewest first."""
    for name in others:
        if running[number[name]] >= most:
            return
        yield name


def _to_end(horizon: Horizon, job: Job, by_node: Mapping[str, Sequence[Task]]) -> dict[str, int]:
    """By node, how many tasks have to end there before the job's tasks fit, if they end in that order."""
    books, stays = horizon.now.books, horizon.stays
    rows, _ = stays.in_turn_on(frozenset(by_node))
    moves, _ = stays.moves_of(rows, books.grounds, horizon.asks)
    rooms, found = horizon.now.copy(), dict[str, int]()
    for node, tasks in by_node.items():
        there, count = moves[moves[:, TASK_NODE] == books.grounds.number[node]], 0
        while count < len(there) and _placed(rooms, job, tasks, node) is None:
            rooms.give_back(books.from_array(there[count : count + 1]))
            count += 1
        found[node] = count
    return found


def _moved(horizon: Horizon, job: Job, tasks: Sequence[Task], node: str) -> list[Task] | None:
    """The tasks on another node, as they would fit there once everyone there has ended; None if they would not."""
    here = horizon.fleet.nodes[node]
    if not all(horizon.fleet.suits(here, job.profile.group(task.group).constraint) for task in tasks):
        return None
    books, stays, rooms = horizon.now.books, horizon.stays, horizon.now.copy()
    moves, _ = stays.moves_of(stays.all_on(frozenset({node})), books.grounds, horizon.asks)
    rooms.give_back(books.from_array(moves[moves[:, TASK_NODE] == books.grounds.number[node]]))
    return _placed(rooms, job, tasks, node)


def _placed(rooms: Rooms, job: Job, tasks: Iterable[Task], node: str) -> list[Task] | None:
    """The tasks on a node, on devices that are free; None if they do not fit there. Nothing is taken."""
    span, placed = Span([rooms]), list[Task]()
    for task in tasks:
        group = job.profile.group(task.group)
        if not span.fits(node, group):
            span.undo()
            return None
        devices = rooms.room(node).devices_for(group.request) if group.request.gpus else ()
        span.put(node, group, devices)
        placed.append(task._replace(node=node, devices=devices))
    span.undo()
    return placed


def _is_close(horizon: Horizon, job: Job, by_node: Mapping[str, Iterable[Task]]) -> bool:
    """Whether the tasks of every group are as close to each other as they must be."""
    for group in job.profile.groups:
        if group.max_hops is not None:
            names = {task.node for tasks in by_node.values() for task in tasks if task.group == group.name}
            nodes = [horizon.fleet.nodes[name] for name in sorted(names)]
            if any(hops(one, other) > group.max_hops for one in nodes for other in nodes):
                return False
    return True
