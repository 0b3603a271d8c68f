"""Who may start, grow and be evicted in which pool (design.md 5.1 to 5.3)."""

from __future__ import annotations

from collections.abc import Iterator

from muster.model.jobs import Job, Reservation, Running, Task
from muster.model.plan import Evict, Plan, Start
from muster.model.pools import called
from muster.sim.checker.world import World


def start_pool_problems(world: World, job: Job, start: Start) -> Iterator[str]:
    """A job starts in one pool: its own, or one that it may borrow from; in a cluster that has its own."""
    home, pools = world.pools.home(job.profile), world.pools.holding(start.tasks)
    if len(pools) > 1:
        yield f"{job.id}: its tasks lie in the pools {_listed(pools)}, but a job starts in one"
    for pool in sorted(pools - {home}):
        if not world.pools.may_borrow(home, pool):
            yield f"{job.id}: is of pool {called(home)}, which may not borrow from {called(pool)}"
        if start.by_preemption:
            yield f"{job.id}: starts by preemption in pool {called(pool)}, which is not its own"
    if start.cluster not in world.pools.clusters_of(home):
        yield f"{job.id}: starts in cluster {start.cluster}, which does not have its pool {called(home)}"


def reserved_pool_problems(world: World, job: Job, reservation: Reservation) -> Iterator[str]:
    """Only room of its own pool is promised to a job."""
    home = world.pools.home(job.profile)
    if world.pools.holding(reservation.tasks) - {home}:
        yield f"{job.id}: is promised room outside of its pool {called(home)}"


def growth_pool_problems(world: World, run: Running, has: tuple[Task, ...], added: tuple[Task, ...]) -> Iterator[str]:
    """A job grows where it is."""
    outside = world.pools.holding(added) - world.pools.holding(has)
    if outside:
        yield f"{run.job.id}: grows into {_listed(outside)}, where it is not"


def spared_problems(world: World, plan: Plan) -> Iterator[str]:
    """Nobody is evicted where preemption is off, nor from any pool but that of the job it is for."""
    for action in plan.actions:
        if not isinstance(action, Evict):
            continue
        for task in action.tasks:
            node = world.nodes.get(task.node)
            if node is not None and not world.pools.preempts(world.pools.of[node.name]):
                pool = called(world.pools.of[node.name])
                yield f"{action.job}: {task.name} is evicted from pool {pool}, where preemption is off"
        head = world.startable(action.by)
        if head is not None and world.pools.home(head.profile) not in world.pools.holding(action.tasks):
            home = called(world.pools.home(head.profile))
            yield f"{action.job}: is evicted for {head.id} of pool {home}, where it has no task"


def _listed(pools: set[str]) -> str:
    return ", ".join(called(pool) for pool in sorted(pools))
