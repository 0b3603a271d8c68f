"""Changes of width (design.md 5.6): within min and max, outside of freezing windows, on room that is there.

A plan lists those who shrink first, since they take effect first, and those who grow last. Whoever shrinks for a job
that waits was asked to with that job, so that is where it is replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction

from muster.model.jobs import Running, resources_of
from muster.model.plan import Evict, Plan, Resize, Start, Why
from muster.model.resources import MICRO, PODS, Resources, total
from muster.sim.checker.books import Books
from muster.sim.checker.lending import growth_pool_problems
from muster.sim.checker.limits import quota_problems
from muster.sim.checker.nodes import NodeBook
from muster.sim.checker.placing import node_problems, room_problems
from muster.sim.checker.pools import DEFAULT
from muster.sim.checker.world import Spot, World, groups_of, width


class Widths:
    """The changes of width of one plan, on the books of its replay."""

    def __init__(self, world: World, plan: Plan, books: Books) -> None:
        self.world = world
        self.books = books
        self._resizes = [action for action in plan.actions if isinstance(action, Resize)]
        self._starts = {action.job for action in plan.actions if isinstance(action, Start)}
        self._evicts = any(isinstance(action, Evict) for action in plan.actions)
        self._shrunk: set[int] = set()

    def order_problems(self, plan: Plan) -> Iterator[str]:
        """Those who shrink come before all that takes room, those who grow after it; everyone once."""
        ranks = [_rank(action) for action in plan.actions]
        if ranks != sorted(ranks):
            yield "evictions do not come first, right after those who shrink, or growth does not come last"
        many = Counter((action.job, action.group) for action in self._resizes)
        yield from (
            f"{job}: its group {group} is resized {count} times" for (job, group), count in many.items() if count > 1
        )

    # -- shrinking -------------------------------------------------------------------------------------

    def shrink_first(self) -> Iterator[str]:
        """Those who shrink for nobody who starts."""
        for place, action in enumerate(self._resizes):
            is_later = action.why in (Why.SHARE, Why.EVENNESS, Why.BENEFIT) or (
                action.why in (Why.ROOM, Why.QUOTA) and set(action.by) & self._starts
            )
            if action.removed and not is_later:
                if action.why in (Why.ROOM, Why.QUOTA):
                    yield f"{action.job}: shrinks for {list(action.by)}, which do not start"
                yield from self._shrink(place, action)

    def shrink_for(self, job: str, why: Why) -> Iterator[str]:
        """Those who shrink for this job, which is about to start: for its quota before it is let in, then for room."""
        for place, action in enumerate(self._resizes):
            if job in action.by and action.why is why and place not in self._shrunk:
                yield from self._shrink(place, action)

    def needless_problems(self) -> Iterator[str]:
        """Tasks that were given up for a job although there is room for them beside it, once all have started."""
        policy = self.world.policy
        if self._evicts or self.world.pending or policy.calendar or policy.max_load < MICRO:
            return  # who went for another reason may have left more room than was needed
        for action in self._resizes:
            if action.why is Why.ROOM and action.job in self.world.running:
                job = self.world.running[action.job].job
                for task in action.removed:
                    if not any(room_problems(self.books.nodes, job, (task,))):
                        yield f"{action.job}: gives up {task.name} needlessly"

    def _shrink(self, place: int, action: Resize) -> Iterator[str]:
        self._shrunk.add(place)
        problems = list(self._problems(action))
        run = self.world.running.get(action.job)
        if run is not None and not set(action.removed) <= set(self.books.tasks[action.job]):
            problems.append(f"{action.job}: gives up tasks that it does not have")
        yield from problems
        if not problems and run is not None:
            self.books.evict(run, action.removed, whole=False)

    def _problems(self, action: Resize) -> Iterator[str]:
        """What is wrong with a change in itself."""
        run = self.world.running.get(action.job)
        if run is None or action.group not in groups_of(run.job.profile):
            yield f"{action.job}: is resized, but has no running group {action.group}"
            return
        group, has = groups_of(run.job.profile)[action.group], width(run.tasks)[action.group]
        if action.attempt != run.attempt:
            yield f"{action.job}: attempt {action.attempt} is resized, attempt {run.attempt} runs"
        if bool(action.added) == bool(action.removed) or {it.group for it in action.added + action.removed} != {
            group.name
        }:
            yield f"{action.job}: tasks of {group.name} must come, or go"
        if (action.before, action.after) != (has, has + len(action.added) - len(action.removed)):
            yield f"{action.job}: has {has} {group.name}, but is resized from {action.before} to {action.after}"
        if not group.min <= action.after <= group.max:
            yield f"{action.job}: {action.after} tasks of {group.name} are not {group.min} to {group.max}"
        if self.world.clusters[run.cluster].silent:
            yield f"{action.job}: is resized in cluster {run.cluster}, which is silent"
        yield from _window_problems(run, self.world.now_ms)

    # -- growing ---------------------------------------------------------------------------------------

    def growth_problems(self) -> Iterator[str]:
        """Those who grow, one after the other, when all else has happened; first those who give to them."""
        for place, action in enumerate(self._resizes):
            if action.removed and place not in self._shrunk:
                yield from self._shrink(place, action)
        grown: set[Spot] = set()
        for action in self._resizes:
            if not action.added:
                continue
            problems = list(self._problems(action))
            run = self.world.running.get(action.job)
            if run is not None and not problems:
                problems += self._growth_problems(run, action)
            yield from problems
            if run is not None and not problems:
                self.books.widen(run.job, action.added)
                grown |= {(run.cluster, pool) for pool in self.world.pools.holding(action.added)}
        yield from self._evenness_problems()
        yield from self._share_problems()
        for where in sorted(grown):
            yield from self._load_problems(where)

    def _growth_problems(self, run: Running, action: Resize) -> Iterator[str]:
        has, job = self.books.tasks[action.job], run.job
        taken = {(task.group, task.index) for task in has}
        if len({task.index for task in action.added} | {index for name, index in taken if name == action.group}) < (
            len(action.added) + sum(name == action.group for name, _ in taken)
        ):
            yield f"{action.job}: new tasks of {action.group} have indexes that others have"
        yield from node_problems(self.world, job, run.cluster, action.added)
        held = tuple(task for task in has if task.node in self.world.nodes)
        far = [it for it in node_problems(self.world, job, run.cluster, (*held, *action.added)) if "hops" in it]
        yield from far
        yield from growth_pool_problems(self.world, run, has, action.added)
        yield from room_problems(self.books.nodes, job, action.added)
        asks = resources_of(job.profile, action.added)
        yield from quota_problems(self.books, job, asks, asks)
        if self.books.queues[job.queue].queue.cordoned:
            yield f"{action.job}: grows although queue {job.queue} is cordoned"

    def _evenness_problems(self) -> Iterator[str]:
        """Who gives up tasks for evenness was served more, by then, than someone who takes them."""
        evened = [it for it in self._resizes if it.why is Why.EVENNESS and it.job in self.world.running]
        takers = [self._virtual(it.job) for it in evened if it.added]
        for action in evened:
            if action.removed and not any(virtual < self._virtual(action.job) for virtual in takers):
                yield f"{action.job}: gives up tasks for evenness, though nobody who takes any was served less"

    def _virtual(self, job: str) -> int:
        """The virtual time of an elastic job as of the last mark."""
        run, now_ms, every_ms = self.world.running[job], self.world.now_ms, self.world.policy.elastic_every_ms or 1
        return 0 if run.serving is None else run.serving.virtual_at(now_ms - now_ms % every_ms, run.job.level)

    def _share_problems(self) -> Iterator[str]:
        """What queues give up for the shares of others leaves them what they are entitled to themselves."""
        for action in self._resizes:
            run = self.world.running.get(action.job)
            if run is None or action.why is not Why.SHARE:
                continue
            queue = run.job.queue
            least, most = self.books.shares.entitled(queue)
            usage, each = self.books.queues[queue].started_usage, self._task_usage(run, action.group)
            if action.removed and usage < least:
                yield f"{action.job}: gives up tasks that queue {queue} is entitled to"
            if action.added and usage - each >= most:
                yield f"{action.job}: takes tasks for queue {queue}, which has its share"

    def _task_usage(self, run: Running, group: str) -> int:
        return self.world.policy.weights.usage(groups_of(run.job.profile)[group].request.resources)

    def _load_problems(self, place: Spot) -> Iterator[str]:
        """Growth leaves free what is above the load that a pool may have in a cluster."""
        world = self.world
        nodes = [node for node in world.nodes_of(place) if world.takes_tasks(node)]
        load = Fraction(world.policy.max_load, MICRO)
        for name in sorted({name for node in nodes for name in node.allocatable} - {PODS}):
            whole = sum(node.allocatable.get(name) for node in nodes)
            used = whole - sum(self.books.nodes[node.name].free.get(name, 0) for node in nodes)
            if used > whole * load and any(name in _asks(it, world) for it in self._resizes if it.added):
                yield f"cluster {place[0]}: {used} of {whole} {name} are in use after growth, more than {float(load)}"

    # -- the calendar ----------------------------------------------------------------------------------

    def withheld_problems(self, before: dict[str, NodeBook]) -> Iterator[str]:
        """What starts or grows leaves free what the calendar withholds, or as much of it as was free."""
        for place, withheld in _withheld(self.world).items():
            nodes = [node for node in self.world.nodes_of(place) if self.world.takes_tasks(node)]
            for name, amount in withheld.items():
                services = sum(
                    node.allocatable.get(name) - self.world.snapshot.nodes[node.name].empty.free.get(name)
                    for node in nodes
                )
                left = sum(max(self.books.nodes[node.name].free.get(name, 0), 0) for node in nodes)
                was = sum(max(before[node.name].free.get(name, 0), 0) for node in nodes)
                if left < min(max(amount - services, 0), was):
                    yield f"cluster {place[0]}: {left} {name} are left, {amount} are withheld by the calendar"


def _withheld(world: World) -> dict[Spot, Resources]:
    """What windows withhold in each place; those that name no pool are of the default pool."""
    found: dict[Spot, list[Resources]] = {}
    for window in world.policy.calendar:
        if window.in_force(world.now_ms) and window.cluster in world.clusters:
            found.setdefault((window.cluster, window.pool or DEFAULT), []).append(window.withhold)
    return {place: total(parts) for place, parts in found.items()}


def _asks(action: Resize, world: World) -> Iterable[str]:
    run = world.running.get(action.job)
    return () if run is None else groups_of(run.job.profile)[action.group].request.resources


def _window_problems(run: Running, now_ms: int) -> Iterator[str]:
    resized_ms = None if run.serving is None else run.serving.resized_ms
    if resized_ms is not None and now_ms < resized_ms + run.job.freezing_ms:
        yield f"{run.job.id}: is resized {now_ms - resized_ms} ms after its last change, within its freezing window"
    if run.started_ms == now_ms:
        yield f"{run.job.id}: is resized at the moment it started"


def _rank(action: object) -> int:
    """Its place in the order of effects."""
    if isinstance(action, Resize):
        return 0 if action.removed else 3
    return 1 if isinstance(action, Evict) else 2
