"""Where tasks may be: gangs whole, on nodes that take and admit them, close enough, never on room that is not there.

Design.md 2 (no moment over-commits a node), 3 (devices, whole nodes, gangs) and 5.4.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.model.jobs import Job, Reservation, Task
from muster.model.nodes import hops
from muster.sim.checker.lending import reserved_pool_problems
from muster.sim.checker.nodes import NodeBook
from muster.sim.checker.world import World, groups_of, width


def gang_problems(job: Job, tasks: tuple[Task, ...]) -> Iterator[str]:
    """A gang starts with every group between its min and its initial width, its tasks counted from 0."""
    groups, widths = groups_of(job.profile), width(tasks)
    for name in sorted(set(widths) - set(groups)):
        yield f"{job.id}: has no task group {name}"
    for name, group in groups.items():
        if not group.min <= widths[name] <= group.initial:
            yield f"{job.id}: {widths[name]} tasks of {name} would start, not {group.min} to {group.initial}"
        if sorted(task.index for task in tasks if task.group == name) != list(range(widths[name])):
            yield f"{job.id}: the tasks of {name} are not numbered 0 to {widths[name] - 1}"


def reservation_problems(world: World, job: Job, reservation: Reservation) -> Iterator[str]:
    """A reservation is for a later moment, or is a drain that keeps its start; for the job's min, on nodes that could
    take it."""
    groups, widths = groups_of(job.profile), width(reservation.tasks)
    kept = world.pending[job.id].reservation if job.id in world.pending else None
    is_kept = kept is not None and not (kept.is_firm or reservation.is_firm) and kept.start_ms == reservation.start_ms
    if reservation.start_ms < world.now_ms and not is_kept:
        yield f"{job.id}: its reservation starts in the past"
    if widths != {name: group.min for name, group in groups.items() if group.min}:
        yield f"{job.id}: its reservation is for {dict(widths)}, not for its min"
    yield from node_problems(world, job, reservation.cluster, reservation.tasks)
    yield from reserved_pool_problems(world, job, reservation)


def node_problems(world: World, job: Job, cluster: str, tasks: tuple[Task, ...]) -> Iterator[str]:
    """Tasks go to one cluster that the job may use, and there to open nodes that admit them, close enough."""
    if cluster not in world.candidates(job.profile):
        yield f"{job.id}: cluster {cluster} is not a candidate"
        return
    if world.clusters[cluster].silent:
        yield f"{job.id}: cluster {cluster} is silent"
    groups = groups_of(job.profile)
    for task in tasks:
        node = world.nodes.get(task.node)
        if node is None:
            yield f"{job.id}: {task.name} is on node {task.node}, which does not exist"
            continue
        if node.cluster != cluster:
            yield f"{job.id}: {task.name} is on node {task.node}, which is not in cluster {cluster}"
        if node.cordoned:
            yield f"{job.id}: {task.name} is on node {task.node}, which is cordoned"
        if task.group in groups:
            refusal = groups[task.group].constraint.refuses(node.name, node.labels, node.taints)
            if refusal is not None:
                yield f"{job.id}: {task.name} is on node {task.node}, which its {refusal} forbids"
    yield from _distance_problems(world, job, tasks)


def _distance_problems(world: World, job: Job, tasks: tuple[Task, ...]) -> Iterator[str]:
    for group in job.profile.groups:
        if group.max_hops is None:
            continue
        names = sorted({task.node for task in tasks if task.group == group.name and task.node in world.nodes})
        nodes = [world.nodes[name] for name in names]
        furthest = max((hops(one, other) for one in nodes for other in nodes), default=0)
        if furthest > group.max_hops:
            yield f"{job.id}: tasks of {group.name} are {furthest} hops apart, more than {group.max_hops}"


def room_problems(nodes: dict[str, NodeBook], job: Job, tasks: tuple[Task, ...]) -> Iterator[str]:
    """What is too much if these tasks are put where they are to be; the nodes are not touched."""
    tried = {task.node: nodes[task.node].copy() for task in tasks if task.node in nodes}
    groups = groups_of(job.profile)
    for task in tasks:
        if task.node not in tried or task.group not in groups:
            continue
        request = groups[task.group].request
        for refusal in tried[task.node].refusals(request, task.devices):
            yield f"{job.id}: {task.name} does not fit on node {task.node}: {refusal}"
        tried[task.node].put(request, task.devices)
