"""Drains: reservations that rest on guesses keep their nodes, but for those they exchange (design.md 4.5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from muster.model.jobs import Job, Reservation, Task
from muster.model.nodes import hops
from oracle.horizon import Horizon, in_order, requests
from oracle.room import Rooms, Span


def exchanged(horizon: Horizon, job: Job, drain: Reservation) -> Reservation:
    """The drain with every node exchanged for one with fewer tasks than have still to end on it, most to end first."""
    mine: dict[str, list[Task]] = {}
    for task in drain.tasks:
        mine.setdefault(task.node, []).append(task)
    used = {task.node for it in horizon.promised.values() for task in it.reservation.tasks} | set(mine)
    nodes = sorted(horizon.fleet.nodes)
    running = {node: len(_tasks_there(horizon, node)) for node in nodes}
    others = [it for it in nodes if horizon.fleet.nodes[it].cluster == drain.cluster and it not in used]
    others.sort(key=lambda node: running[node])
    to_end = {node: _to_end(horizon, job, node, mine[node]) for node in mine}
    for node in sorted(mine, key=lambda node: (-to_end[node], node)):
        for other in [it for it in others if running[it] < to_end[node]]:
            moved = _moved(horizon, job, mine[node], other)
            if moved is not None and _is_close(horizon, job, {**mine, node: moved}):
                mine[node] = moved
                others.remove(other)
                break
    places = {(task.group, task.index): task for tasks in mine.values() for task in tasks}
    return replace(drain, tasks=tuple(places[task.group, task.index] for task in drain.tasks))


def _tasks_there(horizon: Horizon, node: str) -> list[tuple[Job, Task]]:
    """The tasks on a node in the order of their ends, as stated or guessed."""
    stays = in_order([*horizon.stated(), *horizon.guessed()])
    return [(stay.run.job, task) for stay in stays for task in stay.run.tasks if task.node == node]


def _to_end(horizon: Horizon, job: Job, node: str, tasks: Iterable[Task]) -> int:
    rooms, count = horizon.now.copy(), 0
    for other, task in _tasks_there(horizon, node):
        if _placed(rooms, job, tasks, node) is not None:
            break
        horizon.leave(rooms, other, [task])
        count += 1
    return count


def _moved(horizon: Horizon, job: Job, tasks: Iterable[Task], node: str) -> list[Task] | None:
    suits = {
        group.name: {it.name for it in horizon.fleet.open_matching(horizon.fleet.nodes[node].cluster, group.constraint)}
        for group in job.profile.groups
    }
    if not all(node in suits[task.group] for task in tasks):
        return None
    rooms = horizon.now.copy()
    for other, task in _tasks_there(horizon, node):
        horizon.leave(rooms, other, [task])
    return _placed(rooms, job, tasks, node)


def _placed(rooms: Rooms, job: Job, tasks: Iterable[Task], node: str) -> list[Task] | None:
    span, placed = Span([rooms.copy()]), []
    for task, request in requests(job, tasks):
        if not span.fits(node, request):
            return None
        placed.append(task._replace(node=node, devices=span.take(node, request)))
    return placed


def _is_close(horizon: Horizon, job: Job, mine: dict[str, list[Task]]) -> bool:
    for group in job.profile.groups:
        names = {task.node for tasks in mine.values() for task in tasks if task.group == group.name}
        nodes = [horizon.fleet.nodes[name] for name in names]
        if group.max_hops is not None and any(hops(a, b) > group.max_hops for a in nodes for b in nodes):
            return False
    return True
