"""A plan, followed decision by decision; each is judged on the books as the ones before it left them.

A plan lists its evictions first, since they take effect first. They were decided with their head, so that
is where they are replayed: what holds then holds all the more when the room is free earlier.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.model.jobs import Job, resources_of
from muster.model.plan import Admit, Evict, Move, Plan, Promise, Resize, Return, Start, Waiting, Why
from muster.model.reasons import Reason
from muster.sim.checker.books import Books
from muster.sim.checker.lending import start_pool_problems
from muster.sim.checker.lent import Lent
from muster.sim.checker.limits import admission_problems, rate_problems, start_problems
from muster.sim.checker.moves import move_problems
from muster.sim.checker.order import FillingOrder
from muster.sim.checker.placing import gang_problems, node_problems, reservation_problems, room_problems
from muster.sim.checker.victims import budget_problems, eviction_problems, needless_problems, right_problems
from muster.sim.checker.widths import Widths
from muster.sim.checker.world import World


class Replay:
    """What became of the jobs so far. `books` end as the plan leaves the world."""

    def __init__(self, world: World, plan: Plan) -> None:
        self.world = world
        self.plan = plan
        self.books = Books(world)
        self.admitted: dict[str, Admit | Start] = {}
        self.started: set[str] = set()
        self.returned: set[str] = set()
        self.widths = Widths(world, plan, self.books)
        self.lent = Lent(world, plan)
        self._order = FillingOrder(world, plan)
        self._by_head: dict[str, list[Evict]] = {}
        for action in plan.actions:
            if isinstance(action, Evict):
                self._by_head.setdefault(action.by, []).append(action)
        self._starting = {action.job for action in plan.actions if isinstance(action, Start)}
        self.reserved = {
            name
            for name, verdict in plan.verdicts.items()
            if isinstance(verdict, Waiting) and verdict.reason is Reason.RESERVED
        }

    def problems(self) -> Iterator[str]:
        """Everything that is wrong with the actions."""
        yield from self.widths.order_problems(self.plan)
        before = {name: node.copy() for name, node in self.books.nodes.items()} if self.world.policy.calendar else {}
        yield from self.widths.shrink_first()
        yield from move_problems(self.world, self.plan, self.books)
        for head in sorted(set(self._by_head) - self._starting):
            yield f"{head}: jobs are evicted for it, but it does not start"
            for _ in self._evict(self._by_head[head]):
                pass  # that they are for nobody says it all
        for action in self.plan.actions:
            match action:
                case Return():
                    yield from self._return(action)
                case Promise():
                    yield from self._promise(action)
                case Admit():
                    yield from self._admit(action)
                case Start():
                    yield from self._start(action)
                case Evict() | Resize() | Move():
                    pass  # judged with its head, or apart
        yield from self.widths.needless_problems()
        yield from self.widths.growth_problems()
        yield from self.widths.withheld_problems(before)

    # -- pending jobs ----------------------------------------------------------------------------------

    def _return(self, action: Return) -> Iterator[str]:
        pending = self.world.pending.get(action.job)
        if pending is None or action.job in self.returned | self.started:
            yield f"{action.job}: is returned but not pending"
            return
        yield from self._attempt(pending.job, action.attempt)
        self.returned.add(action.job)
        self.books.give_back(pending)

    def _promise(self, action: Promise) -> Iterator[str]:
        job = self.world.startable(action.job)
        is_pending = action.job in self.world.pending or action.job in self.admitted
        if job is None or not is_pending or action.job in self.returned | self._starting:
            yield f"{action.job}: gets a promise but is not pending"
            return
        yield from self._attempt(job, action.attempt)
        if action.reservation is not None:
            yield from reservation_problems(self.world, job, action.reservation)

    def _attempt(self, job: Job, attempt: int) -> Iterator[str]:
        if attempt != self.world.attempt_of(job):
            yield f"{job.id}: attempt {attempt} is planned, its next is attempt {self.world.attempt_of(job)}"

    # -- admissions and starts -------------------------------------------------------------------------

    def _admit(self, action: Admit) -> Iterator[str]:
        job = self.world.queued.get(action.job)
        if job is None:
            yield f"{action.job}: is admitted but not queued"
            return
        if job.id in self.admitted:
            yield f"{job.id}: is admitted twice"
            return
        yield from self._attempt(job, action.attempt)
        yield from self._let_in(job, action)
        if action.reservation is not None:
            yield from reservation_problems(self.world, job, action.reservation)
            if action.cluster != action.reservation.cluster:
                yield f"{job.id}: is admitted to {action.cluster}, but reserved on {action.reservation.cluster}"

    def _let_in(self, job: Job, action: Admit | Start) -> Iterator[str]:
        """A queued job is admitted, in its turn and within all limits."""
        yield from self._order.problems(self.books, job)
        yield from self.widths.shrink_for(job.id, Why.QUOTA)
        yield from admission_problems(self.books, job, action.charge)
        self.admitted[job.id] = action
        self.books.admit(job, action.charge)

    def _start(self, action: Start) -> Iterator[str]:
        job = self.world.startable(action.job)
        if job is None or job.id in self.returned:
            yield f"{action.job}: starts but is neither queued nor pending"
            return
        if job.id in self.started:
            yield f"{job.id}: starts twice"
            return
        yield from self._way_to_start(job, action)
        yield from self.widths.shrink_for(job.id, Why.ROOM)
        evictions = self._by_head.get(job.id, [])
        waited_ms = self.world.now_ms - job.submit_ms
        if action.safe_ms not in (0, self.world.policy.protected_ms, waited_ms if self.world.is_aged(job) else 0):
            yield f"{job.id}: starts safe for {action.safe_ms} ms, it has waited for {waited_ms} ms"
        if action.by_preemption != bool(evictions):
            yield f"{job.id}: whether it starts by preemption is not told truly"
        yield from self._evict_for(job, action, evictions)
        yield from gang_problems(job, action.tasks)
        yield from node_problems(self.world, job, action.cluster, action.tasks)
        yield from start_pool_problems(self.world, job, action)
        yield from room_problems(self.books.nodes, job, action.tasks)
        yield from start_problems(self.books, job, resources_of(job.profile, action.tasks))
        self.started.add(job.id)
        self.books.start(job, action.tasks)
        yield from self.lent.problems(self.books.nodes, job, action)

    def _way_to_start(self, job: Job, action: Start) -> Iterator[str]:
        """A job starts with its own queue and attempt; who was queued is admitted with that."""
        yield from self._attempt(job, action.attempt)
        if action.queue != job.queue:
            yield f"{job.id}: starts from queue {action.queue}, but stands in {job.queue}"
        if action.overtook and (job.known_ms is not None or job.lifetime_ms is None):
            yield f"{job.id}: overtakes by its lifetime, but that does not bound it"
        is_let_in = job.id in self.world.pending or job.id in self.admitted
        if is_let_in and action.charge:
            yield f"{job.id}: is charged {action.charge}, but was admitted before"
        if job.id in self.world.pending:
            return
        yield from rate_problems(self.books, job)
        if is_let_in:
            self.admitted[job.id] = action  # in an earlier round of this turn
        else:
            yield from self._let_in(job, action)

    # -- evictions -------------------------------------------------------------------------------------

    def _evict_for(self, head: Job, start: Start, evictions: list[Evict]) -> Iterator[str]:
        known = [evict for evict in evictions if evict.job in self.world.running]
        yield from right_problems(self.books, head, start, known)
        # A promise to a third job, or the calendar, may need more room than the head does itself.
        is_withheld = any(window.in_force(self.world.now_ms) for window in self.world.policy.calendar)
        is_alone = not is_withheld and not (self.reserved | set(self.world.pending)) - {head.id}
        if is_alone:
            yield from budget_problems(self.books, head, start, known)
        carried_out: list[Evict] = []
        for evict in evictions:
            problems = list(self._evict([evict]))
            yield from problems
            if not problems:
                carried_out.append(evict)
        if is_alone:
            yield from needless_problems(self.books, head, start, carried_out)

    def _evict(self, evictions: list[Evict]) -> Iterator[str]:
        """Judge evictions by themselves, and follow those that can be followed."""
        for evict in evictions:
            problems = eviction_problems(self.books, evict)
            yield from problems
            if not problems:
                self.books.evict(self.world.running[evict.job], evict.tasks, whole=evict.whole)
