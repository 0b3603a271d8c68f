"""Who may be evicted, for whom and by which rule (design.md 4.5, 4.6, 5.5), and that nobody goes in vain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from muster.model.jobs import Job, Running, Task, resources_of
from muster.model.plan import Evict, Rule, Start
from muster.model.resources import CPU, GPU
from muster.sim.checker.books import Books, put_on
from muster.sim.checker.placing import room_problems
from muster.sim.checker.world import World, width


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


def right_problems(books: Books, head: Job, start: Start, evictions: list[Evict]) -> Iterator[str]:
    """Evictions the head has no right to, as the books stand before them."""
    if evictions and start.cluster not in books.world.snapshot.fleet.preempts_in:
        yield f"{head.id}: evicts in cluster {start.cluster}, where nobody may"
    if evictions and not head.profile.may_preempt:
        yield f"{head.id}: evicts others, but may not preempt"
    for evict in evictions:
        run = books.world.running[evict.job]
        ignores_age = evict.rule in (Rule.BORROWER, Rule.CLASS)
        if run.job.priority_class > head.priority_class and evict.rule is not Rule.BORROWER:
            yield f"{evict.job}: is of a higher class than {head.id}, for which it is evicted"
        if books.world.now_ms < run.safe_until_ms or books.world.now_ms == run.started_ms:
            yield f"{evict.job}: is evicted while it is protected"
        if head.id in run.preempted_by:
            yield f"{evict.job}: gives way to {head.id} for the second time"
        if evict.whole and not ignores_age and not _has_outlived(run, books.world.now_ms):
            yield f"{evict.job}: is evicted whole within its lifetime"
        if evict.rule is Rule.BORROWER and not books.world.is_borrower(run):
            yield f"{evict.job}: is evicted as a borrower, but is none"
        if evict.rule is Rule.CLASS and run.job.priority_class >= head.priority_class:
            yield f"{evict.job}: is evicted by class, but is not of a lower one than {head.id}"
        if evict.rule is Rule.RESERVATION and not _has_passed(books.world, head, run):
            yield f"{evict.job}: is evicted for {head.id}, which it did not overtake"
        if evict.rule is Rule.PRIORITY and (run.job.queue != head.queue or not run.job.rank < head.rank):
            yield f"{evict.job}: is evicted by priority, but is not of lower rank in the queue of {head.id}"
        if evict.rule is Rule.FAIR_SHARE and run.job.queue == head.queue:
            yield f"{evict.job}: is evicted by fair share for {head.id} of its own queue"
    fair = [evict for evict in evictions if evict.rule is Rule.FAIR_SHARE]
    if fair:
        by_resource = [
            list(_share_problems(books, head, fair, name)) for name in sorted(_scarce(books, head, start.cluster))
        ]
        yield from min(by_resource, key=len, default=[])


def _has_passed(world: World, head: Job, run: Running) -> bool:
    """Whether it overtook a reservation of the head; or a gang that had waited for very long when it started."""
    if head.id in run.overtook:
        return True
    had_waited_ms = run.started_ms - head.submit_ms
    is_bounded = run.job.known_ms is None and run.job.lifetime_ms is not None
    may = not run.job.profile.is_gang or run.job.submit_ms > head.submit_ms
    return head.profile.is_gang and is_bounded and may and had_waited_ms >= world.policy.aging_after_ms


def _has_outlived(run: Running, now_ms: int) -> bool:
    lifetime_ms = run.job.lifetime_ms
    return lifetime_ms is not None and now_ms - run.started_ms >= lifetime_ms


def _share_problems(books: Books, head: Job, evictions: list[Evict], name: str) -> Iterator[str]:
    """Fair share, if this resource blocks the head: from queues above their part of it to one below its own.

    The head's queue may not come above its part with the head, unless it holds nothing; nor may others fall below
    theirs (docs/adr/0056-preemption-that-pays.md). Entitled shares are read in the plan's favour.
    """
    shares, mine = books.shares, books.queues[head.queue]
    most, holds = shares.entitled(head.queue, name)[1], mine.started.get(name)
    if mine.started_usage >= shares.entitled(head.queue)[1]:
        yield f"{head.id}: evicts by fair share, but queue {head.queue} has its entitled share"
    if holds >= most:
        yield f"{head.id}: evicts by fair share, but queue {head.queue} has its entitled part of {name}"
    if holds and holds + head.profile.least.get(name) > most:
        yield f"{head.id}: evicts by fair share, but with it {head.queue} has more than its entitled part of {name}"
    freed: Counter[str] = Counter()
    for evict in evictions:
        job = books.world.running[evict.job].job
        freed[job.queue] += resources_of(job.profile, evict.tasks).get(name)
    for queue in sorted(set(freed) - {head.queue}):
        theirs = books.queues[queue]
        over = theirs.started.get(name) - shares.entitled(queue, name)[0]
        if over <= 0 or not freed[queue]:
            yield f"{head.id}: evicts from queue {queue}, which is not above its entitled part of {name}"
        elif over < freed[queue]:
            yield f"{head.id}: evicts so much that queue {queue} falls below its entitled part of {name}"


def _scarce(books: Books, head: Job, cluster: str) -> set[str]:
    """The resources that can block the head: not on every node there is enough for all of it.

    Devices may be short although their sum is not; for want of whole or close nodes, the dearest resource counts.
    """
    least, world = head.profile.least, books.world
    nodes = [books.nodes[node.name] for node in world.nodes.values() if node.cluster == cluster]
    names = {name for name in least if any(node.free.get(name, 0) < least.get(name) for node in nodes)}
    names |= {GPU} & set(least)
    if any(group.request.whole_node or group.is_close for group in head.profile.groups):
        names |= {CPU, GPU}
    return names


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


def budget_problems(books: Books, head: Job, start: Start, evictions: list[Evict]) -> Iterator[str]:
    """Disruption budgets violated for a head of one task that could have had a place without; before the evictions.

    A budget is a preference, and only where age does not count (docs/adr/0022-victims-of-class-and-pool.md).
    """
    rules, is_close = {evict.rule for evict in evictions}, any(group.is_close for group in head.profile.groups)
    limited = {job for limit in books.world.snapshot.eviction_limits for job, _ in limit.covers}
    is_judged = head.profile.tasks_min == 1 and not is_close and rules and rules <= {Rule.BORROWER, Rule.CLASS}
    if not is_judged or not any(
        _violates(books, evict.job, evict.tasks) for evict in evictions if evict.job not in limited
    ):
        return
    for run in books.world.running.values():
        is_borrower = books.world.is_borrower(run)
        is_lower = Rule.CLASS in rules and run.job.priority_class < head.priority_class
        is_safe = books.world.now_ms < run.safe_until_ms or books.world.now_ms == run.started_ms
        has = books.tasks.get(run.job.id, ()) if run.cluster == start.cluster else ()
        if not has or is_safe or run.job.id in limited or head.id in run.preempted_by or not (is_borrower or is_lower):
            continue
        if not _violates(books, run.job.id, has) and _is_enough(books, head, run, has):
            yield f"{evictions[0].job}: its disruption budget is violated for {head.id}, but {run.job.id} could go"
            return


def limit_problems(world: World, evictions: Iterable[Evict]) -> Iterator[str]:
    """Eviction limits that the evictions of a whole plan go beyond, where age does not count (docs/adr/0046)."""
    gone = {(it.job, task) for it in evictions if it.rule in (Rule.BORROWER, Rule.CLASS) for task in it.tasks}
    behind = {run.job.id: list(run.tasks) for run in world.running.values()}
    for limit in world.snapshot.eviction_limits:
        goes = 0
        for job, covered in limit.covers:
            tasks = behind.get(job, [])
            behind[job] = tasks[covered:]
            goes += sum((job, task) in gone for task in tasks[:covered])
        if goes > max(limit.allowed, 0):
            yield f"{goes} tasks are evicted that {limit.name} covers, which allows {limit.allowed}"


def _violates(books: Books, job: str, gone: tuple[Task, ...]) -> bool:
    has, goes = width(books.tasks.get(job, ())), width(gone)
    budgets = [budget for budget in books.world.snapshot.budgets if budget.job == job]
    return any(goes[it.group] and has[it.group] - goes[it.group] < it.min_available for it in budgets)


def _is_enough(books: Books, head: Job, run: Running, gone: tuple[Task, ...]) -> bool:
    """Whether the head's one task would fit on a node that these tasks leave."""
    group = next(group for group in head.profile.groups if group.min)
    world = books.world
    for name in {task.node for task in gone}:
        node = books.nodes[name].copy()
        for task in gone:
            if task.node == name:
                node.remove(run.job.profile.group(task.group).request, task.devices)
        place = (run.cluster, world.pools.of[name])
        is_open = world.takes_tasks(world.nodes[name]) and place in world.places(head.profile, abroad=False)
        is_open = is_open and world.nodes[name] in world.admitting(place, group.constraint)
        if is_open and node.how_many(group.request):
            return True
    return False
