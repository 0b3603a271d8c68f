"""Moves between clusters: who may be moved, that it is worth it, and that the places they take are theirs to take."""

from __future__ import annotations

from collections.abc import Iterator

from muster.model.jobs import Running
from muster.model.plan import Move, Plan
from muster.sim.checker.books import Books
from muster.sim.checker.placing import gang_problems, node_problems, room_problems
from muster.sim.checker.world import World


def move_problems(world: World, plan: Plan, books: Books) -> Iterator[str]:
    """What is wrong with the moves of a plan; the books follow those that can be followed."""
    moves = [action for action in plan.actions if isinstance(action, Move)]
    known = [(world.running[action.job], action) for action in moves if action.job in world.running]
    yield from (f"{action.job}: is moved, but does not run" for action in moves if action.job not in world.running)
    if known and world.policy.move_points is None:
        yield "jobs are moved, but nobody is to move"
    for run, action in known:
        yield from _right_problems(world, run, action)
        yield from _worth_problems(world, run, action, known)
    for run, _ in known:
        books.evict(run, run.tasks, whole=True)
    for run, action in known:
        yield from gang_problems(run.job, action.tasks)
        yield from node_problems(world, run.job, action.cluster, action.tasks)
        yield from room_problems(books.nodes, run.job, action.tasks)
        books.admit(run.job, action.charge)
        books.start(run.job, action.tasks)


def _right_problems(world: World, run: Running, action: Move) -> Iterator[str]:
    lifetime_ms, now_ms = run.job.lifetime_ms, world.now_ms
    if action.attempt != run.attempt + 1:
        yield f"{action.job}: moves as attempt {action.attempt}, but attempt {run.attempt} runs"
    if lifetime_ms is None or now_ms - run.started_ms < lifetime_ms or now_ms == run.started_ms:
        yield f"{action.job}: is moved within its lifetime"
    if now_ms < run.safe_until_ms:
        yield f"{action.job}: is moved while it is protected"
    if action.charge != run.charge:
        yield f"{action.job}: is charged {action.charge} for moving, and {run.charge} before"
    if any(group.min < group.max for group in run.job.profile.groups):
        yield f"{action.job}: is elastic, and moved"


def _worth_problems(world: World, run: Running, action: Move, moves: list[tuple[Running, Move]]) -> Iterator[str]:
    """A move is worth its points, by itself or with that of the job whose place it takes."""
    gain, least = _gain(world, run, action), world.policy.move_points or 0
    partner = next((it for it in moves if set(it[0].tasks) == set(action.tasks) and it[1].cluster == run.cluster), None)
    both = gain if partner is None else gain + _gain(world, *partner)
    if max(gain, both) < least:
        yield f"{action.job}: moves to {action.cluster} for {max(gain, both)} points of preference, fewer than {least}"


def _gain(world: World, run: Running, action: Move) -> int:
    wanted = dict(run.job.profile.clusters) or {name: it.preference for name, it in world.clusters.items()}
    return wanted.get(action.cluster, 0) - wanted.get(run.cluster, 0)
