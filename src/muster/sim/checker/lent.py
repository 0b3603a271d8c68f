"""What pools may lend, and must (design.md 5.3): room that no reservation of theirs needs; where nobody gives way, only
beyond what their waiting jobs ask for; never what they keep back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from muster.model.jobs import Job, Profile, Reservation, resources_of
from muster.model.nodes import Node
from muster.model.plan import Admit, Evict, Plan, Promise, Start, Waiting
from muster.model.policy import Preemption
from muster.model.pools import called
from muster.model.reasons import Reason
from muster.model.resources import total
from muster.sim.checker.nodes import NodeBook
from muster.sim.checker.world import Spot, World

Books = Mapping[str, NodeBook]


class Lent:
    """Which room of which pool may be lent in a turn, by what its plan says in the end."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._world = world
        self._pools = world.pools
        self._starting = {action.job for action in plan.actions if isinstance(action, Start)}
        self._evicted = [action.job for action in plan.actions if isinstance(action, Evict) and action.whole]
        verdicts = {name: said for name, said in plan.verdicts.items() if isinstance(said, Waiting)}
        self._rated = {name for name, said in verdicts.items() if said.reason is Reason.RATE_LIMIT}
        reserved = {name: said for name, said in verdicts.items() if said.reason is Reason.RESERVED}
        self._promised = set(reserved)
        self._reservations = dict(self._kept(plan))
        named = (said.facts.get("nodes") for said in reserved.values())
        self._reserved_nodes = {name for names in named if isinstance(names, list) for name in names}
        self._waiting: dict[str, Counter[Profile]] = {}

    def _kept(self, plan: Plan) -> Iterator[tuple[str, Reservation]]:
        """The reservation that each pending job has in the end."""
        last = {name: it.reservation for name, it in self._world.pending.items()}
        last |= {it.job: it.reservation for it in plan.actions if isinstance(it, Admit | Promise)}
        for name, reservation in last.items():
            if reservation is not None and name in self._promised:
                yield name, reservation

    # -- what must not be lent -------------------------------------------------------------------------

    def problems(self, books: Books, job: Job, start: Start) -> Iterator[str]:
        """What is wrong with a start on borrowed room, with the job in its place."""
        home = self._pools.home(job.profile)
        for pool in sorted(self._pools.holding(start.tasks) - {home}):
            for name in self._rated:
                other = self._world.startable(name)
                if other is not None and self._pools.home(other.profile) == pool:
                    yield f"{job.id}: borrows from pool {called(pool)}, whose own {name} waits for the next turn only"
            for name, left in self._not_kept(books, pool).items():
                if left < 0 and job.profile.least.get(name):
                    yield f"{job.id}: borrows {name} from pool {called(pool)}, which keeps {-left} more of it"
            for node in sorted({task.node for task in start.tasks}):
                yield from self._needed(books, job, start, pool, self._world.nodes[node])

    def _not_kept(self, books: Books, pool: str) -> dict[str, int]:
        """Of what a pool keeps some of, how much more is idle there."""
        keep = self._pools.keep(pool)
        nodes = [it for it in self._world.nodes.values() if self._pools.of[it.name] == pool]
        open_ones = [books[it.name].free for it in nodes if self._world.takes_tasks(it)] if keep else []
        return {name: sum(max(free.get(name, 0), 0) for free in open_ones) - most for name, most in keep.items()}

    def _needed(self, books: Books, job: Job, start: Start, pool: str, node: Node) -> Iterator[str]:
        least = job.profile.least
        for name, amount in self._for_waiting(pool, node).items():
            if least.get(name) and books[node.name].free.get(name, 0) < amount:
                yield f"{job.id}: borrows on {node.name} what jobs that wait in pool {called(pool)} ask for"
        for other, reservation in self._reservations.items():
            theirs = self._world.startable(other)
            assert theirs is not None, f"{other} has a reservation"
            there = [task for task in reservation.tasks if task.node == node.name]
            if not there or self._pools.home(theirs.profile) != pool:
                continue
            stay = [it for it in self._world.running.values() if it.end_ms > reservation.start_ms and it.job.known_ms]
            beside = total(
                resources_of(it.job.profile, tuple(task for task in it.tasks if task.node == node.name)) for it in stay
            )
            mine = resources_of(job.profile, tuple(task for task in start.tasks if task.node == node.name))
            asked = resources_of(theirs.profile, tuple(there)) + beside + mine
            empty = self._world.snapshot.nodes[node.name].empty.free
            if any(least.get(name) and asked.get(name) > empty.get(name) for name in asked):
                yield f"{job.id}: borrows on {node.name} what is reserved there for {other}"

    def _for_waiting(self, pool: str, node: Node) -> dict[str, int]:
        """What jobs that wait in the pool without a reservation may use of the node once others end; nothing if they
        can take it back."""
        kept: Counter[str] = Counter()
        if self._world.policy.preemption is Preemption.ON and self._pools.preempts(pool):
            return kept
        empty = self._world.snapshot.nodes[node.name].empty.free
        for profile, jobs in self._waiting_in(pool).items():
            if node.cluster not in self._world.candidates(profile):
                continue
            for group in profile.groups:
                if group.constraint.refuses(node.name, node.labels, node.taints) is None:
                    asks = [(name, amount) for name, amount in group.request.resources.items() if amount]
                    tasks = min([empty.get(name) // amount for name, amount in asks] + [jobs * group.min])
                    is_whole = group.request.whole_node
                    for name, amount in empty.items() if is_whole else asks:
                        kept[name] += amount if is_whole else amount * tasks
        return kept

    def _waiting_in(self, pool: str) -> Counter[Profile]:
        if pool not in self._waiting:
            waiting = {**self._world.queued, **{name: it.job for name, it in self._world.pending.items()}}
            self._waiting[pool] = Counter(
                job.profile
                for name, job in waiting.items()
                if name not in self._starting | self._promised and self._pools.home(job.profile) == pool
            )
        return self._waiting[pool]

    # -- what must be lent -----------------------------------------------------------------------------

    def may_borrow(self, books: Books, place: Spot, profile: Profile) -> bool:
        """Whether a pool has room to lend for such a job, as far as it is not clear that it rests."""
        pool = place[1]
        gone = [self._world.running[name].job for name in self._evicted if name in self._world.running]
        rated = [job for name in self._rated if (job := self._world.startable(name)) is not None]
        if any(self._pools.home(job.profile) == pool for job in (*gone, *rated)):
            return False
        left = self._not_kept(books, pool)
        return all(profile.least.get(name) <= left[name] for name in left)

    def book(self, books: Books, node: Node) -> NodeBook:
        """What is free on a node to be lent: nothing where anything is reserved."""
        book = books[node.name].copy()
        if node.name in self._reserved_nodes:
            book.whole = 1
        for name, amount in self._for_waiting(self._pools.of[node.name], node).items():
            book.free[name] = book.free.get(name, 0) - amount
        return book
