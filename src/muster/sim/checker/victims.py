"""Who may be evicted, for whom and by which rule (design.md 4.5, 4.6), and that nobody goes in vain."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from muster.model.jobs import Job, Running, Task, resources_of
from muster.model.plan import Evict, Rule, Start
from muster.model.resources import CPU, GPU, NOTHING, PODS
from muster.sim.checker.books import Books, put_on
from muster.sim.checker.placing import room_problems
from muster.sim.checker.world import width


def eviction_problems(books: Books, evict: Evict) -> list[str]:
    """What is wrong with the eviction in itself; the books can follow only one that is whole or leaves a gang."""
    run = books.world.running.get(evict.job)
    if run is None:
        return [f"{evict.job}: is evicted but does not run"]
    has, problems = books.tasks[evict.job], []
    if evict.attempt != run.attempt:
        problems.append(f"{evict.job}: attempt {evict.attempt} is evicted, attempt {run.attempt} runs")
    if not evict.tasks or not set(evict.tasks) <= set(has) or len(set(evict.tasks)) != len(evict.tasks):
        return [*problems, f"{evict.job}: tasks are evicted that it does not have"]
    if evict.whole and len(evict.tasks) != len(has):
        problems.append(f"{evict.job}: goes whole, but {len(evict.tasks)} of its {len(has)} tasks are evicted")
    left = width(has) - width(evict.tasks)
    if not evict.whole and any(left[group.name] < group.min for group in run.job.profile.groups):
        problems.append(f"{evict.job}: would go on with fewer tasks than its min")
    return problems


def right_problems(books: Books, head: Job, evictions: list[Evict]) -> Iterator[str]:
    """Evictions the head has no right to, as the books stand before them."""
    for evict in evictions:
        run = books.world.running[evict.job]
        if run.job.priority_class > head.priority_class:
            yield f"{evict.job}: is of a higher class than {head.id}, for which it is evicted"
        if books.world.now_ms < run.protected_until_ms:
            yield f"{evict.job}: is evicted while it is protected"
        if evict.whole and not _has_outlived(run, books.world.now_ms):
            yield f"{evict.job}: is evicted whole within its lifetime"
        if evict.rule is Rule.RESERVATION and head.id not in run.overtook:
            yield f"{evict.job}: is evicted for the reservation of {head.id}, which it did not overtake"
        if evict.rule is Rule.PRIORITY and (run.job.queue != head.queue or not run.job.rank < head.rank):
            yield f"{evict.job}: is evicted by priority, but is not of lower rank in the queue of {head.id}"
        if evict.rule is Rule.FAIR_SHARE and run.job.queue == head.queue:
            yield f"{evict.job}: is evicted by fair share for {head.id} of its own queue"
    holding, shares = books.queues[head.queue], books.shares
    if any(evict.rule is Rule.FAIR_SHARE for evict in evictions):
        if holding.started_usage >= shares.entitled[head.queue] + shares.slack:
            yield f"{head.id}: evicts by fair share, but queue {head.queue} has its entitled share"
    yield from _share_problems(books, head, evictions)


def _has_outlived(run: Running, now_ms: int) -> bool:
    lifetime_ms = run.job.lifetime_ms
    return lifetime_ms is not None and now_ms - run.started_ms >= lifetime_ms


def _share_problems(books: Books, head: Job, evictions: list[Evict]) -> Iterator[str]:
    """Other queues lose only what they hold above their entitled part of something the head asks for."""
    freed = dict.fromkeys(books.queues, NOTHING)
    for evict in evictions:
        job = books.world.running[evict.job].job
        freed[job.queue] = freed[job.queue] + resources_of(job.profile, evict.tasks)
    for queue in sorted(name for name, resources in freed.items() if resources and name != head.queue):
        held = books.queues[queue].started
        above = [name for name in _scarce(head) if _over(books, queue, name, held.get(name)) > 0]
        if not above:
            yield f"{head.id}: evicts from queue {queue}, which is not above its entitled share"
        elif all(_over(books, queue, name, held.get(name) - freed[queue].get(name)) < 0 for name in above):
            yield f"{head.id}: evicts so much that queue {queue} falls below its entitled share"


def _scarce(head: Job) -> set[str]:
    """The resources that can block the head; for want of whole or close nodes, the dearest."""
    names = {name for group in head.profile.groups for name in group.request.resources} - {PODS}
    if any(group.request.whole_node or group.is_close for group in head.profile.groups):
        names |= {CPU, GPU}
    return names


def _over(books: Books, queue: str, name: str, held: int) -> Fraction:
    """How far holding so much is above the queue's entitled part of a resource, in the plan's favour if in doubt."""
    entitled = max(books.shares.entitled[queue] - books.shares.slack, Fraction(0))
    return held * books.shares.whole - entitled * books.shares.capacity.get(name)


def needless_problems(books: Books, head: Job, start: Start, evictions: list[Evict]) -> Iterator[str]:
    """Units without whose going the head fits where it is to start; the books stand after the evictions."""
    for evict in evictions:
        run = books.world.running[evict.job]
        units: list[tuple[Task, ...]] = [evict.tasks] if evict.whole else [(task,) for task in evict.tasks]
        for unit in units:
            nodes = {name: books.nodes[name].copy() for name in {task.node for task in (*unit, *start.tasks)}}
            put_on(nodes, run.job, unit)
            if not any(room_problems(nodes, head, start.tasks)):
                names = ", ".join(task.name for task in unit)
                yield f"{evict.job}: {names} is evicted needlessly: {head.id} fits beside it"
